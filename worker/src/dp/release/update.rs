//! Local steps: several noisy gradients, of which only the sum of the steps leaves (federated averaging by local DP-SGD).
//!
//! An [`Update`] begins at zero, and nothing but [`Step`]s can move it: each is a clipped sum with its noise, made by using up
//! one [`Permit`]. Its optimizer is its own and begins without memory. So an update is a function of the releases and of public
//! numbers alone (post-processing), whatever the model was that the gradients were taken of; it leaves with the ticket of the
//! grant that its permits came from, once it is whole.
//!
//! A vector cannot be made into one:
//!
//! ```compile_fail,E0451
//! use undertone_worker::dp::release::Step;
//! fn bare(step: Step) -> Step {
//!     Step { vector: vec![0.0_f32; 3], ..step }
//! }
//! ```
//!
//! A step cannot leave by itself:
//!
//! ```compile_fail,E0277
//! use undertone_worker::dp::release::{Outgoing, Step};
//! fn send(step: Step) -> Outgoing {
//!     Outgoing::from(step)
//! }
//! ```
//!
//! And an update leaves once:
//!
//! ```compile_fail,E0382
//! use undertone_worker::dp::release::Update;
//! use undertone_worker::site::clearance::Ticket;
//! fn twice(update: Update, ticket: Ticket, other: Ticket) {
//!     let _ = update.leave(ticket);
//!     let _ = update.leave(other);
//! }
//! ```

use undertone_api::job::dp_sgd::Optimizer as Rule;

use super::{Outgoing, ReleaseError, hidden, made};
use crate::dp::clip::ClippedSum;
use crate::dp::optimizer::{Direction, Optimizer};
use crate::dp::randomness::Randomness;
use crate::site::clearance::{Permit, Stub, Ticket};

/// A differentially private mean gradient that stays at the site, as one step of an update.
#[derive(Debug)]
#[must_use = "noise was drawn for it"]
pub struct Step {
    vector: Vec<f32>,
    /// Of the noise in each coordinate.
    variance: f64,
    stub: Stub,
}

impl ClippedSum {
    /// As [`ClippedSum::release`], for a step that stays at the site: noise is added once, the permit is used up.
    ///
    /// # Errors
    /// [`ReleaseError`] when the permit is for another event, or there is nothing to divide by. Nothing was charged.
    pub fn step(self, expected_batch: f64, permit: Permit, randomness: &Randomness) -> Result<Step, ReleaseError> {
        let parts = self.into_parts();
        let made = made(&parts.0, parts.1);
        if let Some(granted) = permit.event().filter(|granted| **granted != made) {
            return Err(ReleaseError::WrongEvent { granted: Box::new(granted.clone()), made: Box::new(made) });
        }
        let (vector, variance) = hidden(&parts.0, &parts.2, expected_batch, randomness)?;
        Ok(Step { vector, variance, stub: permit.into_stub() })
    }
}

impl Step {
    /// The mean gradient.
    pub fn vector(&self) -> &[f32] {
        &self.vector
    }

    /// Variance of the noise in each coordinate, a public number.
    pub const fn variance(&self) -> f64 {
        self.variance
    }
}

impl<'a> From<&'a Step> for Direction<'a> {
    fn from(step: &'a Step) -> Self {
        Self::averaged(&step.vector, step.variance)
    }
}

/// Parameters after some local steps, less those before.
#[derive(Debug)]
pub struct Update {
    moved: Vec<f32>,
    optimizer: Optimizer,
    /// The part of the learning rate that each step takes.
    pace: f64,
    steps: u32,
    stub: Option<Stub>,
}

impl Update {
    /// No step yet, of `length` parameters; each step will take `pace` (0 to 1) times the rule's learning rate. The optimizer
    /// has no memory of rounds before.
    pub fn begin(rule: Rule, pace: f64, length: usize) -> Self {
        Self { moved: vec![0.0; length], optimizer: Optimizer::new(rule, length), pace, steps: 0, stub: None }
    }

    /// Takes one step.
    ///
    /// # Errors
    /// [`ReleaseError::NotOfThisGrant`] when the step was made under another grant than those before it.
    ///
    /// # Panics
    /// If the step is of another length.
    pub fn take(&mut self, step: Step) -> Result<(), ReleaseError> {
        if self.stub.as_ref().is_some_and(|stub| !stub.goes_with(&step.stub)) {
            return Err(ReleaseError::NotOfThisGrant { steps: self.steps + 1, granted: self.steps });
        }
        self.optimizer.step(&mut self.moved, Direction::averaged(&step.vector, step.variance), self.pace);
        self.steps += 1;
        self.stub = Some(step.stub);
        Ok(())
    }

    /// How far the parameters have moved.
    pub fn moved(&self) -> &[f32] {
        &self.moved
    }

    /// Steps taken.
    pub const fn steps(&self) -> u32 {
        self.steps
    }

    /// The vector that leaves: exactly the steps that were granted, by the ticket of their grant.
    ///
    /// # Errors
    /// [`ReleaseError::NotOfThisGrant`] otherwise. Nothing was charged.
    pub fn leave(self, ticket: Ticket) -> Result<Outgoing, ReleaseError> {
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
    use crate::dp::clip::{Clip, ClippedSum};
    use crate::dp::randomness::{Purpose, Randomness};
    use crate::dp::release::{Outgoing, ReleaseError, Step};
    use crate::dp::sampler::Sampler;
    use crate::site::clearance::{Clearance, Permit, Permits, Published, ReleaseGrant, Ticket};

    const LENGTH: usize = 20_000;
    const RULE: Rule = Rule::Sgd { learning_rate: 0.5, momentum: 0.0 };

    fn event(q: f64, z: f64) -> Event {
        let (sampling_rate, noise_multiplier) = (SamplingRate::new(q).unwrap(), NoiseMultiplier::new(z).unwrap());
        Event::PoissonSampledGaussian { sampling_rate, noise_multiplier }
    }

    fn granted(steps: u32) -> (Permits, Ticket) {
        let event = Event::Repeated { count: u64::from(steps), of: Box::new(event(0.25, 2.0)) };
        Clearance::Granted(ReleaseGrant::in_test(event)).split(NonZeroU32::new(steps).unwrap()).unwrap()
    }

    fn sum(z: f64) -> ClippedSum {
        let batch = Sampler::new(0, SamplingRate::new(0.25).unwrap()).draw_fresh();
        ClippedSum::begin(&batch, Clip::new(1.5, NoiseMultiplier::new(z).unwrap()).unwrap(), LENGTH)
    }

    fn step(permit: Permit, seed: u8) -> Step {
        sum(2.0).step(4.0, permit, &Randomness::in_test(Purpose::Noise, seed)).unwrap()
    }

    /// Takes so many of the steps that were paid.
    fn walk(permits: &mut Permits, steps: u8) -> Update {
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
    fn an_update_of_nobody_holds_the_noise_of_every_step() {
        let (mut permits, ticket) = granted(9);
        let outgoing = walk(&mut permits, 9).leave(ticket).unwrap();
        assert!(permits.take().is_none() && outgoing.grant().is_some());
        let expected = 0.5 * 2.0 * 1.5 / 4.0 * 3.0;
        assert!((deviation(outgoing.vector()) / expected - 1.0).abs() < 0.03);
    }

    #[test]
    fn a_step_tells_the_variance_of_its_noise() {
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
    fn less_than_what_was_paid_does_not_leave() {
        let (mut permits, ticket) = granted(3);
        let error = walk(&mut permits, 2).leave(ticket).unwrap_err();
        assert_eq!(error, ReleaseError::NotOfThisGrant { steps: 2, granted: 3 });
        let (_permits, ticket) = granted(3);
        assert!(Update::begin(RULE, 1.0, LENGTH).leave(ticket).is_err(), "nothing at all is no update");
    }

    #[test]
    fn steps_of_two_payments_make_no_update_and_none_leaves_by_anothers_ticket() {
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
        let published = Clearance::Public(Published::in_test());
        let (mut permits, ticket) = published.split(NonZeroU32::new(2).unwrap()).unwrap();
        let outgoing: Outgoing = walk(&mut permits, 2).leave(ticket).unwrap();
        assert!(outgoing.grant().is_none() && deviation(outgoing.vector()) > 0.1);
    }
}
