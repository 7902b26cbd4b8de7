//! The lead's record of each round, on disk: a page for each, written whole or not at all before it has an effect.
//!
//! A choice is on its page before the annotators see it, so that a killed lead makes the same one again, on any
//! machine. Answers are on it before training uses them. An unreadable page is ignored: the round is computed again
//! from the server's data.

use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use undertone_api::id::QuestionId;
use undertone_api::job::active_learning::{RehearsalResult, TestResult};

use super::failed;
use crate::run::{AnswerLine, RunError};
use crate::site::folder::write_durably;

/// The record of one round.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Page {
    /// The chosen questions with their uncertainties, the most urgent first; empty in round 0.
    pub(super) chosen: Vec<(QuestionId, f64)>,
    /// The uncertainties of the classifier before it: [`undertone_api::job::active_learning::UncertaintyHistogram::bins`].
    pub(super) bins: Vec<u64>,
    /// The answers, once the round has closed.
    pub(super) answers: Option<Vec<AnswerLine>>,
    /// The measurements after it, once they were reported.
    pub(super) tests: Option<Vec<TestResult>>,
}

/// The journal of a job, in its work folder.
#[derive(Debug)]
pub(super) struct Journal(PathBuf);

impl Journal {
    /// Makes the journal in this folder.
    pub(super) const fn new(folder: PathBuf) -> Self {
        Self(folder)
    }

    /// Returns the page of a round; an empty one without a record.
    pub(super) fn page(&self, round: u32) -> Page {
        self.read(&page(round)).unwrap_or_default()
    }

    /// Writes the page of a round over the last one; durable when this returns.
    ///
    /// # Errors
    /// [`RunError`] when the disk refuses.
    pub(super) fn keep(&self, round: u32, known: &Page) -> Result<(), RunError> {
        self.write(&page(round), known)
    }

    /// Returns the results of a rehearsal, once it is over.
    pub(super) fn rehearsed(&self) -> Option<Vec<RehearsalResult>> {
        self.read(REHEARSAL)
    }

    /// Stores the results of a rehearsal.
    ///
    /// # Errors
    /// [`RunError`] when the disk refuses.
    pub(super) fn keep_rehearsed(&self, found: &[RehearsalResult]) -> Result<(), RunError> {
        self.write(REHEARSAL, &found)
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let path = self.0.join(name);
        let text = std::fs::read(&path).ok()?;
        let read = serde_json::from_slice(&text);
        read.inspect_err(|_| tracing::warn!(path = %path.display(), "a page of the job's journal is not readable; it is worked out again")).ok()
    }

    fn write(&self, name: &str, known: &impl Serialize) -> Result<(), RunError> {
        let text = serde_json::to_vec(known).map_err(failed)?;
        write_durably(&self.0.join(name), &text).map_err(RunError::from_failure)
    }
}

/// The page of the rehearsal.
const REHEARSAL: &str = "rehearsal.json";

fn page(round: u32) -> String {
    format!("round-{round}.json")
}

#[cfg(test)]
mod tests {
    use undertone_api::id::QuestionId;
    use undertone_api::question::Answer;
    use uuid::Uuid;

    use super::{Journal, Page};
    use crate::run::AnswerLine;

    #[test]
    fn a_page_is_read_back_to_the_bit_and_a_torn_one_counts_for_nothing() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let journal = Journal::new(dir.path().to_owned());
        let question = QuestionId(Uuid::from_u128(1));
        let answer = Answer::Label { label: "billing".to_owned() };
        let page = Page {
            chosen: vec![(question, 0.1 + 0.2), (QuestionId(Uuid::from_u128(2)), f64::MIN_POSITIVE)],
            bins: vec![0, 3],
            answers: Some(vec![AnswerLine { question, annotator: 2, answer }]),
            tests: None,
        };
        journal.keep(3, &page).expect("the folder is writable");
        assert_eq!(journal.page(3), page);
        assert_eq!(journal.page(4), Page::default());
        std::fs::write(dir.path().join("round-3.json"), "{\"chosen\":[").expect("it is there");
        assert_eq!(journal.page(3), Page::default());
    }
}
