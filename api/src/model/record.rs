//! A model of the registry: its origin, its line, its privacy cost and its quality; and the comparison of two.

use serde::{Deserialize, Serialize};

use super::{Artifact, FileDeletion, ModelSource};
use crate::dataset::Visibility;
use crate::id::{ArtifactId, JobId};
use crate::job::active_learning::Classifier;
use crate::job::dp_sgd::{AcousticModel, RowColumns};
use crate::report::{CertificateNamed, DatasetUsed};
use crate::signed::certificate::{ConsortiumNamed, JobCovered, LineageSum};

/// A model and everything that the server knows of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelRecord {
    /// The file.
    pub file: Artifact,
    /// The consortium.
    pub consortium: ConsortiumNamed,
    /// The job that made it.
    pub job: JobCovered,
    /// Its number in its line, from 1.
    pub version: u32,
    /// The versions from the first to this one: each continues the one before.
    pub line: Vec<ModelVersion>,
    /// The models of finished jobs that began with this one, newest first: at most 100.
    pub continued_by: Vec<ModelVersion>,
    /// What it computes, and its layers.
    #[serde(flatten)]
    pub design: ModelDesign,
    /// The datasets of the job, the lead first.
    pub datasets: Vec<DatasetUsed>,
    /// The certificate of the job; absent until it is issued.
    #[serde(default)]
    pub certificate: Option<CertificateNamed>,
    /// The cost of all jobs of the line to each account; empty for a model of public data.
    pub privacy: Vec<LineageSum>,
    /// Its measured quality, test set by test set: those of its own job, then those of evaluations.
    pub quality: Vec<ModelQuality>,
}

impl ModelRecord {
    /// The most models in [`Self::continued_by`].
    pub const MOST_CONTINUATIONS: usize = 100;

    /// Returns whether exact gradients of open data are in this version or in one before it.
    pub fn has_open_data(&self) -> bool {
        let is_open = |source| source == ModelSource::Open;
        self.file.source.is_some_and(is_open) || self.line.iter().any(|version| is_open(version.source))
    }

    /// Returns whether the model and all versions before it follow from public data alone.
    pub fn is_of_public_data(&self) -> bool {
        let earlier = self.line.split_last().map_or(&[][..], |(_, earlier)| earlier);
        earlier.iter().all(|version| version.source == ModelSource::Public)
            && (self.file.source == Some(ModelSource::Public)
                || self.datasets.iter().all(|dataset| dataset.visibility == Visibility::Public))
    }
}

/// What a model computes, and its layers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "design", rename_all = "snake_case")]
pub enum ModelDesign {
    /// A network of a `dp_sgd` job, for speech or for rows of tables.
    Network {
        /// Its layers and its loss.
        settings: AcousticModel,
    },
    /// A classifier of queries of an `active_learning` job.
    Classifier {
        /// Its layers and its training.
        classifier: Classifier,
        /// Its labels, in their order.
        labels: Vec<String>,
    },
}

impl ModelDesign {
    /// Returns the columns that a model of rows reads; `None` for any other.
    pub fn rows(&self) -> Option<&RowColumns> {
        match self {
            Self::Network { settings } => settings.rows.as_deref(),
            Self::Classifier { .. } => None,
        }
    }

    /// Returns whether a job can begin with the model, or evaluate it.
    pub const fn is_network(&self) -> bool {
        matches!(self, Self::Network { .. })
    }

    /// Returns whether the model can be written as an ONNX graph. Models that hash the n-grams of texts cannot: ONNX has
    /// no such operator.
    pub fn has_graph(&self) -> bool {
        self.is_network() && self.rows().is_none_or(|rows| rows.text.is_none())
    }
}

/// A version in the line of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelVersion {
    /// Its number, from 1.
    pub version: u32,
    /// The file; absent if its record is gone.
    #[serde(default)]
    pub artifact: Option<ArtifactId>,
    /// Its name within the job.
    pub name: String,
    /// SHA-256 of the file, hex.
    pub digest: String,
    /// The job that made it.
    pub job: JobId,
    /// The title of that job.
    pub title: String,
    /// The data from which it follows, beside those of the version before.
    pub source: ModelSource,
    /// The deletion of its bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion: Option<FileDeletion>,
}

/// The source of a figure of quality.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum QualityOrigin {
    /// The lead's measurement on a public test set, in the job that made the model.
    Training,
    /// Noisy counts of private test sets: of an `evaluation` job, or of the private test set of an `active_learning` job.
    Evaluation,
}

/// A figure of quality on a test set, with its 95 % interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelQuality {
    /// The source.
    pub origin: QualityOrigin,
    /// The job that measured it.
    pub job: JobId,
    /// The title of that job.
    pub title: String,
    /// The test set: its name in the job, or the names of the evaluated datasets.
    pub test: String,
    /// The ids of the measured datasets with the unit of an evaluation. Equal keys are equal test sets.
    pub test_key: String,
    /// The figure: `accuracy`, or `auroc of class 3`.
    pub metric: String,
    /// The estimate: 0 to 1.
    pub value: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
    /// The measured frames, rows or queries; absent for an evaluation, whose counts are noisy.
    #[serde(default)]
    pub frames: Option<u64>,
}

/// The normal quantile of a two-sided 95 % interval.
const NORMAL_95: f64 = crate::job::evaluation::NORMAL_95;

impl ModelQuality {
    /// Returns the 95 % interval of a share by Wilson's score (Wilson 1927), as if the measured frames, rows or queries were
    /// independent.
    pub fn wilson_interval(share: f64, frames: u64) -> (f64, f64) {
        let n = frames as f64;
        if frames == 0 {
            return (0.0, 1.0);
        }
        let z2 = NORMAL_95 * NORMAL_95;
        let centre = (share + z2 / (2.0 * n)) / (1.0 + z2 / n);
        let half = NORMAL_95 / (1.0 + z2 / n) * (share * (1.0 - share) / n + z2 / (4.0 * n * n)).sqrt();
        ((centre - half).clamp(0.0, 1.0), (centre + half).clamp(0.0, 1.0))
    }
}

/// Two models side by side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelComparison {
    /// The first model.
    pub first: ModelRecord,
    /// The second model.
    pub second: ModelRecord,
    /// The figures that both have on the same test set.
    pub quality: Vec<QualityDifference>,
    /// The cost of each account that either line charged.
    pub privacy: Vec<PrivacyDifference>,
    /// The datasets and the fields of the specs that differ.
    pub settings: Vec<SettingDifference>,
}

/// A figure of two models on the same test set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QualityDifference {
    /// The figure of the first model.
    pub first: ModelQuality,
    /// The figure of the second model.
    pub second: ModelQuality,
    /// The second value less the first.
    pub difference: f64,
    /// The lower end of the 95 % interval of the difference, as if both figures were independent.
    pub low: f64,
    /// The upper end of that interval.
    pub high: f64,
}

impl QualityDifference {
    /// Compares two figures. Each end of the interval adds the distances of the ends of both figures in quadrature
    /// (Newcombe 1998, method 10). The figures are of the same units and so usually correlated positively: the interval is
    /// wider than necessary then.
    pub fn between(first: ModelQuality, second: ModelQuality) -> Self {
        let difference = second.value - first.value;
        let square = |value: f64| value * value;
        let below = (square(second.value - second.low) + square(first.high - first.value)).sqrt();
        let above = (square(second.high - second.value) + square(first.value - first.low)).sqrt();
        Self { first, second, difference, low: difference - below, high: difference + above }
    }

    /// Returns whether the interval excludes 0.
    pub fn is_distinct(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

/// The cost of two models to one account.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PrivacyDifference {
    /// The cost of the first line; absent if it did not charge the account.
    #[serde(default)]
    pub first: Option<LineageSum>,
    /// The cost of the second line.
    #[serde(default)]
    pub second: Option<LineageSum>,
}

/// A value in which two models differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SettingDifference {
    /// The path of the field in the spec, `dataset` or `release`.
    pub field: String,
    /// The value of the first model; absent if it has none.
    #[serde(default)]
    pub first: Option<String>,
    /// The value of the second model.
    #[serde(default)]
    pub second: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::{ModelQuality, QualityDifference, QualityOrigin};
    use crate::id::JobId;

    fn quality(value: f64, low: f64, high: f64) -> ModelQuality {
        ModelQuality {
            origin: QualityOrigin::Training,
            job: JobId(uuid::Uuid::nil()),
            title: String::new(),
            test: "common".to_owned(),
            test_key: String::new(),
            metric: "accuracy".to_owned(),
            value,
            low,
            high,
            frames: None,
        }
    }

    #[test]
    fn wilson_interval_is_that_of_the_literature() {
        // Newcombe 1998 (Statistics in Medicine 17:857), table I: 81 of 263, 15 of 148, 0 of 20.
        for (successes, n, low, high) in
            [(81.0, 263, 0.2553, 0.3662), (15.0, 148, 0.0624, 0.1605), (0.0, 20, 0.0, 0.1611)]
        {
            let (from, to) = ModelQuality::wilson_interval(successes / f64::from(n), n as u64);
            assert!((from - low).abs() < 5e-5 && (to - high).abs() < 5e-5, "{from} {to}");
        }
        assert_eq!(ModelQuality::wilson_interval(0.0, 0), (0.0, 1.0));
    }

    #[test]
    fn difference_has_the_interval_of_both_figures() {
        // Newcombe 1998 (Statistics in Medicine 17:873), table II, method 10: 56/70 − 48/80.
        let interval = |successes: f64, n: u64| ModelQuality::wilson_interval(successes / n as f64, n);
        let (low, high) = interval(56.0, 70);
        let second = quality(0.8, low, high);
        let (low, high) = interval(48.0, 80);
        let first = quality(0.6, low, high);
        let one = QualityDifference::between(first.clone(), second);
        assert!((one.low - 0.0524).abs() < 5e-5 && (one.high - 0.3339).abs() < 5e-5, "{} {}", one.low, one.high);
        assert!(one.is_distinct());
        assert!(!QualityDifference::between(first.clone(), first).is_distinct());
    }
}
