//! Clipping modes: the maximum norm of a unit's gradient in each part. `factor` enforces it.
//!
//! In every mode, one unit moves the sum by at most C in L2 norm, so noise of deviation z·C is charged as one Gaussian
//! release of multiplier z. [`ClipMode::PerLayer`] clips each part to C/√L, and √(Σ (C/√L)²) = C (`privacy.md`, 1.3).

/// γ₀ of automatic clipping (Bu et al. 2023, "Automatic Clipping", equation 5 and section 4).
pub const STABILITY: f64 = 0.01;

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
