//! Reads recordings: FLAC or WAV of any rate and any number of channels becomes mono at 16 kHz.
//!
//! A file is either read completely and correctly, or rejected with the reason: a damaged frame is never skipped, a
//! short file never padded. FLAC content is compared with the checksum in its header. The decoders process untrusted
//! files, so the length is limited before decoding. [`read`] returns a whole recording, a [`Stream`] returns blocks.

pub(crate) mod error;
pub(crate) mod resample;
pub mod stream;

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};

pub use self::error::{AudioError, Problem};
pub use self::resample::RATE;
pub use self::stream::Stream;

/// Default limit of a recording's length, seconds.
pub const LONGEST: f64 = 60.0;

/// A decoded recording.
#[derive(Clone, PartialEq)]
pub struct DecodedAudio {
    /// Mono at [`RATE`], full scale = 1.
    pub samples: Vec<f32>,
    /// The rate of the recording, Hz.
    pub source_rate: u32,
    /// The number of channels of the recording, which were averaged.
    pub channels: usize,
}

impl DecodedAudio {
    /// Returns the length in seconds.
    pub fn seconds(&self) -> f64 {
        self.samples.len() as f64 / f64::from(RATE)
    }
}

/// Prints the amount of audio without its content: recordings do not belong in logs.
impl std::fmt::Debug for DecodedAudio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { samples, source_rate, channels } = self;
        write!(f, "Audio({} samples, from {channels} channels at {source_rate} Hz)", samples.len())
    }
}

/// The digests that identify a recording when it occurs again, in the same file or in another lossless file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceDigest {
    /// SHA-256 of the file's bytes.
    pub file: [u8; 32],
    /// SHA-256 of the decoded samples.
    pub audio: [u8; 32],
}

impl SourceDigest {
    /// Reads the file at `path`, whose decoded samples are `samples`, and returns both digests.
    ///
    /// # Errors
    /// [`AudioError`] if the file cannot be read.
    pub fn read(path: &Path, samples: &[f32]) -> Result<Self, AudioError> {
        let refused = |source| AudioError { path: path.to_path_buf(), problem: Problem::Open(source) };
        let mut audio = SampleHash::default();
        audio.update(samples);
        Ok(Self { file: digest_of_file(path).map_err(refused)?, audio: audio.finish() })
    }
}

/// SHA-256 of samples in blocks.
#[derive(Debug, Clone, Default)]
pub struct SampleHash(Sha256);

impl SampleHash {
    /// Adds the next samples.
    pub fn update(&mut self, samples: &[f32]) {
        for sample in samples {
            self.0.update(sample.to_le_bytes());
        }
    }

    /// Returns the digest of all samples.
    pub fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}

/// Returns the SHA-256 of a file's bytes.
pub(super) fn digest_of_file(path: &Path) -> std::io::Result<[u8; 32]> {
    let (mut file, mut hash, mut buffer) = (File::open(path)?, Sha256::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hash.finalize().into()),
            read => hash.update(&buffer[..read]),
        }
    }
}

/// Reads the recording at `path`, up to `longest` seconds.
///
/// # Errors
/// [`AudioError`] with the file and the problem.
pub fn read(path: &Path, longest: f64) -> Result<DecodedAudio, AudioError> {
    let mut stream = Stream::open(path, longest)?;
    let mut samples = Vec::new();
    for block in &mut stream {
        samples.extend(block?);
    }
    Ok(DecodedAudio { samples, source_rate: stream.source_rate(), channels: stream.channels() })
}

#[cfg(test)]
mod tests;
