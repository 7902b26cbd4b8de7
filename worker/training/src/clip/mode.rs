//! Clipping modes: the maximum norm of a unit's gradient, and the factors that enforce it.
//!
//! In every mode, one unit moves the sum by at most C in L2 norm, so noise of deviation z·C is charged as one Gaussian
//! release of multiplier z. [`ClipMode::PerLayer`] clips each part to C/√L, and √(Σ (C/√L)²) = C (`privacy.md`, 1.3).

use super::Clip;

/// γ₀ of automatic clipping (Bu et al. 2023, "Automatic Clipping", equation 5 and section 4).
pub const STABILITY: f64 = 0.01;
/// Factors stay this fraction below the floating-point norms, so that rounding rarely exceeds the integer radius.
const MARGIN: f64 = 1.0 / (1 << 17) as f64;

/// How gradients are clipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClipMode {
    /// The gradient over all trained parts is scaled to norm C if it is longer.
    #[default]
    Flat,
    /// Each of the L trained parts is scaled to norm C/√L if it is longer.
    PerLayer,
    /// Every gradient g over all trained parts becomes C g/(‖g‖ + 0.01). The bound needs no tuning, and the result is
    /// always shorter than C.
    Automatic,
}

/// Returns one factor for each part and unit. The gradient is multiplied by it and then truncated to whole steps of the
/// grid; factor 0 drops the unit. `squared` holds the squared norms by part and unit.
pub(super) fn factors(clip: &Clip, radii: &[u64], squared: &[Vec<f64>], units: usize) -> Vec<Vec<f64>> {
    let scale = clip.scale;
    let mut factors = vec![vec![0.0; units]; squared.len()];
    for unit in 0..units {
        // Rounding may make a sum of products slightly negative.
        let own = || squared.iter().map(|part| part[unit].max(0.0));
        if !squared.iter().all(|part| part[unit].is_finite()) {
            continue;
        }
        let norm = own().sum::<f64>().sqrt();
        for ((factors, radius), squared) in factors.iter_mut().zip(radii).zip(own()) {
            factors[unit] = match clip.mode {
                ClipMode::Flat => shrink_factor(norm * scale, *radius) * scale,
                ClipMode::PerLayer => shrink_factor(squared.sqrt() * scale, *radius) * scale,
                ClipMode::Automatic => clip.bound / (norm + STABILITY) * scale * (1.0 - MARGIN),
            };
        }
    }
    factors
}

/// Returns the factor that scales a norm in steps below a radius in steps.
fn shrink_factor(norm: f64, radius: u64) -> f64 {
    let radius = radius as f64;
    if norm < radius * (1.0 - MARGIN) { 1.0 } else { radius / norm * (1.0 - MARGIN) }
}

/// Returns the radius of each of `parts` parts, ⌊√(r²/L)⌋ in [`ClipMode::PerLayer`], so that all parts together stay within
/// the whole.
pub(super) fn radii(mode: ClipMode, radius: u64, parts: usize) -> Vec<u64> {
    match mode {
        ClipMode::Flat | ClipMode::Automatic => vec![radius; parts],
        ClipMode::PerLayer => vec![(radius * radius / parts.max(1) as u64).isqrt(); parts],
    }
}

#[cfg(test)]
mod tests {
    use super::{ClipMode, radii};

    #[test]
    fn parts_of_the_radius_stay_within_the_whole() {
        for radius in [1_u64 << 20, (1 << 31) - 1, 1_234_567_891] {
            for parts in 1..=50 {
                let squares: u64 = radii(ClipMode::PerLayer, radius, parts).iter().map(|radius| radius * radius).sum();
                assert!(squares <= radius * radius, "{radius} {parts}");
                assert!(squares as f64 > (radius as f64).powi(2) * 0.999, "{radius} {parts}");
            }
        }
    }
}
