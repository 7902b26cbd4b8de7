//! Linear prediction: a frame of speech as an excitation and the all-pole filter that shaped it.
//!
//! Autocorrelation method with the Levinson-Durbin recursion, whose filter is stable whatever the frame (Makhoul, "Linear
//! Prediction: A Tutorial Review", Proc. IEEE 63(4), 1975).

/// Order of the prediction at 16 kHz (Patino et al. 2021).
pub(super) const ORDER: usize = 20;
/// Frame energy below which there is nothing to predict.
const NOTHING: f64 = 1e-14;
/// White noise added to the autocorrelation, as a share of the energy (−90 dB). Without it, a constant would predict itself
/// without error, by a filter at the edge of stability.
const WHITE: f64 = 1e-9;

/// Returns the prediction error filter of a windowed frame, `[1, a_1, ..., a_20]`; `None` for silence.
pub(super) fn coefficients(frame: &[f64]) -> Option<[f64; ORDER + 1]> {
    let mut correlation = [0.0; ORDER + 1];
    for (lag, value) in correlation.iter_mut().enumerate() {
        *value = frame.iter().zip(frame.iter().skip(lag)).map(|(one, later)| one * later).sum();
    }
    if correlation[0] <= NOTHING {
        return None;
    }
    correlation[0] *= 1.0 + WHITE;
    let mut filter = [0.0; ORDER + 1];
    filter[0] = 1.0;
    let mut error = correlation[0];
    for order in 1..=ORDER {
        let terms = filter[..order].iter().zip(correlation[1..=order].iter().rev());
        let reflection = -terms.map(|(a, r)| a * r).sum::<f64>() / error;
        let before = filter;
        let pairs = before[1..order].iter().zip(before[1..order].iter().rev());
        for (a, (same, mirrored)) in filter[1..order].iter_mut().zip(pairs) {
            *a = same + reflection * mirrored;
        }
        filter[order] = reflection;
        error *= 1.0 - reflection * reflection;
        if error <= 0.0 {
            break;
        }
    }
    Some(filter)
}

/// Returns the prediction error: e\[n\] = Σ a_j x\[n − j\]. As long as the frame.
pub(super) fn residual(frame: &[f64], filter: &[f64]) -> Vec<f64> {
    let at = |n: usize| filter.iter().zip(frame[..=n].iter().rev()).map(|(a, x)| a * x).sum();
    (0..frame.len()).map(at).collect()
}

/// Returns the frame whose prediction error is `residual`: y\[n\] = e\[n\] − Σ a_j y\[n − j\], j ≥ 1.
pub(super) fn resynthesis(residual: &[f64], filter: &[f64]) -> Vec<f64> {
    let mut frame: Vec<f64> = Vec::with_capacity(residual.len());
    for excitation in residual {
        let predicted: f64 = filter.iter().skip(1).zip(frame.iter().rev()).map(|(a, y)| a * y).sum();
        frame.push(excitation - predicted);
    }
    frame
}

#[cfg(test)]
mod tests {
    use super::{ORDER, coefficients, residual, resynthesis};

    #[test]
    fn filter_of_shaped_white_noise_is_recovered() {
        // A resonance at 0.1 of the rate, radius 0.95: a_1 = −2 r cos θ, a_2 = r².
        let true_filter = [1.0, -2.0 * 0.95 * (std::f64::consts::TAU * 0.1).cos(), 0.95 * 0.95];
        let mut state = 1_u32;
        let noise: Vec<f64> = (0..20_000)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                f64::from(state) / f64::from(u32::MAX) - 0.5
            })
            .collect();
        let estimate = coefficients(&resynthesis(&noise, &true_filter)).expect("there is something to predict");
        for (order, value) in estimate.iter().enumerate() {
            let expected = true_filter.get(order).copied().unwrap_or(0.0);
            assert!((value - expected).abs() < 0.05, "a_{order} = {value}, not {expected}");
        }
    }

    #[test]
    fn filter_and_its_inverse_are_identity() {
        let frame: Vec<f64> = (0..320).map(|n| (f64::from(n) * 0.3).sin() * (f64::from(n) * 0.01).cos()).collect();
        let filter = coefficients(&frame).expect("there is something to predict");
        let back = resynthesis(&residual(&frame, &filter), &filter);
        assert!(frame.iter().zip(&back).all(|(one, other)| (one - other).abs() < 1e-9));
    }

    #[test]
    fn silence_has_no_filter_and_constant_a_finite_one() {
        assert_eq!(coefficients(&[0.0; 320]), None);
        let constant = coefficients(&[1.0; 320]).expect("there is something to predict");
        assert!(constant.iter().all(|a| a.is_finite()) && constant.len() == ORDER + 1);
    }
}
