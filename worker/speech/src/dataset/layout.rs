//! The bytes of `data.bin`: header, utterances, index. Little-endian throughout.
//!
//! ```text
//! header      64 bytes: magic "UNDRTONE", version u32, inputs u32, classes u32, utterances u32, speakers u32, users u32,
//!                       frames u64, index offset u64, index length u64, file length u64
//! utterances  each, at a multiple of 4: features f32 [frames, inputs] row-major, labels u16 [frames], 0..2 bytes of 0
//! index       per speaker:   name length u16, name (UTF-8)
//!             per user:      name length u16, name (UTF-8)
//!             per utterance: offset u64, frames u32, speaker u32, [user u32,] split u8, id length u16, id (UTF-8)
//! ```
//! Version 2 added the column of users. A dataset without users has version 1 and the same bytes as before. This module
//! handles bytes only; it checks every length before use.

use std::path::Path;

use super::{DatasetError, Split};

#[cfg(target_endian = "big")]
compile_error!("datasets are mapped as little-endian numbers; this target is big-endian");

/// The layout version of a dataset without a column of users.
pub const VERSION: u32 = 1;
/// The layout version of a dataset with users, and the newest that this worker reads.
pub const WITH_USERS: u32 = 2;
/// The first bytes of every `data.bin`.
pub const MAGIC: [u8; 8] = *b"UNDRTONE";
/// Length of the header in bytes.
pub const HEADER_LEN: usize = 64;

/// The first bytes of the file, decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileHeader {
    /// Coefficients per frame, at least 1.
    pub(super) inputs: u32,
    /// Number of classes, 1 to 65,536.
    pub(super) classes: u32,
    /// Number of utterances in the index.
    pub(super) utterances: u32,
    /// Number of speakers in the index.
    pub(super) speakers: u32,
    /// Number of users in the index; 0 without a column of users.
    pub(super) users: u32,
    /// Number of frames of all utterances.
    pub(super) frames: u64,
    /// Offset of the index in bytes.
    pub(super) index_offset: u64,
    /// Length of the index in bytes.
    pub(super) index_len: u64,
    /// Length of the file in bytes.
    pub(super) file_len: u64,
}

impl FileHeader {
    /// Returns the layout version for this content.
    pub(super) fn version(&self) -> u32 {
        if self.users == 0 { VERSION } else { WITH_USERS }
    }

    /// Returns the header's bytes.
    pub(super) fn write(&self) -> [u8; HEADER_LEN] {
        let mut bytes = Vec::with_capacity(HEADER_LEN);
        bytes.extend(MAGIC);
        for word in [self.version(), self.inputs, self.classes, self.utterances, self.speakers, self.users] {
            bytes.extend(word.to_le_bytes());
        }
        for word in [self.frames, self.index_offset, self.index_len, self.file_len] {
            bytes.extend(word.to_le_bytes());
        }
        let mut header = [0; HEADER_LEN];
        header.copy_from_slice(&bytes);
        header
    }

    /// Reads and checks the header of a whole file.
    pub(super) fn read(file: &[u8], path: &Path) -> Result<Self, DatasetError> {
        let foreign = |reason| DatasetError::Foreign { path: path.to_path_buf(), reason };
        let mut cursor = ByteCursor { bytes: file };
        if cursor.take(MAGIC.len()) != Some(&MAGIC) {
            return Err(foreign("its first bytes are not UNDRTONE"));
        }
        let found = cursor.u32().ok_or_else(|| foreign("it ends within its header"))?;
        if !(VERSION..=WITH_USERS).contains(&found) {
            return Err(DatasetError::Version { path: path.to_path_buf(), found, supported: WITH_USERS });
        }
        let header = Self::fields(&mut cursor).ok_or_else(|| foreign("it ends within its header"))?;
        if header.file_len != file.len() as u64 {
            let (expected, found) = (header.file_len, file.len() as u64);
            return Err(DatasetError::Length { path: path.to_path_buf(), expected, found });
        }
        let end = header.index_offset.checked_add(header.index_len);
        let orderly = header.index_offset >= HEADER_LEN as u64 && end == Some(header.file_len);
        if !orderly || header.version() != found || header.inputs == 0 || !(1..=65_536).contains(&header.classes) {
            let reason = "its header contradicts itself".to_owned();
            return Err(DatasetError::Damaged { path: path.to_path_buf(), reason });
        }
        Ok(header)
    }

    fn fields(cursor: &mut ByteCursor<'_>) -> Option<Self> {
        let (inputs, classes, utterances, speakers) = (cursor.u32()?, cursor.u32()?, cursor.u32()?, cursor.u32()?);
        let users = cursor.u32()?;
        Some(Self {
            inputs,
            classes,
            utterances,
            speakers,
            users,
            frames: cursor.u64()?,
            index_offset: cursor.u64()?,
            index_len: cursor.u64()?,
            file_len: cursor.u64()?,
        })
    }
}

/// The location of one utterance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IndexEntry {
    /// First byte of its features, a multiple of 4.
    pub(super) offset: u64,
    /// Number of frames, at least 1.
    pub(super) frames: u32,
    /// Number of its speaker.
    pub(super) speaker: u32,
    /// Number of its user; set for every utterance or for none.
    pub(super) user: Option<u32>,
    /// Its permitted use.
    pub(super) split: Split,
    /// Its id.
    pub(super) id: Box<str>,
}

impl IndexEntry {
    /// Returns the length of its features and labels in bytes, without padding.
    pub(super) fn len(frames: u32, inputs: u32) -> Option<u64> {
        let frame = u64::from(inputs).checked_mul(size_of::<f32>() as u64)? + size_of::<u16>() as u64;
        frame.checked_mul(u64::from(frames))
    }
}

/// The last part of the file, decoded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct DatasetIndex {
    /// Names of speakers by number.
    pub(super) speakers: Vec<Box<str>>,
    /// Names of users by number; empty without a column of users.
    pub(super) users: Vec<Box<str>>,
    /// Utterances by number.
    pub(super) entries: Vec<IndexEntry>,
}

impl DatasetIndex {
    /// Returns the index's bytes. Names and ids have at most 65,535 bytes, which `Writer` checks.
    pub(super) fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let text = |bytes: &mut Vec<u8>, text: &str| {
            bytes.extend((text.len() as u16).to_le_bytes());
            bytes.extend(text.as_bytes());
        };
        for name in self.speakers.iter().chain(&self.users) {
            text(&mut bytes, name);
        }
        for entry in &self.entries {
            bytes.extend(entry.offset.to_le_bytes());
            bytes.extend(entry.frames.to_le_bytes());
            bytes.extend(entry.speaker.to_le_bytes());
            bytes.extend(entry.user.into_iter().flat_map(u32::to_le_bytes));
            bytes.push(match entry.split {
                Split::Train => 0,
                Split::Test => 1,
            });
            text(&mut bytes, &entry.id);
        }
        bytes
    }

    /// Reads the index of a whole file with a valid header, and checks that every utterance is within the data part.
    pub(super) fn read(file: &[u8], header: &FileHeader, path: &Path) -> Result<Self, DatasetError> {
        let damaged = |reason: &str| DatasetError::Damaged { path: path.to_path_buf(), reason: reason.to_owned() };
        let mut cursor = ByteCursor { bytes: &file[header.index_offset as usize..] };
        let mut index = Self::default();
        for _ in 0..header.speakers {
            index.speakers.push(cursor.text().ok_or_else(|| damaged("its table of speakers is cut or not text"))?);
        }
        for _ in 0..header.users {
            index.users.push(cursor.text().ok_or_else(|| damaged("its table of users is cut or not text"))?);
        }
        let mut frames = 0;
        for _ in 0..header.utterances {
            let entry =
                cursor.entry(header.users > 0).ok_or_else(|| damaged("its table of utterances is cut or not text"))?;
            let end = IndexEntry::len(entry.frames, header.inputs).and_then(|len| len.checked_add(entry.offset));
            let inside = entry.offset >= HEADER_LEN as u64 && end.is_some_and(|end| end <= header.index_offset);
            let is_named = entry.speaker < header.speakers && entry.user.is_none_or(|user| user < header.users);
            if !inside || entry.offset % 4 != 0 || entry.frames == 0 || !is_named {
                return Err(damaged("an utterance lies outside the data"));
            }
            frames += u64::from(entry.frames);
            index.entries.push(entry);
        }
        if !cursor.bytes.is_empty() || frames != header.frames {
            return Err(damaged("its table of utterances does not add up"));
        }
        Ok(index)
    }
}

/// Reads forward and never past the end.
struct ByteCursor<'a> {
    bytes: &'a [u8],
}

impl<'a> ByteCursor<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.bytes.split_at_checked(len)?;
        self.bytes = rest;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Option<Box<str>> {
        let len = u16::from_le_bytes(self.array()?);
        std::str::from_utf8(self.take(len.into())?).ok().map(Into::into)
    }

    fn entry(&mut self, of_users: bool) -> Option<IndexEntry> {
        let (offset, frames, speaker) = (self.u64()?, self.u32()?, self.u32()?);
        let user = if of_users { Some(self.u32()?) } else { None };
        let split = match self.array::<1>()? {
            [0] => Split::Train,
            [1] => Split::Test,
            _ => return None,
        };
        Some(IndexEntry { offset, frames, speaker, user, split, id: self.text()? })
    }
}
