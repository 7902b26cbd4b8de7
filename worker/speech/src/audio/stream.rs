//! Reads a recording block by block, so that memory use does not grow with its length.
//!
//! A [`Stream`] gives the same guarantees as reading a whole recording, but at its end: only a caller that reaches the
//! end without an error knows that the recording is complete. The blocks before an error must be discarded.

use std::fs::File;
use std::path::{Path, PathBuf};

use symphonia::core::codecs::audio::{AudioDecoder, AudioDecoderOptions};
use symphonia::core::errors::Error;
use symphonia::core::formats::probe::Hint;
use symphonia::core::formats::{FormatOptions, FormatReader, TrackType};
use symphonia::core::io::{MediaSourceStream, MediaSourceStreamOptions};
use symphonia::core::meta::MetadataOptions;

use super::error::{AudioError, Problem};
use super::resample::{MonoResampler, RATE};
use undertone_worker_site::panics::catch_panic;

/// The accepted sampling rates, Hz.
const RATES: std::ops::RangeInclusive<u32> = 4_000..=384_000;
/// The accepted maximum of a sample: floats that represent 32-bit integers are below it. A larger sample overflows in
/// the sums of a Fourier transform.
const LOUDEST: f32 = 4_294_967_296.0;

/// A recording that is being read. The iterator returns nonempty mono blocks at [`RATE`], or at the rate of
/// [`Stream::open_at_rate`], full scale = 1, and ends after an error.
pub struct Stream {
    path: PathBuf,
    source: RecordingSource,
    resample: MonoResampler,
    over: bool,
}

impl Stream {
    /// Opens the recording at `path`, up to `longest` seconds.
    ///
    /// # Errors
    /// [`AudioError`] with the file and the problem, as far as the header shows it.
    pub fn open(path: &Path, longest: f64) -> Result<Self, AudioError> {
        Self::open_at_rate(path, longest, RATE)
    }

    /// Opens the recording at `path`, up to `longest` seconds, with blocks at `rate` Hz.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_at_rate(path: &Path, longest: f64, rate: u32) -> Result<Self, AudioError> {
        let open = || {
            let source = RecordingSource::open(path, longest)?;
            let resample = MonoResampler::new(source.rate, rate)?;
            Ok(Self { path: path.to_path_buf(), source, resample, over: false })
        };
        let opened = catch_panic(open).unwrap_or_else(|| Err(gave_up()));
        opened.map_err(|problem| AudioError { path: path.to_path_buf(), problem })
    }

    /// Returns the rate of the recording, Hz.
    pub fn source_rate(&self) -> u32 {
        self.source.rate
    }

    /// Returns the number of channels of the recording, which are averaged; 0 before the first block.
    pub fn channels(&self) -> usize {
        self.source.channels
    }

    /// Returns the next samples; `None` at the end.
    fn block(&mut self) -> Result<Option<Vec<f32>>, Problem> {
        while !self.over {
            let block = if let Some(mono) = self.source.packet()? {
                self.resample.push(&mono)?
            } else {
                self.over = true;
                self.resample.finish()?
            };
            if !block.is_empty() {
                return Ok(Some(block));
            }
        }
        Ok(None)
    }
}

impl Iterator for Stream {
    type Item = Result<Vec<f32>, AudioError>;

    fn next(&mut self) -> Option<Self::Item> {
        let block = catch_panic(|| self.block()).unwrap_or_else(|| Err(gave_up()));
        self.over |= block.is_err();
        block.map_err(|problem| AudioError { path: self.path.clone(), problem }).transpose()
    }
}

/// A file and its decoder.
struct RecordingSource {
    format: Box<dyn FormatReader>,
    decoder: Box<dyn AudioDecoder>,
    track: u32,
    /// Number of frames in the header.
    stated: Option<u64>,
    rate: u32,
    longest: f64,
    channels: usize,
    /// Number of frames decoded so far.
    frames: u64,
    interleaved: Vec<f32>,
}

impl RecordingSource {
    fn open(path: &Path, longest: f64) -> Result<Self, Problem> {
        let format = open(path)?;
        let track =
            format.default_track(TrackType::Audio).ok_or_else(|| Problem::Format("no audio track".to_owned()))?;
        let (id, stated) = (track.id, track.num_frames);
        let params = track.codec_params.as_ref().and_then(|params| params.audio());
        let params = params.ok_or_else(|| Problem::Format("no audio codec".to_owned()))?;
        let rate = params.sample_rate.filter(|rate| RATES.contains(rate));
        let rate = rate.ok_or(Problem::Rate(params.sample_rate.unwrap_or(0)))?;
        limit(stated.unwrap_or(0), rate, longest)?;
        let options = AudioDecoderOptions::default().verify(true);
        let decoder = symphonia::default::get_codecs()
            .make_audio_decoder(params, &options)
            .map_err(|error| Problem::Format(error.to_string()))?;
        let interleaved = Vec::new();
        Ok(Self { format, decoder, track: id, stated, rate, longest, channels: 0, frames: 0, interleaved })
    }

    /// Returns the next packet as mono at its own rate; `None` at the end of a complete recording.
    fn packet(&mut self) -> Result<Option<Vec<f32>>, Problem> {
        let broken = |error: Error| Problem::Broken(error.to_string());
        while let Some(packet) = self.format.next_packet().map_err(broken)? {
            if packet.track_id != self.track {
                continue;
            }
            let buffer = self.decoder.decode(&packet).map_err(broken)?;
            let width = buffer.spec().channels().count();
            if width == 0 || (self.channels != 0 && width != self.channels) || buffer.spec().rate() != self.rate {
                return Err(Problem::Broken("rate or channels change within it".to_owned()));
            }
            self.channels = width;
            buffer.copy_to_vec_interleaved(&mut self.interleaved);
            let mean = |frame: &[f32]| frame.iter().sum::<f32>() / width as f32;
            let mono: Vec<f32> = self.interleaved.chunks_exact(width).map(mean).collect();
            if !mono.iter().all(|sample| sample.is_finite()) {
                return Err(Problem::Broken("a sample is not a number".to_owned()));
            }
            if !mono.iter().all(|sample| sample.abs() <= LOUDEST) {
                return Err(Problem::Broken("a sample is far beyond full scale".to_owned()));
            }
            self.frames += mono.len() as u64;
            limit(self.frames, self.rate, self.longest)?;
            return Ok(Some(mono));
        }
        match self.stated {
            Some(stated) if stated != self.frames => {
                Err(Problem::Broken(format!("{} samples of the {stated} that its header states", self.frames)))
            }
            _ if self.decoder.finalize().verify_ok == Some(false) => {
                Err(Problem::Broken("its samples do not have the checksum that its header states".to_owned()))
            }
            _ if self.frames == 0 => Err(Problem::Empty),
            _ => Ok(None),
        }
    }
}

/// Returns the problem of a recording whose decoder panicked.
fn gave_up() -> Problem {
    Problem::Broken("its decoder gave up".to_owned())
}

fn limit(frames: u64, rate: u32, longest: f64) -> Result<(), Problem> {
    let seconds = frames as f64 / f64::from(rate);
    if seconds > longest { Err(Problem::TooLong { seconds, limit: longest }) } else { Ok(()) }
}

/// Detects the format of the file.
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
