//! The end of the chain: noise, and the finished vector. The site stores it and pays for it before it leaves.

mod update;

use rayon::prelude::*;
use undertone_privacy::{Event, SamplingRate};

use super::clip::{Clip, ClippedSum, STRIDE};
use super::noise::DiscreteGaussian;
use super::randomness::Randomness;
use crate::site::clearance::{Clearance, GrantId};

pub use update::{Step, Update};

/// Why nothing is released.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ReleaseError {
    /// Something else was granted.
    #[error("the site grants {granted:?}, but the release would be {made:?}: spec and manifest disagree")]
    WrongEvent {
        /// What was granted.
        granted: Box<Event>,
        /// What would be made.
        made: Box<Event>,
    },
    /// No size to divide by.
    #[error("the expected batch must be a finite number greater than 0, not {0}")]
    ExpectedBatch(f64),
    /// Exact numbers were to leave by a grant for noisy ones.
    #[error(
        "an exact vector may leave only when the data are public or a release without noise was granted, not {0:?}"
    )]
    NotExact(Box<Event>),
    /// An update was to leave by another grant, or not whole.
    #[error("an update of {steps} steps cannot leave by a grant for {granted} steps of its own")]
    NotOfThisGrant {
        /// Releases it is made of.
        steps: u32,
        /// Releases that were granted.
        granted: u32,
    },
    /// The best of some runs was to leave before all were made.
    #[error("of the {most} runs of a selection only {made} were made: the best leaves after all of them")]
    RunsLeft {
        /// Runs made.
        made: u16,
        /// Runs that are always made.
        most: u16,
    },
}

/// A differentially private mean gradient. It leaves once it is stored and paid for.
#[derive(Debug)]
#[must_use = "noise was drawn for it"]
pub struct Release {
    vector: Vec<f32>,
    /// Of the noise in each coordinate.
    variance: f64,
    grant: Option<GrantId>,
}

impl ClippedSum {
    /// Adds discrete Gaussian noise, once, and divides by the *expected* batch q·n, never by the one drawn:
    /// g̃ = (Σ clip(gᵢ) + N_ℤ(0, σ²)) / (q n) (`privacy.md`, 1.4 and 11.2). The permission is used up: a grant for exactly
    /// this event, or the site's word that the data are public.
    ///
    /// # Errors
    /// [`ReleaseError`] when the grant is for another event, or there is nothing to divide by. Nothing was charged.
    pub fn release(
        self,
        expected_batch: f64,
        clearance: Clearance,
        randomness: &Randomness,
    ) -> Result<Release, ReleaseError> {
        let parts = self.into_parts();
        let made = made(&parts.0, parts.1);
        let grant = match clearance {
            Clearance::Public(_) => None,
            Clearance::Granted(grant) if *grant.event() == made => Some(grant.id().clone()),
            Clearance::Granted(grant) => {
                let granted = Box::new(grant.event().clone());
                return Err(ReleaseError::WrongEvent { granted, made: Box::new(made) });
            }
        };
        let (vector, variance) = hidden(&parts.0, &parts.2, expected_batch, randomness)?;
        Ok(Release { vector, variance, grant })
    }
}

/// What the release of a sum releases. Its noise is discrete and is charged as continuous: on a grid as fine as [`Clip`]'s that
/// changes no digit of the price ([`undertone_privacy::mechanism::ln_grid_excess`], with the proof).
fn made(clip: &Clip, sampling_rate: SamplingRate) -> Event {
    Event::PoissonSampledGaussian { sampling_rate, noise_multiplier: clip.noise_multiplier() }
}

/// The mean gradient with its noise, and the variance of the noise in each coordinate. Only where a permission was used up.
fn hidden(
    clip: &Clip,
    sum: &[i64],
    expected_batch: f64,
    randomness: &Randomness,
) -> Result<(Vec<f32>, f64), ReleaseError> {
    if !(expected_batch.is_finite() && expected_batch > 0.0) {
        return Err(ReleaseError::ExpectedBatch(expected_batch));
    }
    let deviation = clip.deviation() as f64 * clip.step() / expected_batch;
    Ok((noised(clip, sum, expected_batch, randomness), deviation * deviation))
}

/// (sum + noise) · γ / expected batch. Each stride of coordinates has a stream of its own, so threads share nothing.
pub(super) fn noised(clip: &Clip, sum: &[i64], expected_batch: f64, randomness: &Randomness) -> Vec<f32> {
    let noise = DiscreteGaussian::integer(clip.deviation());
    let worth = clip.step() / expected_batch;
    let mut vector = vec![0.0_f32; sum.len()];
    #[cfg(test)]
    let broken = super::sabotage::done();
    let strides = vector.par_chunks_mut(STRIDE).zip(sum.par_chunks(STRIDE)).enumerate();
    strides.for_each(|(index, (vector, sum))| {
        let mut rng = randomness.stream(index as u32);
        for (value, sum) in vector.iter_mut().zip(sum) {
            let drawn = noise.sample(&mut rng);
            #[cfg(test)]
            let drawn = match broken {
                Some(super::sabotage::Sabotage::NoNoise) => 0,
                Some(super::sabotage::Sabotage::LittleNoise(factor)) => drawn / factor,
                _ => drawn,
            };
            *value = ((sum + drawn) as f64 * worth) as f32;
        }
    });
    vector
}

impl ClippedSum {
    /// Draws the noise of a release and drops it with the sum, to measure how long that takes.
    pub(crate) fn discard_noise(self, randomness: &Randomness) {
        let (clip, _, sum) = self.into_parts();
        drop(std::hint::black_box(noised(&clip, &sum, 1.0, randomness)));
    }
}

impl Release {
    /// The mean gradient.
    pub fn vector(&self) -> &[f32] {
        &self.vector
    }

    /// Variance of the noise in each coordinate: (z C / (q n))², a public number.
    pub const fn variance(&self) -> f64 {
        self.variance
    }
}

/// A finished vector: all that an exchange can store, pay for and send, in this order.
///
/// There are three ways to make one: from a [`Release`], from an [`Update`] that releases alone have moved, or exactly, with the
/// site's permission. A bare vector is none:
///
/// ```compile_fail,E0451
/// use undertone_worker::dp::release::Outgoing;
/// let bare = Outgoing { vector: vec![0.0_f32; 3], grant: None };
/// ```
///
/// A clipped sum without noise is none either:
///
/// ```compile_fail,E0277
/// use undertone_worker::dp::{clip::ClippedSum, release::Outgoing};
/// fn send(sum: ClippedSum) -> Outgoing {
///     Outgoing::from(sum)
/// }
/// ```
///
/// One grant makes one release:
///
/// ```compile_fail,E0382
/// use undertone_worker::dp::{clip::ClippedSum, randomness::Randomness};
/// use undertone_worker::site::clearance::Clearance;
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
    /// An exact vector, of public data or granted as a release without noise ([`Event::NonPrivate`]).
    ///
    /// # Errors
    /// [`ReleaseError::NotExact`] when what was granted was a noisy release.
    pub fn exact(vector: Vec<f32>, clearance: Clearance) -> Result<Self, ReleaseError> {
        match clearance {
            Clearance::Public(_) => Ok(Self { vector, grant: None }),
            Clearance::Granted(grant) if *grant.event() == Event::NonPrivate => {
                Ok(Self { vector, grant: Some(grant.id().clone()) })
            }
            Clearance::Granted(grant) => Err(ReleaseError::NotExact(Box::new(grant.event().clone()))),
        }
    }

    /// What is to be sent.
    pub fn vector(&self) -> &[f32] {
        &self.vector
    }

    /// The grant that it was made under; none for public data.
    pub const fn grant(&self) -> Option<&GrantId> {
        self.grant.as_ref()
    }

    /// Its numbers.
    pub fn into_vector(self) -> Vec<f32> {
        self.vector
    }
}

#[cfg(test)]
mod tests;
