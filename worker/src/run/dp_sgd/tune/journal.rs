//! The results so far, on disk: one line for each finished setting and rung, so that a killed search can resume. Its
//! first line identifies the search.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Setting, TuneError};

/// The result of one rung of one setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// Its place in the order of the search, from 0; the spec's own setting is 0.
    pub number: usize,
    /// The setting.
    pub setting: Setting,
    /// z of the first party that adds noise, in the real job.
    pub noise_multiplier: f64,
    /// The number of rounds before the measurement.
    pub after: u32,
    /// The fraction of correctly classified development frames: 0 to 1.
    pub accuracy: f64,
    /// Mean cross-entropy on them, nats.
    pub loss: f64,
    /// Seconds since the previous rung.
    pub seconds: f64,
    /// The reason for a failure, if it failed: its figures are the worst possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// The file.
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    tried: Vec<Tried>,
}

impl Journal {
    /// Opens the journal of the search that `identity` names, or begins it. An incomplete last line is ignored.
    ///
    /// # Errors
    /// [`TuneError::Io`], and [`TuneError::Journal`] when it is the journal of another search.
    pub(super) fn open(path: &Path, identity: &str) -> Result<Self, TuneError> {
        let io = |action| TuneError::io(action, path);
        let mut text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(io("read")(error)),
        };
        text.truncate(text.rfind('\n').map_or(0, |end| end + 1));
        let mut lines = text.lines();
        if lines.next().is_some_and(|line| line != identity) {
            return Err(TuneError::Journal(path.to_owned()));
        }
        let tried = lines.map(|line| serde_json::from_str(line).map_err(|_| TuneError::Journal(path.to_owned())));
        let tried = tried.collect::<Result<Vec<Tried>, _>>()?;
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(path).map_err(io("open"))?;
        file.set_len(text.len() as u64).map_err(io("mend"))?;
        let mut journal = Self { path: path.to_owned(), file, tried };
        journal.file.seek(SeekFrom::End(0)).map_err(io("read"))?;
        if text.is_empty() {
            journal.line(identity)?;
        }
        Ok(journal)
    }

    fn line(&mut self, text: &str) -> Result<(), TuneError> {
        let written = self.file.write_all(format!("{text}\n").as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(TuneError::io("write", &self.path))
    }

    /// Records a result; durable when this returns.
    ///
    /// # Errors
    /// [`TuneError::Io`].
    pub(super) fn note(&mut self, tried: Tried) -> Result<(), TuneError> {
        let text = serde_json::to_string(&tried).map_err(|error| TuneError::Spec(error.to_string()))?;
        self.line(&text)?;
        self.tried.push(tried);
        Ok(())
    }

    /// Returns the result of a setting after `after` rounds, if it is known.
    pub(super) fn found(&self, number: usize, after: u32) -> Option<Tried> {
        self.tried.iter().find(|tried| tried.number == number && tried.after == after).cloned()
    }

    /// Returns all results.
    pub(super) fn tried(&self) -> &[Tried] {
        &self.tried
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::io::Write;

    use undertone_api::job::dp_sgd::{Optimizer, Rounds};

    use super::{Journal, Setting, Tried};

    fn tried(number: usize, after: u32) -> Tried {
        let setting = Setting::of(&Rounds::new(10, Optimizer::Adam { learning_rate: 0.1 }));
        Tried {
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
    fn what_was_noted_is_found_again_and_half_a_line_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let mut journal = Journal::open(&path, "this search").unwrap();
        journal.note(tried(0, 5)).unwrap();
        journal.note(tried(1, 5)).unwrap();
        std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"number\":2,\"se").unwrap();
        let mut again = Journal::open(&path, "this search").unwrap();
        assert_eq!(again.tried(), [tried(0, 5), tried(1, 5)]);
        assert!(again.found(1, 5).is_some() && again.found(1, 10).is_none());
        again.note(tried(2, 5)).unwrap();
        assert_eq!(Journal::open(&path, "this search").unwrap().tried().len(), 3, "the half line is gone");
    }

    #[test]
    fn the_journal_of_another_search_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        drop(Journal::open(&path, "one").unwrap());
        assert!(Journal::open(&path, "other").is_err());
    }
}
