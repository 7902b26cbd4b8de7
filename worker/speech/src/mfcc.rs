//! Mel-frequency cepstral coefficients, as Kaldi computes them.
//!
//! Frames of 25 ms every 10 ms, only whole frames ("snip edges"); samples in the range of 16-bit integers; mean removed,
//! pre-emphasis 0.97, Povey window, power spectrum of 512 points, 23 triangular mel filters from 20 to 8,000 Hz, logarithm,
//! orthonormal DCT-II, 13 coefficients of which the first is the DCT's own (no energy), liftered with 22. No dither: the
//! same samples give the same features. Formulas after Davis & Mermelstein 1980 and Young et al., The HTK Book, 5.4-5.6,
//! with Kaldi's constants (`feature-window.cc`, `mel-computations.cc`).

use std::f64::consts::PI;
use std::sync::Arc;

use realfft::num_complex::Complex;
use realfft::{RealFftPlanner, RealToComplex};

use super::audio::resample::RATE;

/// Coefficients per frame.
pub const COEFFICIENTS: usize = 13;
/// Samples per frame, 25 ms.
pub const WINDOW: usize = 400;
/// Samples between frame starts, 10 ms.
pub const SHIFT: usize = 160;

const FFT: usize = 512;
const MELS: usize = 23;
const LOWEST: f64 = 20.0;
const HIGHEST: f64 = RATE as f64 / 2.0;
const PRE_EMPHASIS: f32 = 0.97;
const LIFTER: f64 = 22.0;
/// Scale from full scale 1 to 16-bit integers.
const SCALE: f32 = 32_768.0;

/// The computation of [`Mfcc::compute`], for a dataset's description.
pub const DESCRIPTION: &str = "13 MFCC at 100 frames/s: 25 ms Povey window, pre-emphasis 0.97, 23 mel filters 20-8000 Hz, \
                               lifter 22, no dither, no energy (as Kaldi)";

/// Returns the number of frames of `samples` samples at [`RATE`].
pub fn frames(samples: usize) -> usize {
    if samples < WINDOW { 0 } else { 1 + (samples - WINDOW) / SHIFT }
}

/// Tables and scratch space; create one per thread and reuse it.
pub struct Mfcc {
    window: Vec<f32>,
    /// First spectrum bin and weights of each filter.
    filters: Vec<(usize, Vec<f32>)>,
    /// `[COEFFICIENTS, MELS]`, lifter included.
    dct: Vec<[f32; MELS]>,
    fft: Arc<dyn RealToComplex<f32>>,
    input: Vec<f32>,
    spectrum: Vec<Complex<f32>>,
    scratch: Vec<Complex<f32>>,
}

impl Default for Mfcc {
    fn default() -> Self {
        Self::new()
    }
}

impl Mfcc {
    /// Computes the tables.
    pub fn new() -> Self {
        let fft = RealFftPlanner::new().plan_fft_forward(FFT);
        Self {
            window: window(),
            filters: filters(),
            dct: dct(),
            input: fft.make_input_vec(),
            spectrum: fft.make_output_vec(),
            scratch: fft.make_scratch_vec(),
            fft,
        }
    }

    /// Returns the features of mono `samples` at [`RATE`], full scale = 1: `[frames(samples.len()), COEFFICIENTS]`,
    /// row-major. The features are finite if the samples are.
    pub fn compute(&mut self, samples: &[f32]) -> Vec<f32> {
        let mut features = Vec::with_capacity(frames(samples.len()) * COEFFICIENTS);
        for frame in samples.windows(WINDOW).step_by(SHIFT) {
            let mels = self.mels(frame);
            for row in &self.dct {
                features.push(row.iter().zip(&mels).map(|(weight, mel)| weight * mel).sum::<f32>());
            }
        }
        features
    }

    /// Returns the logarithmic mel energies of one frame.
    fn mels(&mut self, frame: &[f32]) -> [f32; MELS] {
        let mean = frame.iter().sum::<f32>() / WINDOW as f32;
        let mut previous = frame[0] - mean;
        self.input.fill(0.0);
        for ((out, sample), weight) in self.input.iter_mut().zip(frame).zip(&self.window) {
            let sample = sample - mean;
            *out = SCALE * (sample - PRE_EMPHASIS * previous) * weight;
            previous = sample;
        }
        self.fft
            .process_with_scratch(&mut self.input, &mut self.spectrum, &mut self.scratch)
            .expect("input, output and scratch were made by this plan");
        let mut mels = [0.0; MELS];
        for (mel, (first, weights)) in mels.iter_mut().zip(&self.filters) {
            let bins = &self.spectrum[*first..];
            let energy: f32 = weights.iter().zip(bins).map(|(weight, bin)| weight * bin.norm_sqr()).sum();
            *mel = energy.max(f32::EPSILON).ln();
        }
        mels
    }
}

/// Returns Povey's window, Hann to the power 0.85, which is zero at the edges only.
fn window() -> Vec<f32> {
    let step = 2.0 * PI / (WINDOW - 1) as f64;
    (0..WINDOW).map(|i| (0.5 - 0.5 * (step * i as f64).cos()).powf(0.85) as f32).collect()
}

/// Converts hertz to mel (natural logarithm form).
fn mel(hertz: f64) -> f64 {
    1127.0 * (hertz / 700.0).ln_1p()
}

/// Returns triangles of equal width on the mel scale, over the bins below the Nyquist frequency.
fn filters() -> Vec<(usize, Vec<f32>)> {
    let (lowest, highest) = (mel(LOWEST), mel(HIGHEST));
    let step = (highest - lowest) / (MELS + 1) as f64;
    let triangle = |filter: usize| {
        let left = lowest + step * filter as f64;
        let (centre, right) = (left + step, left + 2.0 * step);
        let weight = |bin: usize| {
            let at = mel(f64::from(RATE) * bin as f64 / FFT as f64);
            if at <= centre { (at - left) / step } else { (right - at) / step }
        };
        let bins: Vec<_> = (0..FFT / 2).map(|bin| (bin, weight(bin))).filter(|(_, weight)| *weight > 0.0).collect();
        let first = bins.first().map_or(0, |(bin, _)| *bin);
        (first, bins.into_iter().map(|(_, weight)| weight as f32).collect())
    };
    (0..MELS).map(triangle).collect()
}

/// Returns the first rows of the orthonormal DCT-II, each times its lifter `1 + L/2 sin(πk/L)`.
fn dct() -> Vec<[f32; MELS]> {
    let row = |k: usize| {
        let norm = (if k == 0 { 1.0 } else { 2.0 } / MELS as f64).sqrt();
        let lifter = 1.0 + 0.5 * LIFTER * (PI * k as f64 / LIFTER).sin();
        std::array::from_fn(|n| (lifter * norm * (PI / MELS as f64 * (n as f64 + 0.5) * k as f64).cos()) as f32)
    };
    (0..COEFFICIENTS).map(row).collect()
}

#[cfg(test)]
mod tests;
