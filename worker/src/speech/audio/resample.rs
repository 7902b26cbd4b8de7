//! Brings mono samples to [`RATE`] with a synchronous FFT resampler (band-limited; delay removed), in blocks of any length.

use rubato::audioadapter_buffers::direct::InterleavedSlice;
use rubato::{Fft, FixedSync, Indexing, Resampler as _};

use super::{Problem, RATE};

/// Least length of the resampling filter, in samples of the original.
const CHUNK: usize = 1_024;

/// All of `mono`, which is at `rate` Hz.
pub(in crate::speech) fn resample(mono: Vec<f32>, rate: u32) -> Result<Vec<f32>, Problem> {
    if rate == RATE {
        return Ok(mono);
    }
    let mut resample = Resample::new(rate)?;
    let mut samples = resample.push(&mono)?;
    samples.extend(resample.finish()?);
    Ok(samples)
}

/// A resampler between two blocks. What it yields does not depend on how the samples are cut into blocks.
pub(super) struct Resample {
    /// Absent where the rate is right already.
    fft: Option<Fft<f32>>,
    /// Samples that do not fill a chunk yet.
    waiting: Vec<f32>,
    /// Samples still to be dropped: the delay of the filter.
    delay: usize,
    /// Samples taken so far.
    taken: u64,
    /// Samples yielded so far.
    yielded: u64,
}

impl Resample {
    /// From `rate` Hz.
    pub(super) fn new(rate: u32) -> Result<Self, Problem> {
        // The filter is symmetric about a sample, and its delay a whole number of samples, only if the block is even.
        let block = 2 * (rate / gcd(rate, RATE)) as usize;
        let chunk = block * CHUNK.div_ceil(block);
        let fft = || Fft::<f32>::new(rate as usize, RATE as usize, chunk, 1, FixedSync::Both);
        let fft = (rate != RATE).then(fft).transpose().map_err(|error| broken(&error))?;
        let delay = fft.as_ref().map_or(0, rubato::Resampler::output_delay);
        Ok(Self { fft, waiting: Vec::new(), delay, taken: 0, yielded: 0 })
    }

    /// Takes a block; what it yields is late by less than a chunk and the filter's delay.
    pub(super) fn push(&mut self, mono: &[f32]) -> Result<Vec<f32>, Problem> {
        self.taken += mono.len() as u64;
        let Some(fft) = &mut self.fft else {
            self.yielded += mono.len() as u64;
            return Ok(mono.to_vec());
        };
        self.waiting.extend_from_slice(mono);
        let chunk = fft.input_frames_next();
        let (mut samples, whole) = (Vec::new(), self.waiting.len() / chunk * chunk);
        for part in self.waiting[..whole].chunks_exact(chunk) {
            process(fft, part, None, &mut samples)?;
        }
        self.waiting.drain(..whole);
        self.trim(&mut samples);
        self.yielded += samples.len() as u64;
        Ok(samples)
    }

    /// The rest. With it, there are as many samples as the original's length asks for, rounded up.
    pub(super) fn finish(&mut self) -> Result<Vec<f32>, Problem> {
        let Some(fft) = &mut self.fft else { return Ok(Vec::new()) };
        let all = (fft.resample_ratio() * self.taken as f64).ceil() as u64;
        let missing = all.saturating_sub(self.yielded) as usize + self.delay;
        let mut samples = Vec::new();
        let rest = std::mem::take(&mut self.waiting);
        if !rest.is_empty() {
            process(fft, &rest, Some(rest.len()), &mut samples)?;
        }
        // What is still in the filter is pushed out by silence.
        while samples.len() < missing {
            process(fft, &[], Some(0), &mut samples)?;
        }
        samples.truncate(missing);
        self.trim(&mut samples);
        self.yielded += samples.len() as u64;
        Ok(samples)
    }

    fn trim(&mut self, samples: &mut Vec<f32>) {
        let dropped = self.delay.min(samples.len());
        samples.drain(..dropped);
        self.delay -= dropped;
    }
}

/// Appends what a chunk becomes; `partial` samples of it, the rest being silence.
fn process(fft: &mut Fft<f32>, part: &[f32], partial: Option<usize>, samples: &mut Vec<f32>) -> Result<(), Problem> {
    let input = InterleavedSlice::new(part, 1, part.len()).map_err(|error| broken(&error))?;
    let indexing = Indexing { partial_len: partial, ..Indexing::default() };
    let output = fft.process(&input, Some(&indexing)).map_err(|error| broken(&error))?;
    samples.extend(output.take_data());
    Ok(())
}

fn broken(error: &dyn std::fmt::Display) -> Problem {
    Problem::Broken(format!("cannot be resampled, {error}"))
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}
