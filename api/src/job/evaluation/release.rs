//! The release of one site: its noisy histograms, their charge and their size. Kinds whose classifier is measured on
//! private data use it too.

use undertone_privacy::{Event, NoiseMultiplier, PrivacyUnit, SamplingRate};

use super::bins::ScoreBins;
use super::estimate::MetricEstimate;
use super::layout::HistogramLayout;
use super::metrics::MetricError;
use super::report::ClassResult;
use crate::dataset::Dataset;

/// The noisy histograms of one site.
#[derive(Debug, Clone, PartialEq)]
pub struct HistogramRelease {
    /// The evaluated classes, each against all others.
    pub classes: Vec<u32>,
    /// The bins of the scores.
    pub bins: ScoreBins,
    /// Whether the vector has the units whose class is the model's first choice.
    pub accuracy: bool,
    /// z: the standard deviation of the noise relative to the greatest contribution of a unit.
    pub noise_multiplier: NoiseMultiplier,
}

impl HistogramRelease {
    /// Returns C, the greatest norm of a unit's contribution: see `layout.rs`.
    pub fn contribution_norm(&self) -> f64 {
        (self.classes.len() as f64 + f64::from(u8::from(self.accuracy))).sqrt()
    }

    /// Returns the number of coordinates of the vector.
    pub const fn vector_length(&self) -> u64 {
        let sums = (self.classes.len() as u64).saturating_mul(2).saturating_mul(self.bins.count as u64);
        sums.saturating_add(if self.accuracy { 2 } else { 0 })
    }

    /// Returns the positions of all sums in the vector; call it on a checked spec.
    pub fn layout(&self) -> HistogramLayout {
        HistogramLayout::new(self.classes.clone(), self.bins, self.accuracy)
    }

    /// Returns the release of one vector. All units of the test set are in the sum, so the sampling rate is 1.
    pub const fn event(&self) -> Event {
        Event::PoissonSampledGaussian { sampling_rate: SamplingRate::ONE, noise_multiplier: self.noise_multiplier }
    }

    /// Returns the standard deviation of the noise in each coordinate of the sum over `sites` sites.
    pub fn pooled_deviation(&self, sites: u32) -> f64 {
        self.noise_multiplier.get() * self.contribution_norm() * f64::from(sites).sqrt()
    }

    /// Computes the metrics of every class, and the share of correct first choices, from the sums over `sites` sites.
    ///
    /// # Errors
    /// [`MetricError::Length`] when the vector has another length.
    pub fn measure(
        &self,
        sums: &[f64],
        sites: u32,
        specificities: &[f64],
    ) -> Result<(Vec<ClassResult>, Option<MetricEstimate>), MetricError> {
        self.layout().measure(sums, self.pooled_deviation(sites), specificities)
    }
}

/// Returns the approximate number of units in the test set of a dataset: of its test split, or of all of it if it has
/// none. Test speakers and users are not counted outside a site; there are at most as many as test records.
pub fn count_test_units(dataset: &Dataset, unit: PrivacyUnit) -> u64 {
    if dataset.test_records > 0 { dataset.test_records } else { dataset.count(unit).0 }
}
