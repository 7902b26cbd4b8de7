//! How true pieces sound on the whole, and dummies made to sound so: as long before and after the words, as fast, as loud, of
//! the same average spectrum and with as much noise behind.
//!
//! What people recorded has silences, a room and a pace that are as natural as those of the true pieces, and keeps them
//! ([`Shaping::recorded`]): made-up silence would be worse.
//!
//! Every dummy has a [`Manner`] of its own, put together from true pieces that are sent: its silences and its rate from one each,
//! loudness and noise from another, and each of them a little other than there. A manner that was a piece's own would be known
//! again: the pieces of one provider would show among the dummies of another, and whoever counted the different manners
//! would know how many pieces there are, which the noise of the plan hides. What a provider learns by its dummies of pieces that
//! others hear is how they sound on the whole, as it does by the average spectrum, which is that of all. Manners are drawn once
//! and kept with the texts, so that the same sound is made again.

use std::f64::consts::PI;
use std::ops::Range;

use rand_chacha::rand_core::Rng;
use realfft::RealFftPlanner;
use serde::{Deserialize, Serialize};

use super::{RATES, USUAL_RATE};
use crate::dp::noise::below;
use crate::speech::audio::RATE;
use crate::speech::transcribe::segment::FRAME as FRAME_OF_PIECES;

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
/// Longest silence before or after the words, samples: 1 s.
const LONGEST_SILENCE: usize = RATE as usize;
/// What no sample is above.
const PEAK: f64 = 0.98;
/// Samples by which the silences of a manner are longer or shorter than a piece's: up to 40 ms.
const SILENCE_APART: u32 = 640;
/// The part by which loudness, noise and rate of a manner are more or less than a piece's.
const APART: f64 = 0.1;

/// How one piece is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manner {
    /// Silence before the words, samples.
    pub before: u32,
    /// Silence after them, samples.
    pub after: u32,
    /// Root mean square of the words, full scale = 1.
    pub loudness: f64,
    /// Root mean square of the noise behind.
    pub floor: f64,
    /// Words a minute, 80 to 400.
    pub rate: f64,
}

/// A long-term average spectrum: mean power of the frames with speech, by frequency from 0 to 8 kHz.
#[derive(Debug, Clone, PartialEq)]
pub struct Spectrum {
    power: Vec<f64>,
    frames: u64,
}

/// What is known of the true pieces that are sent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Likeness {
    spectrum: Spectrum,
    manners: Vec<Manner>,
}

/// Makes what an engine said like the true pieces.
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

impl Likeness {
    /// Hears a true piece that is sent, with so many words in it by its offline transcript; whether it has any sound. One without
    /// is passed over.
    pub fn hear(&mut self, samples: &[f32], count: usize) -> bool {
        let Some(manner) = Manner::of(samples, count) else { return false };
        self.spectrum.hear(samples);
        self.manners.push(manner);
        true
    }

    /// The average spectrum.
    pub const fn spectrum(&self) -> &Spectrum {
        &self.spectrum
    }

    /// A manner that is like theirs and nobody's own; `None` where none was heard.
    pub fn draw(&self, rng: &mut impl Rng) -> Option<Manner> {
        self.choose(rng).map(|(_, manner)| manner)
    }

    /// As [`Likeness::draw`], with the place of the one whose loudness it has among those that have a sound, in the order in which
    /// they were heard.
    pub fn choose(&self, rng: &mut impl Rng) -> Option<(usize, Manner)> {
        let (place, loud) = self.one(rng)?;
        let ((_, before), (_, after), (_, rate)) = (self.one(rng)?, self.one(rng)?, self.one(rng)?);
        let manner = Manner {
            before: silence_near(before.before, rng),
            after: silence_near(after.after, rng),
            loudness: near(loud.loudness, rng),
            floor: near(loud.floor, rng),
            rate: near(rate.rate, rng).clamp(*RATES.start(), *RATES.end()),
        };
        Some((place, manner))
    }

    /// One of them as it is, with its place.
    fn one(&self, rng: &mut impl Rng) -> Option<(usize, Manner)> {
        let count = u32::try_from(self.manners.len()).ok().filter(|count| *count > 0)?;
        let place = below(count, rng) as usize;
        self.manners.get(place).map(|manner| (place, *manner))
    }
}

/// To how many of its samples a sound is cut before it leaves, true piece or dummy: by chance up to a frame of the segmenter less.
/// Pieces end where the segmenter's frames do, and dummies elsewhere: by what division by a frame leaves over, a provider could
/// tell them apart.
pub fn ragged(samples: usize, rng: &mut impl Rng) -> usize {
    samples - (below(FRAME_OF_PIECES as u32, rng) as usize).min(samples / 2)
}

/// Samples of what was said, from the first word to the last; 0 for silence.
pub fn length(said: &[f32]) -> usize {
    words(said).map_or(0, |words| words.len())
}

/// A silence of about so many samples.
fn silence_near(samples: u32, rng: &mut impl Rng) -> u32 {
    (samples + below(2 * SILENCE_APART + 1, rng)).saturating_sub(SILENCE_APART).min(LONGEST_SILENCE as u32)
}

/// About as much.
fn near(value: f64, rng: &mut impl Rng) -> f64 {
    value * (1.0 - APART + 2.0 * APART * f64::from(rng.next_u32()) / f64::from(u32::MAX))
}

impl Manner {
    /// How a piece is spoken, with so many words in it; 0 for a usual rate. `None` for a piece without any sound.
    pub fn of(samples: &[f32], count: usize) -> Option<Self> {
        let words = words(samples)?;
        let minutes = words.len() as f64 / f64::from(RATE) / 60.0;
        let rate = if count == 0 { USUAL_RATE } else { count as f64 / minutes };
        let silence = |samples: usize| samples.min(LONGEST_SILENCE) as u32;
        Some(Self {
            before: silence(words.start),
            after: silence(samples.len() - words.end),
            loudness: root_mean_square(&samples[words.clone()]),
            floor: floor(samples),
            rate: rate.clamp(*RATES.start(), *RATES.end()),
        })
    }
}

impl Shaping {
    /// From what an engine says, on the whole, to what the true pieces are.
    pub fn new(engine: &Spectrum, true_pieces: &Spectrum) -> Self {
        let (from, to) = (smoothed(&engine.shares()), smoothed(&true_pieces.shares()));
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

    /// What was said in this manner: its words filtered and as loud, silence around them, noise over all. Empty where nothing
    /// was said.
    pub fn shape(&self, said: &[f32], manner: &Manner, rng: &mut impl Rng) -> Vec<f32> {
        let Some(words) = words(said) else { return Vec::new() };
        let filtered = self.filter(&said[words]);
        let gain = gain(&filtered, 0..filtered.len(), manner);
        let silence = |samples: u32| std::iter::repeat_n(0.0, samples as usize);
        let around =
            silence(manner.before).chain(filtered.iter().map(|sample| gain * sample)).chain(silence(manner.after));
        noisy(around, manner.floor, rng)
    }

    /// What was recorded, and cut as the true pieces are, in the loudness of this manner: its colour becomes theirs, its
    /// silences and its pace stay its own, and noise fills up what its room is quieter. Empty where nothing was said.
    pub fn recorded(&self, said: &[f32], manner: &Manner, rng: &mut impl Rng) -> Vec<f32> {
        let Some(words) = words(said) else { return Vec::new() };
        let filtered = self.filter(said);
        let gain = gain(&filtered, words, manner);
        let room: Vec<f32> = filtered.iter().map(|sample| (gain * sample) as f32).collect();
        let missing = (manner.floor.powi(2) - floor(&room).powi(2)).max(0.0).sqrt();
        noisy(room.into_iter().map(f64::from), missing, rng)
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

/// By how much a sound is to be louder so that its `words` have the loudness of a manner; less where it would be beyond full
/// scale.
fn gain(sound: &[f64], words: Range<usize>, manner: &Manner) -> f64 {
    let samples = words.len().max(1) as f64;
    let loud = (sound[words].iter().map(|sample| sample * sample).sum::<f64>() / samples).sqrt();
    let peak = sound.iter().fold(f64::MIN_POSITIVE, |peak, sample| peak.max(sample.abs()));
    (manner.loudness / loud.max(f64::MIN_POSITIVE)).min(PEAK / peak)
}

/// A sound with uniform noise of this root mean square over it.
fn noisy(sound: impl Iterator<Item = f64>, floor: f64, rng: &mut impl Rng) -> Vec<f32> {
    // Of a width w it has the root mean square w/√12.
    let width = floor * 12.0_f64.sqrt();
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
    fn a_manner_is_heard_as_it_is() {
        let mut likeness = Likeness::default();
        likeness.hear(&sound(0.0, 0.1, 1_600, 3_200), 2);
        assert!(!likeness.hear(&[0.0; 4_000], 2));
        assert_eq!(likeness.choose(&mut rng()).map(|(place, _)| place), Some(0), "silence has no place");
        let manner = likeness.manners[0];
        assert_eq!((manner.before, manner.after), (1_600, 3_200));
        assert!((manner.loudness - 0.1).abs() < 1e-3, "{manner:?}");
        assert!((manner.rate - 240.0).abs() < 1.0, "two words in half a second: {manner:?}");
        assert!(Likeness::default().draw(&mut rng()).is_none());
    }

    #[test]
    fn manners_are_like_the_pieces_and_tell_neither_which_nor_how_many_there_are() {
        let mut likeness = Likeness::default();
        likeness.hear(&sound(0.0, 0.1, 1_600, 3_200), 2);
        likeness.hear(&sound(0.0, 0.3, 6_400, 0), 1);
        let pieces = likeness.manners.clone();
        let mut rng = rng();
        let drawn: Vec<Manner> = (0..1_000).map(|_| likeness.draw(&mut rng).unwrap()).collect();
        let near = |found: f64, one: f64, apart: f64| (found - one).abs() <= apart * (1.0 + 1e-9);
        for manner in &drawn {
            let silence =
                |of: fn(&Manner) -> u32| pieces.iter().any(|piece| near(of(manner).into(), of(piece).into(), 640.0));
            let part = |of: fn(&Manner) -> f64| pieces.iter().any(|piece| near(of(manner), of(piece), 0.1 * of(piece)));
            assert!(silence(|one| one.before) && silence(|one| one.after), "{manner:?}");
            assert!(part(|one| one.loudness) && part(|one| one.rate) && RATES.contains(&manner.rate), "{manner:?}");
        }
        // Silences of one piece with the loudness of the other, and no two alike.
        assert!(drawn.iter().any(|one| one.before < 3_000 && one.loudness > 0.2));
        assert!(drawn.iter().any(|one| one.before > 3_000 && one.loudness < 0.2));
        let mut different: Vec<u64> = drawn.iter().map(|one| one.loudness.to_bits()).collect();
        different.sort_unstable();
        different.dedup();
        assert!(different.len() > 990, "{}", different.len());
    }

    #[test]
    fn what_is_left_of_a_length_by_frames_tells_nothing() {
        let mut rng = rng();
        // As pieces are cut by pauses, and as what engines say would be.
        for length in [256 * 90 + 3_200, 160 * 150] {
            let mut left = [0_u32; 256];
            for _ in 0..25_600 {
                let cut = ragged(length, &mut rng);
                assert!((length - 255..=length).contains(&cut));
                left[cut % 256] += 1;
            }
            assert!(left.iter().all(|count| (40..=160).contains(count)), "{left:?}");
        }
        assert_eq!((ragged(0, &mut rng), ragged(1, &mut rng)), (0, 1));
    }

    #[test]
    fn what_is_shaped_has_the_length_the_loudness_and_the_colour_that_it_should() {
        let (mut engine, mut likeness) = (Spectrum::default(), Likeness::default());
        engine.hear(&sound(0.0, 0.3, 0, 0));
        likeness.hear(&sound(0.9, 0.05, 800, 480), 2);
        let before = engine.distance(likeness.spectrum());
        let manner = likeness.manners[0];
        let shaping = Shaping::new(&engine, likeness.spectrum());
        let shaped = shaping.shape(&sound(0.0, 0.3, 500, 7_000), &manner, &mut rng());
        assert!(shaped.len().abs_diff(800 + 8_000 + 480) <= 2 * STEP, "{}", shaped.len());
        let loud = root_mean_square(&shaped[900..8_700]);
        assert!((loud / 0.05 - 1.0).abs() < 0.05, "{loud}");
        let mut heard = Spectrum::default();
        heard.hear(&shaped);
        let after = heard.distance(likeness.spectrum());
        assert!(before > 4.0 && after < 0.35 * before, "{before} dB became {after} dB");
    }

    #[test]
    fn what_was_recorded_keeps_its_silences_and_gets_colour_loudness_and_noise() {
        let (mut corpus, mut likeness) = (Spectrum::default(), Likeness::default());
        let said = sound(0.0, 0.3, 2_400, 3_200);
        corpus.hear(&said);
        likeness.hear(&sound(0.9, 0.05, 800, 480), 2);
        let before = corpus.distance(likeness.spectrum());
        let manner = Manner { floor: 0.002, ..likeness.manners[0] };
        let shaping = Shaping::new(&corpus, likeness.spectrum());
        let shaped = shaping.recorded(&said, &manner, &mut rng());
        assert_eq!(shaped.len(), said.len());
        let loud = root_mean_square(&shaped[2_500..10_300]);
        assert!((loud / 0.05 - 1.0).abs() < 0.05, "{loud}");
        let mut heard = Spectrum::default();
        heard.hear(&shaped);
        let after = heard.distance(likeness.spectrum());
        assert!(before > 4.0 && after < 0.35 * before, "{before} dB became {after} dB");
        // Its room is silent, so that all the noise is added; one that is as loud gets none.
        assert!((root_mean_square(&shaped[..2_200]) / 0.002 - 1.0).abs() < 0.1);
        let quiet = Manner { floor: 0.0, ..manner };
        let clean = shaping.recorded(&said, &quiet, &mut rng());
        assert!(root_mean_square(&clean[..2_200]) < 1e-9);
        assert!(shaping.recorded(&[0.0; 900], &manner, &mut rng()).is_empty());
    }

    #[test]
    fn a_filter_between_like_spectra_changes_nothing() {
        let mut one = Spectrum::default();
        one.hear(&sound(0.5, 0.2, 0, 0));
        let sound = sound(0.5, 0.2, 0, 0);
        let filtered = Shaping::new(&one, &one).filter(&sound);
        let far = filtered.iter().zip(&sound).map(|(one, other)| (one - f64::from(*other)).abs()).fold(0.0, f64::max);
        assert!(far < 1e-6, "{far}");
    }

    #[test]
    fn nothing_is_ever_beyond_full_scale_and_silence_stays_empty() {
        let manner = Manner { before: 10, after: 10, loudness: 5.0, floor: 0.5, rate: 175.0 };
        let shaping = Shaping::new(&Spectrum::default(), &Spectrum::default());
        let shaped = shaping.shape(&sound(0.0, 0.5, 0, 0), &manner, &mut rng());
        assert!(shaped.iter().all(|sample| sample.abs() <= 1.0));
        assert!(shaping.shape(&[0.0; 900], &manner, &mut rng()).is_empty());
        assert!(shaping.shape(&[], &manner, &mut rng()).is_empty());
    }
}
