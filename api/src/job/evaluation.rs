//! `evaluation`: the accuracy of a model on private test sets, from one noisy score histogram per class.
//!
//! The lead, whose data are public, provides the model, which the spec names by its digest. Each other participant runs
//! it on its own test set and releases one vector: for every evaluated class the histogram of the scores of its units,
//! and that of all others. The server averages; the sum of all sites gives accuracy, AUROC, area under the
//! precision-recall curve, calibration and operating points, each with a 95 % interval, as post-processing. One release
//! of each site, charged once.
//!
//! `bins.rs` and `factor.rs` define the vector, `layout.rs` its parts and the sensitivity, `release.rs` what a site
//! releases, `metrics.rs` and its
//! neighbours what is computed from the sums, `cost.rs` the charge, `check.rs` the limits.
//!
#![doc = include_str!("evaluation/spec.md")]

mod bins;
mod calibration;
mod check;
mod cost;
mod estimate;
mod factor;
mod layout;
mod metrics;
mod norm;
mod ranking;
mod release;
mod report;
#[cfg(test)]
pub(crate) mod tests;

use serde::{Deserialize, Serialize};
use undertone_privacy::{Event, NoiseMultiplier, PrivacyUnit};

use super::{AllowedMeasurements, Charge, DatasetUse, JobKind, RoundSeries};
use crate::dataset::Dataset;
use crate::id::DatasetId;
use crate::job::dp_sgd::{Precision, RowColumns};
use crate::problem::Violation;

pub use bins::{ScoreBins, to_probability};
pub use calibration::CalibrationGroup;
pub use check::MOST_CLASSES;
pub use estimate::{MetricEstimate, NORMAL_95};
pub use factor::PrefixFactor;
pub use layout::{HistogramLayout, ScoredExample};
pub use metrics::{ClassMetrics, ClassSums, LEAST_DEVIATIONS, MetricError, OperatingPoint, estimate_share};
pub use norm::most_histogram_norm;
pub use release::{HistogramRelease, count_test_units};
pub use report::{ClassResult, Report};

/// The series in which the histograms are averaged, in one round: number 1.
pub const HISTOGRAMS: &str = "histograms";

/// A participant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = EvaluationParty))]
#[serde(deny_unknown_fields)]
pub struct Party {
    /// Its dataset, of speech or a table, all of one content. The test split of speech is used, or all of it if it has no
    /// split; of a table all rows with a target, of each unit at most the model's rows per unit.
    pub dataset: DatasetId,
}

/// An `evaluation` job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = EvaluationSpec))]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// The protected unit: records (utterances), speakers, or users; of tables users.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::unit))]
    pub unit: PrivacyUnit,
    /// SHA-256 of the file of the evaluated model, hex in lower case.
    #[cfg_attr(feature = "openapi", schema(min_length = 64, max_length = 64))]
    pub model: String,
    /// The columns that an ONNX graph of rows reads and predicts, as each table declares them: the target is a boolean or a
    /// category, and no feature is a text. Absent for speech, and for a file that names its columns itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<Box<RowColumns>>,
    /// The participants: first the lead, which is public, provides the model and contributes nothing; then the sites
    /// whose test sets are evaluated.
    #[cfg_attr(feature = "openapi", schema(min_items = 2, max_items = 100))]
    pub participants: Vec<Party>,
    /// The evaluated classes, each against all others: 1 to 64.
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 64))]
    pub classes: Vec<u32>,
    /// z: the standard deviation of each site's noise relative to the greatest contribution of a unit.
    #[cfg_attr(feature = "openapi", schema(value_type = f64, example = 4.3))]
    pub noise_multiplier: NoiseMultiplier,
    /// Whether the share of units is released whose class is the model's first choice, for all classes together.
    #[serde(default, skip_serializing_if = "is_false")]
    pub accuracy: bool,
    /// The bins of the scores.
    #[serde(default, skip_serializing_if = "ScoreBins::is_default")]
    pub bins: ScoreBins,
    /// The specificities at which sensitivities are computed: 0.5 to 0.999, at most 20.
    #[serde(default = "default_specificities")]
    #[cfg_attr(feature = "openapi", schema(max_items = 20))]
    pub specificities: Vec<f64>,
    /// The fewest sites with which the round may close after its deadline.
    #[serde(default = "one")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub quorum: u32,
    /// The time in seconds that the round waits for all sites: 1 to 86,400.
    #[serde(default = "default_deadline")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 86400))]
    pub deadline_seconds: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// Returns the specificities of a job that names none.
pub(super) fn default_specificities() -> Vec<f64> {
    vec![0.8, 0.9, 0.95]
}

const fn one() -> u32 {
    1
}

const fn default_deadline() -> u32 {
    86_400
}

impl Spec {
    /// Returns the release of one site.
    pub fn histograms(&self) -> HistogramRelease {
        HistogramRelease {
            classes: self.classes.clone(),
            bins: self.bins,
            accuracy: self.accuracy,
            noise_multiplier: self.noise_multiplier,
        }
    }

    /// Returns whether a dataset takes part.
    pub fn is_participant(&self, dataset: DatasetId) -> bool {
        self.participants.iter().any(|party| party.dataset == dataset)
    }

    /// Returns whether a dataset is the lead's.
    pub fn is_lead(&self, dataset: DatasetId) -> bool {
        self.participants.first().is_some_and(|party| party.dataset == dataset)
    }

    /// Computes the report from the sums over `sites` sites.
    ///
    /// # Errors
    /// [`MetricError::Length`] when the vector is not of this spec's layout.
    pub fn report(&self, sums: &[f64], sites: u32) -> Result<Report, MetricError> {
        let histograms = self.histograms();
        let (classes, accuracy) = histograms.measure(sums, sites, &self.specificities)?;
        let deviation = histograms.pooled_deviation(sites);
        Ok(Report { model: self.model.clone(), sites, deviation, accuracy, classes })
    }
}

impl JobKind for Spec {
    const NAME: &'static str = "evaluation";

    fn check(&self, datasets: &[Dataset]) -> Vec<Violation> {
        check::check(self, datasets)
    }

    fn datasets(&self) -> Vec<(DatasetId, DatasetUse)> {
        self.participants.iter().map(|party| (party.dataset, DatasetUse::Participate)).collect()
    }

    fn cost(&self, dataset: &Dataset) -> Option<Charge> {
        cost::cost(self, dataset)
    }

    fn release(&self, dataset: &Dataset, series: &str) -> Option<Event> {
        cost::release(self, dataset, series)
    }

    fn clip(&self, dataset: DatasetId) -> Option<f64> {
        (self.is_participant(dataset) && !self.is_lead(dataset)).then(|| self.histograms().contribution_norm())
    }

    fn most_norm(&self, dataset: &Dataset, series: &RoundSeries) -> Option<f64> {
        norm::most_norm(self, dataset, series)
    }

    fn units(&self, dataset: &Dataset) -> u64 {
        count_test_units(dataset, self.unit)
    }

    fn series(&self, datasets: &[Dataset]) -> Vec<RoundSeries> {
        // The lead sends zeros before it provides the model, because only contributors receive the average.
        let is_known = |party: &&Party| datasets.iter().any(|dataset| dataset.id == party.dataset);
        vec![RoundSeries {
            name: HISTOGRAMS.to_owned(),
            rounds: 1,
            quorum: self.quorum.saturating_add(1),
            deadline_seconds: self.deadline_seconds,
            weights: self.participants.iter().filter(is_known).map(|party| (party.dataset, 1.0)).collect(),
            until: Vec::new(),
            length: Some(self.histograms().vector_length()),
            precision: Precision::F32,
            masked: None,
        }]
    }

    fn read_model(&self) -> Option<&str> {
        Some(&self.model)
    }

    fn allowed_measurements(&self) -> AllowedMeasurements {
        AllowedMeasurements { series: Vec::new(), tests: Vec::new() }
    }
}
