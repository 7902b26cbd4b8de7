//! `active_learning`: a classifier of queries, trained with annotators who see only privately released questions, after
//! *Active Learning with Private Queries* and Li, Qardaji and Su (2012).
//!
//! Every participant with a private log draws one sample of its rows and releases the texts of at least k sampled rows:
//! one release, charged once, before it leaves. The lead, with public data, trains on a golden set of its own, chooses
//! the most informative questions, has annotators answer them, and trains again. All of this is post-processing of the
//! release and the answers, and is not charged.
//!
//! A lead can be private too (`private_lead.rs`). Its classifiers are then trained by DP-SGD, and charged. A private test
//! set (`private_test.rs`) measures classifiers by noisy score histograms, and is charged.
//!
//! Every option of a spec is in the file of its subject: `party.rs`, `learning.rs`, `rehearsal.rs`. `cost.rs` alone
//! defines the charge, `check.rs` the limits.
//!
#![doc = include_str!("active_learning/spec.md")]

mod check;
mod cost;
mod learning;
mod party;
mod private_lead;
mod private_test;
mod rehearsal;
mod report;
#[cfg(test)]
pub(crate) mod tests;

use serde::{Deserialize, Serialize};
use undertone_privacy::{Event, PrivacyUnit};

use super::{AllowedMeasurements, Charge, DatasetUse, JobKind, RoundSeries};
use crate::dataset::Dataset;
use crate::id::DatasetId;
use crate::job::dp_sgd::Precision;
use crate::job::evaluation::{count_test_units, most_histogram_norm};
use crate::model::ModelSource;
use crate::problem::Violation;
use crate::question::QuestionPlan;

pub use super::dp_sgd::{PublicContent, TestSet};
pub use crate::question::Label;
pub use learning::{Acquisition, Aggregation, Classifier, Encoder};
pub use party::{Gate, Party};
pub use private_lead::{PrivateTraining, TRAINING};
pub use private_test::{MOST_MEASUREMENTS, PRIVATE_TEST, PrivateTest};
pub use rehearsal::Rehearsal;
pub use report::{
    AnnotatorResult, BINS, FrequencyBin, LearningPoint, PoolResult, PrivateTestResult, RehearsalResult, RehearsedPoint,
    Report, TestResult, UncertaintyHistogram, best_round,
};

/// The series in which a pool of questions is charged and sent, in one round: number 1.
pub const POOL: &str = "pool";
/// The series in which the classifier is measured. Round 0 follows the golden set alone.
pub const CLASSIFIER: &str = "classifier";
/// The file of the classifier that the job keeps.
pub const CLASSIFIER_FILE: &str = "classifier.safetensors";
/// The time for one training of a private lead, seconds: a day.
const TRAINING_SECONDS: u32 = 86_400;

/// An `active_learning` job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ActiveLearningSpec))]
pub struct Spec {
    /// The protected unit: records (rows of a log) or users.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::unit))]
    pub unit: PrivacyUnit,
    /// The participants, 1 to 100; the first leads. It is public, or `private_lead` states its training.
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 100))]
    pub participants: Vec<Party>,
    /// The possible answers: 2 to 200 labels.
    #[cfg_attr(feature = "openapi", schema(max_items = 200))]
    pub labels: Vec<Label>,
    /// The instructions for the annotators: at most 10,000 characters.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 10000))]
    pub guidelines: String,
    /// The test sets: 1 to 20, public, labelled. With a private lead there may be none.
    #[cfg_attr(feature = "openapi", schema(max_items = 20))]
    pub tests: Vec<TestSet>,
    /// Labelled examples of the lead's training split on which the classifier is first trained: 1 to 1,000,000. A
    /// private lead trains on all of them; then it is the public number of its units.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1_000_000))]
    pub golden: u32,
    /// The DP-SGD training of a private lead; absent for a public one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_lead: Option<PrivateTraining>,
    /// The measurement on a private labelled log; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_test: Option<PrivateTest>,
    /// Rounds of questions: 1 to 1,000.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1000))]
    pub rounds: u32,
    /// The most questions in a round: 1 to 10,000.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 10000))]
    pub batch: u32,
    /// The measure by which the questions of a round are chosen.
    #[serde(default)]
    pub acquisition: Acquisition,
    /// Whether the questions of one round should also differ from each other.
    #[serde(default)]
    pub diversity: bool,
    /// The classifier and its training.
    #[serde(default)]
    pub classifier: Classifier,
    /// Annotators who answer each question: 1 to 20.
    #[serde(default = "one")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 20))]
    pub annotators: u32,
    /// The method by which several answers become one label.
    #[serde(default)]
    pub aggregation: Aggregation,
    /// The deadline in seconds of a round of questions, and of the pools: 1 to 2,592,000 (30 days). All rounds together
    /// take a year at most.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 2_592_000))]
    pub deadline_seconds: u32,
    /// An experiment on the lead's public log with simulated annotators; absent if none is requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rehearsal: Option<Rehearsal>,
    /// The seed of the golden set's choice, of initialization, order and dropout. Draws from private data have no seed.
    pub seed: u64,
}

const fn one() -> u32 {
    1
}

impl Spec {
    /// Returns the party with `dataset`, if it takes part.
    pub fn party(&self, dataset: DatasetId) -> Option<&Party> {
        self.participants.iter().find(|party| party.dataset == dataset)
    }

    /// Returns the training of `dataset`, if it is a private lead.
    pub fn private_training(&self, dataset: DatasetId) -> Option<PrivateTraining> {
        let leads = self.participants.first().is_some_and(|party| party.dataset == dataset);
        self.private_lead.filter(|_| leads)
    }

    /// Returns the measurement on `dataset`, if it is the private test set.
    pub fn private_test_on(&self, dataset: DatasetId) -> Option<PrivateTest> {
        self.private_test.filter(|test| test.dataset == dataset)
    }

    /// Returns the most questions in all rounds together.
    pub fn questions_in_all(&self) -> u64 {
        u64::from(self.rounds) * u64::from(self.batch)
    }
}

impl JobKind for Spec {
    const NAME: &'static str = "active_learning";

    fn check(&self, datasets: &[Dataset]) -> Vec<Violation> {
        check::check(self, datasets)
    }

    fn datasets(&self) -> Vec<(DatasetId, DatasetUse)> {
        let mut used: Vec<_> = self.participants.iter().map(|party| (party.dataset, DatasetUse::Participate)).collect();
        used.extend(self.private_test.map(|test| (test.dataset, DatasetUse::Participate)));
        for test in &self.tests {
            if !used.iter().any(|(dataset, _)| *dataset == test.dataset) {
                used.push((test.dataset, DatasetUse::Evaluate));
            }
        }
        used
    }

    fn cost(&self, dataset: &Dataset) -> Option<Charge> {
        cost::cost(self, dataset)
    }

    fn release(&self, dataset: &Dataset, series: &str) -> Option<Event> {
        cost::release(self, dataset, series)
    }

    fn model_source(&self, file: &str) -> Option<ModelSource> {
        let is_charged = self.private_lead.is_some()
            || self.private_test.is_some()
            || self.participants.iter().any(|party| party.gate.is_some());
        (file == CLASSIFIER_FILE).then_some(if is_charged { ModelSource::Private } else { ModelSource::Public })
    }

    fn clip(&self, dataset: DatasetId) -> Option<f64> {
        let of_training = self.private_training(dataset).map(|training| training.clip);
        of_training.or_else(|| Some(self.private_test_on(dataset)?.histograms(&self.labels).contribution_norm()))
    }

    fn most_norm(&self, dataset: &Dataset, series: &RoundSeries) -> Option<f64> {
        let test = self.private_test_on(dataset.id).filter(|_| series.name == PRIVATE_TEST)?;
        most_histogram_norm(&test.histograms(&self.labels), self.units(dataset))
    }

    fn units(&self, dataset: &Dataset) -> u64 {
        if self.private_test_on(dataset.id).is_some() {
            count_test_units(dataset, self.unit)
        } else {
            dataset.count(self.unit).0
        }
    }

    fn series(&self, _datasets: &[Dataset]) -> Vec<RoundSeries> {
        // A round opens when the one before it closes, and waits for the pools and for the answers of a round.
        let deadline_seconds = self.deadline_seconds.saturating_mul(2).saturating_add(TRAINING_SECONDS);
        let series = |name: &str, dataset, rounds, length| RoundSeries {
            name: name.to_owned(),
            rounds,
            quorum: 1,
            deadline_seconds,
            weights: vec![(dataset, 1.0)],
            until: Vec::new(),
            length: Some(length),
            precision: Precision::F32,
            masked: None,
        };
        let lead = self.participants.first().filter(|_| self.private_lead.is_some());
        let training = lead.map(|lead| {
            let length = self.classifier.dense_length(self.labels.len());
            series(TRAINING, lead.dataset, self.rounds.saturating_add(1), length)
        });
        let test = self.private_test.map(|test| {
            let length = test.histograms(&self.labels).vector_length();
            // Between two measurements lie several rounds of questions.
            let rounds = test.measurements.checked_sub(1).and_then(|gaps| self.rounds.checked_div(gaps)).unwrap_or(0);
            RoundSeries {
                deadline_seconds: deadline_seconds.saturating_mul(rounds.saturating_add(2)),
                ..series(PRIVATE_TEST, test.dataset, test.measurements, length)
            }
        });
        training.into_iter().chain(test).collect()
    }

    fn follows_from_releases(&self, dataset: DatasetId) -> bool {
        self.private_training(dataset).is_some()
    }

    fn allowed_measurements(&self) -> AllowedMeasurements {
        AllowedMeasurements {
            series: vec![(CLASSIFIER.to_owned(), self.rounds)],
            tests: self.tests.iter().map(|test| test.name.clone()).collect(),
        }
    }

    fn questions(&self) -> Option<QuestionPlan> {
        Some(QuestionPlan {
            series: POOL.to_owned(),
            asking: self.participants.iter().filter(|party| party.gate.is_some()).map(|party| party.dataset).collect(),
            lead: self.participants.first()?.dataset,
            labels: self.labels.clone(),
            guidelines: self.guidelines.clone(),
            annotators: self.annotators,
            rounds: self.rounds,
            batch: self.batch,
            deadline_seconds: self.deadline_seconds,
        })
    }
}
