//! How every sound that leaves is made to sound, true piece or dummy: as loud, as long, and with as much noise behind; and the
//! dummies of an engine with the mean spectrum of speech.
//!
//! **Every figure here is public.** None is computed of recordings. A dummy made like the true pieces would tell the provider that hears it
//! of pieces that other providers hear. Then a provider would see more of the recordings than its share of the pieces, and the share
//! is what is charged ([`Partition`](undertone_privacy::histogram::Partition)).
//!
//! | what | true pieces | dummies of an engine | recorded dummies |
//! |---|---|---|---|
//! | length ([`pad`]) | 4.5 s | 4.5 s | 4.5 s |
//! | loudness and least noise ([`level`]) | −26 dB, −66 dB | −26 dB, −66 dB | −26 dB, −66 dB |
//! | mean spectrum ([`Shaping`]) | their own | that of speech ([`Spectrum::speech`]) | their own |
//! | silence ahead, words a minute ([`Manner`]) | their own | drawn | their own |
//!
//! What is left of a true piece, its colour, its pace and its pauses, is its own. It tells the provider that hears it of that piece alone, and
//! helps to tell it from dummies: how well is measured by attacks.

use std::f64::consts::PI;
use std::ops::Range;

use rand_chacha::rand_core::Rng;
use realfft::RealFftPlanner;
use serde::{Deserialize, Serialize};
use undertone_api::job::transcription::window::SOUND;

use crate::dp::noise::below;
use crate::speech::audio::RATE;

/// Samples of a frame of the spectrum.
const FRAME: usize = 512;
/// Values of a spectrum.
const BINS: usize = FRAME / 2 + 1;
/// Samples of a frame of loudness, 10 ms.
const STEP: usize = 160;
/// How far below the loudest frame is still speech: 35 dB.
const SILENCE: f64 = 0.017_8;
/// Taps of the filter to either side of the middle.
const REACH: usize = 64;
/// Most that the filter raises or lowers: 20 dB.
const MOST: f64 = 10.0;
/// Bins to either side over which gains are averaged: the colour of a voice, not its pitch.
const SMOOTH: usize = 4;
/// What no sample is above.
const PEAK: f64 = 0.98;
/// Root mean square of the words of a sound that leaves, full scale = 1: −26 dB, the usual active level of speech (ITU-T P.56).
pub const LOUDNESS: f64 = 0.05;
/// Root mean square of the noise that is added to a sound that leaves, full scale = 1: 40 dB below the words.
pub const FLOOR: f64 = 0.000_5;
/// Samples of every sound that leaves.
pub const SAMPLES: usize = (SOUND * RATE as f64) as usize;
/// Samples by which a converter may lengthen a sound: 0.1 s of what it leaves behind the last word.
const TRAIL: usize = RATE as usize / 10;
/// Most silence ahead of the words of a dummy, samples: as much as the segmenter keeps, 0.3 s.
const MOST_LEAD: u32 = 4_800;
/// Words a minute of a dummy, least and most: the pace of reading and of talk.
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

/// How one dummy is spoken. Drawn without looking at a recording.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manner {
    /// Silence ahead of the words, samples.
    pub lead: u32,
    /// Words a minute, 80 to 400.
    pub rate: f64,
}

/// How loud a sound is, root mean square, full scale = 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Level {
    /// Of the words.
    pub loudness: f64,
    /// Of the noise behind.
    pub floor: f64,
}

/// A long-term average spectrum: mean power of the frames with speech, by frequency from 0 to 8 kHz.
#[derive(Debug, Clone, PartialEq)]
pub struct Spectrum {
    power: Vec<f64>,
    frames: u64,
}

/// Gives what an engine says the mean spectrum of speech.
#[derive(Debug, Clone, PartialEq)]
pub struct Shaping {
    /// Symmetric, 2 · 64 + 1.
    taps: Vec<f64>,
}

impl Default for Spectrum {
    fn default() -> Self {
        Self { power: vec![0.0; BINS], frames: 0 }
    }
}

impl Spectrum {
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

    /// Adds the words of a sound.
    pub fn hear(&mut self, samples: &[f32]) {
        if let Some(words) = words(samples) {
            self.add(&samples[words]);
        }
    }

    fn add(&mut self, words: &[f32]) {
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

    /// The share of each frequency, so that loudness does not matter; all alike where nothing was heard.
    fn shares(&self) -> Vec<f64> {
        let total: f64 = self.power.iter().sum();
        if total > 0.0 { self.power.iter().map(|power| power / total).collect() } else { vec![1.0 / BINS as f64; BINS] }
    }

    /// Mean difference to another one, dB, over the frequencies that speech has: 100 Hz to 7 kHz.
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

/// Brings a sound that leaves to the public loudness, and puts the public noise behind it. Silence stays as quiet as it is.
pub fn level(sound: &[f32], rng: &mut impl Rng) -> Vec<f32> {
    let gain = words(sound).map_or(1.0, |words| gain(sound, words));
    noisy(sound.iter().map(|sample| gain * f64::from(*sample)), rng)
}

/// Brings a sound that leaves to the public length, by the public noise behind it; `None` for one that is longer by more than
/// converters leave behind the last word. Nothing else may be cut off: the word that is counted could be in it.
pub fn pad(mut sound: Vec<f32>, rng: &mut impl Rng) -> Option<Vec<f32>> {
    if sound.len() > SAMPLES + TRAIL {
        return None;
    }
    sound.truncate(SAMPLES);
    let silence = std::iter::repeat_n(0.0, SAMPLES - sound.len());
    sound.extend(noisy(silence, rng));
    Some(sound)
}

/// Samples of what was said, from the first word to the last; 0 for silence.
pub fn length(said: &[f32]) -> usize {
    words(said).map_or(0, |words| words.len())
}

impl Manner {
    /// Draws one.
    pub fn draw(rng: &mut impl Rng) -> Self {
        let [least, most] = PACE;
        Self { lead: below(MOST_LEAD + 1, rng), rate: f64::from(least + below(most - least + 1, rng)) }
    }
}

impl Level {
    /// Returns that of a sound; `None` for silence.
    pub fn measure(samples: &[f32]) -> Option<Self> {
        let words = words(samples)?;
        Some(Self { loudness: root_mean_square(&samples[words]), floor: floor(samples) })
    }
}

impl Shaping {
    /// From the mean spectrum of what an engine says to that of speech.
    pub fn new(engine: &Spectrum) -> Self {
        Self::between(engine, &Spectrum::speech())
    }

    fn between(from: &Spectrum, to: &Spectrum) -> Self {
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

    /// Returns what was said behind so many samples of silence, its words filtered. Empty where nothing was said.
    pub fn shape(&self, said: &[f32], lead: u32) -> Vec<f32> {
        let Some(words) = words(said) else { return Vec::new() };
        let silence = std::iter::repeat_n(0.0, lead as usize);
        silence.chain(self.filter(&said[words])).map(|sample| sample as f32).collect()
    }

    /// The same length, without delay.
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

/// Where the words are: from the first frame of 10 ms that is not silent to the last; `None` where all is silent.
fn words(samples: &[f32]) -> Option<Range<usize>> {
    let loud: Vec<f64> = samples.chunks(STEP).map(root_mean_square).collect();
    let least = loud.iter().copied().fold(0.0, f64::max) * SILENCE;
    let heard = |frame: &f64| *frame > least;
    let (first, last) = (loud.iter().position(heard)?, loud.iter().rposition(heard)?);
    Some(first * STEP..((last + 1) * STEP).min(samples.len()))
}

/// The noise behind, root mean square: a tenth of the frames of a piece are as quiet as its room.
fn floor(samples: &[f32]) -> f64 {
    let mut quiet: Vec<f64> = samples.chunks_exact(STEP).map(root_mean_square).collect();
    quiet.sort_unstable_by(f64::total_cmp);
    quiet.get(quiet.len() / 10).copied().unwrap_or(0.0)
}

/// By how much a sound is to be louder so that its `words` have the public loudness; less where it would be beyond full scale.
fn gain(sound: &[f32], words: Range<usize>) -> f64 {
    let loud = root_mean_square(&sound[words]);
    let peak = sound.iter().fold(f64::MIN_POSITIVE, |peak, sample| peak.max(f64::from(sample.abs())));
    (LOUDNESS / loud.max(f64::MIN_POSITIVE)).min(PEAK / peak)
}

/// A sound with the public noise over it, which is uniform.
fn noisy(sound: impl Iterator<Item = f64>, rng: &mut impl Rng) -> Vec<f32> {
    // Of a width w it has the root mean square w/√12.
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

    /// Noise whose spectrum falls (`colour` near 1) or is flat (0), half a second with silence around.
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
        let drawn: Vec<Manner> = (0..2_000).map(|_| Manner::draw(&mut rng)).collect();
        assert!(drawn.iter().all(|one| one.lead <= MOST_LEAD && (130.0..=190.0).contains(&one.rate)));
        let mean = |of: fn(&Manner) -> f64| drawn.iter().map(of).sum::<f64>() / drawn.len() as f64;
        assert!((mean(|one| one.lead.into()) - 2_400.0).abs() < 100.0 && (mean(|one| one.rate) - 160.0).abs() < 2.0);
    }

    #[test]
    fn every_sound_leaves_equally_loud_and_equally_long() {
        let mut rng = rng();
        for (loudness, before, after) in [(0.3, 0, 0), (0.1, 1_600, 3_200), (0.003, 0, 24_000), (0.05, 6_400, 40)] {
            let leveled = level(&sound(0.5, loudness, before, after), &mut rng);
            let Level { loudness, .. } = Level::measure(&leveled).unwrap();
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
    fn a_sound_that_is_too_long_is_not_cut_off() {
        let mut rng = rng();
        assert_eq!(SAMPLES, 72_000);
        for (length, fits) in [(0, true), (72_000, true), (73_600, true), (73_601, false)] {
            let padded = pad(vec![0.1; length], &mut rng);
            assert_eq!(padded.map(|sound| sound.len()), fits.then_some(SAMPLES), "{length}");
        }
    }

    #[test]
    fn what_an_engine_says_gets_the_spectrum_of_speech() {
        let mut engine = Spectrum::default();
        engine.hear(&sound(0.0, 0.3, 0, 0));
        let speech = Spectrum::speech();
        let before = engine.distance(&speech);
        let shaped = Shaping::new(&engine).shape(&sound(0.0, 0.3, 500, 7_000), 800);
        assert!(shaped.len().abs_diff(800 + 8_000) <= 2 * STEP, "{}", shaped.len());
        let mut heard = Spectrum::default();
        heard.hear(&shaped);
        let after = heard.distance(&speech);
        assert!(before > 4.0 && after < 0.35 * before, "{before} dB became {after} dB");
        // 62.1 and 53.7 dB in thirds of an octave, of which the second is twice as wide.
        let at = |hertz: f64| 10.0 * speech.power[bin(hertz)].log10();
        assert!((at(500.0) - at(1_000.0) - 11.4).abs() < 0.2, "{}", at(500.0) - at(1_000.0));
        assert!(at(500.0) > at(4_000.0) + 20.0);
    }

    #[test]
    fn a_filter_between_like_spectra_changes_nothing() {
        let mut one = Spectrum::default();
        one.hear(&sound(0.5, 0.2, 0, 0));
        let sound = sound(0.5, 0.2, 0, 0);
        let filtered = Shaping::between(&one, &one).filter(&sound);
        let far = filtered.iter().zip(&sound).map(|(one, other)| (one - f64::from(*other)).abs()).fold(0.0, f64::max);
        assert!(far < 1e-6, "{far}");
    }

    #[test]
    fn nothing_is_ever_beyond_full_scale_and_silence_stays_empty() {
        let mut click = vec![0.000_1; 16_000];
        click[8_000] = 1.0;
        let leveled = level(&click, &mut rng());
        assert!(leveled.iter().all(|sample| sample.abs() <= 1.0));
        let shaping = Shaping::new(&Spectrum::default());
        assert!(shaping.shape(&[0.0; 900], 10).is_empty());
        assert!(shaping.shape(&[], 10).is_empty());
    }
}
