//! The spectral envelope of speech as mel-cepstra, and back: the power of 32 mel bands, its logarithm, and a cosine transform of
//! which the first coefficients are kept (Davis and Mermelstein, "Comparison of parametric representations for monosyllabic word
//! recognition", IEEE Trans. ASSP 28(4), 1980). So few coefficients do not resolve single harmonics: they do not contain the pitch.

use std::f64::consts::{PI, TAU};
use std::sync::Arc;

use realfft::num_complex::Complex;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};

use undertone_worker_speech::audio::RATE;

/// Samples from frame to frame: 5 ms.
pub(super) const HOP: usize = 80;
/// Coefficients of a frame.
pub(super) const COEFFICIENTS: usize = 20;
/// Samples over which a frame is measured: 25 ms.
const MEASURED: usize = 400;
const MEASURED_FFT: usize = 512;
/// Samples of an excitation that one frame shapes: 20 ms.
const SHAPED: usize = 4 * HOP;
const SHAPED_FFT: usize = 1_024;
/// Bins of its spectrum.
const BINS: usize = SHAPED_FFT / 2 + 1;
/// Index of the cepstrum at which causal and anticausal parts meet.
const MIDDLE: usize = SHAPED_FFT / 2;
const BANDS: usize = 32;
const LOWEST: f64 = 40.0;
const HIGHEST: f64 = 7_800.0;
/// Power below the noise of any recording.
const FLOOR: f64 = 1e-11;
/// Logarithms of the smallest and the largest gain.
const GAINS: (f64, f64) = (-25.0, 5.0);

/// One frame: 20 cepstral coefficients, the first for its level.
pub(super) type EnvelopeFrame = [f64; COEFFICIENTS];

/// Measures the envelope of a sound, one frame every 5 ms, and the level of each frame in dB.
pub(super) fn measure(samples: &[f64]) -> (Vec<EnvelopeFrame>, Vec<f64>) {
    let fft = RealFftPlanner::<f64>::new().plan_fft_forward(MEASURED_FFT);
    let window: Vec<f64> =
        (0..MEASURED).map(|n| 0.5 - 0.5 * (TAU * (n as f64 + 0.5) / MEASURED as f64).cos()).collect();
    let energy: f64 = window.iter().map(|weight| weight * weight).sum();
    let filters: Vec<Vec<(usize, f64)>> = (0..BANDS).map(filter).collect();
    let cosines: Vec<EnvelopeFrame> = (0..BANDS).map(|band| cosines(band as f64)).collect();
    let (mut input, mut spectrum) = (fft.make_input_vec(), fft.make_output_vec());
    let frames = samples.len() / HOP + 1;
    let (mut cepstra, mut levels) = (Vec::with_capacity(frames), Vec::with_capacity(frames));
    for frame in 0..frames {
        input.fill(0.0);
        for (n, (value, weight)) in input.iter_mut().zip(&window).enumerate() {
            let at = (frame * HOP + n).checked_sub(MEASURED / 2);
            *value = at.and_then(|at| samples.get(at)).map_or(0.0, |sample| sample * weight);
        }
        fft.process(&mut input, &mut spectrum).expect("input and output were made by this plan");
        let (mut cepstrum, mut power) = ([0.0; COEFFICIENTS], 0.0);
        for (filter, cosines) in filters.iter().zip(&cosines) {
            let sum: f64 = filter.iter().map(|(bin, weight)| weight * spectrum[*bin].norm_sqr()).sum();
            let band = sum / energy + FLOOR;
            power += band;
            for (value, cosine) in cepstrum.iter_mut().zip(cosines) {
                *value += cosine * band.ln();
            }
        }
        cepstra.push(cepstrum);
        levels.push(10.0 * power.log10());
    }
    (cepstra, levels)
}

/// Multiplies the frequencies of envelopes by `factor`: the power of each band becomes that at its frequency divided by the factor.
/// Linear between bands, and constant beyond the first and the last.
pub(super) fn scale_frequencies(frames: &mut [EnvelopeFrame], factor: f64) {
    let basis: Vec<EnvelopeFrame> = (0..BANDS).map(|band| cosines(band as f64)).collect();
    let source = |band: usize| {
        let hertz = 700.0 * ((mel(LOWEST) + step() * (band + 1) as f64) / 1_127.0).exp_m1();
        let place = (mel((hertz / factor).clamp(LOWEST, HIGHEST)) - mel(LOWEST)) / step() - 1.0;
        place.clamp(0.0, (BANDS - 1) as f64)
    };
    // One map of coefficients: to bands, between bands, and back.
    let mut map = [[0.0; COEFFICIENTS]; COEFFICIENTS];
    for (band, target) in basis.iter().enumerate() {
        let place = source(band);
        let below = (place as usize).min(BANDS - 2);
        let share = place - below as f64;
        for (row, weight) in map.iter_mut().zip(target) {
            for ((value, low), high) in row.iter_mut().zip(&basis[below]).zip(&basis[below + 1]) {
                *value += weight * (low * (1.0 - share) + high * share);
            }
        }
    }
    for frame in frames {
        *frame = map.map(|row| row.iter().zip(frame.iter()).map(|(weight, value)| weight * value).sum());
    }
}

/// Shapes excitations by envelopes.
pub(super) struct EnvelopeShaper {
    forward: Arc<dyn RealToComplex<f64>>,
    inverse: Arc<dyn ComplexToReal<f64>>,
    /// The contribution of each coefficient to the logarithm of the power at each bin.
    cosines: Vec<EnvelopeFrame>,
    window: Vec<f64>,
}

impl EnvelopeShaper {
    pub(super) fn new() -> Self {
        let mut planner = RealFftPlanner::<f64>::new();
        let step = step();
        let position = |bin: usize| (mel(bin as f64 * f64::from(RATE) / SHAPED_FFT as f64) - mel(LOWEST)) / step - 1.0;
        Self {
            forward: planner.plan_fft_forward(SHAPED_FFT),
            inverse: planner.plan_fft_inverse(SHAPED_FFT),
            cosines: (0..BINS).map(|bin| cosines(position(bin).clamp(-0.5, BANDS as f64 - 0.5))).collect(),
            window: (0..SHAPED).map(|n| 0.5 - 0.5 * (TAU * n as f64 / SHAPED as f64).cos()).collect(),
        }
    }

    /// Applies the envelope of each frame, times its gain, to an excitation of power 1; the result is as long as the excitation.
    pub(super) fn shape(&self, excitation: &[f64], frames: &[EnvelopeFrame], gains: &[f64]) -> Vec<f64> {
        let mut sum = vec![0.0; excitation.len()];
        let mut sound = self.forward.make_input_vec();
        let (mut spectrum, mut filter) = (self.forward.make_output_vec(), self.forward.make_output_vec());
        for (at, (frame, gain)) in frames.iter().zip(gains).enumerate().filter(|(_, (_, gain))| **gain > 0.0) {
            self.minimum_phase(frame, &mut sound, &mut filter);
            sound.fill(0.0);
            // The first of its samples may lie before the sound.
            let places = (0..SHAPED).map(|n| (at * HOP + n).checked_sub(SHAPED / 2));
            for ((value, weight), place) in sound.iter_mut().zip(&self.window).zip(places) {
                *value = place.and_then(|place| excitation.get(place)).map_or(0.0, |sample| sample * weight);
            }
            self.forward.process(&mut sound, &mut spectrum).expect("both were made by this plan");
            // Windows a quarter apart add up to 2.
            let scale = 0.5 * gain / SHAPED_FFT as f64;
            for (value, logarithm) in spectrum.iter_mut().zip(&filter) {
                *value *= Complex::from_polar(logarithm.re.exp() * scale, logarithm.im);
            }
            self.back(&mut spectrum, &mut sound);
            for (n, value) in sound.iter().enumerate() {
                if let Some(sum) = (at * HOP + n).checked_sub(SHAPED / 2).and_then(|place| sum.get_mut(place)) {
                    *sum += value;
                }
            }
        }
        sum
    }

    /// Computes the logarithm of the minimum-phase filter with the frame's envelope: its cepstrum folded to the causal side
    /// (Oppenheim and Schafer, "Discrete-Time Signal Processing", 3rd edition, section 13.5.3).
    fn minimum_phase(&self, frame: &EnvelopeFrame, time: &mut [f64], filter: &mut [Complex<f64>]) {
        for (value, cosines) in filter.iter_mut().zip(&self.cosines) {
            let logarithm: f64 = cosines.iter().zip(frame).map(|(cosine, c)| cosine * c).sum();
            *value = Complex::new((0.5 * logarithm).clamp(GAINS.0, GAINS.1), 0.0);
        }
        self.back(filter, time);
        for (n, value) in time.iter_mut().enumerate() {
            let times = match n {
                0 | MIDDLE => 1.0,
                n if n < MIDDLE => 2.0,
                _ => 0.0,
            };
            *value *= times / SHAPED_FFT as f64;
        }
        self.forward.process(time, filter).expect("both are as long as this plan's");
    }

    /// Computes the inverse transform of a spectrum; the imaginary parts at its ends are set to 0.
    fn back(&self, spectrum: &mut [Complex<f64>], time: &mut [f64]) {
        for end in [0, BINS - 1] {
            spectrum[end].im = 0.0;
        }
        self.inverse.process(spectrum, time).expect("both are as long as this plan's, and the ends are real");
    }
}

/// Converts hertz to mel.
fn mel(hertz: f64) -> f64 {
    1_127.0 * (hertz / 700.0).ln_1p()
}

/// Returns the distance between bands, in mel.
fn step() -> f64 {
    (mel(HIGHEST) - mel(LOWEST)) / (BANDS + 1) as f64
}

/// Returns the bins of a band with their weights, which add up to 1.
fn filter(band: usize) -> Vec<(usize, f64)> {
    let hertz = |edge: usize| 700.0 * ((mel(LOWEST) + step() * edge as f64) / 1_127.0).exp_m1();
    let (left, centre, right) = (hertz(band), hertz(band + 1), hertz(band + 2));
    let of_bin = f64::from(RATE) / MEASURED_FFT as f64;
    let weight = |bin: usize| {
        let at = bin as f64 * of_bin;
        if at < centre { (at - left) / (centre - left) } else { (right - at) / (right - centre) }
    };
    let inside: Vec<_> =
        (0..=MEASURED_FFT / 2).map(|bin| (bin, weight(bin))).filter(|(_, weight)| *weight > 0.0).collect();
    let sum: f64 = inside.iter().map(|(_, weight)| weight).sum();
    inside.into_iter().map(|(bin, weight)| (bin, weight / sum)).collect()
}

/// Returns the orthonormal cosines at a position among the bands.
fn cosines(place: f64) -> EnvelopeFrame {
    std::array::from_fn(|k| {
        let norm = (if k == 0 { 1.0 } else { 2.0 } / BANDS as f64).sqrt();
        norm * (PI / BANDS as f64 * (place + 0.5) * k as f64).cos()
    })
}

#[cfg(test)]
mod tests {
    use std::f64::consts::TAU;

    use super::{EnvelopeShaper, HOP, measure, scale_frequencies};

    /// Deterministic noise of power 1.
    fn noise(samples: usize) -> Vec<f64> {
        let mut state = 1_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (f64::from(state) / f64::from(u32::MAX) - 0.5) * 12.0_f64.sqrt()
        };
        (0..samples).map(|_| next()).collect()
    }

    #[test]
    fn shaped_excitation_has_the_envelope() {
        // A slope of 40 dB over the bands, and a peak.
        let mut frame = [0.0; super::COEFFICIENTS];
        frame[..5].copy_from_slice(&[-40.0, 8.0, -3.0, 2.0, 1.5]);
        let frames = vec![frame; 401];
        let sound = EnvelopeShaper::new().shape(&noise(400 * HOP), &frames, &[1.0; 401]);
        let (measured, _) = measure(&sound);
        for (k, expected) in frame.iter().enumerate().take(6) {
            let mean = measured[20..380].iter().map(|frame| frame[k]).sum::<f64>() / 360.0;
            // The mean logarithm of a noise's power is below the logarithm of its mean, equally in every band: the first coefficient shows it.
            let near = if k == 0 { 4.0 } else { 0.6 };
            assert!((mean - expected).abs() < near, "{k}: {mean}, not {expected}");
        }
    }

    #[test]
    fn scaled_frequencies_move_a_peak() {
        // A tone's peak moves with its frequency, and factor 1 changes nothing.
        let tone =
            |hertz: f64| -> Vec<f64> { (0..16_000).map(|n| (n as f64 / 16_000.0 * TAU * hertz).sin()).collect() };
        let (frames, _) = measure(&tone(1_000.0));
        let mut same = frames[100..101].to_vec();
        scale_frequencies(&mut same, 1.0);
        assert!(same[0].iter().zip(&frames[100]).all(|(one, other)| (one - other).abs() < 1e-9));
        let mut moved = frames[100..101].to_vec();
        scale_frequencies(&mut moved, 1.2);
        let distance = |hertz: f64| {
            let (other, _) = measure(&tone(hertz));
            moved[0].iter().zip(&other[100]).skip(1).map(|(one, other)| (one - other).powi(2)).sum::<f64>().sqrt()
        };
        assert!(distance(1_200.0) < 0.5 * distance(1_000.0), "{} {}", distance(1_200.0), distance(1_000.0));
    }

    #[test]
    fn zero_gain_is_silence_and_length_is_kept() {
        let shaper = EnvelopeShaper::new();
        for length in [0, 1, 79, 80, 81, 1_000] {
            let frames = vec![[0.0; super::COEFFICIENTS]; length / HOP + 1];
            let shaped = shaper.shape(&noise(length), &frames, &vec![0.0; frames.len()]);
            assert!(shaped.len() == length && shaped.iter().all(|sample| *sample == 0.0), "{length}");
            assert_eq!(measure(&noise(length)).0.len(), frames.len());
        }
    }
}
