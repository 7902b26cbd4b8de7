//! The factors that scale the gradients of units to the norm that the clipping mode allows.

use super::grid::Clip;
use super::mode::{ClipMode, STABILITY};

/// Factors stay this fraction below the floating-point norms, so that rounding rarely exceeds the integer radius.
const MARGIN: f64 = 1.0 / (1 << 17) as f64;

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
