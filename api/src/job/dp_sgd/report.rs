//! The report of a finished job: the comparison table.

use serde::{Deserialize, Serialize};

use super::Arm;
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
    /// The share of the development frames that the public arm classifies correctly: 0 to 1.
    pub public: f64,
    /// The share of them after all rounds of the private arm: 0 to 1.
    pub private: f64,
    /// Mean cross-entropy of the private arm on them, nats.
    pub loss: f64,
    /// Its duration in seconds.
    pub seconds: f64,
}

impl RehearsedSetting {
    /// Returns whether it is the plan's own setting.
    pub const fn is_own(&self) -> bool {
        self.clip_factor.to_bits() == 1.0_f64.to_bits() && self.rate_factor.to_bits() == 1.0_f64.to_bits()
    }

    /// Returns the mean accuracy of the public arm and of the private arm, 0 to 1; `None` without a measured repeat.
    pub fn mean_accuracy(&self) -> Option<(f64, f64)> {
        let count = self.runs.len() as f64;
        let mean = |value: fn(&RehearsedRun) -> f64| self.runs.iter().map(value).sum::<f64>() / count;
        (!self.runs.is_empty()).then(|| (mean(|run| run.public), mean(|run| run.private)))
    }

    /// Returns the least and the greatest accuracy of the private arm, 0 to 1; `None` without a measured repeat.
    pub fn private_range(&self) -> Option<(f64, f64)> {
        let all = || self.runs.iter().map(|run| run.private);
        Some((all().reduce(f64::min)?, all().reduce(f64::max)?))
    }
}

impl RehearsalReport {
    /// Returns the result of the plan's own setting.
    pub fn own(&self) -> Option<&RehearsedSetting> {
        self.settings.iter().find(|setting| setting.is_own())
    }

    /// Returns the setting with the greatest mean accuracy of the private arm, among those that were measured in as many
    /// repeats as the plan's own and failed in none.
    pub fn best(&self) -> Option<&RehearsedSetting> {
        let repeats = self.own()?.runs.len();
        let candidates = self.settings.iter().filter(|one| one.failed == 0 && one.runs.len() == repeats);
        let mean = |one: &RehearsedSetting| one.mean_accuracy().map_or(f64::NEG_INFINITY, |(_, private)| private);
        candidates.max_by(|a, b| mean(a).total_cmp(&mean(b)))
    }
}
