//! A dataset of recordings: unchanged audio files, optionally with reference transcripts, for transcription jobs.
//!
//! The files are copied into the site's folder, so that a job reads exactly the approved content. A description lists
//! them with lengths and digests. Names of recordings stay in the description and in the site's own results: no log and
//! no server receives them. A reference transcript is a text file next to its recording with the same name. It is used
//! only to measure transcription quality at the site.
//!
//! The folder contains `meta.json` ([`Meta`], written last), `audio/N.wav` or `.flac`, `references/N.txt`, numbered
//! from 0, and `lineage.json`, which identifies the accounts of the dataset.

mod add;
mod names;

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use undertone_api::dataset::DatasetContent;

use super::audio::digest_of_file;
use super::audio::error::AudioError;
use super::audio::resample::RATE;
use super::audio::stream::Stream;
use super::dataset::{DatasetError, META_FILE};

pub use add::{AddError, AddSummary, DEEPEST, Options, add, add_to_lineage};
pub use names::collision;

/// Version of the description.
pub const FORMAT: u32 = 1;
/// Maximum length of a recording, seconds: a day.
pub const LONGEST: f64 = 86_400.0;
/// Maximum number of recordings in a dataset.
pub const MOST: usize = 100_000;
/// Maximum size of a reference transcript, bytes.
pub const LARGEST_REFERENCE: u64 = 16 << 20;

/// One recording.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// Its name: the path below the source folder, without the file name extension.
    pub name: String,
    /// The file name below `audio/`.
    pub file: String,
    /// Number of decoded samples: mono at 16 kHz.
    pub samples: u64,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// SHA-256 of the file, hexadecimal.
    pub digest: String,
    /// The file name below `references/` with its digest; absent without a reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<(String, String)>,
}

/// Prints the length without the name: names of recordings do not belong in logs.
impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Recording({} samples)", self.samples)
    }
}

/// The description of a dataset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// Always [`DatasetContent::Recordings`], which distinguishes it from other datasets.
    pub content: DatasetContent,
    /// Version, see [`FORMAT`].
    pub format: u32,
    /// The name its owner gave it.
    pub name: String,
    /// The recordings, in the order of their names.
    pub recordings: Vec<Recording>,
    /// Time of writing (RFC 3339, UTC). Not part of the digest.
    pub created: String,
    /// SHA-256 of the digests of all recordings in order, one per line; hexadecimal.
    pub digest: String,
}

impl Meta {
    /// Returns the length of the audio in seconds, rounded up.
    pub fn seconds(&self) -> u64 {
        let samples: u64 = self.recordings.iter().map(|recording| recording.samples).sum();
        samples.div_ceil(u64::from(RATE))
    }
}

/// Returns the digest of `recordings`.
fn digest(recordings: &[Recording]) -> String {
    let mut hash = Sha256::new();
    for recording in recordings {
        hash.update(format!("{}\n", recording.digest));
    }
    hex::encode(hash.finalize())
}

/// An open dataset. It keeps only the description in memory; recordings are read as streams.
#[derive(Debug, Clone)]
pub struct Recordings {
    folder: PathBuf,
    meta: Meta,
}

impl Recordings {
    /// Opens the dataset in `folder` by its description.
    ///
    /// # Errors
    /// [`DatasetError`] with the file and the problem.
    pub fn open(folder: &Path) -> Result<Self, DatasetError> {
        let meta = read_meta(folder)?;
        if meta.digest != digest(&meta.recordings) {
            let reason = "its digest is not that of the recordings it lists".to_owned();
            return Err(DatasetError::Damaged { path: folder.join(META_FILE), reason });
        }
        Ok(Self { folder: folder.to_owned(), meta })
    }

    /// Opens a dataset as [`Recordings::open`] does, and reads every file once to verify it.
    ///
    /// # Errors
    /// [`DatasetError`] for the first file that has changed.
    pub fn check(folder: &Path) -> Result<Self, DatasetError> {
        let recordings = Self::open(folder)?;
        for recording in &recordings.meta.recordings {
            whole(&recordings.path(recording), recording)?;
        }
        Ok(recordings)
    }

    /// Returns the description.
    pub const fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Returns the samples of a recording, block by block. The file is verified to be the added one, to the byte.
    ///
    /// # Errors
    /// [`RecordingError`] if the file cannot be read or has changed.
    pub fn stream(&self, recording: &Recording) -> Result<Stream, RecordingError> {
        self.opened(recording, |path| Stream::open(path, LONGEST))
    }

    /// Opens the file of a recording and verifies it afterwards. The opened file stays open, so the verification fails
    /// if another file replaced it.
    fn opened<T>(
        &self,
        recording: &Recording,
        open: impl FnOnce(&Path) -> Result<T, AudioError>,
    ) -> Result<T, RecordingError> {
        let path = self.path(recording);
        let opened = open(&path)?;
        whole(&path, recording)?;
        Ok(opened)
    }

    /// Returns the reference transcript of a recording, if there is one.
    ///
    /// # Errors
    /// [`DatasetError`] if the text cannot be read or has changed.
    pub fn reference(&self, recording: &Recording) -> Result<Option<String>, DatasetError> {
        let Some((name, expected)) = &recording.reference else { return Ok(None) };
        let path = self.folder.join("references").join(name);
        let text = fs::read_to_string(&path).map_err(DatasetError::io("read", &path))?;
        let digest = hex::encode(Sha256::digest(&text));
        if digest == *expected {
            Ok(Some(text))
        } else {
            Err(DatasetError::Digest { path, expected: expected.clone(), found: digest })
        }
    }

    fn path(&self, recording: &Recording) -> PathBuf {
        self.folder.join("audio").join(&recording.file)
    }
}

/// Reasons why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The file cannot be read or has changed.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// The audio is invalid.
    #[error(transparent)]
    Audio(#[from] AudioError),
}

/// Checks that a file is unchanged since it was added.
fn whole(path: &Path, recording: &Recording) -> Result<(), DatasetError> {
    let bytes = fs::metadata(path).map_err(DatasetError::io("read", path))?.len();
    if bytes != recording.bytes {
        return Err(DatasetError::Length { path: path.to_owned(), expected: recording.bytes, found: bytes });
    }
    let digest = digest_of(path).map_err(DatasetError::io("read", path))?;
    if digest == recording.digest {
        Ok(())
    } else {
        Err(DatasetError::Digest { path: path.to_owned(), expected: recording.digest.clone(), found: digest })
    }
}

fn digest_of(path: &Path) -> std::io::Result<String> {
    digest_of_file(path).map(hex::encode)
}

/// Reads the description alone, without opening any recording, for lists.
///
/// # Errors
/// [`DatasetError`] if the description is missing, describes other data, or has another version.
pub fn read_meta(folder: &Path) -> Result<Meta, DatasetError> {
    /// The fields that every version has.
    #[derive(Deserialize)]
    struct VersionFields {
        content: DatasetContent,
        format: u32,
    }
    let path = folder.join(META_FILE);
    let text = fs::read(&path).map_err(DatasetError::io("read", &path))?;
    let Ok(VersionFields { content: DatasetContent::Recordings, format: found }) = serde_json::from_slice(&text) else {
        return Err(DatasetError::Foreign { path, reason: "it does not hold recordings" });
    };
    if found != FORMAT {
        return Err(DatasetError::Version { path, found, supported: FORMAT });
    }
    let damaged = |reason| DatasetError::Damaged { path: path.clone(), reason };
    let meta: Meta =
        serde_json::from_slice(&text).map_err(|source| damaged(format!("unreadable description, {source}")))?;
    let plain = |name: &str| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.') && !name.contains("..")
    };
    let own = |recording: &Recording| {
        plain(&recording.file) && recording.reference.as_ref().is_none_or(|(name, _)| plain(name))
    };
    if !meta.recordings.iter().all(own) {
        return Err(damaged("it lists files that are not its own".to_owned()));
    }
    Ok(meta)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may fail")]

    use std::path::Path;

    use super::{LONGEST, Options, Recordings, add};
    use crate::audio::stream::Stream;
    use crate::wav;

    fn options(folder: &Path, level: f32, replace: bool) -> Options {
        let input = folder.join("in");
        std::fs::create_dir_all(&input).unwrap();
        std::fs::write(input.join("a.wav"), wav::write(&vec![level; 16_000])).unwrap();
        Options { input, output: folder.join("data/ward"), name: "ward".to_owned(), replace, created: String::new() }
    }

    #[test]
    fn dataset_replaced_while_opening_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        add(&options(folder.path(), 0.25, false)).unwrap();
        let old = Recordings::open(&folder.path().join("data/ward")).unwrap();
        let first = &old.meta().recordings[0];
        let before = old.stream(first).unwrap();
        let between = old.opened(first, |path| {
            let stream = Stream::open(path, LONGEST)?;
            add(&options(folder.path(), 0.5, true)).unwrap();
            Ok(stream)
        });
        assert!(between.is_err() && old.stream(first).is_err(), "another file has its place");
        // The stream that was opened and verified before reads the old file to its end.
        let samples: Vec<f32> = before.flat_map(Result::unwrap).collect();
        assert_eq!(samples.len() as u64, first.samples);
        assert!(samples.iter().all(|sample| (sample - 0.25).abs() < 1e-3));
    }
}
