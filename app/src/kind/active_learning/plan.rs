//! A plan: the planner's form as it was filled in, before it is a spec. It is what the form posts and what its address holds, so a
//! plan can be kept as a link.

use serde::{Deserialize, Serialize};
use undertone_api::id::DatasetId;
use undertone_api::job::active_learning::{Acquisition, Aggregation, Classifier};
use undertone_privacy::PrivacyUnit;
use undertone_privacy::kanon::Shown;

#[cfg(feature = "ssr")]
mod first;
#[cfg(feature = "ssr")]
mod opened;
#[cfg(feature = "ssr")]
mod spec;

#[cfg(feature = "ssr")]
pub(super) use first::PART_OF_DELTA;

/// One query log in a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// The dataset.
    pub dataset: DatasetId,
    /// Whether it takes part; the lead always does.
    #[serde(default)]
    pub joins: bool,
    /// Whether its questions are asked, where it is public; a private log takes part for nothing else.
    #[serde(default)]
    pub asks: bool,
    /// Whether the classifier is measured on it.
    #[serde(default)]
    pub tests: bool,
    /// β.
    pub rate: f64,
    /// k.
    pub threshold: u32,
    /// The ε at which δ is charged.
    pub epsilon: f64,
    /// What is shown.
    pub shown: Shown,
    /// Most different texts of one user.
    pub rows: u32,
}

/// The rehearsal on public data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trials {
    /// Whether it is wanted.
    #[serde(default)]
    pub on: bool,
    /// β, with commas between.
    pub rates: String,
    /// k, with commas between.
    pub thresholds: String,
    /// Questions of each trial.
    pub questions: u32,
    /// Repeats of each.
    pub repeats: u32,
    /// How often a played annotator is right.
    pub accuracy: f64,
}

/// A plan of an `active_learning` job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Title of the job.
    pub title: String,
    /// Who is protected.
    pub unit: PrivacyUnit,
    /// The dataset that leads.
    pub lead: DatasetId,
    /// Every query log of the consortium.
    pub parts: Vec<Part>,
    /// The labels, one a line: name, key and hint with `|` between.
    pub labels: String,
    /// How to answer.
    #[serde(default)]
    pub guidelines: String,
    /// Labelled examples to begin with.
    pub golden: u32,
    /// Rounds of questions.
    pub rounds: u32,
    /// Questions of a round.
    pub batch: u32,
    /// By what they are chosen.
    pub acquisition: Acquisition,
    /// Whether those of a round are to differ.
    #[serde(default)]
    pub diversity: bool,
    /// People who answer each.
    pub annotators: u32,
    /// How answers become a label.
    pub aggregation: Aggregation,
    /// Hours that a round, and the pools, are waited for.
    pub hours: f64,
    /// The classifier.
    pub classifier: Classifier,
    /// The rehearsal.
    pub trials: Trials,
}

impl Plan {
    /// The part of a dataset.
    pub fn part(&self, dataset: DatasetId) -> Option<&Part> {
        self.parts.iter().find(|part| part.dataset == dataset)
    }

    /// Those that take part, the lead first.
    pub fn joining(&self) -> impl Iterator<Item = &Part> {
        let leads = move |part: &&Part| part.dataset == self.lead;
        self.parts.iter().filter(leads).chain(self.parts.iter().filter(move |part| part.joins && !leads(part)))
    }
}
