//! A dataset of recordings: sound files as they are, each perhaps with what is said in it, for jobs that transcribe.
//!
//! The files are copied into the site's folder, so that what a job was approved for is what it reads. A description lists them
//! with lengths and digests. Names of recordings stay in it and in the site's own results: no log and no server has them. A
//! reference transcript is a text beside its recording with the same name; it is for measuring at the site, nothing else
//! reads it.
//!
//! In the folder: `meta.json` ([`Meta`], written last), `audio/N.wav` or `.flac`, `references/N.txt`, numbered from 0; `lineage.json`, which
//! accounts it is charged to.

mod add;
mod names;

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use undertone_api::dataset::Content;

use super::audio::{AudioError, RATE, Stream, digest_of_file};
use super::dataset::{DatasetError, META_FILE};

#[cfg(test)]
pub(crate) use add::DEEPEST;
pub use add::{AddError, Added, Options, add, add_to_lineage};
pub use names::collision;

/// Version of the description.
pub const FORMAT: u32 = 1;
/// The longest recording, seconds: a day.
pub const LONGEST: f64 = 86_400.0;
/// Most recordings of a dataset.
pub const MOST: usize = 100_000;
/// The largest reference transcript, bytes.
pub const LARGEST_REFERENCE: u64 = 16 << 20;

/// One recording.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// What its owner calls it: its path below the folder it came from, without the ending.
    pub name: String,
    /// The file below `audio/`.
    pub file: String,
    /// Samples, as it is heard: mono at 16 kHz.
    pub samples: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// SHA-256 of the file, hexadecimal.
    pub digest: String,
    /// The file below `references/`, with its digest; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<(String, String)>,
}

/// Its length and never its name: names of recordings do not belong in logs.
impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Recording({} samples)", self.samples)
    }
}

/// What a dataset is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// Always [`Content::Recordings`]: tells it from other datasets.
    pub content: Content,
    /// Version, see [`FORMAT`].
    pub format: u32,
    /// The name its owner gave it.
    pub name: String,
    /// The recordings, in the order of their names.
    pub recordings: Vec<Recording>,
    /// When it was written (RFC 3339, UTC). Not part of the digest.
    pub created: String,
    /// SHA-256 of the digests of all recordings in their order, each on a line; hexadecimal.
    pub digest: String,
}

impl Meta {
    /// Seconds of audio, rounded up.
    pub fn seconds(&self) -> u64 {
        let samples: u64 = self.recordings.iter().map(|recording| recording.samples).sum();
        samples.div_ceil(u64::from(RATE))
    }
}

/// The digest of these recordings.
fn digest(recordings: &[Recording]) -> String {
    let mut hash = Sha256::new();
    for recording in recordings {
        hash.update(format!("{}\n", recording.digest));
    }
    hex::encode(hash.finalize())
}

/// An open dataset. Costs no memory beside its description; recordings are read as streams.
#[derive(Debug, Clone)]
pub struct Recordings {
    folder: PathBuf,
    meta: Meta,
}

impl Recordings {
    /// Opens the dataset in `folder` by its description.
    ///
    /// # Errors
    /// [`DatasetError`] that names the file and what is wrong with it.
    pub fn open(folder: &Path) -> Result<Self, DatasetError> {
        let meta = read_meta(folder)?;
        if meta.digest != digest(&meta.recordings) {
            let reason = "its digest is not that of the recordings it lists".to_owned();
            return Err(DatasetError::Damaged { path: folder.join(META_FILE), reason });
        }
        Ok(Self { folder: folder.to_owned(), meta })
    }

    /// As [`Recordings::open`], and reads every file once to see that it is whole.
    ///
    /// # Errors
    /// [`DatasetError`] for the first file that is not what it was.
    pub fn check(folder: &Path) -> Result<Self, DatasetError> {
        let recordings = Self::open(folder)?;
        for recording in &recordings.meta.recordings {
            whole(&recordings.path(recording), recording)?;
        }
        Ok(recordings)
    }

    /// What it is.
    pub const fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The samples of a recording, block by block. It is the file that was added, to the byte.
    ///
    /// # Errors
    /// [`RecordingError`] when it cannot be read, or is another file than was added.
    pub fn stream(&self, recording: &Recording) -> Result<Stream, RecordingError> {
        self.opened(recording, |path| Stream::open(path, LONGEST))
    }

    /// Opens the file of a recording, and looks whether it is whole only then: what was opened stays open, so that another file
    /// in its place makes the look fail.
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

    /// What is said in a recording, where somebody wrote that down.
    ///
    /// # Errors
    /// [`DatasetError`] when the text cannot be read, or is another one than was added.
    pub fn reference(&self, recording: &Recording) -> Result<Option<String>, DatasetError> {
        let Some((name, expected)) = &recording.reference else { return Ok(None) };
        let path = self.folder.join("references").join(name);
        let text = fs::read_to_string(&path).map_err(DatasetError::io("read", &path))?;
        let found = hex::encode(Sha256::digest(&text));
        if found == *expected {
            Ok(Some(text))
        } else {
            Err(DatasetError::Digest { path, expected: expected.clone(), found })
        }
    }

    fn path(&self, recording: &Recording) -> PathBuf {
        self.folder.join("audio").join(&recording.file)
    }
}

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The file.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// What is in it.
    #[error(transparent)]
    Audio(#[from] AudioError),
}

/// That a file is what it was when it was added.
fn whole(path: &Path, recording: &Recording) -> Result<(), DatasetError> {
    let found = fs::metadata(path).map_err(DatasetError::io("read", path))?.len();
    if found != recording.bytes {
        return Err(DatasetError::Length { path: path.to_owned(), expected: recording.bytes, found });
    }
    let found = digest_of(path).map_err(DatasetError::io("read", path))?;
    if found == recording.digest {
        Ok(())
    } else {
        Err(DatasetError::Digest { path: path.to_owned(), expected: recording.digest.clone(), found })
    }
}

fn digest_of(path: &Path) -> std::io::Result<String> {
    digest_of_file(path).map(hex::encode)
}

/// Reads the description alone, without opening any recording: for lists.
///
/// # Errors
/// [`DatasetError`] if there is none, if it is of other data, or of another version.
pub fn read_meta(folder: &Path) -> Result<Meta, DatasetError> {
    /// The fields every version has.
    #[derive(Deserialize)]
    struct Versioned {
        content: Content,
        format: u32,
    }
    let path = folder.join(META_FILE);
    let text = fs::read(&path).map_err(DatasetError::io("read", &path))?;
    let Ok(Versioned { content: Content::Recordings, format: found }) = serde_json::from_slice(&text) else {
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
    use crate::speech::audio::Stream;
    use crate::speech::transcribe::wav;

    fn options(folder: &Path, level: f32, replace: bool) -> Options {
        let input = folder.join("in");
        std::fs::create_dir_all(&input).unwrap();
        std::fs::write(input.join("a.wav"), wav::write(&vec![level; 16_000])).unwrap();
        Options { input, output: folder.join("data/ward"), name: "ward".to_owned(), replace, created: String::new() }
    }

    #[test]
    fn a_dataset_that_is_replaced_between_opening_and_looking_is_not_read() {
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
        // What was opened and looked at before is the old file to its end.
        let samples: Vec<f32> = before.flat_map(Result::unwrap).collect();
        assert_eq!(samples.len() as u64, first.samples);
        assert!(samples.iter().all(|sample| (sample - 0.25).abs() < 1e-3));
    }
}
