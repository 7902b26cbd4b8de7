//! The journal of aligned utterances, from which an interrupted preparation continues. It contains run-length JSON
//! Lines as `runs` reads them, with an additional field `of`: a digest of the aligner, the transcript and the recording
//! that the labels belong to.
//!
//! A line is written as soon as an utterance is aligned. Labels whose `of` no longer matches the recording are dropped.
//! A file that another program wrote is never changed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use undertone_worker_site::folder::FolderError;
use undertone_worker_site::journal::Journal;

use super::alignment::Alignment;
use super::lines::BadLine;
use super::runs;

/// Reasons why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file cannot be read or written.
    #[error("cannot keep the labels in {path}: check --alignments")]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The file is not a journal.
    #[error(
        "{path} holds labels that --align did not make (line {line}: {reason}): leave --align out to use them, or name \
         another file with --alignments"
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The first line that is not a journal line.
        line: usize,
        /// The problem of the line.
        reason: String,
    },
    /// Another process writes the file.
    #[error("another preparation is writing to {0}: wait until it is done")]
    Busy(PathBuf),
}

/// The beginning of every line.
const BEGINNING: &[u8] = b"{\"u\":\"";

/// The labels of one utterance, as a line of the journal.
#[derive(Debug, Serialize, Deserialize)]
struct LabelLine {
    u: String,
    of: String,
    frames: u64,
    runs: Vec<(u64, u64)>,
}

impl LabelLine {
    fn new(id: &str, of: &str, alignment: &Alignment) -> Self {
        let runs = alignment.runs.iter().map(|(class, frames)| (u64::from(*class), u64::from(*frames))).collect();
        Self { u: id.to_owned(), of: of.to_owned(), frames: alignment.frames as u64, runs }
    }

    /// Returns the utterance, the digest and the labels.
    fn check(self) -> Result<(String, String, Alignment), String> {
        let alignment = runs::checked(self.runs)?;
        if alignment.frames as u64 != self.frames {
            return Err(format!("the runs add up to {} frames, not to {}", alignment.frames, self.frames));
        }
        Ok((self.u, self.of, alignment))
    }
}

/// An open journal of labels with an exclusive lock.
pub struct LabelJournal {
    file: Journal<LabelLine>,
    labels: BTreeMap<String, (String, Alignment)>,
    /// True if the file contains outdated lines.
    is_stale: bool,
}

impl LabelJournal {
    /// Opens the journal at `path`, or creates it.
    ///
    /// # Errors
    /// [`JournalError`]; the file is then unchanged.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            std::fs::create_dir_all(parent).map_err(|source| JournalError::Io { path: path.to_path_buf(), source })?;
        }
        // Labels reveal the transcript: the file is readable by its owner only.
        let locked = Journal::<LabelLine>::try_open_locked(path).map_err(io(path))?;
        let (file, mut content) = locked.ok_or_else(|| JournalError::Busy(path.to_path_buf()))?;
        let is_torn = !content.tail.is_empty();
        // The file ends within a line if the machine stopped while writing. A line that lacks only its line feed is
        // complete; the utterance of any other is aligned again.
        if !is_cut(content.tail.trim_ascii()) {
            content.push_tail();
        }
        let count = content.lines.len();
        let mut labels = BTreeMap::new();
        for line in content.lines {
            let entry = line.entry.map_err(|error| error.to_string()).and_then(LabelLine::check);
            let (id, of, alignment) = entry.map_err(|reason| {
                let BadLine { line, reason } = BadLine::new(line.number, reason);
                JournalError::Foreign { path: path.to_path_buf(), line, reason }
            })?;
            labels.insert(id, (of, alignment));
        }
        let is_stale = is_torn || labels.len() != count;
        let mut journal = Self { file, labels, is_stale };
        journal.finish()?;
        Ok(journal)
    }

    /// Returns true if the journal contains labels of the utterance.
    pub fn knows(&self, id: &str) -> bool {
        self.labels.contains_key(id)
    }

    /// Returns the labels of the utterance if their digest is `of`.
    pub fn find(&self, id: &str, of: &str) -> Option<&Alignment> {
        self.labels.get(id).filter(|(digest, _)| digest == of).map(|(_, alignment)| alignment)
    }

    /// Returns the labels of the utterance, whatever their digest.
    pub fn any(&self, id: &str) -> Option<&Alignment> {
        self.labels.get(id).map(|(_, alignment)| alignment)
    }

    /// Stores the labels of an utterance.
    ///
    /// # Errors
    /// [`JournalError::Io`].
    pub fn add(&mut self, id: &str, of: String, alignment: Alignment) -> Result<(), JournalError> {
        self.file.append_unsynced(&LabelLine::new(id, &of, &alignment)).map_err(io(self.file.path()))?;
        self.is_stale |= self.labels.insert(id.to_owned(), (of, alignment)).is_some();
        Ok(())
    }

    /// Makes all lines durable and removes outdated ones.
    ///
    /// # Errors
    /// [`JournalError::Io`].
    pub fn finish(&mut self) -> Result<(), JournalError> {
        if self.is_stale {
            let lines = self.labels.iter().map(|(id, (of, alignment))| LabelLine::new(id, of, alignment));
            self.file.rewrite(lines).map_err(io(self.file.path()))?;
            self.is_stale = false;
        }
        self.file.sync().map_err(io(self.file.path()))
    }
}

/// Returns true if `tail` is the beginning of a line of a journal, and not a whole line.
fn is_cut(tail: &[u8]) -> bool {
    let begins = tail.starts_with(BEGINNING) || BEGINNING.starts_with(tail);
    begins && serde_json::from_slice::<LabelLine>(tail).is_err_and(|error| error.is_eof())
}

fn io(path: &Path) -> impl FnOnce(FolderError) -> JournalError {
    let path = path.to_path_buf();
    move |error| match error {
        FolderError::Io { source, .. } => JournalError::Io { path, source },
        other => JournalError::Io { path, source: std::io::Error::other(other) },
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use crate::align::{LabelOptions, read};

    fn alignment(class: u64) -> Alignment {
        runs::checked(vec![(class, 3), (7, 1)]).unwrap()
    }

    /// Writes a journal of three lines and returns its path.
    fn three(dir: &Path) -> PathBuf {
        let path = dir.join("deep").join("ward.jsonl");
        let mut journal = LabelJournal::open(&path).unwrap();
        for (id, class) in [("a", 1), ("b", 2), ("c", 3)] {
            journal.add(id, format!("of {id}"), alignment(class)).unwrap();
        }
        path
    }

    #[test]
    fn journal_finds_labels_of_the_same_recording_only() {
        let dir = tempfile::tempdir().unwrap();
        let journal = LabelJournal::open(&three(dir.path())).unwrap();
        assert_eq!(journal.find("b", "of b"), Some(&alignment(2)));
        assert_eq!((journal.find("b", "of another"), journal.knows("b"), journal.knows("d")), (None, true, false));
    }

    #[test]
    fn truncated_journal_loses_no_whole_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = three(dir.path());
        let whole = std::fs::read(&path).unwrap();
        for len in 0..=whole.len() {
            std::fs::write(&path, &whole[..len]).unwrap();
            let mut journal = LabelJournal::open(&path).unwrap();
            let lines = whole[..len].split(|byte| *byte == b'\n').count() - 1;
            let lines_kept = ["a", "b", "c"].into_iter().filter(|id| journal.knows(id)).count();
            // A line that lacks only its line feed is complete, too.
            assert!(
                lines_kept == lines || (lines_kept == lines + 1 && whole.get(len) == Some(&b'\n')),
                "{lines_kept} of {len} bytes"
            );
            journal.add("d", "of d".to_owned(), alignment(4)).unwrap();
            drop(journal);
            assert_eq!(read(&path, &LabelOptions::default()).unwrap().alignments.bad_lines, []);
            assert_eq!(read(&path, &LabelOptions::default()).unwrap().alignments.by_id.len(), lines_kept + 1);
        }
    }

    #[test]
    fn labels_made_anew_take_the_place_of_the_old() {
        let dir = tempfile::tempdir().unwrap();
        let path = three(dir.path());
        let mut journal = LabelJournal::open(&path).unwrap();
        journal.add("b", "of b, corrected".to_owned(), alignment(9)).unwrap();
        journal.finish().unwrap();
        let labels = read(&path, &LabelOptions::default()).unwrap().alignments;
        assert_eq!((labels.by_id["b"].runs()[0].0, labels.by_id.len(), labels.bad_lines.len()), (9, 3, 0));
        journal.add("b", "of b, again".to_owned(), alignment(8)).unwrap();
        drop(journal);
        let reopened = LabelJournal::open(&path).unwrap();
        assert_eq!(reopened.find("b", "of b, again"), Some(&alignment(8)), "of two lines the last counts");
    }

    #[test]
    fn foreign_label_file_is_left_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mine.jsonl");
        for content in [
            "{\"u\": \"a\", \"frames\": 1, \"runs\": [[2, 1]]}\n",
            "a 1 2 3\n",
            "{\"u\":\"a\",\"of\":\"x\",\"frames\":2,\"runs\":[[2,1]]}\n",
            "{\"u\":\"a\",\"frames\":1,\"runs\":[[2,1]]}",
            "{\"utterance\":\"a\",",
            "a 1 2 3",
        ] {
            std::fs::write(&path, content).unwrap();
            let refused = LabelJournal::open(&path).err().unwrap().to_string();
            assert!(refused.contains("leave --align out") && refused.contains("line 1"), "{refused}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
        }
    }

    #[test]
    fn second_writer_of_a_journal_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = three(dir.path());
        let first = LabelJournal::open(&path).unwrap();
        assert!(matches!(LabelJournal::open(&path), Err(JournalError::Busy(_))));
        drop(first);
        let mut second = LabelJournal::open(&path).unwrap();
        second.add("a", "new".to_owned(), alignment(5)).unwrap();
        second.finish().unwrap();
        assert!(matches!(LabelJournal::open(&path), Err(JournalError::Busy(_))), "also after it was rewritten");
    }
}
