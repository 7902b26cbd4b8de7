//! A plan: the content of the planner's form, before it becomes a spec. The form posts it and its address contains it,
//! so that a plan can be kept as a link.

use serde::{Deserialize, Serialize};
use undertone_api::id::DatasetId;
use undertone_api::job::active_learning::{Acquisition, Aggregation, Classifier};
use undertone_privacy::PrivacyUnit;
use undertone_privacy::kanon::Shown;

#[cfg(feature = "ssr")]
mod draft;
#[cfg(feature = "ssr")]
mod first;
#[cfg(feature = "ssr")]
mod spec;

#[cfg(feature = "ssr")]
pub(super) use first::PART_OF_DELTA;

/// One query log in a plan.
#[expect(clippy::struct_excessive_bools, reason = "checkboxes of a form")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LogPart {
    /// The dataset.
    pub dataset: DatasetId,
    /// Whether it takes part; the lead always does.
    #[serde(default)]
    pub joins: bool,
    /// Whether a public log contributes questions; a private log has no other role.
    #[serde(default)]
    pub asks: bool,
    /// Whether the classifier is measured on it.
    #[serde(default)]
    pub tests: bool,
    /// Whether the classifier is measured on a private log, with noise. The log then takes no other part.
    #[serde(default)]
    pub measures: bool,
    /// β.
    pub rate: f64,
    /// k.
    pub threshold: u32,
    /// The ε at which δ is charged.
    pub epsilon: f64,
    /// The released content.
    pub shown: Shown,
    /// The most different texts of one user.
    pub rows: u32,
}

/// The rehearsal on public data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RehearsalPlan {
    /// Whether it is requested.
    #[serde(default)]
    pub on: bool,
    /// β, separated by commas.
    pub rates: String,
    /// k, separated by commas.
    pub thresholds: String,
    /// Questions of each trial.
    pub questions: u32,
    /// Repeats of each.
    pub repeats: u32,
    /// The mean accuracy of the simulated annotators.
    pub accuracy: f64,
    /// The standard deviation of the accuracy between them.
    #[serde(default)]
    pub deviation: f64,
}

/// The DP-SGD training of a private lead. It has no effect on a public one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainingPlan {
    /// q.
    pub rate: f64,
    /// z.
    pub noise: f64,
    /// C.
    pub clip: f64,
    /// T: steps of each training.
    pub steps: u32,
    /// Learning rate.
    pub learning_rate: f64,
}

impl Default for TrainingPlan {
    fn default() -> Self {
        Self { rate: 0.1, noise: 2.0, clip: 1.0, steps: 40, learning_rate: 0.05 }
    }
}

/// The measurement on a private log. It has no effect without such a log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasurementPlan {
    /// z.
    pub noise: f64,
    /// The number of measured classifiers.
    pub count: u32,
}

impl Default for MeasurementPlan {
    fn default() -> Self {
        Self { noise: 8.0, count: 1 }
    }
}

/// A plan of an `active_learning` job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QuestionPlan {
    /// Title of the job.
    pub title: String,
    /// The protected unit.
    pub unit: PrivacyUnit,
    /// The dataset that leads.
    pub lead: DatasetId,
    /// Every query log of the consortium.
    pub parts: Vec<LogPart>,
    /// The labels, one a line: name, key and hint, separated by `|`.
    pub labels: String,
    /// Instructions for answering.
    #[serde(default)]
    pub guidelines: String,
    /// The number of initial labelled examples.
    pub golden: u32,
    /// Rounds of questions.
    pub rounds: u32,
    /// Questions of a round.
    pub batch: u32,
    /// The acquisition function.
    pub acquisition: Acquisition,
    /// Whether the questions of a round must be diverse.
    #[serde(default)]
    pub diversity: bool,
    /// The number of annotators for each.
    pub annotators: u32,
    /// The aggregation of answers into a label.
    pub aggregation: Aggregation,
    /// The deadline of a round, and of the pools, hours.
    pub hours: f64,
    /// The classifier.
    pub classifier: Classifier,
    /// The training of a private lead.
    #[serde(default)]
    pub training: TrainingPlan,
    /// The measurement on a private log.
    #[serde(default)]
    pub measurement: MeasurementPlan,
    /// The rehearsal.
    pub trials: RehearsalPlan,
}

impl QuestionPlan {
    /// Returns the part of a dataset.
    pub fn part(&self, dataset: DatasetId) -> Option<&LogPart> {
        self.parts.iter().find(|part| part.dataset == dataset)
    }

    /// Returns the participating parts, the lead first.
    pub fn participants(&self) -> impl Iterator<Item = &LogPart> {
        let leads = move |part: &&LogPart| part.dataset == self.lead;
        let joins = move |part: &&LogPart| part.joins && !leads(part) && !part.measures;
        self.parts.iter().filter(leads).chain(self.parts.iter().filter(joins))
    }

    /// Returns the parts on which classifiers are measured with noise: at most one in a valid plan.
    pub fn measured(&self) -> impl Iterator<Item = &LogPart> {
        self.parts.iter().filter(|part| part.measures && part.dataset != self.lead)
    }
}
