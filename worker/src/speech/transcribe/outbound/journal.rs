//! What was sent and what was answered, one line each, on disk before anything is made of it.
//!
//! Lines are only ever added. One that was cut by a crash counts for nothing, nor does one that cannot be read: its sound is
//! sent again, bit for bit.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::OutboundError;
use crate::fault;
use crate::site::folder::{FolderError, sync_folder};
use crate::speech::transcribe::piece::Heard;

/// A line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// About to be sent: provider and place.
    Sent(u32, u32),
    /// Answered.
    Heard(u32, u32, Heard),
}

/// The journal, open for more.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    /// Its good length: what lies beyond was cut.
    bytes: u64,
    sent: BTreeMap<u32, u64>,
    heard: BTreeMap<(u32, u32), Heard>,
}

impl Journal {
    /// Reads the journal in `folder`, or begins one.
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
        let (sent, heard) = (BTreeMap::new(), BTreeMap::new());
        let mut journal = Self { path, file, bytes: whole as u64, sent, heard };
        for line in text[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            if let Ok(line) = serde_json::from_slice(line) {
                journal.take(line);
            }
        }
        Ok(journal)
    }

    pub(super) fn is_answered(&self, provider: u32, place: u32) -> bool {
        self.heard.contains_key(&(provider, place))
    }

    pub(super) fn sent(&self, provider: u32) -> u64 {
        self.sent.get(&provider).copied().unwrap_or(0)
    }

    pub(super) fn answers(&self) -> Vec<(u32, u32, Heard)> {
        self.heard.iter().map(|((provider, place), heard)| (*provider, *place, heard.clone())).collect()
    }

    /// That a sound leaves; on disk when this returns.
    pub(super) fn note_sent(&mut self, provider: u32, place: u32) -> Result<(), OutboundError> {
        self.add(Line::Sent(provider, place))
    }

    /// What was heard in it; on disk when this returns. The first answer holds.
    pub(super) fn note_answer(&mut self, provider: u32, place: u32, heard: Heard) -> Result<(), OutboundError> {
        if self.is_answered(provider, place) { Ok(()) } else { self.add(Line::Heard(provider, place, heard)) }
    }

    fn add(&mut self, line: Line) -> Result<(), OutboundError> {
        use std::io::Seek as _;
        let mut text = serde_json::to_vec(&line).map_err(|_| OutboundError::Damaged(self.path.clone()))?;
        text.push(b'\n');
        let mut write = || {
            // Over whatever half of a line an earlier failure left.
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

    fn take(&mut self, line: Line) {
        match line {
            Line::Sent(provider, _) => *self.sent.entry(provider).or_default() += 1,
            Line::Heard(provider, place, heard) => {
                self.heard.entry((provider, place)).or_insert(heard);
            }
        }
    }
}
