//! Reads a recording: FLAC or WAV of any rate and any number of channels becomes mono at 16 kHz.
//!
//! A file is either read whole and right, or refused with the reason: a damaged frame is never skipped, a short file
//! never padded. FLAC content is held against the checksum in its header. Decoders run on files that others wrote, so the
//! length is limited before anything is decoded. [`read`] has a recording whole, a [`Stream`] in blocks.

mod resample;
pub mod stream;

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

pub use self::stream::Stream;

pub(super) use self::resample::resample;

/// The rate of everything downstream, Hz.
pub const RATE: u32 = 16_000;
/// The longest recording that is read unless told otherwise, seconds.
pub const LONGEST: f64 = 60.0;

/// A recording, ready for features.
#[derive(Clone, PartialEq)]
pub struct Audio {
    /// Mono at [`RATE`], full scale = 1.
    pub samples: Vec<f32>,
    /// The rate it was recorded at, Hz.
    pub source_rate: u32,
    /// The channels it was recorded with; they were averaged.
    pub channels: usize,
}

impl Audio {
    /// Its length in seconds.
    pub fn seconds(&self) -> f64 {
        self.samples.len() as f64 / f64::from(RATE)
    }
}

/// Says how much there is and never what: recordings do not belong in logs.
impl std::fmt::Debug for Audio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { samples, source_rate, channels } = self;
        write!(f, "Audio({} samples, from {channels} channels at {source_rate} Hz)", samples.len())
    }
}

/// By what a recording is recognized where it comes again: in the same file, or in another file without loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceDigest {
    /// SHA-256 of the file's bytes.
    pub file: [u8; 32],
    /// SHA-256 of its samples as they are read here.
    pub audio: [u8; 32],
}

impl SourceDigest {
    /// Reads the file at `path` once more, whose samples are these.
    ///
    /// # Errors
    /// [`AudioError`] when it cannot be read.
    pub fn read(path: &Path, samples: &[f32]) -> Result<Self, AudioError> {
        let refused = |source| AudioError { path: path.to_path_buf(), problem: Problem::Open(source) };
        let mut audio = SampleHash::default();
        audio.update(samples);
        Ok(Self { file: digest_of_file(path).map_err(refused)?, audio: audio.finish() })
    }
}

/// SHA-256 of samples that come in blocks.
#[derive(Debug, Clone, Default)]
pub struct SampleHash(Sha256);

impl SampleHash {
    /// Takes the next samples.
    pub fn update(&mut self, samples: &[f32]) {
        for sample in samples {
            self.0.update(sample.to_le_bytes());
        }
    }

    /// Returns the digest of all of them.
    pub fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}

/// SHA-256 of a file's bytes.
pub(super) fn digest_of_file(path: &Path) -> std::io::Result<[u8; 32]> {
    let (mut file, mut hash, mut buffer) = (File::open(path)?, Sha256::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hash.finalize().into()),
            read => hash.update(&buffer[..read]),
        }
    }
}

/// A recording that was refused.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct AudioError {
    /// The file. For the site's own report, never for a log that leaves it.
    pub path: PathBuf,
    /// What is wrong with it.
    #[source]
    pub problem: Problem,
}

/// What is wrong with a recording.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The file system refused.
    #[error("cannot be opened")]
    Open(#[source] std::io::Error),
    /// Not a format that is read here.
    #[error("not a FLAC or WAV file of plain samples ({0}): convert it first")]
    Format(String),
    /// Damaged or cut.
    #[error("broken: {0}")]
    Broken(String),
    /// No sound in it.
    #[error("empty: it holds no sample")]
    Empty,
    /// A rate nobody records speech at.
    #[error("sampling rate {0} Hz: between 4000 and 384000 Hz is read")]
    Rate(u32),
    /// Longer than is allowed.
    #[error("too long: {seconds:.1} s, the limit is {limit} s (cut it, or raise --longest)")]
    TooLong {
        /// Its length as far as it is known, seconds.
        seconds: f64,
        /// The limit, seconds.
        limit: f64,
    },
}

/// Reads the recording at `path`, refusing more than `longest` seconds.
///
/// # Errors
/// [`AudioError`], naming the file and what is wrong.
pub fn read(path: &Path, longest: f64) -> Result<Audio, AudioError> {
    let mut stream = Stream::open(path, longest)?;
    let mut samples = Vec::new();
    for block in &mut stream {
        samples.extend(block?);
    }
    Ok(Audio { samples, source_rate: stream.source_rate(), channels: stream.channels() })
}

#[cfg(test)]
mod tests;
