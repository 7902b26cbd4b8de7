//! The results so far, on disk: one line for each finished setting and rung, so that a killed search can resume. Its
//! first line identifies the search.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::TuneError;
use super::setting::TuneSetting;
use crate::site::journal;

/// The result of one rung of one setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialResult {
    /// Its place in the order of the search, from 0; the spec's own setting is 0.
    pub number: usize,
    /// The setting.
    pub setting: TuneSetting,
    /// z of the first party that adds noise, in the real job.
    pub noise_multiplier: f64,
    /// The number of rounds before the measurement.
    pub after: u32,
    /// The fraction of correctly classified development frames or rows: 0 to 1. For a numeric target the fraction of the rows
    /// that are predicted within a twentieth of its declared range.
    pub accuracy: f64,
    /// Mean cross-entropy on them, nats; for a numeric target the mean squared error, with its declared range as -1 to 1.
    pub loss: f64,
    /// Seconds since the previous rung.
    pub seconds: f64,
    /// The reason for a failure, if it failed: its figures are the worst possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum SearchLine {
    /// The first line: the identity of the search.
    Identity(String),
    /// A result.
    Trial(Box<TrialResult>),
}

/// The file.
pub(super) struct TuneJournal {
    file: journal::Journal<SearchLine>,
    results: Vec<TrialResult>,
}

impl TuneJournal {
    /// Opens the journal of the search that `identity` names, or begins it. An incomplete last line is ignored.
    ///
    /// # Errors
    /// [`TuneError::Folder`], and [`TuneError::Journal`] when it is the journal of another search.
    pub(super) fn open(path: &Path, identity: &str) -> Result<Self, TuneError> {
        let foreign = || TuneError::Journal(path.to_owned());
        let (mut file, content) = journal::Journal::open(path)?;
        let mut lines = content.into_entries().map_err(|_| foreign())?.into_iter();
        match lines.next() {
            Some(SearchLine::Identity(known)) if known == identity => {}
            Some(_) => return Err(foreign()),
            None => file.append(&SearchLine::Identity(identity.to_owned()))?,
        }
        let results = lines.map(|line| match line {
            SearchLine::Trial(result) => Ok(*result),
            SearchLine::Identity(_) => Err(foreign()),
        });
        Ok(Self { file, results: results.collect::<Result<_, _>>()? })
    }

    /// Records a result; durable when this returns.
    ///
    /// # Errors
    /// [`TuneError::Folder`].
    pub(super) fn record(&mut self, result: TrialResult) -> Result<(), TuneError> {
        self.file.append(&SearchLine::Trial(Box::new(result.clone())))?;
        self.results.push(result);
        Ok(())
    }

    /// Returns the result of a setting after `after` rounds, if it is known.
    pub(super) fn find(&self, number: usize, after: u32) -> Option<TrialResult> {
        self.results.iter().find(|result| result.number == number && result.after == after).cloned()
    }

    /// Returns all results.
    pub(super) fn results(&self) -> &[TrialResult] {
        &self.results
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::io::Write;

    use undertone_api::job::dp_sgd::{Optimizer, Rounds};

    use super::{TrialResult, TuneJournal, TuneSetting};

    fn trial(number: usize, after: u32) -> TrialResult {
        let setting = TuneSetting::from_rounds(&Rounds::new(10, Optimizer::Adam { learning_rate: 0.1 }));
        TrialResult {
            number,
            setting,
            noise_multiplier: 1.25,
            after,
            accuracy: 0.5,
            loss: 1.0 / 3.0,
            seconds: 0.1,
            failed: None,
        }
    }

    #[test]
    fn journal_keeps_whole_lines_and_drops_a_half_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let mut journal = TuneJournal::open(&path, "this search").unwrap();
        journal.record(trial(0, 5)).unwrap();
        journal.record(trial(1, 5)).unwrap();
        std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"number\":2,\"se").unwrap();
        let mut again = TuneJournal::open(&path, "this search").unwrap();
        assert_eq!(again.results(), [trial(0, 5), trial(1, 5)]);
        assert!(again.find(1, 5).is_some() && again.find(1, 10).is_none());
        again.record(trial(2, 5)).unwrap();
        assert_eq!(TuneJournal::open(&path, "this search").unwrap().results().len(), 3, "the half line is gone");
    }

    #[test]
    fn journal_of_another_search_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        drop(TuneJournal::open(&path, "one").unwrap());
        assert!(TuneJournal::open(&path, "other").is_err());
    }
}
