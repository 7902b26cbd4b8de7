//! Local steps: several noisy gradients, of which only the sum leaves the site (federated averaging by local DP-SGD).
//!
//! An [`Update`] begins at zero, and only [`LocalStep`]s can change it. Each step is a clipped sum with its noise, made by
//! consuming one [`StepPermit`]. The optimizer belongs to the update and begins without memory. So an update is a function
//! of the releases and of public numbers alone (post-processing), whatever the model of the gradients was. It leaves
//! with the ticket of the grant of its permits, once it is complete.
//!
//! A vector cannot become a step:
//!
//! ```compile_fail,E0451
//! use undertone_worker_training::release::LocalStep;
//! fn bare(step: LocalStep) -> LocalStep {
//!     LocalStep { vector: vec![0.0_f32; 3], ..step }
//! }
//! ```
//!
//! A step cannot be sent:
//!
//! ```compile_fail,E0277
//! use undertone_worker_training::release::{Outgoing, LocalStep};
//! fn send(step: LocalStep) -> Outgoing {
//!     Outgoing::from(step)
//! }
//! ```
//!
//! A permit makes one step:
//!
//! ```compile_fail,E0382
//! use undertone_worker_site::clearance::StepPermit;
//! use undertone_worker_training::{clip::ClippedSum, randomness::Randomness};
//! fn twice(one: ClippedSum, two: ClippedSum, permit: StepPermit, randomness: &Randomness) {
//!     let _ = one.step(1.0, permit, randomness);
//!     let _ = two.step(1.0, permit, randomness);
//! }
//! ```
//!
//! An update can be sent once:
//!
//! ```compile_fail,E0382
//! use undertone_worker_training::release::Update;
//! use undertone_worker_site::clearance::VectorTicket;
//! fn twice(update: Update, ticket: VectorTicket, other: VectorTicket) {
//!     let _ = update.leave(ticket);
//!     let _ = update.leave(other);
//! }
//! ```

use undertone_api::job::dp_sgd::Optimizer as Rule;

use super::{Outgoing, ReleaseError, noisy_mean, release_event};
use crate::clip::ClippedSum;
use crate::optimizer::{Optimizer, StepDirection};
use crate::randomness::Randomness;
use undertone_worker_site::clearance::{StepPermit, UsedPermit, VectorTicket};

/// A differentially private mean gradient that stays at the site, as one step of an update.
#[derive(Debug)]
#[must_use = "noise was drawn for it"]
pub struct LocalStep {
    vector: Vec<f32>,
    /// Variance of the noise in each coordinate.
    variance: f64,
    stub: UsedPermit,
}

impl ClippedSum {
    /// Makes a step that stays at the site, as [`ClippedSum::release`] makes a release: it adds noise once and consumes
    /// the permit.
    ///
    /// # Errors
    /// [`ReleaseError`] if the permit is for another event, or the expected batch is not a valid divisor. Nothing is
    /// charged.
    pub fn step(
        self,
        expected_batch: f64,
        permit: StepPermit,
        randomness: &Randomness,
    ) -> Result<LocalStep, ReleaseError> {
        let parts = self.into_parts();
        let event = release_event(&parts.0, parts.1);
        if let Some(granted) = permit.event().filter(|granted| **granted != event) {
            return Err(ReleaseError::WrongEvent { granted: Box::new(granted.clone()), made: Box::new(event) });
        }
        let (vector, variance) = noisy_mean(&parts.0, &parts.2, expected_batch, randomness)?;
        Ok(LocalStep { vector, variance, stub: permit.into_stub() })
    }
}

impl LocalStep {
    /// Returns the mean gradient.
    pub fn vector(&self) -> &[f32] {
        &self.vector
    }

    /// Returns the variance of the noise in each coordinate, a public number.
    pub const fn variance(&self) -> f64 {
        self.variance
    }
}

impl<'a> From<&'a LocalStep> for StepDirection<'a> {
    fn from(step: &'a LocalStep) -> Self {
        Self::averaged(&step.vector, step.variance)
    }
}

/// The change of the parameters over several local steps.
#[derive(Debug)]
pub struct Update {
    moved: Vec<f32>,
    optimizer: Optimizer,
    /// The fraction of the learning rate for each step.
    pace: f64,
    steps: u32,
    stub: Option<UsedPermit>,
}

impl Update {
    /// Returns an update of `length` parameters without steps. Each step uses `pace` (0 to 1) times the rule's learning
    /// rate. The optimizer has no memory of earlier rounds.
    pub fn begin(rule: Rule, pace: f64, length: usize) -> Self {
        Self { moved: vec![0.0; length], optimizer: Optimizer::new(rule, length), pace, steps: 0, stub: None }
    }

    /// Takes one step.
    ///
    /// # Errors
    /// [`ReleaseError::NotOfThisGrant`] if the step belongs to another grant than the steps before it.
    ///
    /// # Panics
    /// If the step has another length.
    pub fn take(&mut self, step: LocalStep) -> Result<(), ReleaseError> {
        if self.stub.as_ref().is_some_and(|stub| !stub.has_grant_of(&step.stub)) {
            return Err(ReleaseError::NotOfThisGrant { steps: self.steps + 1, granted: self.steps });
        }
        self.optimizer.step(&mut self.moved, StepDirection::averaged(&step.vector, step.variance), self.pace);
        self.steps += 1;
        self.stub = Some(step.stub);
        Ok(())
    }

    /// Returns the change of the parameters.
    pub fn moved(&self) -> &[f32] {
        &self.moved
    }

    /// Returns the number of steps.
    pub const fn steps(&self) -> u32 {
        self.steps
    }

    /// Returns the vector to send: exactly the granted steps, by the ticket of their grant.
    ///
    /// # Errors
    /// [`ReleaseError::NotOfThisGrant`] if the ticket does not match. Nothing is charged.
    pub fn leave(self, ticket: VectorTicket) -> Result<Outgoing, ReleaseError> {
        let granted = ticket.steps().get();
        if self.steps != granted || self.stub.is_none_or(|stub| !ticket.admits(&stub)) {
            return Err(ReleaseError::NotOfThisGrant { steps: self.steps, granted });
        }
        Ok(Outgoing { vector: self.moved, grant: ticket.into_grant() })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "constants of a test are in range")]

    use std::num::NonZeroU32;

    use undertone_api::job::dp_sgd::Optimizer as Rule;
    use undertone_privacy::{Event, NoiseMultiplier, SamplingRate};

    use super::Update;
    use crate::clip::ClippedSum;
    use crate::clip::grid::Clip;
    use crate::randomness::{Purpose, Randomness};
    use crate::release::{LocalStep, Outgoing, ReleaseError};
    use crate::sampler::Sampler;
    use undertone_worker_site::clearance::{
        Clearance, PublicProof, ReleaseGrant, StepPermit, StepPermits, VectorTicket,
    };

    const LENGTH: usize = 20_000;
    const RULE: Rule = Rule::Sgd { learning_rate: 0.5, momentum: 0.0 };

    fn event(q: f64, z: f64) -> Event {
        let (sampling_rate, noise_multiplier) = (SamplingRate::new(q).unwrap(), NoiseMultiplier::new(z).unwrap());
        Event::PoissonSampledGaussian { sampling_rate, noise_multiplier }
    }

    fn granted(steps: u32) -> (StepPermits, VectorTicket) {
        let event = Event::Repeated { count: u64::from(steps), of: Box::new(event(0.25, 2.0)) };
        Clearance::Granted(ReleaseGrant::in_test(event)).split(NonZeroU32::new(steps).unwrap()).unwrap()
    }

    fn sum(z: f64) -> ClippedSum {
        let batch = Sampler::new(0, SamplingRate::new(0.25).unwrap()).draw_fresh();
        ClippedSum::begin(&batch, Clip::new(1.5, NoiseMultiplier::new(z).unwrap()).unwrap(), LENGTH)
    }

    fn step(permit: StepPermit, seed: u8) -> LocalStep {
        sum(2.0).step(4.0, permit, &Randomness::in_test(Purpose::Noise, seed)).unwrap()
    }

    /// Takes the first `steps` of the granted steps.
    fn walk(permits: &mut StepPermits, steps: u8) -> Update {
        let mut update = Update::begin(RULE, 1.0, LENGTH);
        for seed in 0..steps {
            update.take(step(permits.take().unwrap(), seed)).unwrap();
        }
        update
    }

    fn deviation(vector: &[f32]) -> f64 {
        (vector.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>() / vector.len() as f64).sqrt()
    }

    #[test]
    fn update_without_units_has_the_noise_of_every_step() {
        let (mut permits, ticket) = granted(9);
        let outgoing = walk(&mut permits, 9).leave(ticket).unwrap();
        assert!(permits.take().is_none() && outgoing.grant().is_some());
        let expected = 0.5 * 2.0 * 1.5 / 4.0 * 3.0;
        assert!((deviation(outgoing.vector()) / expected - 1.0).abs() < 0.03);
    }

    #[test]
    fn step_reports_the_variance_of_its_noise() {
        let (mut permits, _ticket) = granted(1);
        let step = step(permits.take().unwrap(), 7);
        assert!((deviation(step.vector()) / step.variance().sqrt() - 1.0).abs() < 0.03);
        assert!((step.variance().sqrt() - 0.75).abs() < 1e-5);
    }

    #[test]
    fn an_update_is_a_function_of_its_steps_alone() {
        let walked = || {
            let (mut permits, ticket) = granted(3);
            walk(&mut permits, 3).leave(ticket).unwrap()
        };
        assert_eq!(walked().vector(), walked().vector());
    }

    #[test]
    fn incomplete_update_is_refused() {
        let (mut permits, ticket) = granted(3);
        let error = walk(&mut permits, 2).leave(ticket).unwrap_err();
        assert_eq!(error, ReleaseError::NotOfThisGrant { steps: 2, granted: 3 });
        let (_permits, ticket) = granted(3);
        assert!(Update::begin(RULE, 1.0, LENGTH).leave(ticket).is_err(), "nothing at all is no update");
    }

    #[test]
    fn steps_of_two_grants_are_refused() {
        let ((mut one, _first), (mut other, second)) = (granted(2), granted(2));
        let mut update = walk(&mut one, 1);
        assert!(update.take(step(other.take().unwrap(), 1)).is_err());
        assert_eq!(update.steps(), 1, "and it is as it was");
        update.take(step(one.take().unwrap(), 1)).unwrap();
        assert!(matches!(update.leave(second), Err(ReleaseError::NotOfThisGrant { .. })));
    }

    #[test]
    fn a_permit_for_another_release_makes_none() {
        let (mut permits, _ticket) = granted(1);
        let error = sum(1.0).step(4.0, permits.take().unwrap(), &Randomness::from_os(Purpose::Noise)).unwrap_err();
        assert!(matches!(error, ReleaseError::WrongEvent { .. }), "{error}");
    }

    #[test]
    fn public_data_need_no_payment_for_their_steps_either() {
        let published = Clearance::Public(PublicProof::in_test());
        let (mut permits, ticket) = published.split(NonZeroU32::new(2).unwrap()).unwrap();
        let outgoing: Outgoing = walk(&mut permits, 2).leave(ticket).unwrap();
        assert!(outgoing.grant().is_none() && deviation(outgoing.vector()) > 0.1);
    }
}
