//! How long a unit's gradient may be, and by which factors it is made so.
//!
//! Whatever the mode, one unit moves the sum by at most C in L2 norm, so noise of deviation z·C is charged as one Gaussian
//! release of multiplier z: for [`Mode::PerLayer`] the parts are held to C/√L each, and √(Σ (C/√L)²) = C (`privacy.md`, 1.3).

use super::Clip;

/// γ₀ of automatic clipping (Bu et al. 2023, "Automatic Clipping", equation 5 and section 4).
pub const STABILITY: f64 = 0.01;
/// Factors stay so much below what floating-point norms say: their own rounding then seldom shows in the integers.
const MARGIN: f64 = 1.0 / (1 << 17) as f64;

/// A way to clip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// The gradient over all trained parts is cut to norm C where it is longer.
    #[default]
    Flat,
    /// Each of the L trained parts is cut to norm C/√L where it is longer.
    PerLayer,
    /// Every gradient g over all trained parts becomes C g/(‖g‖ + 0.01): no clip to tune, and never as long as C.
    Automatic,
}

/// One factor for each unit and part, by which its gradient is multiplied before it is cut to whole steps of the grid; 0 for
/// a unit that counts as nothing. `squared` are squared norms by part and unit.
pub(super) fn factors(clip: &Clip, radii: &[u64], squared: &[Vec<f64>], units: usize) -> Vec<Vec<f64>> {
    let scale = clip.scale;
    let mut factors = vec![vec![0.0; units]; squared.len()];
    for unit in 0..units {
        // A sum of products may come out a little below zero.
        let own = || squared.iter().map(|part| part[unit].max(0.0));
        if !squared.iter().all(|part| part[unit].is_finite()) {
            continue;
        }
        let norm = own().sum::<f64>().sqrt();
        for ((factors, radius), squared) in factors.iter_mut().zip(radii).zip(own()) {
            factors[unit] = match clip.mode {
                Mode::Flat => cut(norm * scale, *radius) * scale,
                Mode::PerLayer => cut(squared.sqrt() * scale, *radius) * scale,
                Mode::Automatic => clip.bound / (norm + STABILITY) * scale * (1.0 - MARGIN),
            };
        }
    }
    factors
}

/// By what a norm in steps is multiplied so that it is below a radius in steps.
fn cut(norm: f64, radius: u64) -> f64 {
    let radius = radius as f64;
    if norm < radius * (1.0 - MARGIN) { 1.0 } else { radius / norm * (1.0 - MARGIN) }
}

/// The radius of each of `parts` parts, so that together they are within the whole: ⌊√(r²/L)⌋ each.
pub(super) fn radii(mode: Mode, radius: u64, parts: usize) -> Vec<u64> {
    match mode {
        Mode::Flat | Mode::Automatic => vec![radius; parts],
        Mode::PerLayer => vec![(radius * radius / parts.max(1) as u64).isqrt(); parts],
    }
}

#[cfg(test)]
mod tests {
    use super::{Mode, radii};

    #[test]
    fn parts_of_the_radius_stay_within_the_whole() {
        for radius in [1_u64 << 20, (1 << 31) - 1, 1_234_567_891] {
            for parts in 1..=50 {
                let squares: u64 = radii(Mode::PerLayer, radius, parts).iter().map(|radius| radius * radius).sum();
                assert!(squares <= radius * radius, "{radius} {parts}");
                assert!(squares as f64 > (radius as f64).powi(2) * 0.999, "{radius} {parts}");
            }
        }
    }
}
