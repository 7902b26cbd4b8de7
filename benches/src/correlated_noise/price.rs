//! The price of correlated noise under the batches that a site can draw: with the proof, `undertone_privacy::correlated`.
//!
//! Two cases have a proved price:
//!
//! 1. *b bands or fewer*, cyclic Poisson sampling with b groups: ⌈T/b⌉ releases of Poisson samples with probability b q.
//! 2. *b = 1/q, any encoder with falling values of at least 0*: one Gaussian release with the sensitivity of
//!    [`NoiseEncoder::sensitivity`] for steps that are at least b apart. Nothing is amplified, so the batches need not be
//!    secret. Proof for adaptive steps (Denisov et al. 2022): given the rows before it, the shift of a row is known, and the
//!    squared norms of the shifts add up to at most the squared sensitivity for any contributions, so a filter for Gaussian
//!    releases with that total never stops it.
//!
//! DP-λCGD and BISR have full columns. A unit's contributions then overlap, and the first case does not hold for them
//! (a test shows that its price would be too low). Amplified bounds for full columns exist: for Poisson sampling by conditional
//! composition (Choquette-Choo, Ganesh, Steinke and Thakurta 2024), for one secret random group per unit by Monte Carlo
//! (Choquette-Choo et al. 2025) and without it (Schuchardt and Kalinin 2026). They are not measured here.
//!
//! The relation is zero-out: a unit's contribution is replaced by 0; the groups and their sizes stay.

use std::error::Error;

use undertone_privacy::correlated::NoiseEncoder;
use undertone_privacy::gaussian::GaussianProfile;
use undertone_privacy::pld::Plan;
use undertone_privacy::{Adjacency, Delta, Epsilon, Event, NoiseMultiplier, SamplingRate};

/// The relative width at which the search for the least noise ends.
const PRECISION: f64 = 1.0001;

/// The terms of a training whose mechanisms are compared.
#[derive(Debug, Clone, Copy)]
pub(super) struct TrainingTerms {
    /// q: the expected share of all units in a batch. 1/q is an integer.
    pub(super) rate: f64,
    /// T.
    pub(super) steps: usize,
    /// The ε of all steps together.
    pub(super) epsilon: f64,
    /// δ.
    pub(super) delta: f64,
}

impl TrainingTerms {
    /// Returns the number of groups that the batches take whole, 1/q.
    pub(super) fn whole_groups(&self) -> usize {
        self.rate.recip().round() as usize
    }

    /// Returns p: the probability of a unit to be in the batch at its turn.
    pub(super) fn inclusion(&self, groups: usize) -> f64 {
        (self.rate * groups as f64).min(1.0)
    }

    /// Returns the event of all steps with an encoder of at most `groups` bands; z is relative to the column norm.
    ///
    /// # Errors
    /// When a number is out of range.
    pub(super) fn banded_event(&self, groups: usize, z: f64) -> Result<Event, Box<dyn Error>> {
        let sampling_rate = SamplingRate::new(self.inclusion(groups))?;
        let release = Event::PoissonSampledGaussian { sampling_rate, noise_multiplier: NoiseMultiplier::new(z)? };
        Ok(release.times(self.steps.div_ceil(groups) as u64))
    }

    /// Returns the least deviation of the noise, relative to the clip, with an encoder of at most `groups` bands; above
    /// the least by at most a part in 10,000.
    ///
    /// # Errors
    /// When no noise is enough.
    pub(super) fn banded_noise(&self, encoder: &NoiseEncoder, groups: usize) -> Result<f64, Box<dyn Error>> {
        let delta = Delta::new(self.delta)?;
        let is_enough = |z: f64| -> Result<bool, Box<dyn Error>> {
            let plan = Plan::of(&self.banded_event(groups, z)?, Adjacency::ZeroOut);
            Ok(plan.epsilon(delta)?.is_some_and(|epsilon| epsilon.get() <= self.epsilon))
        };
        let (mut low, mut high) = (0.25, 0.5);
        while !is_enough(high)? {
            (low, high) = (high, high * 2.0);
        }
        while high / low > PRECISION {
            let middle = (low * high).sqrt();
            if is_enough(middle)? { high = middle } else { low = middle }
        }
        Ok(high * encoder.column_norm())
    }

    /// Returns the least deviation of the noise, relative to the clip, with any encoder of falling values and groups
    /// that are taken whole.
    ///
    /// # Errors
    /// When ε or δ are out of range.
    pub(super) fn whole_noise(&self, encoder: &NoiseEncoder) -> Result<f64, Box<dyn Error>> {
        let profile = GaussianProfile::largest(Epsilon::new(self.epsilon)?, Delta::new(self.delta)?);
        Ok(encoder.sensitivity(self.whole_groups()) / profile.mu())
    }
}
