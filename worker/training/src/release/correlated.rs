//! Noise that is correlated over the steps of a training by a banded encoder C, in integers.
//!
//! The noise of step t is y(t) = z(t) − R(Σ C(k) y(t − k)): z is discrete Gaussian noise of the step, R rounds to a whole step
//! of the grid. So C y is z, up to the rounding, to which the deviation of z is scaled
//! (`undertone_privacy::correlated`, with the proof). A step without a release has no noise, y = 0.
//!
//! The noise of all steps follows from the randomness of each: after a crash the site draws it again, in the same order.

use std::collections::VecDeque;
use std::num::NonZeroU32;

use rayon::prelude::*;
use undertone_privacy::correlated::{BandedEncoder, WEIGHT_BITS};
use undertone_privacy::{Event, SamplingRate};
use undertone_worker_site::clearance::Clearance;

use super::{Release, ReleaseError};
use crate::clip::{Clip, ClippedSum};
use crate::noise::DiscreteGaussian;
use crate::randomness::Randomness;
use crate::vector::STRIDE;

/// The correlated noise of one training of one site.
pub struct CorrelatedNoise {
    clip: Clip,
    bands: NonZeroU32,
    releases: NonZeroU32,
    encoder: BandedEncoder,
    length: usize,
    /// The deviation of z, in steps of the grid.
    deviation: u64,
    /// The noise of the last b − 1 drawn steps, oldest first.
    earlier: VecDeque<StepNoise>,
}

/// The noise y of a step.
struct StepNoise {
    step: u32,
    values: Vec<i64>,
}

/// The noise of one step, for one release.
#[must_use = "noise was drawn for a release"]
pub struct DrawnNoise<'a> {
    terms: &'a CorrelatedNoise,
    step: u32,
    values: &'a [i64],
}

impl CorrelatedNoise {
    /// Makes the noise of a training of `releases` steps with vectors of `length` coordinates, before its first step.
    ///
    /// # Errors
    /// [`ReleaseError::CorrelatedNoise`] if its deviation exceeds the integers.
    pub fn new(clip: Clip, bands: NonZeroU32, releases: NonZeroU32, length: usize) -> Result<Self, ReleaseError> {
        let encoder = BandedEncoder::best(bands, releases);
        let sensitivity = encoder.sensitivity(clip.radius(), length);
        // The product is rounded, so the next number above it is not below the true product.
        let deviation = (clip.noise_multiplier().get() * sensitivity).next_up().ceil();
        if deviation >= f64::from(u32::MAX) {
            return Err(ReleaseError::CorrelatedNoise(clip.noise_multiplier().get()));
        }
        let earlier = VecDeque::new();
        Ok(Self { clip, bands, releases, encoder, length, deviation: deviation as u64, earlier })
    }

    /// The version of the computation: another one may give other noise from the same randomness. Raise it with each such
    /// change of [`Self::draw`], of the discrete Gaussian or of its streams.
    pub const VERSION: u32 = 1;

    /// Returns the weights of the noise of the steps before, in units of 2^-[`WEIGHT_BITS`], the step just before first.
    pub fn weights(&self) -> &[i64] {
        self.encoder.weights()
    }

    /// Returns the deviation of the independent part of the noise, in steps of the grid.
    pub const fn deviation(&self) -> u64 {
        self.deviation
    }

    /// Returns b.
    pub const fn bands(&self) -> NonZeroU32 {
        self.bands
    }

    /// Draws the noise of a step, from 1, in place of an earlier draw of the same step. Steps are drawn in ascending
    /// order; the noise of a step between them is 0.
    pub fn draw(&mut self, step: u32, randomness: &Randomness) -> DrawnNoise<'_> {
        self.earlier.retain(|earlier| earlier.step < step && step - earlier.step < self.bands.get());
        let values = self.make_step(step, randomness);
        self.earlier.push_back(StepNoise { step, values });
        let values = self.earlier.back().map_or(&[][..], |last| &last.values[..]);
        DrawnNoise { terms: self, step, values }
    }

    fn make_step(&self, step: u32, randomness: &Randomness) -> Vec<i64> {
        let weighted: Vec<(i64, &[i64])> = self
            .earlier
            .iter()
            .filter_map(|earlier| {
                let weight = self.encoder.weights().get((step - earlier.step) as usize - 1)?;
                Some((*weight, &earlier.values[..]))
            })
            .collect();
        let noise = DiscreteGaussian::integer(self.deviation);
        let mut values = vec![0_i64; self.length];
        values.par_chunks_mut(STRIDE).enumerate().for_each(|(index, values)| {
            let mut rng = randomness.stream(index as u32);
            for (offset, value) in values.iter_mut().enumerate() {
                let coordinate = index * STRIDE + offset;
                let sum: i128 = weighted
                    .iter()
                    .map(|(weight, earlier)| i128::from(*weight) * i128::from(earlier[coordinate]))
                    .sum();
                *value = noise.sample(&mut rng) - round_weight(sum);
            }
        });
        values
    }

    fn event(&self, sampling_rate: SamplingRate) -> Event {
        let noise_multiplier = self.clip.noise_multiplier();
        Event::BandedGaussian { sampling_rate, noise_multiplier, bands: self.bands, releases: self.releases }
    }
}

/// Returns a number in units of a weight, rounded to the nearest whole step of the grid.
fn round_weight(value: i128) -> i64 {
    ((value + (1 << (WEIGHT_BITS - 1))) >> WEIGHT_BITS) as i64
}

impl ClippedSum {
    /// Adds the noise of a step and divides by the *expected* batch q·n, as [`ClippedSum::release`] does with independent
    /// noise. The call consumes the permission, a grant for the whole training, and the noise of the step.
    ///
    /// # Errors
    /// [`ReleaseError`] if the grant is for another event, the sum is of another length or clip than the noise, or the
    /// expected batch is not a valid divisor. Nothing is charged.
    #[expect(clippy::needless_pass_by_value, reason = "the noise of a step is for one release")]
    pub fn release_correlated(
        self,
        expected_batch: f64,
        clearance: Clearance,
        noise: DrawnNoise<'_>,
    ) -> Result<Release, ReleaseError> {
        let (clip, sampling_rate, sum) = self.into_parts();
        let DrawnNoise { terms, step, values } = noise;
        let made = terms.event(sampling_rate);
        let grant = match clearance {
            Clearance::Public(_) => None,
            Clearance::Granted(grant) if *grant.event() == made => Some(grant.id().clone()),
            Clearance::Granted(grant) => {
                return Err(ReleaseError::WrongEvent {
                    granted: Box::new(grant.event().clone()),
                    made: Box::new(made),
                });
            }
        };
        if clip != terms.clip || sum.len() != values.len() || !(1..=terms.releases.get()).contains(&step) {
            return Err(ReleaseError::OtherNoise { step });
        }
        if !(expected_batch.is_finite() && expected_batch > 0.0) {
            return Err(ReleaseError::ExpectedBatch(expected_batch));
        }
        let worth = clip.step() / expected_batch;
        let vector = sum.iter().zip(values).map(|(sum, noise)| ((sum + noise) as f64 * worth) as f32).collect();
        let deviation = terms.deviation as f64 * worth * terms.encoder.step_deviation(step);
        Ok(Release { vector, variance: deviation * deviation, grant })
    }
}

#[cfg(test)]
mod tests;
