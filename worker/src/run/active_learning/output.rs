//! The lead's final output: files and report. All of it follows from released questions, answers and public data.

use std::collections::BTreeMap;

use serde::Serialize;
use undertone_api::id::{DatasetId, QuestionId};
use undertone_api::job::active_learning::{FrequencyBin, Gate, PoolResult, Spec};
use undertone_api::signed::{Manifest, ManifestParticipant};
use undertone_privacy::mechanism;

use super::AnnotationError;
use super::learning::LearningState;
use crate::queries::rehearsal::frequencies;
use crate::queries::released::Released;
use crate::run::RunError;

/// Every question with a label, and its label.
pub(super) const LABELS_FILE: &str = "labels.jsonl";
/// Every released question.
pub(super) const POOL_FILE: &str = "pool.jsonl";

/// A line of the file of labels.
#[derive(Serialize)]
struct LabelLine<'a> {
    question: QuestionId,
    text: &'a str,
    label: &'a str,
}

/// A line of the file of questions.
#[derive(Serialize)]
struct PoolLine<'a> {
    question: QuestionId,
    dataset: DatasetId,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
}

/// Writes the labels as JSON Lines, in the order in which they were asked.
///
/// # Errors
/// [`RunError::Failed`] when a line has no JSON form.
pub(super) fn write_labels(learning: &LearningState<'_>) -> Result<Vec<u8>, RunError> {
    write_lines(learning.labelled_questions().map(|(question, label)| LabelLine {
        question: question.id(),
        text: question.text(),
        label: learning.label_name(label),
    }))
}

/// Writes the questions as JSON Lines, in the order of the pools.
///
/// # Errors
/// [`RunError::Failed`] when a line has no JSON form.
pub(super) fn write_pool(questions: &[Released]) -> Result<Vec<u8>, RunError> {
    write_lines(questions.iter().map(|question| PoolLine {
        question: question.id(),
        dataset: question.dataset(),
        text: question.text(),
        count: question.count(),
    }))
}

fn write_lines(items: impl Iterator<Item = impl Serialize>) -> Result<Vec<u8>, RunError> {
    let mut lines = Vec::new();
    for item in items {
        serde_json::to_writer(&mut lines, &item)?;
        lines.push(b'\n');
    }
    Ok(lines)
}

/// Returns the pools of all asking participants, in the order of the participants. Their costs follow from the charges
/// in the manifest; public data cost nothing.
///
/// # Errors
/// [`RunError::Failed`] when a charge has no price.
pub(super) fn pool_results(
    spec: &Spec,
    manifest: &Manifest,
    questions: &[Released],
) -> Result<Vec<PoolResult>, RunError> {
    let mut queries: BTreeMap<DatasetId, u64> = BTreeMap::new();
    for question in questions {
        *queries.entry(question.dataset()).or_default() += 1;
    }
    let asking = spec.participants.iter().filter_map(|party| Some((party.dataset, party.gate?)));
    let result = |(dataset, gate): (DatasetId, Gate)| -> Result<PoolResult, RunError> {
        let is_party = |party: &&ManifestParticipant| party.dataset == dataset;
        let charge = manifest.participants.iter().find(is_party).and_then(|party| party.charge.as_ref());
        let cost = charge.map(|charge| mechanism::guarantee(&charge.event, charge.adjacency)).transpose();
        let cost = cost.map_err(AnnotationError::Price)?;
        Ok(PoolResult {
            dataset,
            sampling_rate: gate.sampling_rate.get(),
            threshold: gate.threshold.get(),
            unit: spec.unit,
            epsilon: cost.map(|(epsilon, _)| epsilon.get()),
            delta: cost.map(|(_, delta)| delta.get()),
            queries: queries.get(&dataset).copied().unwrap_or(0),
        })
    };
    asking.map(result).collect()
}

/// Returns the number of queries for each number of occurrences: from released counts if there are any, else from the
/// lead's public log.
pub(super) fn count_frequencies(questions: &[Released], public: impl Iterator<Item = u64>) -> Vec<FrequencyBin> {
    let counts: Vec<u64> = questions.iter().filter_map(Released::count).collect();
    let bins = if counts.is_empty() { frequencies(public) } else { frequencies(counts.into_iter()) };
    bins.into_iter().map(|(occurrences, queries)| FrequencyBin { occurrences, queries }).collect()
}
