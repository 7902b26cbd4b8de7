//! The journal of aligned utterances, from which an interrupted preparation continues. It contains run-length JSON
//! Lines as `runs` reads them, with an additional field `of`: a digest of the aligner, the transcript and the recording
//! that the labels belong to.
//!
//! A line is written as soon as an utterance is aligned. Labels whose `of` no longer matches the recording are dropped.
//! A file that another program wrote is never changed.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufReader, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Alignment, lines, runs};

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

#[derive(Serialize, Deserialize)]
struct JournalLine {
    u: String,
    of: String,
    frames: u64,
    runs: Vec<(u64, u64)>,
}

/// An open journal with an exclusive lock.
pub struct Journal {
    path: PathBuf,
    file: File,
    known: BTreeMap<String, (String, Alignment)>,
    /// True if the file contains outdated lines.
    stale: bool,
}

impl Journal {
    /// Opens the journal at `path`, or creates it.
    ///
    /// # Errors
    /// [`JournalError`]; the file is then unchanged.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let io = |source| JournalError::Io { path: path.to_path_buf(), source };
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            std::fs::create_dir_all(parent).map_err(io)?;
        }
        // Labels reveal the transcript: the file is readable by its owner only.
        let open = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path);
        let mut file = open.map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(JournalError::Busy(path.to_path_buf())),
            Err(TryLockError::Error(source)) => return Err(io(source)),
        }
        let (mut known, mut count, mut cut) = (BTreeMap::new(), 0_usize, false);
        let bad = lines::each(BufReader::new(&mut file), |line| {
            count += 1;
            let read = serde_json::from_slice(line);
            cut = read.as_ref().is_err_and(serde_json::Error::is_eof)
                && (line.starts_with(BEGINNING) || BEGINNING.starts_with(line));
            let JournalLine { u, of, frames, runs } = read.map_err(|error| error.to_string())?;
            let alignment = runs::checked(runs)?;
            if alignment.frames as u64 != frames {
                return Err(format!("the runs add up to {} frames, not to {frames}", alignment.frames));
            }
            known.insert(u, (of, alignment));
            Ok(())
        });
        let mut bad = bad.map_err(io)?;
        let torn = !ends_in_line(&mut file).map_err(io)?;
        // The file ends within its last line, because the machine stopped while writing. That utterance is aligned
        // again.
        if torn && cut {
            bad.pop();
        }
        if let Some(first) = bad.into_iter().next() {
            return Err(JournalError::Foreign { path: path.to_path_buf(), line: first.line, reason: first.reason });
        }
        let stale = torn || known.len() != count;
        let mut journal = Self { path: path.to_path_buf(), file, known, stale };
        journal.finish()?;
        Ok(journal)
    }

    /// Returns true if the journal contains labels of the utterance.
    pub fn knows(&self, id: &str) -> bool {
        self.known.contains_key(id)
    }

    /// Returns the labels of the utterance if their digest is `of`.
    pub fn find(&self, id: &str, of: &str) -> Option<&Alignment> {
        self.known.get(id).filter(|(known, _)| known == of).map(|(_, alignment)| alignment)
    }

    /// Returns the labels of the utterance, whatever their digest.
    pub fn any(&self, id: &str) -> Option<&Alignment> {
        self.known.get(id).map(|(_, alignment)| alignment)
    }

    /// Stores the labels of an utterance.
    ///
    /// # Errors
    /// [`JournalError::Io`].
    pub fn add(&mut self, id: &str, of: String, alignment: Alignment) -> Result<(), JournalError> {
        // A single write call, so that only the last line can be incomplete.
        let line = line(id, &of, &alignment);
        self.file.write_all(line.as_bytes()).map_err(|source| self.io(source))?;
        self.stale |= self.known.insert(id.to_owned(), (of, alignment)).is_some();
        Ok(())
    }

    /// Makes all lines durable and removes outdated ones.
    ///
    /// # Errors
    /// [`JournalError::Io`].
    pub fn finish(&mut self) -> Result<(), JournalError> {
        if self.stale {
            self.file = self.rewrite().map_err(|source| self.io(source))?;
            self.stale = false;
        }
        self.file.sync_all().map_err(|source| self.io(source))
    }

    /// Writes a new file, locks it, and renames it over this one.
    fn rewrite(&self) -> std::io::Result<File> {
        let mut name = self.path.as_os_str().to_owned();
        name.push(".partial");
        let partial = PathBuf::from(name);
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
        let text: String = self.known.iter().map(|(id, (of, alignment))| line(id, of, alignment)).collect();
        file.write_all(text.as_bytes())?;
        file.lock()?;
        file.sync_all()?;
        std::fs::rename(&partial, &self.path)?;
        Ok(file)
    }

    fn io(&self, source: std::io::Error) -> JournalError {
        JournalError::Io { path: self.path.clone(), source }
    }
}

impl Drop for Journal {
    /// Releases the lock explicitly. A lock belongs to the open file, which a child process shares until it executes
    /// its program. Closing alone would keep the file locked until then.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

fn line(id: &str, of: &str, alignment: &Alignment) -> String {
    let runs = alignment.runs.iter().map(|(class, frames)| (u64::from(*class), u64::from(*frames))).collect();
    let line = JournalLine { u: id.to_owned(), of: of.to_owned(), frames: alignment.frames as u64, runs };
    let mut text = serde_json::to_string(&line).expect("a line is plain text and whole numbers");
    text.push('\n');
    text
}

fn ends_in_line(file: &mut File) -> std::io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(true);
    }
    let mut last = [0];
    file.seek(std::io::SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
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
        let mut journal = Journal::open(&path).unwrap();
        for (id, class) in [("a", 1), ("b", 2), ("c", 3)] {
            journal.add(id, format!("of {id}"), alignment(class)).unwrap();
        }
        path
    }

    #[test]
    fn journal_finds_labels_of_the_same_recording_only() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::open(&three(dir.path())).unwrap();
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
            let mut journal = Journal::open(&path).unwrap();
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
        let mut journal = Journal::open(&path).unwrap();
        journal.add("b", "of b, corrected".to_owned(), alignment(9)).unwrap();
        journal.finish().unwrap();
        let labels = read(&path, &LabelOptions::default()).unwrap().alignments;
        assert_eq!((labels.by_id["b"].runs()[0].0, labels.by_id.len(), labels.bad_lines.len()), (9, 3, 0));
        journal.add("b", "of b, again".to_owned(), alignment(8)).unwrap();
        drop(journal);
        let reopened = Journal::open(&path).unwrap();
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
            let refused = Journal::open(&path).err().unwrap().to_string();
            assert!(refused.contains("leave --align out") && refused.contains("line 1"), "{refused}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
        }
    }

    #[test]
    fn second_writer_of_a_journal_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = three(dir.path());
        let first = Journal::open(&path).unwrap();
        assert!(matches!(Journal::open(&path), Err(JournalError::Busy(_))));
        drop(first);
        let mut second = Journal::open(&path).unwrap();
        second.add("a", "new".to_owned(), alignment(5)).unwrap();
        second.finish().unwrap();
        assert!(matches!(Journal::open(&path), Err(JournalError::Busy(_))), "also after it was rewritten");
    }
}
