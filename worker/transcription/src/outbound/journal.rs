//! Journal of sent sounds and their answers, one line each, on disk before anything uses it.
//!
//! Lines are only appended. A line that a crash truncated, or that cannot be parsed, is ignored; its sound is sent again, bit
//! for bit.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::OutboundError;
use crate::piece::Recognition;
use undertone_worker_site::fault;
use undertone_worker_site::folder::{FolderError, sync_folder};

/// One line of the journal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum JournalLine {
    /// A sound is about to be sent: provider and place.
    Sent(u32, u32),
    /// A sound was answered: provider, place and words.
    Heard(u32, u32, Recognition),
}

/// The journal, open for appending.
#[derive(Debug)]
pub(super) struct DeliveryJournal {
    path: PathBuf,
    file: File,
    /// Length up to the last complete line; later bytes are a truncated line.
    bytes: u64,
    send_counts: BTreeMap<u32, u64>,
    answers: BTreeMap<(u32, u32), Recognition>,
}

impl DeliveryJournal {
    /// Reads the journal in `folder`, or creates one.
    pub(super) fn open(folder: &Path) -> Result<Self, OutboundError> {
        let path = folder.join("answers");
        let text = match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            read => read.map_err(FolderError::io("read", &path))?,
        };
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&path).map_err(FolderError::io("open", &path))?;
        sync_folder(folder)?;
        let mut journal =
            Self { path, file, bytes: whole as u64, send_counts: BTreeMap::new(), answers: BTreeMap::new() };
        for line in text[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            if let Ok(line) = serde_json::from_slice(line) {
                journal.take(line);
            }
        }
        Ok(journal)
    }

    pub(super) fn is_answered(&self, provider: u32, place: u32) -> bool {
        self.answers.contains_key(&(provider, place))
    }

    pub(super) fn send_count(&self, provider: u32) -> u64 {
        self.send_counts.get(&provider).copied().unwrap_or(0)
    }

    pub(super) fn answers(&self) -> Vec<(u32, u32, Recognition)> {
        self.answers.iter().map(|((provider, place), words)| (*provider, *place, words.clone())).collect()
    }

    /// Records that a sound leaves. The line is on disk when this returns.
    pub(super) fn note_sent(&mut self, provider: u32, place: u32) -> Result<(), OutboundError> {
        self.add(JournalLine::Sent(provider, place))
    }

    /// Records an answer. The line is on disk when this returns. Only the first answer of a sound counts.
    pub(super) fn note_answer(
        &mut self,
        provider: u32,
        place: u32,
        recognition: Recognition,
    ) -> Result<(), OutboundError> {
        if self.is_answered(provider, place) {
            Ok(())
        } else {
            self.add(JournalLine::Heard(provider, place, recognition))
        }
    }

    fn add(&mut self, line: JournalLine) -> Result<(), OutboundError> {
        use std::io::Seek as _;
        let mut text = serde_json::to_vec(&line).map_err(|_| OutboundError::Damaged(self.path.clone()))?;
        text.push(b'\n');
        let mut write = || {
            // Overwrites the partial line of an earlier failed write.
            self.file.set_len(self.bytes)?;
            self.file.seek(std::io::SeekFrom::Start(self.bytes))?;
            self.file.write_all(&text)?;
            fault::disk(fault::BEFORE_SYNC)?;
            self.file.sync_data()
        };
        write().map_err(FolderError::io("write", &self.path))?;
        self.bytes += text.len() as u64;
        self.take(line);
        Ok(())
    }

    fn take(&mut self, line: JournalLine) {
        match line {
            JournalLine::Sent(provider, _) => *self.send_counts.entry(provider).or_default() += 1,
            JournalLine::Heard(provider, place, recognition) => {
                self.answers.entry((provider, place)).or_insert(recognition);
            }
        }
    }
}
