//! Gives every sound that leaves, true piece or dummy, the same loudness, length and background noise; and gives the dummies of
//! a speech engine the mean spectrum of speech.
//!
//! **Every figure here is public.** None is computed from recordings. A dummy that was modelled on the true pieces would reveal,
//! to the provider that receives it, properties of pieces that other providers receive. Then a provider would see more of the
//! recordings than its share of the pieces, and that share determines the charge
//! ([`Partition`](undertone_privacy::histogram::Partition)).
//!
//! | property | true pieces | dummies of an engine | recorded dummies |
//! |---|---|---|---|
//! | length ([`pad`]) | 4.5 s | 4.5 s | 4.5 s |
//! | loudness and least noise ([`level`]) | −26 dB, −66 dB | −26 dB, −66 dB | −26 dB, −66 dB |
//! | mean spectrum ([`SpectrumShaping`]) | their own | that of speech ([`MeanSpectrum::speech`]) | their own |
//! | leading silence, words a minute ([`SpeakingManner`]) | their own | drawn | their own |
//!
//! A true piece keeps its own spectrum, pace and pauses. They describe that piece only, to the provider that receives it, and
//! help to distinguish it from dummies; attacks measure how well.

use std::f64::consts::PI;
use std::ops::Range;

use rand_chacha::rand_core::Rng;
use realfft::RealFftPlanner;
use serde::{Deserialize, Serialize};
use undertone_api::job::transcription::window::SOUND;

use undertone_worker_speech::audio::RATE;
use undertone_worker_training::noise::below;

/// Samples of a frame of the spectrum.
const FRAME: usize = 512;
/// Values of a spectrum.
const BINS: usize = FRAME / 2 + 1;
/// Samples of a frame of loudness, 10 ms.
const STEP: usize = 160;
/// Amplitude, relative to the loudest frame, down to which a frame counts as speech: 35 dB below.
const SILENCE: f64 = 0.017_8;
/// Taps of the filter on either side of its middle.
const REACH: usize = 64;
/// Largest gain or attenuation of the filter: 20 dB.
const MOST: f64 = 10.0;
/// Bins on either side over which gains are averaged, which keeps the colour of a voice and removes its pitch.
const SMOOTH: usize = 4;
/// Largest absolute value of a sample.
const PEAK: f64 = 0.98;
/// Root mean square of the words in every sound that leaves, full scale = 1: −26 dB, the usual active level of speech (ITU-T P.56).
pub const LOUDNESS: f64 = 0.05;
/// Root mean square of the noise added to every sound that leaves, full scale = 1: 40 dB below the words.
pub const FLOOR: f64 = 0.000_5;
/// Length of every sound that leaves, in samples.
pub const SAMPLES: usize = (SOUND * RATE as f64) as usize;
/// Samples by which a converter may lengthen a sound: 0.1 s after the last word.
const TRAIL: usize = RATE as usize / 10;
/// Longest silence before the words of a dummy, in samples: as much as the segmenter keeps, 0.3 s.
const MOST_LEAD: u32 = 4_800;
/// Speaking rates of dummies in words a minute, least and most: the pace of reading and of conversation.
const PACE: [u32; 2] = [130, 190];
/// The mean spectrum of speech by thirds of an octave, hertz and dB, women and men together, over 12 languages (Byrne et al. 1994, "An
/// international comparison of long-term average speech spectra", table II).
const SPEECH: [(f64, f64); 22] = [
    (63.0, 38.6),
    (80.0, 43.5),
    (100.0, 54.4),
    (125.0, 57.7),
    (160.0, 56.8),
    (200.0, 60.2),
    (250.0, 60.3),
    (315.0, 59.0),
    (400.0, 62.1),
    (500.0, 62.1),
    (630.0, 60.5),
    (800.0, 56.8),
    (1_000.0, 53.7),
    (1_250.0, 53.0),
    (1_600.0, 52.0),
    (2_000.0, 48.7),
    (2_500.0, 48.1),
    (3_150.0, 46.8),
    (4_000.0, 45.6),
    (5_000.0, 44.5),
    (6_300.0, 44.3),
    (8_000.0, 43.7),
];

/// The speaking manner of one dummy, drawn without reference to any recording.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpeakingManner {
    /// Silence before the words, in samples.
    pub lead: u32,
    /// Words a minute, 80 to 400.
    pub rate: f64,
}

/// Loudness of a sound as root mean square, full scale = 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpeechLevel {
    /// Loudness of the words.
    pub loudness: f64,
    /// Loudness of the background noise.
    pub floor: f64,
}

/// A long-term average spectrum: mean power of the frames with speech, by frequency from 0 to 8 kHz.
#[derive(Debug, Clone, PartialEq)]
pub struct MeanSpectrum {
    power: Vec<f64>,
    frames: u64,
}

/// A filter that gives an engine's speech the mean spectrum of speech.
#[derive(Debug, Clone, PartialEq)]
pub struct SpectrumShaping {
    /// Symmetric taps, 2 · 64 + 1.
    taps: Vec<f64>,
}

impl Default for MeanSpectrum {
    fn default() -> Self {
        Self { power: vec![0.0; BINS], frames: 0 }
    }
}

impl MeanSpectrum {
    /// Returns the mean spectrum of speech, which is public.
    pub fn speech() -> Self {
        // A third of an octave around f is 0.2316 f wide.
        let density = |(hertz, level): (f64, f64)| level - 10.0 * (0.231_6 * hertz).log10();
        let power = |bin: usize| {
            let hertz = bin as f64 * f64::from(RATE) / FRAME as f64;
            let above = SPEECH.iter().position(|(band, _)| *band >= hertz).unwrap_or(SPEECH.len() - 1).max(1);
            let (low, high) = (SPEECH[above - 1], SPEECH[above]);
            let share = ((hertz / low.0).max(f64::MIN_POSITIVE).ln() / (high.0 / low.0).ln()).clamp(0.0, 1.0);
            10_f64.powf((density(low) * (1.0 - share) + density(high) * share) / 10.0)
        };
        Self { power: (0..BINS).map(power).collect(), frames: 1 }
    }

    /// Adds the words of a sound to the average.
    pub fn add(&mut self, samples: &[f32]) {
        if let Some(words) = words(samples) {
            self.add_frames(&samples[words]);
        }
    }

    /// Adds the frames of another average.
    pub fn merge(&mut self, other: &Self) {
        self.power.iter_mut().zip(&other.power).for_each(|(sum, power)| *sum += power);
        self.frames += other.frames;
    }

    fn add_frames(&mut self, words: &[f32]) {
        let fft = RealFftPlanner::<f64>::new().plan_fft_forward(FRAME);
        let (mut input, mut output) = (fft.make_input_vec(), fft.make_output_vec());
        let hann = |n: usize| 0.5 - 0.5 * (2.0 * PI * n as f64 / FRAME as f64).cos();
        for frame in words.windows(FRAME).step_by(FRAME / 2) {
            for (n, (weighted, sample)) in input.iter_mut().zip(frame).enumerate() {
                *weighted = f64::from(*sample) * hann(n);
            }
            fft.process(&mut input, &mut output).expect("input and output were made by this plan");
            self.power.iter_mut().zip(&output).for_each(|(sum, bin)| *sum += bin.norm_sqr());
            self.frames += 1;
        }
    }

    /// Returns the share of each frequency, which removes loudness; equal shares if no speech was added.
    fn shares(&self) -> Vec<f64> {
        let total: f64 = self.power.iter().sum();
        if total > 0.0 { self.power.iter().map(|power| power / total).collect() } else { vec![1.0 / BINS as f64; BINS] }
    }

    /// Returns the mean difference to another spectrum, in dB, over the frequencies of speech: 100 Hz to 7 kHz.
    pub fn distance(&self, other: &Self) -> f64 {
        let smooth = |spectrum: &Self| smoothed(&spectrum.shares());
        let bins = bin(100.0)..bin(7_000.0);
        let count = bins.len() as f64;
        let (one, other) = (smooth(self), smooth(other));
        bins.map(|bin| 10.0 * ((one[bin] + f64::MIN_POSITIVE) / (other[bin] + f64::MIN_POSITIVE)).log10().abs())
            .sum::<f64>()
            / count
    }
}

/// Brings a sound that leaves to the public loudness and adds the public noise. Silence stays as quiet as it is.
pub fn level(sound: &[f32], rng: &mut impl Rng) -> Vec<f32> {
    let gain = words(sound).map_or(1.0, |words| gain(sound, words));
    noisy(sound.iter().map(|sample| gain * f64::from(*sample)), rng)
}

/// Extends a sound that leaves to the public length with the public noise. Returns `None` for a sound that is longer by more
/// than converters add after the last word. Longer sounds are not truncated, because a counted word could be in the tail.
pub fn pad(mut sound: Vec<f32>, rng: &mut impl Rng) -> Option<Vec<f32>> {
    if sound.len() > SAMPLES + TRAIL {
        return None;
    }
    sound.truncate(SAMPLES);
    let silence = std::iter::repeat_n(0.0, SAMPLES - sound.len());
    sound.extend(noisy(silence, rng));
    Some(sound)
}

/// Returns the samples from the first word to the last; 0 for silence.
pub fn length(speech: &[f32]) -> usize {
    words(speech).map_or(0, |words| words.len())
}

impl SpeakingManner {
    /// Draws a manner.
    pub fn draw(rng: &mut impl Rng) -> Self {
        let [least, most] = PACE;
        Self { lead: below(MOST_LEAD + 1, rng), rate: f64::from(least + below(most - least + 1, rng)) }
    }
}

impl SpeechLevel {
    /// Measures the level of a sound; `None` for silence.
    pub fn measure(samples: &[f32]) -> Option<Self> {
        let words = words(samples)?;
        Some(Self { loudness: root_mean_square(&samples[words]), floor: floor(samples) })
    }
}

impl SpectrumShaping {
    /// Returns the filter from an engine's mean spectrum to that of speech.
    pub fn new(engine: &MeanSpectrum) -> Self {
        Self::from_spectra(engine, &MeanSpectrum::speech())
    }

    fn from_spectra(from: &MeanSpectrum, to: &MeanSpectrum) -> Self {
        let (from, to) = (smoothed(&from.shares()), smoothed(&to.shares()));
        let gain = |(from, to): (&f64, &f64)| {
            let ratio = (to + f64::MIN_POSITIVE) / (from + f64::MIN_POSITIVE);
            ratio.sqrt().clamp(1.0 / MOST, MOST)
        };
        let gains: Vec<f64> = from.iter().zip(&to).map(gain).collect();
        // The symmetric response with these gains, cut by a Hann window.
        let tap = |n: usize| {
            let away = n.abs_diff(REACH) as f64;
            let term = |(bin, gain): (usize, &f64)| {
                let twice = if bin == 0 || bin == BINS - 1 { 1.0 } else { 2.0 };
                twice * gain * (2.0 * PI * bin as f64 * away / FRAME as f64).cos()
            };
            let hann = 0.5 + 0.5 * (PI * away / (REACH + 1) as f64).cos();
            hann * gains.iter().enumerate().map(term).sum::<f64>() / FRAME as f64
        };
        Self { taps: (0..=2 * REACH).map(tap).collect() }
    }

    /// Returns `speech` after `lead` samples of silence, its words filtered. Empty for silence.
    pub fn shape(&self, speech: &[f32], lead: u32) -> Vec<f32> {
        let Some(words) = words(speech) else { return Vec::new() };
        let silence = std::iter::repeat_n(0.0, lead as usize);
        silence.chain(self.filter(&speech[words])).map(|sample| sample as f32).collect()
    }

    /// Applies the filter; the result has the same length, without delay.
    fn filter(&self, samples: &[f32]) -> Vec<f64> {
        let at = |place: usize| {
            let first = place.saturating_sub(REACH);
            let end = (place + REACH + 1).min(samples.len());
            let taps = &self.taps[first + REACH - place..];
            samples[first..end].iter().zip(taps).map(|(sample, tap)| f64::from(*sample) * tap).sum()
        };
        (0..samples.len()).map(at).collect()
    }
}

/// Returns the range of the words: from the first frame of 10 ms that is not silent to the last; `None` for silence.
fn words(samples: &[f32]) -> Option<Range<usize>> {
    let loud: Vec<f64> = samples.chunks(STEP).map(root_mean_square).collect();
    let least = loud.iter().copied().fold(0.0, f64::max) * SILENCE;
    let audible = |frame: &f64| *frame > least;
    let (first, last) = (loud.iter().position(audible)?, loud.iter().rposition(audible)?);
    Some(first * STEP..((last + 1) * STEP).min(samples.len()))
}

/// Returns the background noise as root mean square: a tenth of the frames of a piece are as quiet as its room.
fn floor(samples: &[f32]) -> f64 {
    let mut quiet: Vec<f64> = samples.chunks_exact(STEP).map(root_mean_square).collect();
    quiet.sort_unstable_by(f64::total_cmp);
    quiet.get(quiet.len() / 10).copied().unwrap_or(0.0)
}

/// Returns the gain that gives `words` the public loudness; less where samples would exceed full scale.
fn gain(sound: &[f32], words: Range<usize>) -> f64 {
    let loud = root_mean_square(&sound[words]);
    let peak = sound.iter().fold(f64::MIN_POSITIVE, |peak, sample| peak.max(f64::from(sample.abs())));
    (LOUDNESS / loud.max(f64::MIN_POSITIVE)).min(PEAK / peak)
}

/// Returns a sound with the public noise added, which is uniform.
fn noisy(sound: impl Iterator<Item = f64>, rng: &mut impl Rng) -> Vec<f32> {
    // Uniform noise of width w has the root mean square w/√12.
    let width = FLOOR * 12.0_f64.sqrt();
    let mut noise = || width * (f64::from(rng.next_u32()) / f64::from(u32::MAX) - 0.5);
    sound.map(|sample| (sample + noise()).clamp(-1.0, 1.0) as f32).collect()
}

fn root_mean_square(samples: &[f32]) -> f64 {
    let sum: f64 = samples.iter().map(|sample| f64::from(*sample) * f64::from(*sample)).sum();
    (sum / samples.len().max(1) as f64).sqrt()
}

fn smoothed(shares: &[f64]) -> Vec<f64> {
    let mean = |bin: usize| {
        let around = &shares[bin.saturating_sub(SMOOTH)..(bin + SMOOTH + 1).min(shares.len())];
        around.iter().sum::<f64>() / around.len() as f64
    };
    (0..shares.len()).map(mean).collect()
}

fn bin(hertz: f64) -> usize {
    (hertz * FRAME as f64 / f64::from(RATE)).round() as usize
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use rand_chacha::ChaCha20Rng;
    use rand_chacha::rand_core::SeedableRng;

    use super::*;

    fn rng() -> ChaCha20Rng {
        ChaCha20Rng::seed_from_u64(5)
    }

    /// Half a second of noise with silence around it; its spectrum falls (`colour` near 1) or is flat (0).
    fn sound(colour: f64, loudness: f64, before: usize, after: usize) -> Vec<f32> {
        let mut rng = rng();
        let mut last = 0.0;
        let noise = |_| {
            last = colour * last + (f64::from(rng.next_u32()) / f64::from(u32::MAX) - 0.5);
            last
        };
        let noise: Vec<f64> = (0..8_000).map(noise).collect();
        let loud = (noise.iter().map(|sample| sample * sample).sum::<f64>() / noise.len() as f64).sqrt();
        let mut samples = vec![0.0; before];
        samples.extend(noise.iter().map(|sample| (sample * loudness / loud) as f32));
        samples.resize(samples.len() + after, 0.0);
        samples
    }

    #[test]
    fn manners_are_drawn_from_public_numbers() {
        let mut rng = rng();
        let manners: Vec<SpeakingManner> = (0..2_000).map(|_| SpeakingManner::draw(&mut rng)).collect();
        assert!(manners.iter().all(|one| one.lead <= MOST_LEAD && (130.0..=190.0).contains(&one.rate)));
        let mean = |of: fn(&SpeakingManner) -> f64| manners.iter().map(of).sum::<f64>() / manners.len() as f64;
        assert!((mean(|one| one.lead.into()) - 2_400.0).abs() < 100.0 && (mean(|one| one.rate) - 160.0).abs() < 2.0);
    }

    #[test]
    fn sounds_get_equal_loudness_and_length() {
        let mut rng = rng();
        for (loudness, before, after) in [(0.3, 0, 0), (0.1, 1_600, 3_200), (0.003, 0, 24_000), (0.05, 6_400, 40)] {
            let leveled = level(&sound(0.5, loudness, before, after), &mut rng);
            let SpeechLevel { loudness, .. } = SpeechLevel::measure(&leveled).unwrap();
            assert!((loudness / LOUDNESS - 1.0).abs() < 0.05, "{loudness}");
            let padded = pad(leveled, &mut rng).unwrap();
            assert_eq!(padded.len(), SAMPLES);
            let noise = root_mean_square(&padded[SAMPLES - 16_000..]);
            assert!((noise / FLOOR - 1.0).abs() < 0.05, "{noise}");
        }
        let silence = pad(level(&[0.0; 900], &mut rng), &mut rng).unwrap();
        assert!((root_mean_square(&silence) / FLOOR - 1.0).abs() < 0.05 && silence.len() == SAMPLES);
    }

    #[test]
    fn too_long_sound_is_not_truncated() {
        let mut rng = rng();
        assert_eq!(SAMPLES, 72_000);
        for (length, fits) in [(0, true), (72_000, true), (73_600, true), (73_601, false)] {
            let padded = pad(vec![0.1; length], &mut rng);
            assert_eq!(padded.map(|sound| sound.len()), fits.then_some(SAMPLES), "{length}");
        }
    }

    #[test]
    fn engine_output_gets_the_spectrum_of_speech() {
        let mut engine = MeanSpectrum::default();
        engine.add(&sound(0.0, 0.3, 0, 0));
        let speech = MeanSpectrum::speech();
        let before = engine.distance(&speech);
        let shaped = SpectrumShaping::new(&engine).shape(&sound(0.0, 0.3, 500, 7_000), 800);
        assert!(shaped.len().abs_diff(800 + 8_000) <= 2 * STEP, "{}", shaped.len());
        let mut spectrum = MeanSpectrum::default();
        spectrum.add(&shaped);
        let after = spectrum.distance(&speech);
        assert!(before > 4.0 && after < 0.35 * before, "{before} dB became {after} dB");
        // 62.1 and 53.7 dB in thirds of an octave, of which the second is twice as wide.
        let at = |hertz: f64| 10.0 * speech.power[bin(hertz)].log10();
        assert!((at(500.0) - at(1_000.0) - 11.4).abs() < 0.2, "{}", at(500.0) - at(1_000.0));
        assert!(at(500.0) > at(4_000.0) + 20.0);
    }

    #[test]
    fn filter_between_equal_spectra_is_identity() {
        let mut one = MeanSpectrum::default();
        one.add(&sound(0.5, 0.2, 0, 0));
        let sound = sound(0.5, 0.2, 0, 0);
        let filtered = SpectrumShaping::from_spectra(&one, &one).filter(&sound);
        let far = filtered.iter().zip(&sound).map(|(one, other)| (one - f64::from(*other)).abs()).fold(0.0, f64::max);
        assert!(far < 1e-6, "{far}");
    }

    #[test]
    fn samples_stay_in_full_scale_and_silence_stays_empty() {
        let mut click = vec![0.000_1; 16_000];
        click[8_000] = 1.0;
        let leveled = level(&click, &mut rng());
        assert!(leveled.iter().all(|sample| sample.abs() <= 1.0));
        let shaping = SpectrumShaping::new(&MeanSpectrum::default());
        assert!(shaping.shape(&[0.0; 900], 10).is_empty());
        assert!(shaping.shape(&[], 10).is_empty());
    }
}
