//! The common state of all participants of an arm, identical bit for bit: the model, and the rule from averages to
//! steps.
//!
//! All of it is post-processing of releases. Its inputs are the average of a round, the spec and the manifest, never
//! data.

use std::num::NonZeroU32;
use std::path::Path;

use undertone_api::job::dp_sgd::{Arm, ModelParts, Party, Rounds, Spec};
use undertone_api::signed::Manifest;

use super::checkpoint::{Checkpoint, Plan};
use super::local::Terms;
use crate::dp::optimizer::StepDirection;
use crate::dp::optimizer::noise::{NoiseShare, variance};
use crate::run::{Average, RunError};
use crate::speech::model::Model;
use crate::speech::model::subset::CoordinateSubset;

/// The model of an arm, between its rounds.
pub(super) struct Learner<'a> {
    arm: Arm,
    rounds: &'a Rounds,
    shares: Vec<NoiseShare>,
    plan: Plan,
    parts: ModelParts,
    trained: CoordinateSubset,
    model: Model,
    standing: Checkpoint,
}

impl<'a> Learner<'a> {
    /// Makes the state before the first round, at `start`.
    ///
    /// # Errors
    /// [`RunError::Failed`] when the model has none of the parts to train.
    pub(super) fn begin(
        spec: &Spec,
        arm: Arm,
        rounds: &'a Rounds,
        manifest: &Manifest,
        start: Model,
    ) -> Result<Self, RunError> {
        let parts = rounds.trained(&spec.model);
        let trained = start.shape().subset(parts);
        if trained.is_empty() {
            return Err(RunError::Failed(format!(
                "the model has none of the parts that `{}` is to train: name one that it has in `train`",
                arm.series()
            )));
        }
        let plan = Plan { length: trained.len(), rule: rounds.optimizer, averaging: rounds.averaging };
        let standing = plan.begin(trained.gather(start.parameters()));
        Ok(Self { arm, rounds, shares: shares(spec, arm, manifest), plan, parts, trained, model: start, standing })
    }

    /// Resumes from the last checkpoint in `folder`; returns whether there was one.
    pub(super) fn resume(&mut self, folder: &Path) -> bool {
        let Some(standing) = Checkpoint::load(folder, self.arm.series(), self.plan)
            .filter(|standing| standing.round <= self.rounds.rounds)
        else {
            return false;
        };
        self.trained.scatter(&standing.parameters, self.model.parameters_mut());
        self.standing = standing;
        true
    }

    /// Writes a checkpoint; durable when this returns.
    ///
    /// # Errors
    /// [`RunError::Failed`] when the disk refuses.
    pub(super) fn save(&self, folder: &Path) -> Result<(), RunError> {
        self.standing.save(folder, self.arm.series())
    }

    /// Returns the number of finished rounds.
    pub(super) const fn done(&self) -> u32 {
        self.standing.round
    }

    /// Returns the duration of the rounds, seconds.
    pub(super) const fn seconds(&self) -> f64 {
        self.standing.seconds
    }

    /// Adds seconds to the duration.
    pub(super) fn spend(&mut self, seconds: f64) {
        self.standing.seconds += seconds;
    }

    /// Returns the model at which gradients are computed.
    pub(super) const fn model(&self) -> &Model {
        &self.model
    }

    /// Returns the trained parts.
    pub(super) const fn parts(&self) -> ModelParts {
        self.parts
    }

    /// Returns the trained coordinates: those of the arm's vectors.
    pub(super) const fn trained(&self) -> &CoordinateSubset {
        &self.trained
    }

    /// Returns the next round's factor of the learning rate.
    pub(super) fn pace(&self) -> f64 {
        self.rounds.schedule.factor(self.standing.round + 1, self.rounds.rounds)
    }

    /// Returns the number of steps of each participant between two averages, if updates are sent.
    pub(super) const fn local_steps(&self) -> Option<NonZeroU32> {
        if self.rounds.sends_updates() { NonZeroU32::new(self.rounds.local_steps) } else { None }
    }

    /// Returns the terms of the next round's local steps, for a participant that divides by `expected_batch`.
    pub(super) fn terms(&self, steps: NonZeroU32, expected_batch: f64) -> Terms {
        Terms { steps, rule: self.rounds.optimizer, pace: self.pace(), expected_batch }
    }

    /// Applies the average of the next round: a step along gradients, or the updates themselves.
    ///
    /// # Errors
    /// [`RunError::Failed`] when it is not a finite vector with one number per trained coordinate; nothing has changed
    /// then.
    pub(super) fn apply(&mut self, average: &Average) -> Result<(), RunError> {
        let round = self.standing.round + 1;
        if average.mean.len() != self.trained.len() || !average.mean.iter().all(|value| value.is_finite()) {
            return Err(RunError::Failed(format!(
                "the average of round {round} of `{}` is not a finite vector of {} numbers",
                self.arm.series(),
                self.trained.len()
            )));
        }
        let pace = self.pace();
        let Checkpoint { parameters, optimizer, iterates, .. } = &mut self.standing;
        if self.rounds.sends_updates() {
            parameters.iter_mut().zip(&average.mean).for_each(|(parameter, moved)| *parameter += moved);
        } else {
            let noise = variance(&self.shares, average.contributors as usize);
            optimizer.step(parameters, StepDirection::averaged(&average.mean, noise), pace);
        }
        if let Some(iterates) = iterates {
            iterates.add(parameters);
        }
        self.trained.scatter(parameters, self.model.parameters_mut());
        self.standing.round = round;
        Ok(())
    }

    /// Returns the model that is measured, audited and published: of the mean of the iterates if they are averaged.
    pub(super) fn result(&self) -> Model {
        let mut model = self.model.clone();
        self.trained.scatter(self.standing.result(), model.parameters_mut());
        model
    }
}

/// Returns the weight of each contributor, and the noise of its vectors in an arm.
fn shares(spec: &Spec, arm: Arm, manifest: &Manifest) -> Vec<NoiseShare> {
    let share = |party: &Party| {
        let units = manifest.participants.iter().find(|signed| signed.dataset == party.dataset)?.units;
        let deviation = if arm == Arm::Private { party.deviation(units) } else { 0.0 };
        Some(NoiseShare { weight: spec.weight(party, units), deviation })
    };
    spec.participants.iter().filter_map(share).collect()
}
