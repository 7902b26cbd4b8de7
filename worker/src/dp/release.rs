//! The end of the chain: noise, payment, and the vector that may leave.

mod update;

use rayon::prelude::*;
use undertone_api::signed::Signed;
use undertone_privacy::{Event, SamplingRate};

use super::clip::{Clip, ClippedSum, STRIDE};
use super::noise::DiscreteGaussian;
use super::randomness::Randomness;
use crate::site::clearance::Clearance;

pub use update::{Step, Update};

/// Why nothing is released.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ReleaseError {
    /// Paid for something else.
    #[error("the site paid for {paid:?}, but the release would be {made:?}: spec and manifest disagree")]
    WrongEvent {
        /// What was paid.
        paid: Box<Event>,
        /// What would be made.
        made: Box<Event>,
    },
    /// No size to divide by.
    #[error("the expected batch must be a finite number greater than 0, not {0}")]
    ExpectedBatch(f64),
    /// Exact numbers were to leave with a payment for noisy ones.
    #[error("an exact vector may leave only when the data are public or a release without noise was paid, not {0:?}")]
    NotExact(Box<Event>),
    /// An update was to leave with somebody else's payment, or not whole.
    #[error("an update of {steps} steps cannot leave by a payment for {paid} steps of its own")]
    NotOfThisPayment {
        /// Releases it is made of.
        steps: u32,
        /// Releases that were paid.
        paid: u32,
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

/// A differentially private mean gradient, cleared to leave.
#[derive(Debug)]
#[must_use = "it was paid for"]
pub struct Release {
    vector: Vec<f32>,
    /// Of the noise in each coordinate.
    variance: f64,
    receipt: Option<Signed>,
}

impl ClippedSum {
    /// Adds discrete Gaussian noise, once, and divides by the *expected* batch q·n, never by the one drawn:
    /// g̃ = (Σ clip(gᵢ) + N_ℤ(0, σ²)) / (q n) (`privacy.md`, 1.4 and 11.2). The permission is used up: a payment for exactly
    /// this event, or the site's word that the data are public.
    ///
    /// # Errors
    /// [`ReleaseError`] when the payment is for another event, or there is nothing to divide by; the payment is lost then,
    /// as it would be by a crash.
    pub fn release(
        self,
        expected_batch: f64,
        clearance: Clearance,
        randomness: &Randomness,
    ) -> Result<Release, ReleaseError> {
        let parts = self.into_parts();
        let made = made(&parts.0, parts.1);
        let receipt = match clearance {
            Clearance::Public(_) => None,
            Clearance::Paid(spent) if *spent.event() == made => Some(spent.receipt().clone()),
            Clearance::Paid(spent) => {
                let paid = Box::new(spent.event().clone());
                return Err(ReleaseError::WrongEvent { paid, made: Box::new(made) });
            }
        };
        let (vector, variance) = hidden(&parts.0, &parts.2, expected_batch, randomness)?;
        Ok(Release { vector, variance, receipt })
    }
}

/// What the release of a sum releases.
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

/// A vector that may leave the site: all that an exchange can send.
///
/// There are three ways to make one: from a [`Release`], from an [`Update`] that releases alone have moved, or exactly, with the
/// site's permission. A bare vector is none:
///
/// ```compile_fail,E0451
/// use undertone_worker::dp::release::Outgoing;
/// let bare = Outgoing { vector: vec![0.0_f32; 3], receipt: None };
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
/// One payment makes one release:
///
/// ```compile_fail,E0382
/// use undertone_worker::dp::{clip::ClippedSum, randomness::Randomness};
/// use undertone_worker::site::clearance::Clearance;
/// fn twice(one: ClippedSum, two: ClippedSum, paid: Clearance, randomness: &Randomness) {
///     let _ = one.release(1.0, paid, randomness);
///     let _ = two.release(1.0, paid, randomness);
/// }
/// ```
#[derive(Debug)]
#[must_use = "it was cleared to be sent"]
pub struct Outgoing {
    vector: Vec<f32>,
    receipt: Option<Signed>,
}

impl From<Release> for Outgoing {
    fn from(release: Release) -> Self {
        Self { vector: release.vector, receipt: release.receipt }
    }
}

impl Outgoing {
    /// An exact vector, of public data or paid as a release without noise ([`Event::NonPrivate`]).
    ///
    /// # Errors
    /// [`ReleaseError::NotExact`] when what was paid was a noisy release.
    pub fn exact(vector: Vec<f32>, clearance: Clearance) -> Result<Self, ReleaseError> {
        match clearance {
            Clearance::Public(_) => Ok(Self { vector, receipt: None }),
            Clearance::Paid(spent) if *spent.event() == Event::NonPrivate => {
                Ok(Self { vector, receipt: Some(spent.receipt().clone()) })
            }
            Clearance::Paid(spent) => Err(ReleaseError::NotExact(Box::new(spent.event().clone()))),
        }
    }

    /// What is to be sent.
    pub fn vector(&self) -> &[f32] {
        &self.vector
    }

    /// The receipt that goes with it; none for public data.
    pub const fn receipt(&self) -> Option<&Signed> {
        self.receipt.as_ref()
    }

    /// Vector and receipt.
    pub fn into_parts(self) -> (Vec<f32>, Option<Signed>) {
        (self.vector, self.receipt)
    }
}

#[cfg(test)]
mod tests;
