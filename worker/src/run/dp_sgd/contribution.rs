//! A participant's vector of a round: a mean gradient, or the sum of local steps; with noise, or exact.
//!
//! The run requests the site's permission after the first batch is summed and before any noise is added. The site pays
//! for the finished vector when it is on disk: a crash before the payment costs nothing and has released nothing. The
//! canaries of an audit are units like all others, in every step's batch; the divisor stays the signed one. Altered copies of
//! a unit are examples of that unit, made after its cut to the public length ([`BatchUnits`]).

use std::num::NonZeroU32;

use undertone_api::job::dp_sgd::SelectionCandidate;

use super::audit::{CanaryRecordings, ReleaseAudit};
use super::correlated::CorrelatedRounds;
use super::error::TrainingError;
use super::learner::ArmLearner;
use super::local::{self, StepSource};
use super::masked::MaskedContribution;
use super::site::{ContributionMode, SiteSelection, TrainingSite};
use crate::dp::clip::{Clip, ClippedSum};
use crate::dp::private_selection::PrivateSelection;
use crate::dp::randomness::{Purpose, Randomness};
use crate::dp::release::{LocalStep, Outgoing};
use crate::run::{Averaging, RoundKey, RoundProgress, RunError, check_cancelled};
use crate::site::clearance::{StepPermits, VectorTicket};
use crate::speech::model::Model;
use crate::speech::model::gradient::{BatchAugmentation, BatchUnits, Engine, Unit};

/// The number of units without copies of an exact gradient between two checks for a stop.
const UNITS: usize = 32;

/// One round of one participant.
pub(super) struct RoundContribution<'a, 'm> {
    pub(super) site: &'a TrainingSite,
    pub(super) key: RoundKey<'a>,
    pub(super) learner: &'a ArmLearner<'m>,
    /// Canaries among the units of exact gradients.
    pub(super) canaries: Option<&'a CanaryRecordings>,
    /// The noise of this participant, if it is correlated over the rounds.
    pub(super) correlated: Option<&'a mut CorrelatedRounds>,
    pub(super) engine: &'a mut Engine,
    pub(super) exchange: &'a mut dyn Averaging,
}

impl RoundContribution<'_, '_> {
    /// Sends this participant's vector of the round, unless an earlier process did, or the round closed without it.
    ///
    /// # Errors
    /// [`RunError`] when the vector cannot be made or sent.
    pub(super) fn contribute(
        &mut self,
        mode: ContributionMode,
        audit: Option<&mut ReleaseAudit>,
    ) -> Result<(), RunError> {
        if mode == ContributionMode::None {
            return Ok(());
        }
        let site = self.site;
        if let ContributionMode::Noisy(clip) = mode
            && let Some(masking) = self.exchange.masking(self.key.series)
        {
            // The contract allows no audit here; the grant of a masked sum could not pay for one.
            let group = MaskedContribution { site, key: self.key, learner: self.learner, engine: self.engine, masking };
            return group.contribute(clip);
        }
        match self.exchange.round_progress(self.key)? {
            // A paid vector that is lost is not made a second time: the round continues without it.
            RoundProgress::Accepted | RoundProgress::Lost => Ok(()),
            RoundProgress::Stored => self.exchange.resend_vector(self.key),
            RoundProgress::Untouched if self.exchange.is_closed(self.key)? => Ok(()),
            RoundProgress::Untouched => {
                let vector = match mode {
                    ContributionMode::Noisy(clip) => match site.selection() {
                        // The contract allows no audit here; the grant of a selection could not pay for one.
                        Some(selection) => self.select_update(clip, selection)?,
                        None => self.make_noisy(clip, audit)?,
                    },
                    ContributionMode::Exact | ContributionMode::None => self.make_exact()?,
                };
                self.exchange.send_vector(self.key, vector)
            }
        }
    }

    /// Makes a differentially private mean gradient, or the update of the round's private steps.
    ///
    /// # Errors
    /// [`RunError`] when the exchange is stopped, or the grant does not match the release.
    fn make_noisy(&mut self, clip: Clip, audit: Option<&mut ReleaseAudit>) -> Result<Outgoing, RunError> {
        let learner = self.learner;
        let expected_batch = self.site.expected_batch();
        let (vector, evidence) = match learner.local_steps() {
            None => {
                let sum = self.sum_batch(learner.model(), clip, audit.as_deref())?;
                let clearance = self.exchange.clear(self.key)?;
                let release = match &mut self.correlated {
                    Some(rounds) => {
                        let noise = rounds.draw(self.key, &mut *self.exchange)?;
                        sum.release_correlated(expected_batch, clearance, noise)?
                    }
                    None => sum.release(expected_batch, clearance, &self.draw_randomness(Purpose::Noise))?,
                };
                let evidence = audit.as_ref().map(|audit| audit.evidence(release.vector(), expected_batch).collect());
                (release.into(), evidence)
            }
            Some(steps) => {
                let terms = learner.step_terms(steps, expected_batch);
                let evidence = audit.as_ref().map(|audit| audit.no_evidence());
                let mut source =
                    AuditedSteps { round: self, clip, audit: audit.as_deref(), steps, ticket: None, evidence };
                let update = local::take_private_steps(&learner.step_start(), &terms, &mut source)?;
                let AuditedSteps { ticket, evidence, .. } = source;
                (update.leave(ticket.ok_or(TrainingError::NothingGranted)?)?, evidence)
            }
        };
        if let (Some(audit), Some(evidence)) = (audit, evidence) {
            audit.record(self.key.round, evidence)?;
        }
        Ok(vector)
    }

    /// Makes the best of a secret number of runs of the round's private steps. The selection is granted before any draw
    /// of the round. Then all permitted runs are made, each with its own candidate, and the private selection returns
    /// the best.
    ///
    /// # Errors
    /// [`RunError`] when the exchange is stopped, or the grant does not match the release.
    fn select_update(&mut self, clip: Clip, choice: &SiteSelection) -> Result<Outgoing, RunError> {
        let learner = self.learner;
        let steps = learner.local_steps().ok_or(TrainingError::SelectionWithoutSteps)?;
        let clips =
            choice.candidates.iter().map(|candidate| candidate_clip(clip, candidate)).collect::<Result<Vec<_>, _>>()?;
        let (all, prize) = self.exchange.clear(self.key)?.split_runs(steps)?;
        let mut selection = PrivateSelection::begin(prize, &self.draw_randomness(Purpose::Selection))
            .map_err(TrainingError::Selection)?;
        let mut model = learner.model().clone();
        for permits in all {
            let candidate = selection.candidate(choice.candidates.len());
            let mut terms = learner.step_terms(steps, self.site.expected_batch());
            terms.rule = terms.rule.with_learning_rate(choice.candidates[candidate].learning_rate);
            let mut source = SelectionRun { round: self, clip: clips[candidate], permits: Some(permits) };
            let update = local::take_private_steps(&learner.step_start(), &terms, &mut source)?;
            learner.step_start().advance(update.moved(), &mut model);
            let loss = choice.development.loss(&model, self.engine);
            selection.submit(update, loss);
        }
        Ok(selection.finish()?)
    }

    /// Makes an exact mean gradient of a Poisson batch, or the sum of the round's steps along such gradients: for data
    /// that are public or opened by their owner.
    ///
    /// # Errors
    /// [`RunError`] when the exchange is stopped.
    fn make_exact(&mut self) -> Result<Outgoing, RunError> {
        let learner = self.learner;
        let vector = match learner.local_steps() {
            None => self.exact_gradient(learner.model())?,
            Some(steps) => {
                let terms = learner.step_terms(steps, self.site.expected_batch());
                let gradient = |model: &Model| self.exact_gradient(model);
                local::take_exact_steps(&learner.step_start(), &terms, gradient)?
            }
        };
        let clearance = self.exchange.clear(self.key)?;
        Ok(Outgoing::exact(vector, clearance)?)
    }

    fn draw_randomness(&mut self, purpose: Purpose) -> Randomness {
        self.exchange.draw_randomness(purpose)
    }

    /// Computes the clipped sum of a fresh batch, at a model.
    pub(super) fn sum_batch(
        &mut self,
        model: &Model,
        clip: Clip,
        audit: Option<&ReleaseAudit>,
    ) -> Result<ClippedSum, RunError> {
        let site = self.site;
        let canaries = audit.map_or(0, ReleaseAudit::members);
        let batch = site.draw_batch(self.key.round, canaries, &self.draw_randomness(Purpose::Sampling));
        let (real, canaries) = site.split_batch(batch.units());
        let canaries = audit.map(|audit| audit.batch_canaries(canaries));
        let mut units: Vec<Unit<'_>> = site.units(real);
        if let Some(canaries) = &canaries {
            // Canaries that are recordings have the first numbers after the units.
            units.extend(canaries.recordings.iter().cloned());
        }
        let units = BatchUnits::new(units, batch.units(), self.draw_augmentation());
        let coordinates = self.learner.coordinates();
        let mut sum = ClippedSum::begin_parts(&batch, clip, coordinates.lengths());
        let prepared = self.engine.prepare_coordinates(model, coordinates);
        for group in units.groups(self.engine, model.shape()) {
            check_cancelled(self.exchange)?;
            units.add_clipped(group, self.engine, &prepared, &mut sum);
        }
        if let (Some(audit), Some(canaries)) = (audit, &canaries) {
            for gradients in audit.gradients(canaries) {
                check_cancelled(self.exchange)?;
                sum.add(gradients);
            }
        }
        Ok(sum)
    }

    /// Computes the exact mean gradient of a fresh batch, at a model.
    fn exact_gradient(&mut self, model: &Model) -> Result<Vec<f32>, RunError> {
        let site = self.site;
        let sampler = site.sampler(self.canaries.map_or(0, CanaryRecordings::members));
        let batch = sampler.draw(&self.draw_randomness(Purpose::Sampling));
        let (real, numbers) = site.split_batch(batch.units());
        let mut units: Vec<Unit<'_>> = site.units(real);
        if let Some(canaries) = self.canaries {
            units.extend(canaries.select(numbers));
        }
        let units = BatchUnits::new(units, batch.units(), self.draw_augmentation());
        let weight = site.expected_batch().recip() as f32;
        let coordinates = self.learner.coordinates();
        let mut gradient = vec![0.0; coordinates.len()];
        let prepared = self.engine.prepare_coordinates(model, coordinates);
        let groups = if units.is_augmented() {
            units.groups(self.engine, model.shape())
        } else {
            (0..units.len()).step_by(UNITS).map(|first| first..(first + UNITS).min(units.len())).collect()
        };
        for group in groups {
            check_cancelled(self.exchange)?;
            units.add_exact(group, self.engine, &prepared, weight, &mut gradient);
        }
        Ok(gradient)
    }

    /// Draws the coins of a batch's altered copies, if the arm has copies.
    fn draw_augmentation(&mut self) -> Option<BatchAugmentation> {
        let terms = self.learner.augmentation()?;
        Some(BatchAugmentation::new(terms, self.draw_randomness(Purpose::Augmentation)))
    }
}

/// Returns a candidate's clip: the same noise relative to it, in the same mode.
fn candidate_clip(clip: Clip, candidate: &SelectionCandidate) -> Result<Clip, TrainingError> {
    let own = Clip::new(clip.bound() * candidate.clip, clip.noise_multiplier())?;
    Ok(own.with_mode(clip.mode()))
}

/// One granted run of a selection.
struct SelectionRun<'w, 'a, 'm> {
    round: &'w mut RoundContribution<'a, 'm>,
    clip: Clip,
    permits: Option<StepPermits>,
}

impl StepSource for SelectionRun<'_, '_, '_> {
    fn sum_batch(&mut self, model: &Model) -> Result<ClippedSum, RunError> {
        self.round.sum_batch(model, self.clip, None)
    }

    fn request_permits(&mut self) -> Result<StepPermits, RunError> {
        Ok(self.permits.take().ok_or(TrainingError::GrantedOnce)?)
    }

    fn draw_noise(&mut self) -> Randomness {
        self.round.draw_randomness(Purpose::Noise)
    }
}

/// The private steps of a round, with the evidence that they give to an audit.
struct AuditedSteps<'w, 'a, 'm> {
    round: &'w mut RoundContribution<'a, 'm>,
    clip: Clip,
    audit: Option<&'w ReleaseAudit>,
    steps: NonZeroU32,
    ticket: Option<VectorTicket>,
    /// The evidence of all steps so far about each canary.
    evidence: Option<Vec<f64>>,
}

impl StepSource for AuditedSteps<'_, '_, '_> {
    fn sum_batch(&mut self, model: &Model) -> Result<ClippedSum, RunError> {
        self.round.sum_batch(model, self.clip, self.audit)
    }

    fn request_permits(&mut self) -> Result<StepPermits, RunError> {
        let (permits, ticket) = self.round.exchange.clear(self.round.key)?.split(self.steps)?;
        self.ticket = Some(ticket);
        Ok(permits)
    }

    fn draw_noise(&mut self) -> Randomness {
        self.round.draw_randomness(Purpose::Noise)
    }

    fn observe(&mut self, step: &LocalStep) {
        if let (Some(audit), Some(evidence)) = (self.audit, &mut self.evidence) {
            let step_evidence = audit.evidence(step.vector(), self.round.site.expected_batch());
            evidence.iter_mut().zip(step_evidence).for_each(|(sum, evidence)| *sum += evidence);
        }
    }
}
