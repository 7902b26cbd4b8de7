//! The report of a finished job. Every figure follows from charged releases, from answers, and
//! from public data.

use serde::{Deserialize, Serialize};
use undertone_privacy::PrivacyUnit;

use super::PublicContent;
use crate::id::DatasetId;
use crate::job::evaluation::{ClassResult, MetricEstimate};

/// Bins of each histogram of an [`UncertaintyHistogram`].
pub const BINS: usize = 20;

/// A pool of questions as it was released.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PoolResult {
    /// The dataset of the pool.
    pub dataset: DatasetId,
    /// β.
    pub sampling_rate: f64,
    /// k.
    pub threshold: u32,
    /// The protected unit.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::unit))]
    pub unit: PrivacyUnit,
    /// ε of the release for one unit; absent for public data.
    #[serde(default)]
    pub epsilon: Option<f64>,
    /// δ of the release for one unit, rounded up; absent for public data.
    #[serde(default)]
    pub delta: Option<f64>,
    /// The number of questions in it.
    pub queries: u64,
}

/// The classifier after a round of questions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LearningPoint {
    /// The round; 0 is after the golden set alone.
    pub round: u32,
    /// Questions asked so far.
    pub asked: u64,
    /// Questions among these that have a label.
    pub labelled: u64,
    /// The results by test set, in the spec's order.
    pub tests: Vec<TestResult>,
    /// The result on the private test set; absent where it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_test: Option<PrivateTestResult>,
}

/// The classifier on the private test set: noisy counts, and post-processing of them. The classes are the labels, by
/// their number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PrivateTestResult {
    /// The standard deviation of the noise in each coordinate of the released sums.
    pub deviation: f64,
    /// The share of the units that are classified correctly; absent when there are too few units for the noise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<MetricEstimate>,
    /// Each label against all others, in the spec's order.
    pub classes: Vec<ClassResult>,
}

/// The classifier on one test set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ActiveLearningTestResult))]
pub struct TestResult {
    /// The test set's name.
    pub name: String,
    /// The share of the examples that are classified correctly: 0 to 1.
    pub accuracy: f64,
    /// Mean cross-entropy in nats.
    pub loss: f64,
    /// Examples measured.
    pub examples: u64,
}

impl LearningPoint {
    /// Returns whether the classifier is better than after `other`: more accurate on the first test set or, at equal
    /// accuracy, with a smaller loss there. Without public test sets the released accuracy on the private one decides. A
    /// point without measurements is no better.
    pub fn is_better_than(&self, other: &Self) -> bool {
        match (self.tests.first(), other.tests.first()) {
            (Some(own), Some(theirs)) => {
                own.accuracy.total_cmp(&theirs.accuracy).then_with(|| theirs.loss.total_cmp(&own.loss)).is_gt()
            }
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => match (self.released_accuracy(), other.released_accuracy()) {
                (Some(own), Some(theirs)) => own.value > theirs.value,
                (own, _) => own.is_some(),
            },
        }
    }

    /// Returns the accuracy on the private test set, if it was measured and the noise permits a number.
    pub fn released_accuracy(&self) -> Option<MetricEstimate> {
        self.private_test.as_ref()?.accuracy
    }

    fn is_measured(&self) -> bool {
        !self.tests.is_empty() || self.released_accuracy().is_some()
    }
}

/// Returns the round with the best classifier, the first of equal ones, or the last round if none was measured; `None`
/// without rounds. It is chosen by the first test set or, without test sets, by what the private test set released and
/// paid for. The accuracy there is the greatest of several measurements, so it is slightly optimistic; nothing else
/// chooses.
pub fn best_round(learning: &[LearningPoint]) -> Option<u32> {
    let mut points = learning.iter();
    let first = points.next()?;
    let is_later = |best: &LearningPoint, point: &LearningPoint| !best.is_measured() || point.is_better_than(best);
    Some(points.fold(first, |best, point| if is_later(best, point) { point } else { best }).round)
}

/// The classifier's uncertainty about the questions not yet asked, before a round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Uncertainty))]
pub struct UncertaintyHistogram {
    /// The round, from 1.
    pub round: u32,
    /// Questions by entropy over its maximum ln(labels), in 20 equal bins from 0 to 1.
    pub bins: Vec<u64>,
    /// Questions by confidence, the probability of the most probable label, in 20 equal bins from 0 to 1. Empty in
    /// reports of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub confidence: Vec<u64>,
}

/// The number of queries by their occurrences, from released counts or from the lead's public log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Frequency))]
pub struct FrequencyBin {
    /// The least occurrences of the bin, a power of two; the bin ends before the next power.
    pub occurrences: u64,
    /// Distinct queries in it.
    pub queries: u64,
}

/// The result of the rehearsal for a pair (β, k).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Rehearsed))]
pub struct RehearsalResult {
    /// β.
    pub sampling_rate: f64,
    /// k.
    pub threshold: u32,
    /// Whether it is the comparison β = 1 and k = 1, which protects no one.
    pub baseline: bool,
    /// Queries that would have been released, on average over the repeats, rounded.
    pub pool: u64,
    /// Released queries with fewer than k kept rows, over all repeats, by an exact count: 0 unless the gate is broken.
    pub violations: u64,
    /// Accuracy against labels, ascending. The first point is the golden set alone.
    pub points: Vec<RehearsedPoint>,
    /// δ at the ε of the job's own gates for one unit; absent for the comparison, and where ε is too small for the rate.
    #[serde(default)]
    pub delta: Option<f64>,
}

/// A point of a rehearsed learning curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RehearsedPoint {
    /// Labels so far, in addition to the golden set.
    pub labelled: u64,
    /// Mean accuracy on the first test set over the repeats: 0 to 1.
    pub accuracy: f64,
    /// Its standard deviation over the repeats; 0 for one repeat.
    pub deviation: f64,
}

/// The results of an annotator, by the number in the job.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AnnotatorResult {
    /// The number.
    pub annotator: u32,
    /// Answers that count (no skips).
    pub annotations: u64,
    /// The probability of a correct answer, estimated by Dawid and Skene's model: 0 to 1. Absent if no other annotator
    /// answered the same questions.
    #[serde(default)]
    pub accuracy: Option<f64>,
    /// The share of the answers that equal the question's final label: 0 to 1. Absent without labels.
    #[serde(default)]
    pub agreement: Option<f64>,
}

/// The report of a finished `active_learning` job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ActiveLearningReport))]
pub struct Report {
    /// The pools, in the order of the participants.
    pub pools: Vec<PoolResult>,
    /// The classifier after each round, from 0.
    pub learning: Vec<LearningPoint>,
    /// The round of the classifier in the job's file: the best on the first test set or, without public test sets, by the
    /// released accuracy on the private one. Absent in reports of earlier versions, whose file is the last classifier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<u32>,
    /// Uncertainty before each round.
    pub uncertainty: Vec<UncertaintyHistogram>,
    /// Frequencies, ascending; empty if no counts are released and the lead's log has none.
    #[serde(default)]
    pub frequency: Vec<FrequencyBin>,
    /// The results of the rehearsal; empty if none was requested.
    #[serde(default)]
    pub rehearsal: Vec<RehearsalResult>,
    /// The annotators, by number.
    #[serde(default)]
    pub annotators: Vec<AnnotatorResult>,
    /// Fleiss' κ of the answers: 1 is full agreement, 0 is chance. Absent if no two annotators answered one question.
    #[serde(default)]
    pub agreement: Option<f64>,
    /// The public data that the lead trained on and measured on. The report contains nothing about data of other
    /// participants.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contents: Vec<PublicContent>,
}
