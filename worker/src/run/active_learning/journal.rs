//! The lead's record of each round, on disk: a file for each, written whole or not at all before it has an effect.
//!
//! A choice is in its record before the annotators see it, so that a killed lead makes the same one again, on any
//! machine. Answers are in it before training uses them. An unreadable record is ignored: the round is computed again
//! from the server's data.

use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use undertone_api::id::QuestionId;
use undertone_api::job::active_learning::{RehearsalResult, TestResult};

use crate::run::{AnswerLine, RunError};
use crate::site::folder::write_durably;

/// The record of one round.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct RoundRecord {
    /// The chosen questions with their uncertainties, the most urgent first; empty in round 0.
    pub(super) chosen: Vec<(QuestionId, f64)>,
    /// The uncertainties of the classifier before it: [`undertone_api::job::active_learning::UncertaintyHistogram::bins`].
    pub(super) bins: Vec<u64>,
    /// Its confidences: [`undertone_api::job::active_learning::UncertaintyHistogram::confidence`]; empty in records of
    /// earlier versions.
    #[serde(default)]
    pub(super) confidence: Vec<u64>,
    /// The answers, once the round has closed.
    pub(super) answers: Option<Vec<AnswerLine>>,
    /// The measurements after it, once they were reported.
    pub(super) tests: Option<Vec<TestResult>>,
}

/// The journal of a job, in its work folder.
#[derive(Debug)]
pub(super) struct LeadJournal(PathBuf);

impl LeadJournal {
    /// Makes the journal in this folder.
    pub(super) const fn new(folder: PathBuf) -> Self {
        Self(folder)
    }

    /// Returns the record of a round; an empty one if there is none.
    pub(super) fn round(&self, round: u32) -> RoundRecord {
        self.read(&round_file(round)).unwrap_or_default()
    }

    /// Writes the record of a round over the last one; durable when this returns.
    ///
    /// # Errors
    /// [`RunError`] when the disk refuses.
    pub(super) fn store_round(&self, round: u32, record: &RoundRecord) -> Result<(), RunError> {
        self.write(&round_file(round), record)
    }

    /// Returns the results of a rehearsal, once it is over.
    pub(super) fn rehearsal(&self) -> Option<Vec<RehearsalResult>> {
        self.read(REHEARSAL)
    }

    /// Stores the results of a rehearsal.
    ///
    /// # Errors
    /// [`RunError`] when the disk refuses.
    pub(super) fn store_rehearsal(&self, results: &[RehearsalResult]) -> Result<(), RunError> {
        self.write(REHEARSAL, &results)
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let path = self.0.join(name);
        let text = std::fs::read(&path).ok()?;
        let record = serde_json::from_slice(&text);
        let warn = |_: &serde_json::Error| {
            tracing::warn!(path = %path.display(), "cannot read a record of the job's journal; it is computed again");
        };
        record.inspect_err(warn).ok()
    }

    fn write(&self, name: &str, record: &impl Serialize) -> Result<(), RunError> {
        let text = serde_json::to_vec(record)?;
        Ok(write_durably(&self.0.join(name), &text)?)
    }
}

/// The file of the rehearsal.
const REHEARSAL: &str = "rehearsal.json";

/// Returns the name of a round's file.
fn round_file(round: u32) -> String {
    format!("round-{round}.json")
}

#[cfg(test)]
mod tests {
    use undertone_api::id::QuestionId;
    use undertone_api::question::Answer;
    use uuid::Uuid;

    use super::{LeadJournal, RoundRecord};
    use crate::run::AnswerLine;

    #[test]
    fn record_is_read_back_to_the_bit_and_a_torn_one_ignored() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let journal = LeadJournal::new(dir.path().to_owned());
        let question = QuestionId(Uuid::from_u128(1));
        let answer = Answer::Label { label: "billing".to_owned() };
        let record = RoundRecord {
            chosen: vec![(question, 0.1 + 0.2), (QuestionId(Uuid::from_u128(2)), f64::MIN_POSITIVE)],
            bins: vec![0, 3],
            confidence: vec![2, 1],
            answers: Some(vec![AnswerLine { question, annotator: 2, answer }]),
            tests: None,
        };
        journal.store_round(3, &record).expect("the folder is writable");
        assert_eq!(journal.round(3), record);
        assert_eq!(journal.round(4), RoundRecord::default());
        std::fs::write(dir.path().join("round-3.json"), "{\"chosen\":[").expect("it is there");
        assert_eq!(journal.round(3), RoundRecord::default());
    }
}
