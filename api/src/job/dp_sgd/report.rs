//! The report of a finished job: the comparison table.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use super::{Arm, TrainingLoss};
use crate::id::DatasetId;
use crate::job::transcription::WordErrors;

/// One row of the comparison table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ArmResult {
    /// The arm.
    pub arm: Arm,
    /// Rounds (epochs for the public arm).
    pub rounds: u32,
    /// Its duration in seconds.
    pub seconds: f64,
    /// By test set, in the spec's order.
    pub tests: Vec<TestResult>,
}

/// One cell of the comparison table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TestResult {
    /// The test set's name.
    pub test: String,
    /// The measured frames, or rows of a table.
    pub frames: u64,
    /// The share of the frames that are classified correctly: 0 to 1. For a numeric target the share of the rows that are
    /// predicted within a twentieth of its declared range.
    pub accuracy: f64,
    /// Mean cross-entropy in nats; for a numeric target the mean squared error, with its declared range as -1 to 1.
    pub loss: f64,
    /// Macro-F1: the mean F1 of the classes with frames in the test set, 0 to 1. Absent for models with CTC, whose
    /// labels have no times, for numeric targets, and in reports of earlier workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub macro_f1: Option<f64>,
    /// The word errors of the best path of a model with CTC, without a lexicon or a language model. Absent for other
    /// models, and for a test set without characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words: Option<WordErrors>,
}

/// A public dataset, identified by its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Content))]
pub struct PublicContent {
    /// The dataset.
    pub dataset: DatasetId,
    /// SHA-256 of its features and labels, hex.
    pub digest: String,
}

/// The report of a finished `dp_sgd` job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = DpSgdReport))]
pub struct Report {
    /// The arms that ran, in order.
    pub arms: Vec<ArmResult>,
    /// Parameters of the model.
    pub parameters: u64,
    /// The public data that the lead trained on and measured on. The report contains nothing about data of other
    /// participants.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contents: Vec<PublicContent>,
    /// The results of the rehearsal, for a job that is one. It has no arms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rehearsal: Option<RehearsalReport>,
}

/// The results of a rehearsal. All of them come from the lead's public data.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = DpSgdRehearsalReport))]
pub struct RehearsalReport {
    /// The public units in the role of each participant of the first repeat, the lead first.
    pub units: Vec<u64>,
    /// The number of settings of the rehearsal, with those for which no time was left.
    pub planned: u32,
    /// The settings that were measured after all rounds. The plan's own is the first.
    pub settings: Vec<RehearsedSetting>,
}

/// The results of one setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = DpSgdRehearsedSetting))]
pub struct RehearsedSetting {
    /// The factor of every party's clip: 1 for the plan's own.
    pub clip_factor: f64,
    /// The factor of the learning rate: 1 for the plan's own.
    pub rate_factor: f64,
    /// Repeats in which the training failed, for example because it diverged.
    #[serde(default)]
    pub failed: u32,
    /// The measured repeats.
    pub runs: Vec<RehearsedRun>,
}

/// One repeat of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = DpSgdRehearsedRun))]
pub struct RehearsedRun {
    /// The repeat, from 1.
    pub repeat: u32,
    /// The share of the development frames, or rows of a table, that the public arm classifies correctly: 0 to 1. For a
    /// numeric target the share of the rows that are predicted within a twentieth of its declared range.
    pub public: f64,
    /// The share of them after all rounds of the private arm: 0 to 1.
    pub private: f64,
    /// Mean cross-entropy of the private arm on them, nats; for a numeric target the mean squared error, with its declared
    /// range as -1 to 1.
    pub loss: f64,
    /// The loss of the public arm on them, as `loss`. Absent in reports of earlier workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_loss: Option<f64>,
    /// Its duration in seconds.
    pub seconds: f64,
}

/// The measure by which settings are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SettingMeasure {
    /// The share of the frames or rows that are classified correctly; more is better.
    Accuracy,
    /// The root mean squared error of a numeric target, as a share of its declared range; less is better.
    Rmse,
}

impl SettingMeasure {
    /// Returns the measure of a model that was trained with this loss.
    pub const fn from_loss(loss: TrainingLoss) -> Self {
        match loss {
            TrainingLoss::CrossEntropy | TrainingLoss::Ctc => Self::Accuracy,
            TrainingLoss::SquaredError => Self::Rmse,
        }
    }

    /// Returns the measured share of a result, at least 0. The squared error has the declared range as -1 to 1, so its root
    /// is a share of 2.
    pub fn value(self, accuracy: f64, loss: f64) -> f64 {
        match self {
            Self::Accuracy => accuracy,
            Self::Rmse => loss.sqrt() / 2.0,
        }
    }

    /// Orders two measured shares, the better first.
    pub fn compare(self, a: f64, b: f64) -> Ordering {
        match self {
            Self::Accuracy => b.total_cmp(&a),
            Self::Rmse => a.total_cmp(&b),
        }
    }
}

impl RehearsedRun {
    /// Returns the measured share of the public arm; `None` if the report lacks it.
    fn public_value(&self, measure: SettingMeasure) -> Option<f64> {
        match measure {
            SettingMeasure::Accuracy => Some(self.public),
            SettingMeasure::Rmse => Some(measure.value(self.public, self.public_loss?)),
        }
    }

    /// Returns the measured share of the private arm.
    fn private_value(&self, measure: SettingMeasure) -> f64 {
        measure.value(self.private, self.loss)
    }
}

impl RehearsedSetting {
    /// Returns whether it is the plan's own setting.
    pub const fn is_own(&self) -> bool {
        self.clip_factor.to_bits() == 1.0_f64.to_bits() && self.rate_factor.to_bits() == 1.0_f64.to_bits()
    }

    /// Returns the mean measured share of the public arm and of the private arm; `None` without a measured repeat.
    pub fn means(&self, measure: SettingMeasure) -> Option<(f64, f64)> {
        if self.runs.is_empty() {
            return None;
        }
        let count = self.runs.len() as f64;
        let public = self.runs.iter().map(|run| run.public_value(measure)).sum::<Option<f64>>()?;
        let private: f64 = self.runs.iter().map(|run| run.private_value(measure)).sum();
        Some((public / count, private / count))
    }

    /// Returns the least and the greatest measured share of the private arm; `None` without a measured repeat.
    pub fn private_range(&self, measure: SettingMeasure) -> Option<(f64, f64)> {
        let all = || self.runs.iter().map(|run| run.private_value(measure));
        Some((all().reduce(f64::min)?, all().reduce(f64::max)?))
    }
}

impl RehearsalReport {
    /// Returns the result of the plan's own setting.
    pub fn own(&self) -> Option<&RehearsedSetting> {
        self.settings.iter().find(|setting| setting.is_own())
    }

    /// Returns the setting with the best mean of the private arm, among those that were measured in as many repeats as the
    /// plan's own and failed in none.
    pub fn best(&self, measure: SettingMeasure) -> Option<&RehearsedSetting> {
        let repeats = self.own()?.runs.len();
        let candidates = self.settings.iter().filter(|one| one.failed == 0 && one.runs.len() == repeats);
        let ranked = candidates.filter_map(|one| Some((one, one.means(measure)?.1)));
        ranked.min_by(|(_, a), (_, b)| measure.compare(*a, *b)).map(|(one, _)| one)
    }
}
