//! Reads a recording: FLAC or WAV of any rate and any number of channels becomes mono at 16 kHz.
//!
//! A file is either read whole and right, or refused with the reason: a damaged frame is never skipped, a short file
//! never padded. FLAC content is held against the checksum in its header. Decoders run on files that others wrote, so the
//! length is limited before anything is decoded.

use std::fs::File;
use std::path::{Path, PathBuf};

use rubato::audioadapter_buffers::direct::InterleavedSlice;
use rubato::{Fft, FixedSync, Resampler};
use symphonia::core::codecs::audio::AudioDecoderOptions;
use symphonia::core::errors::Error;
use symphonia::core::formats::probe::Hint;
use symphonia::core::formats::{FormatOptions, FormatReader, TrackType};
use symphonia::core::io::{MediaSourceStream, MediaSourceStreamOptions};
use symphonia::core::meta::MetadataOptions;

/// The rate of everything downstream, Hz.
pub const RATE: u32 = 16_000;
/// The longest recording that is read unless told otherwise, seconds.
pub const LONGEST: f64 = 60.0;
/// The sampling rates that are believed, Hz.
const RATES: std::ops::RangeInclusive<u32> = 4_000..=384_000;
/// Least length of the resampling filter, in samples of the original.
const CHUNK: usize = 1_024;

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
    let read = || {
        let (mono, source_rate, channels) = decode(path, longest)?;
        let samples = resample(mono, source_rate)?;
        Ok(Audio { samples, source_rate, channels })
    };
    read().map_err(|problem| AudioError { path: path.to_path_buf(), problem })
}

/// Decodes the whole file: mono samples, rate, number of channels.
fn decode(path: &Path, longest: f64) -> Result<(Vec<f32>, u32, usize), Problem> {
    let mut format = open(path)?;
    let broken = |error: Error| Problem::Broken(error.to_string());
    let track = format.default_track(TrackType::Audio).ok_or_else(|| Problem::Format("no audio track".to_owned()))?;
    let (id, stated) = (track.id, track.num_frames);
    let params = track.codec_params.as_ref().and_then(|params| params.audio());
    let params = params.ok_or_else(|| Problem::Format("no audio codec".to_owned()))?;
    let rate = params.sample_rate.filter(|rate| RATES.contains(rate));
    let rate = rate.ok_or(Problem::Rate(params.sample_rate.unwrap_or(0)))?;
    let limit = |frames: u64| {
        let seconds = frames as f64 / f64::from(rate);
        if seconds > longest { Err(Problem::TooLong { seconds, limit: longest }) } else { Ok(()) }
    };
    limit(stated.unwrap_or(0))?;
    let options = AudioDecoderOptions::default().verify(true);
    let mut decoder = symphonia::default::get_codecs()
        .make_audio_decoder(params, &options)
        .map_err(|error| Problem::Format(error.to_string()))?;

    let (mut mono, mut channels, mut packet_samples) = (Vec::new(), 0, Vec::<f32>::new());
    while let Some(packet) = format.next_packet().map_err(broken)? {
        if packet.track_id != id {
            continue;
        }
        let buffer = decoder.decode(&packet).map_err(broken)?;
        let width = buffer.spec().channels().count();
        if width == 0 || (channels != 0 && width != channels) || buffer.spec().rate() != rate {
            return Err(Problem::Broken("rate or channels change within it".to_owned()));
        }
        channels = width;
        buffer.copy_to_vec_interleaved(&mut packet_samples);
        mono.extend(packet_samples.chunks_exact(channels).map(|frame| frame.iter().sum::<f32>() / channels as f32));
        limit(mono.len() as u64)?;
    }
    match stated {
        Some(stated) if stated != mono.len() as u64 => {
            Err(Problem::Broken(format!("{} samples of the {stated} that its header states", mono.len())))
        }
        _ if decoder.finalize().verify_ok == Some(false) => {
            Err(Problem::Broken("its samples do not have the checksum that its header states".to_owned()))
        }
        _ if mono.is_empty() => Err(Problem::Empty),
        _ if !mono.iter().all(|sample| sample.is_finite()) => {
            Err(Problem::Broken("a sample is not a number".to_owned()))
        }
        _ => Ok((mono, rate, channels)),
    }
}

/// Finds out what the file is.
fn open(path: &Path) -> Result<Box<dyn FormatReader>, Problem> {
    let file = File::open(path).map_err(Problem::Open)?;
    let metadata = file.metadata().map_err(Problem::Open)?;
    if !metadata.is_file() {
        return Err(Problem::Format("not a regular file".to_owned()));
    }
    if metadata.len() == 0 {
        return Err(Problem::Empty);
    }
    let stream = MediaSourceStream::new(Box::new(file), MediaSourceStreamOptions::default());
    let probe = symphonia::default::get_probe();
    probe.probe(&Hint::new(), stream, FormatOptions::default(), MetadataOptions::default()).map_err(|error| match error
    {
        Error::DecodeError(reason) => Problem::Broken(reason.to_owned()),
        other => Problem::Format(other.to_string()),
    })
}

/// Brings mono samples to [`RATE`] with a synchronous FFT resampler (band-limited; delay removed).
pub(super) fn resample(mono: Vec<f32>, rate: u32) -> Result<Vec<f32>, Problem> {
    if rate == RATE {
        return Ok(mono);
    }
    let broken = |error: &dyn std::fmt::Display| Problem::Broken(format!("cannot be resampled, {error}"));
    // The filter is symmetric about a sample, and its delay a whole number of samples, only if the block is even.
    let block = 2 * (rate / gcd(rate, RATE)) as usize;
    let chunk = block * CHUNK.div_ceil(block);
    let mut resampler =
        Fft::<f32>::new(rate as usize, RATE as usize, chunk, 1, FixedSync::Both).map_err(|error| broken(&error))?;
    let input = InterleavedSlice::new(&mono, 1, mono.len()).map_err(|error| broken(&error))?;
    let output = resampler.process_all(&input, mono.len(), None).map_err(|error| broken(&error))?;
    Ok(output.take_data())
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests;
