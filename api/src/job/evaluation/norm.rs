//! The greatest norm of an honest site's vector, so that the server can reject another one before it moves the mean.
//!
//! The lead contributes nothing: its vector is zero.
//!
//! The sum of at most n contributions of norm C is at most n·C long; noise of deviation σ = z·C in each of d
//! coordinates is longer than σ√(d + 2√(dt) + 2t) with probability at most e⁻ᵗ (Hsu, Kakade and Zhang 2012, theorem
//! 2.1; the discrete Gaussian is subgaussian: Canonne, Kamath and Steinke 2020, fact 18).

use super::{HISTOGRAMS, HistogramRelease, Spec, count_test_units};
use crate::dataset::{Dataset, SizeClass, Visibility};
use crate::job::RoundSeries;
use crate::job::dp_sgd::FALSE_REFUSAL;

/// The greatest factor that f32 and the noise grid add.
const ROUNDING: f64 = 1.001;

/// Implements [`crate::job::JobKind::most_norm`].
pub(super) fn most_norm(spec: &Spec, dataset: &Dataset, series: &RoundSeries) -> Option<f64> {
    if series.name != HISTOGRAMS || !spec.is_participant(dataset.id) {
        return None;
    }
    if spec.is_lead(dataset.id) {
        return Some(0.0);
    }
    if dataset.visibility == Visibility::Public {
        return None;
    }
    most_histogram_norm(&spec.histograms(), count_test_units(dataset, spec.unit))
}

/// Returns the greatest norm of the noisy histograms of a site with about `units` units; `None` if it is not finite.
pub fn most_histogram_norm(release: &HistogramRelease, units: u64) -> Option<f64> {
    let length = release.vector_length() as f64;
    let clip = release.contribution_norm();
    let units = SizeClass::from_count(units).most() as f64;
    let tail = -libm::log(FALSE_REFUSAL);
    let noise = release.noise_multiplier.get() * clip * (length + 2.0 * (length * tail).sqrt() + 2.0 * tail).sqrt();
    Some((units * clip + noise) * ROUNDING).filter(|norm| norm.is_finite())
}
