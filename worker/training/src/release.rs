//! The end of the chain: noise, and the finished vector. The site stores the vector and charges its ledger before the
//! vector leaves.

mod correlated;
mod masked;
mod update;

use std::ops::Range;

use rayon::prelude::*;
use undertone_privacy::{Event, SamplingRate};

use super::clip::ClippedSum;
use super::clip::grid::Clip;
use super::noise::DiscreteGaussian;
use super::randomness::Randomness;
use super::vector::STRIDE;
use undertone_worker_site::clearance::{Clearance, GrantId};

pub use correlated::{CorrelatedNoise, DrawnNoise};
pub use masked::{GroupNoise, NoisySum};
pub use update::{LocalStep, Update};

/// Reasons why a release fails.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ReleaseError {
    /// The grant is for another event.
    #[error("the grant is for {granted:?}, but the release is {made:?}: make spec and manifest agree")]
    WrongEvent {
        /// The granted event.
        granted: Box<Event>,
        /// The event of the release.
        made: Box<Event>,
    },
    /// The expected batch is not a valid divisor.
    #[error("expected batch {0} is not valid: set a finite number greater than 0")]
    ExpectedBatch(f64),
    /// An exact vector was released under a grant for a noisy one.
    #[error("an exact vector requires public data or a grant for a release without noise, not {0:?}")]
    NotExact(Box<Event>),
    /// The noise of a group's sum is below that of the event.
    #[error("noise of {drawn} steps is below the {charged} steps that the group's event states")]
    GroupNoise {
        /// The deviation to draw.
        drawn: u32,
        /// The deviation of the event.
        charged: u32,
    },
    /// The deviation of correlated noise exceeds the integers.
    #[error("noise multiplier {0} is too large for correlated noise: set a smaller one, or fewer bands")]
    CorrelatedNoise(f64),
    /// The noise of a step was drawn for other terms.
    #[error("the noise of step {step} is of another length, clip or training than the sum: draw it for this training")]
    OtherNoise {
        /// The step.
        step: u32,
    },
    /// An update belongs to another grant or is incomplete.
    #[error("an update of {steps} steps does not belong to the grant for {granted} steps: release exactly its steps")]
    NotOfThisGrant {
        /// Number of steps in the update.
        steps: u32,
        /// Number of granted steps.
        granted: u32,
    },
    /// The best run was requested before all runs were made.
    #[error("only {made} of the {most} runs of the selection were made: finish it after all of them")]
    RunsLeft {
        /// Number of runs made.
        made: u16,
        /// Number of runs that every selection makes.
        most: u16,
    },
}

/// A differentially private mean gradient. The site sends it after it is stored and charged.
#[derive(Debug)]
#[must_use = "noise was drawn for it"]
pub struct Release {
    vector: Vec<f32>,
    /// Variance of the noise in each coordinate.
    variance: f64,
    grant: Option<GrantId>,
}

impl ClippedSum {
    /// Adds discrete Gaussian noise once and divides by the *expected* batch q·n, never by the drawn one: g̃ = (Σ
    /// clip(gᵢ) + N_ℤ(0, σ²)) / (q n) (`privacy.md`, 1.4 and 11.2). The call consumes the permission: a grant for
    /// exactly this event, or the site's permission for public data.
    ///
    /// # Errors
    /// [`ReleaseError`] if the grant is for another event, or the expected batch is not a valid divisor. Nothing is
    /// charged.
    pub fn release(
        self,
        expected_batch: f64,
        clearance: Clearance,
        randomness: &Randomness,
    ) -> Result<Release, ReleaseError> {
        let parts = self.into_parts();
        let event = release_event(&parts.0, parts.1);
        let grant = match clearance {
            Clearance::Public(_) => None,
            Clearance::Granted(grant) if *grant.event() == event => Some(grant.id().clone()),
            Clearance::Granted(grant) => {
                let granted = Box::new(grant.event().clone());
                return Err(ReleaseError::WrongEvent { granted, made: Box::new(event) });
            }
        };
        let (vector, variance) = noisy_mean(&parts.0, &parts.2, expected_batch, randomness)?;
        Ok(Release { vector, variance, grant })
    }
}

/// Returns the event of a sum's release. Its noise is discrete and is charged as continuous: on a grid as fine as
/// [`Clip`]'s that changes no digit of the price ([`undertone_privacy::mechanism::ln_grid_excess`], with the proof).
fn release_event(clip: &Clip, sampling_rate: SamplingRate) -> Event {
    Event::PoissonSampledGaussian { sampling_rate, noise_multiplier: clip.noise_multiplier() }
}

/// Returns the mean gradient with its noise, and the variance of the noise in each coordinate. Callers must have
/// consumed a permission.
fn noisy_mean(
    clip: &Clip,
    sum: &[i64],
    expected_batch: f64,
    randomness: &Randomness,
) -> Result<(Vec<f32>, f64), ReleaseError> {
    if !(expected_batch.is_finite() && expected_batch > 0.0) {
        return Err(ReleaseError::ExpectedBatch(expected_batch));
    }
    let deviation = clip.deviation() as f64 * clip.step() / expected_batch;
    Ok((add_noise(clip, sum, expected_batch, randomness), deviation * deviation))
}

/// Returns (sum + noise) · γ / expected batch. Each stride of coordinates has its own stream, so threads share no
/// state.
pub(super) fn add_noise(clip: &Clip, sum: &[i64], expected_batch: f64, randomness: &Randomness) -> Vec<f32> {
    let noise = DiscreteGaussian::integer(clip.deviation());
    let worth = clip.step() / expected_batch;
    let mut vector = vec![0.0_f32; sum.len()];
    #[cfg(any(test, feature = "testing"))]
    let broken = super::sabotage::active_fault();
    let strides = vector.par_chunks_mut(STRIDE).zip(sum.par_chunks(STRIDE)).enumerate();
    strides.for_each(|(index, (vector, sum))| {
        let mut rng = randomness.stream(index as u32);
        for (value, sum) in vector.iter_mut().zip(sum) {
            let draw = noise.sample(&mut rng);
            #[cfg(any(test, feature = "testing"))]
            let draw = match broken {
                Some(super::sabotage::Sabotage::NoNoise) => 0,
                Some(super::sabotage::Sabotage::LittleNoise(factor)) => draw / factor,
                _ => draw,
            };
            *value = ((sum + draw) as f64 * worth) as f32;
        }
    });
    vector
}

impl ClippedSum {
    /// Draws the noise of a release and drops it with the sum, to measure the duration.
    pub fn discard_noise(self, randomness: &Randomness) {
        let (clip, _, sum) = self.into_parts();
        drop(std::hint::black_box(add_noise(&clip, &sum, 1.0, randomness)));
    }
}

impl Release {
    /// Returns the mean gradient.
    pub fn vector(&self) -> &[f32] {
        &self.vector
    }

    /// Sets the coordinates outside the ranges to zero. This is post-processing of the release, and charges nothing: for a
    /// vector of which other sites fill the rest, so that the noise of this site is not in their numbers.
    pub fn keep_only(mut self, kept: &[Range<usize>]) -> Self {
        let mut vector = vec![0.0; self.vector.len()];
        for range in kept {
            if let (Some(target), Some(own)) = (vector.get_mut(range.clone()), self.vector.get(range.clone())) {
                target.copy_from_slice(own);
            }
        }
        self.vector = vector;
        self
    }

    /// Returns the variance of the noise in each coordinate, (z C / (q n))², a public number.
    pub const fn variance(&self) -> f64 {
        self.variance
    }
}

/// A finished vector: an exchange can store, charge and send only this type, in this order.
///
/// There are three ways to construct it: from a [`Release`], from an [`Update`] that only releases have changed, or
/// exactly, with the site's permission. A plain vector does not compile:
///
/// ```compile_fail,E0451
/// use undertone_worker_training::release::Outgoing;
/// let bare = Outgoing { vector: vec![0.0_f32; 3], grant: None };
/// ```
///
/// A clipped sum without noise does not compile either:
///
/// ```compile_fail,E0277
/// use undertone_worker_training::{clip::ClippedSum, release::Outgoing};
/// fn send(sum: ClippedSum) -> Outgoing {
///     Outgoing::from(sum)
/// }
/// ```
///
/// A grant permits one release:
///
/// ```compile_fail,E0382
/// use undertone_worker_training::{clip::ClippedSum, randomness::Randomness};
/// use undertone_worker_site::clearance::Clearance;
/// fn twice(one: ClippedSum, two: ClippedSum, granted: Clearance, randomness: &Randomness) {
///     let _ = one.release(1.0, granted, randomness);
///     let _ = two.release(1.0, granted, randomness);
/// }
/// ```
#[derive(Debug)]
#[must_use = "it was made to be sent"]
pub struct Outgoing {
    vector: Vec<f32>,
    grant: Option<GrantId>,
}

impl From<Release> for Outgoing {
    fn from(release: Release) -> Self {
        Self { vector: release.vector, grant: release.grant }
    }
}

impl Outgoing {
    /// Returns an exact vector, of public data or granted as a release without noise ([`Event::NonPrivate`]).
    ///
    /// # Errors
    /// [`ReleaseError::NotExact`] if the grant is for a noisy release.
    pub fn exact(vector: Vec<f32>, clearance: Clearance) -> Result<Self, ReleaseError> {
        match clearance {
            Clearance::Public(_) => Ok(Self { vector, grant: None }),
            Clearance::Granted(grant) if *grant.event() == Event::NonPrivate => {
                Ok(Self { vector, grant: Some(grant.id().clone()) })
            }
            Clearance::Granted(grant) => Err(ReleaseError::NotExact(Box::new(grant.event().clone()))),
        }
    }

    /// Returns the vector to send.
    pub fn vector(&self) -> &[f32] {
        &self.vector
    }

    /// Returns the grant of the vector; `None` for public data.
    pub const fn grant(&self) -> Option<&GrantId> {
        self.grant.as_ref()
    }

    /// Returns the numbers of the vector.
    pub fn into_vector(self) -> Vec<f32> {
        self.vector
    }
}

#[cfg(test)]
mod tests;
