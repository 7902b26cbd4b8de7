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
    /// The measured frames.
    pub frames: u64,
    /// The share of the frames that are classified correctly: 0 to 1.
    pub accuracy: f64,
    /// Mean cross-entropy in nats.
    pub loss: f64,
    /// Macro-F1: the mean F1 of the classes with frames in the test set, 0 to 1. Absent for models with CTC, whose
    /// labels have no times, and in reports of earlier workers.
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
}
