//! Canaries: random artificial units.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::Rng;

use super::stream;
use crate::dp::per_unit::PerUnit;
use crate::dp::randomness::Randomness;
use crate::speech::model::Model;
use crate::speech::model::gradient::{Example, Unit};

/// The highest number of coordinates of a direction: enough that no single one stands out, few enough that directions
/// never share one.
const WIDTH: usize = 64;
/// The ratio of a canary's gradient norm to the clip: it makes missing clipping visible, even among other gradients
/// without clipping.
const LOUDNESS: f64 = 256.0;
/// The number of coordinates of canaries' gradients in memory at a time.
const TOGETHER: usize = 1 << 24;
/// The number of sounds in a synthetic recording.
const SOUNDS: usize = 5;
/// The number of frames of a sound.
const FRAMES: usize = 8;
/// The number of recordings of a synthetic speaker.
pub(super) const UTTERANCES: usize = 4;
/// The number of synthetic recordings (or speakers) that are never members: thresholds are fixed on them.
const SHADOWS: usize = 1000;

/// Tosses fair, independent coins.
pub(super) fn toss_coins(count: usize, rng: &mut ChaCha20Rng) -> Vec<bool> {
    (0..count).map(|_| rng.next_u32() & 1 == 1).collect()
}

/// Returns the numbers of the selected canaries.
fn member_numbers(coins: &[bool]) -> Vec<usize> {
    coins.iter().enumerate().filter(|(_, is_member)| **is_member).map(|(number, _)| number).collect()
}

/// Canaries in the form of gradients: each of ± on separate coordinates, so that no two share one.
pub(super) struct CanaryDirections {
    coins: Vec<bool>,
    members: Vec<usize>,
    /// `[canaries, width]`, all different.
    coordinates: Vec<u32>,
    /// `[canaries, width]`, each ±1.
    signs: Vec<f32>,
    width: usize,
    length: usize,
}

impl CanaryDirections {
    /// Draws one for every coin, among `length` parameters; at most as many as these.
    pub(super) fn draw(coins: Vec<bool>, length: usize, rng: &mut ChaCha20Rng) -> Self {
        let width = (length / coins.len().max(1)).clamp(1, WIDTH);
        let mut all: Vec<u32> = (0..length as u32).collect();
        let count = (width * coins.len()).min(length);
        // Fisher and Yates, as far as needed; a bias of 2⁻³² in the coordinates of canaries is harmless.
        for place in 0..count {
            all.swap(place, place + (rng.next_u64() % (length - place) as u64) as usize);
        }
        all.truncate(count);
        let signs = (0..count).map(|_| if rng.next_u32() & 1 == 1 { 1.0 } else { -1.0 }).collect();
        Self { members: member_numbers(&coins), coins, coordinates: all, signs, width, length }
    }

    /// Returns the coins.
    pub(super) fn coins(&self) -> &[bool] {
        &self.coins
    }

    /// Returns the number of members.
    pub(super) const fn members(&self) -> usize {
        self.members.len()
    }

    /// Returns the coordinates of a canary, with their signs.
    fn direction(&self, canary: usize) -> impl Iterator<Item = (usize, f32)> + '_ {
        let range = canary * self.width..(canary + 1) * self.width;
        self.coordinates[range.clone()].iter().map(|at| *at as usize).zip(self.signs[range].iter().copied())
    }

    /// Returns the gradients of some members, longer than the clip, in micro-batches.
    pub(super) fn gradients<'a>(&'a self, members: &'a [usize], clip: f64) -> impl Iterator<Item = PerUnit> + 'a {
        let height = (LOUDNESS * clip / (self.width as f64).sqrt()) as f32;
        members.chunks((TOGETHER / self.length).max(1)).map(move |chunk| {
            let mut gradients = vec![0.0_f32; chunk.len() * self.length];
            for (row, member) in gradients.chunks_exact_mut(self.length).zip(chunk) {
                for (at, sign) in self.direction(self.members[*member]) {
                    row[at] = sign * height;
                }
            }
            PerUnit::new(gradients, self.length)
        })
    }

    /// Returns the amount of each canary in a released mean gradient, in clips: about 1 in a round that drew it, else
    /// about 0, plus the noise of one coordinate.
    pub(super) fn amounts<'a>(&'a self, released: &'a [f32], in_clips: f64) -> impl Iterator<Item = f64> + 'a {
        let worth = in_clips / (self.width as f64).sqrt();
        (0..self.coins.len()).map(move |canary| {
            self.direction(canary).map(|(at, sign)| f64::from(released[at] * sign)).sum::<f64>() * worth
        })
    }
}

/// A synthetic utterance.
pub(super) struct SyntheticUtterance {
    features: Vec<f32>,
    labels: Vec<u16>,
}

impl SyntheticUtterance {
    /// Draws random sounds, each held for a while under a random label.
    fn draw(model: &Model, rng: &mut ChaCha20Rng) -> Self {
        let normalizer = model.normalizer();
        let classes = model.shape().classes as u64;
        let mut utterance = Self { features: Vec::new(), labels: Vec::new() };
        for _ in 0..SOUNDS {
            let label = (rng.next_u64() % classes) as u16;
            let sound: Vec<f32> = normalizer.mean.iter().map(|_| draw_normal(rng)).collect();
            for _ in 0..FRAMES {
                utterance.labels.push(label);
                for ((mean, deviation), level) in normalizer.mean.iter().zip(&normalizer.deviation).zip(&sound) {
                    utterance.features.push(mean + deviation * (level + 0.3 * draw_normal(rng)));
                }
            }
        }
        utterance
    }

    fn as_example(&self) -> Example<'_> {
        Example { features: &self.features, labels: &self.labels }
    }
}

/// Canaries in the form of recordings, or of speakers with several: random sounds under random labels.
pub(super) struct SyntheticRecordings {
    coins: Vec<bool>,
    members: Vec<usize>,
    canaries: Vec<Vec<SyntheticUtterance>>,
    shadows: Vec<Vec<SyntheticUtterance>>,
}

impl SyntheticRecordings {
    /// Makes one of `utterances` utterances for every coin; as loud and varied as the public data that `model` was
    /// normalized by.
    pub(super) fn make(coins: Vec<bool>, utterances: usize, model: &Model, secret: &Randomness) -> Self {
        let unit = |index: u32| {
            let mut rng = secret.stream(index);
            (0..utterances).map(|_| SyntheticUtterance::draw(model, &mut rng)).collect()
        };
        let units = |first: u32, count: usize| (first..).take(count).map(unit).collect();
        let shadows = if coins.is_empty() { 0 } else { SHADOWS };
        Self {
            members: member_numbers(&coins),
            canaries: units(stream::RECORDINGS, coins.len()),
            shadows: units(stream::SHADOWS, shadows),
            coins,
        }
    }

    /// Returns the coins.
    pub(super) fn coins(&self) -> &[bool] {
        &self.coins
    }

    /// Returns the number of members.
    pub(super) const fn members(&self) -> usize {
        self.members.len()
    }

    /// Returns a member.
    pub(super) fn member(&self, number: usize) -> Unit<'_> {
        self.canaries[self.members[number]].iter().map(SyntheticUtterance::as_example).collect()
    }

    /// Returns every canary, in the order of the coins.
    pub(super) fn canaries(&self) -> impl Iterator<Item = Unit<'_>> {
        self.canaries.iter().map(|unit| unit.iter().map(SyntheticUtterance::as_example).collect())
    }

    /// Returns the recordings that are never members.
    pub(super) fn shadows(&self) -> impl Iterator<Item = Unit<'_>> {
        self.shadows.iter().map(|unit| unit.iter().map(SyntheticUtterance::as_example).collect())
    }
}

/// Draws an approximately normal number: the sum of four uniform numbers, with mean 0 and variance 1.
fn draw_normal(rng: &mut impl Rng) -> f32 {
    let sum: f32 = (0..4).map(|_| rng.next_u32() as f32 / u32::MAX as f32 - 0.5).sum();
    sum * 3.0_f32.sqrt()
}
