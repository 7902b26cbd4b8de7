//! A participant's vector of a round: a mean gradient, or the sum of local steps; with noise, or exact.
//!
//! The run requests the site's permission after the first batch is summed and before any noise is added. The site pays
//! for the finished vector when it is on disk: a crash before the payment costs nothing and has released nothing. The
//! canaries of an audit are units like all others, in every step's batch; the divisor stays the signed one.

use std::num::NonZeroU32;

use undertone_api::job::dp_sgd::SelectionCandidate;

use super::audit::{Audit, Guests};
use super::go_on;
use super::learner::Learner;
use super::local::{self, Ground};
use super::site::{Choice, Site};
use crate::dp::clip::{Clip, ClippedSum};
use crate::dp::private_selection::PrivateSelection;
use crate::dp::randomness::{Purpose, Randomness};
use crate::dp::release::{LocalStep, Outgoing, ReleaseError};
use crate::run::{Exchange, RunError};
use crate::site::clearance::{SplitError, StepPermits, VectorTicket};
use crate::speech::model::Model;
use crate::speech::model::gradient::Engine;

/// The number of units of an exact gradient between two checks for a stop.
const UNITS: usize = 32;

impl From<ReleaseError> for RunError {
    fn from(error: ReleaseError) -> Self {
        Self::Refused(error.to_string())
    }
}

impl From<SplitError> for RunError {
    fn from(error: SplitError) -> Self {
        Self::Refused(error.to_string())
    }
}

/// One round of one participant.
pub(super) struct Contribution<'a, 'm> {
    pub(super) site: &'a Site,
    pub(super) series: &'a str,
    pub(super) round: u32,
    pub(super) learner: &'a Learner<'m>,
    /// Canaries among the units of exact gradients.
    pub(super) guests: Option<&'a Guests>,
    pub(super) engine: &'a mut Engine,
    pub(super) exchange: &'a mut dyn Exchange,
}

impl Contribution<'_, '_> {
    /// Makes a differentially private mean gradient, or the update of the round's private steps.
    ///
    /// # Errors
    /// [`RunError`] when the exchange is stopped, or the grant does not match the release.
    pub(super) fn noisy(&mut self, clip: Clip, audit: Option<&mut Audit>) -> Result<Outgoing, RunError> {
        let (learner, round) = (self.learner, self.round);
        let (vector, seen) = match self.local_steps() {
            None => {
                let sum = self.sum(learner.model(), clip, audit.as_deref())?;
                let clearance = self.exchange.clear(self.series, round)?;
                let release = sum.release(self.site.expected_batch(), clearance, &self.chance(Purpose::Noise))?;
                let seen =
                    audit.as_ref().map(|audit| audit.evidence(release.vector(), self.site.expected_batch()).collect());
                (release.into(), seen)
            }
            Some(steps) => {
                let terms = learner.terms(steps, self.site.expected_batch());
                let seen = audit.as_ref().map(|audit| audit.nothing_seen());
                let mut walk = Walk { own: self, clip, audit: audit.as_deref(), steps, ticket: None, seen };
                let update = local::walk(learner.model(), learner.trained(), &terms, &mut walk)?;
                let Walk { ticket, seen, .. } = walk;
                let ticket = ticket.ok_or_else(|| RunError::Refused("nothing was granted".to_owned()))?;
                (update.leave(ticket)?, seen)
            }
        };
        if let (Some(audit), Some(seen)) = (audit, seen) {
            audit.note(round, seen)?;
        }
        Ok(vector)
    }

    /// Makes the best of a secret number of runs of the round's private steps. The selection is granted before any draw
    /// of the round. Then all permitted runs are made, each with its own candidate, and the private selection returns
    /// the best.
    ///
    /// # Errors
    /// [`RunError`] when the exchange is stopped, or the grant does not match the release.
    pub(super) fn selected(&mut self, clip: Clip, choice: &Choice) -> Result<Outgoing, RunError> {
        let learner = self.learner;
        let steps = self.local_steps().ok_or_else(|| RunError::Failed("one step is no run to choose".to_owned()))?;
        let clips =
            choice.candidates.iter().map(|candidate| candidate_clip(clip, candidate)).collect::<Result<Vec<_>, _>>()?;
        let (all, prize) = self.exchange.clear(self.series, self.round)?.split_runs(steps)?;
        let mut contest = PrivateSelection::begin(prize, &self.chance(Purpose::Selection))
            .map_err(|error| RunError::Refused(error.to_string()))?;
        let mut model = learner.model().clone();
        for permits in all {
            let candidate = contest.candidate(choice.candidates.len());
            let mut terms = learner.terms(steps, self.site.expected_batch());
            terms.rule = terms.rule.at(choice.candidates[candidate].learning_rate);
            let mut run = Trial { own: self, clip: clips[candidate], permits: Some(permits) };
            let update = local::walk(learner.model(), learner.trained(), &terms, &mut run)?;
            local::advance(learner.model(), learner.trained(), update.moved(), &mut model);
            let loss = choice.development.loss(&model, self.engine);
            contest.submit(update, loss);
        }
        Ok(contest.finish()?)
    }

    /// Makes an exact mean gradient of a Poisson batch, or the sum of the round's steps along such gradients: for data
    /// that are public or opened by their owner.
    ///
    /// # Errors
    /// [`RunError`] when the exchange is stopped.
    pub(super) fn exact(&mut self) -> Result<Outgoing, RunError> {
        let learner = self.learner;
        let vector = match self.local_steps() {
            None => self.gradient(learner.model())?,
            Some(steps) => {
                let terms = learner.terms(steps, self.site.expected_batch());
                local::walk_exactly(learner.model(), learner.trained(), &terms, |model| self.gradient(model))?
            }
        };
        let clearance = self.exchange.clear(self.series, self.round)?;
        Ok(Outgoing::exact(vector, clearance)?)
    }

    /// Returns the number of local steps, if updates are sent.
    fn local_steps(&self) -> Option<NonZeroU32> {
        self.learner.local_steps()
    }

    fn chance(&mut self, purpose: Purpose) -> Randomness {
        self.exchange.chance(purpose)
    }

    /// Computes the clipped sum of a fresh batch, at a model.
    fn sum(&mut self, model: &Model, clip: Clip, audit: Option<&Audit>) -> Result<ClippedSum, RunError> {
        let sampler = self.site.sampler(audit.map_or(0, Audit::members));
        let batch = sampler.draw(&self.chance(Purpose::Sampling));
        let (real, canaries) = self.site.split(batch.units());
        let drawn = audit.map(|audit| audit.drawn(canaries));
        let mut units = self.site.units(real);
        if let Some(drawn) = &drawn {
            units.extend(drawn.recordings.iter().cloned());
        }
        let trained = self.learner.parts();
        let mut sum = ClippedSum::begin_parts(&batch, clip, &model.shape().lengths(trained));
        let prepared = self.engine.prepare(model, trained);
        for group in self.engine.groups(&units, model.shape()) {
            go_on(self.exchange)?;
            self.engine.add_clipped(&prepared, &units[group], &mut sum);
        }
        if let (Some(audit), Some(drawn)) = (audit, &drawn) {
            for gradients in audit.gradients(drawn) {
                go_on(self.exchange)?;
                sum.add(gradients);
            }
        }
        Ok(sum)
    }

    /// Computes the exact mean gradient of a fresh batch, at a model.
    fn gradient(&mut self, model: &Model) -> Result<Vec<f32>, RunError> {
        let sampler = self.site.sampler(self.guests.map_or(0, Guests::members));
        let batch = sampler.draw(&self.chance(Purpose::Sampling));
        let (real, canaries) = self.site.split(batch.units());
        let mut units = self.site.units(real);
        if let Some(guests) = self.guests {
            units.extend(guests.drawn(canaries));
        }
        let weight = self.site.expected_batch().recip() as f32;
        let mut gradient = vec![0.0; self.learner.trained().len()];
        for some in units.chunks(UNITS) {
            go_on(self.exchange)?;
            self.engine.add_units(model, self.learner.parts(), some, weight, &mut gradient);
        }
        Ok(gradient)
    }
}

/// Returns a candidate's clip: the same noise relative to it, in the same mode.
fn candidate_clip(clip: Clip, candidate: &SelectionCandidate) -> Result<Clip, RunError> {
    let own = Clip::new(clip.bound() * candidate.clip, clip.noise_multiplier());
    Ok(own.map_err(|error| RunError::Failed(error.to_string()))?.with_mode(clip.mode()))
}

/// One granted run of a selection.
struct Trial<'w, 'a, 'm> {
    own: &'w mut Contribution<'a, 'm>,
    clip: Clip,
    permits: Option<StepPermits>,
}

impl Ground for Trial<'_, '_, '_> {
    fn sum(&mut self, model: &Model) -> Result<ClippedSum, RunError> {
        self.own.sum(model, self.clip, None)
    }

    fn permits(&mut self) -> Result<StepPermits, RunError> {
        self.permits.take().ok_or_else(|| RunError::Refused("a run is granted once".to_owned()))
    }

    fn noise(&mut self) -> Randomness {
        self.own.chance(Purpose::Noise)
    }
}

/// The private steps of a round.
struct Walk<'w, 'a, 'm> {
    own: &'w mut Contribution<'a, 'm>,
    clip: Clip,
    audit: Option<&'w Audit>,
    steps: NonZeroU32,
    ticket: Option<VectorTicket>,
    /// The evidence of all steps so far about each canary.
    seen: Option<Vec<f64>>,
}

impl Ground for Walk<'_, '_, '_> {
    fn sum(&mut self, model: &Model) -> Result<ClippedSum, RunError> {
        self.own.sum(model, self.clip, self.audit)
    }

    fn permits(&mut self) -> Result<StepPermits, RunError> {
        let (permits, ticket) = self.own.exchange.clear(self.own.series, self.own.round)?.split(self.steps)?;
        self.ticket = Some(ticket);
        Ok(permits)
    }

    fn noise(&mut self) -> Randomness {
        self.own.chance(Purpose::Noise)
    }

    fn seen(&mut self, step: &LocalStep) {
        if let (Some(audit), Some(seen)) = (self.audit, &mut self.seen) {
            let evidence = audit.evidence(step.vector(), self.own.site.expected_batch());
            seen.iter_mut().zip(evidence).for_each(|(sum, evidence)| *sum += evidence);
        }
    }
}
