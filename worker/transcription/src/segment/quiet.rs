//! Finds the quietest point of a range of samples.

use std::ops::Range;

/// Distance between the examined points, in samples: 2.5 ms.
const STEP: usize = 40;
/// Samples on either side of a point that determine its loudness: 30 ms, so that a pause between words is quieter than the
/// closure of a plosive within one.
const REACH: usize = 480;

/// Returns the mean square of `samples`; 0 for none.
fn power(samples: &[f32]) -> f64 {
    samples.iter().map(|sample| f64::from(*sample).powi(2)).sum::<f64>() / samples.len().max(1) as f64
}

/// Returns the quietest point of `range` in `samples` and the power around it (full scale = 1); of equal points, the one
/// nearest to the middle. The range must lie within `samples`.
pub(super) fn quietest(samples: &[f32], range: Range<usize>) -> (usize, f64) {
    let middle = usize::midpoint(range.start, range.end);
    let around = |at: usize| power(&samples[at.saturating_sub(REACH)..(at + REACH).min(samples.len())]);
    let mut best = (middle, around(middle));
    // From the middle outwards, so that an equal point further out does not win.
    for distance in (STEP..=range.len().div_ceil(2)).step_by(STEP) {
        for at in [middle.checked_sub(distance), middle.checked_add(distance)].into_iter().flatten() {
            if range.contains(&at) {
                let power = around(at);
                if power < best.1 {
                    best = (at, power);
                }
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quietest_point_has_least_power() {
        let mut samples = vec![0.5; 8_000];
        samples[5_000..6_040].fill(0.01);
        let (at, power) = quietest(&samples, 1_000..7_000);
        assert!((5_480..=5_560).contains(&at) && power < 2e-4, "{at} {power}");
        let (outside, power) = quietest(&samples, 1_000..4_000);
        assert_eq!((outside, power), (2_500, 0.25), "equally loud everywhere: the middle");
    }

    #[test]
    fn empty_range_is_its_own_quietest_point() {
        assert_eq!(quietest(&[0.5; 100], 50..50).0, 50);
        assert!(power(&[]).abs() < f64::EPSILON);
    }
}
