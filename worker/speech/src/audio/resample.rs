//! Resamples mono samples, by default to [`RATE`], with a synchronous FFT resampler (band-limited; delay removed), in
//! blocks of any length.

use rubato::audioadapter_buffers::direct::InterleavedSlice;
use rubato::{Fft, FixedSync, Indexing, Resampler as _};

use super::error::Problem;

/// The rate of all later stages, Hz.
pub const RATE: u32 = 16_000;
/// Minimum length of the resampling filter, in input samples.
const CHUNK: usize = 1_024;

/// Resamples `mono`, at `rate` Hz, completely.
pub(crate) fn resample(mono: Vec<f32>, rate: u32) -> Result<Vec<f32>, Problem> {
    if rate == RATE {
        return Ok(mono);
    }
    let mut resample = MonoResampler::new(rate, RATE)?;
    let mut samples = resample.push(&mono)?;
    samples.extend(resample.finish()?);
    Ok(samples)
}

/// The state of a resampler between blocks. Its output does not depend on how the samples are split into blocks.
pub(super) struct MonoResampler {
    /// Absent if the rate is already correct.
    fft: Option<Fft<f32>>,
    /// Samples that do not fill a chunk yet.
    waiting: Vec<f32>,
    /// Number of samples still to be dropped: the delay of the filter.
    delay: usize,
    /// Number of input samples so far.
    taken: u64,
    /// Number of output samples so far.
    yielded: u64,
}

impl MonoResampler {
    /// Returns a resampler from `rate` Hz to `target` Hz.
    pub(super) fn new(rate: u32, target: u32) -> Result<Self, Problem> {
        // The filter is symmetric about a sample, and its delay a whole number of samples, only if the block length is
        // even.
        let block = 2 * (rate / gcd(rate, target)) as usize;
        let chunk = block * CHUNK.div_ceil(block);
        let fft = || Fft::<f32>::new(rate as usize, target as usize, chunk, 1, FixedSync::Both);
        let fft = (rate != target).then(fft).transpose().map_err(|error| broken(&error))?;
        let delay = fft.as_ref().map_or(0, rubato::Resampler::output_delay);
        Ok(Self { fft, waiting: Vec::new(), delay, taken: 0, yielded: 0 })
    }

    /// Adds a block and returns the available output. The output lags by less than a chunk and the filter's delay.
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

    /// Returns the remaining output. The total number of samples is the original's length at the new rate, rounded up.
    pub(super) fn finish(&mut self) -> Result<Vec<f32>, Problem> {
        let Some(fft) = &mut self.fft else { return Ok(Vec::new()) };
        let all = (fft.resample_ratio() * self.taken as f64).ceil() as u64;
        let missing = all.saturating_sub(self.yielded) as usize + self.delay;
        let mut samples = Vec::new();
        let rest = std::mem::take(&mut self.waiting);
        if !rest.is_empty() {
            process(fft, &rest, Some(rest.len()), &mut samples)?;
        }
        // Silence pushes the last samples out of the filter.
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

/// Appends the output of a chunk; with `partial`, only that number of samples is input, and the rest is silence.
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
