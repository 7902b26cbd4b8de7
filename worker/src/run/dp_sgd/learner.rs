//! The common state of all participants of an arm, identical bit for bit: the model, and the rule from averages to
//! steps.
//!
//! All of it is post-processing of releases. Its inputs are the average of a round, the spec and the manifest, never
//! data.
//!
//! The checkpoint holds the trained coordinates. The directions of a low rank are not in it: a resumed process computes them
//! again from the start of the arm, which the lead has in the checkpoint of its warm start, and the others in the file that
//! the lead shared.

use std::num::NonZeroU32;
use std::path::Path;

use undertone_api::job::dp_sgd::{Arm, Party, Rounds, Spec, UnitAugmentation};
use undertone_api::signed::Manifest;
use undertone_privacy::correlated::BandedEncoder;

use super::checkpoint::{ArmCheckpoint, CheckpointPlan};
use super::error::TrainingError;
use super::local::{StepStart, StepTerms};
use crate::dp::optimizer::StepDirection;
use crate::dp::optimizer::noise::{NoiseShare, variance};
use crate::run::{RoundAverage, RunError};
use crate::speech::model::Model;
use crate::speech::model::coordinates::TrainedCoordinates;

/// The model of an arm, between its rounds.
pub(super) struct ArmLearner<'a> {
    arm: Arm,
    rounds: &'a Rounds,
    /// The noise of each contributor.
    shares: Vec<ContributorNoise>,
    plan: CheckpointPlan,
    coordinates: TrainedCoordinates,
    model: Model,
    checkpoint: ArmCheckpoint,
}

impl<'a> ArmLearner<'a> {
    /// Makes the state before the first round, at `start`.
    ///
    /// # Errors
    /// [`RunError::Failed`] when the model has none of the parts to train, or one cannot be trained as the spec says.
    pub(super) fn begin(
        spec: &Spec,
        arm: Arm,
        rounds: &'a Rounds,
        manifest: &Manifest,
        start: Model,
    ) -> Result<Self, RunError> {
        let coordinates = TrainedCoordinates::new(&start, rounds.trained(&spec.model), rounds.adaptation)
            .map_err(TrainingError::Coordinates)?;
        if coordinates.is_empty() {
            return Err(TrainingError::NoTrainedPart(arm.series().to_owned()).into());
        }
        let plan = CheckpointPlan { length: coordinates.len(), rule: rounds.optimizer, averaging: rounds.averaging };
        let checkpoint = plan.begin(coordinates.gather(start.parameters()));
        let shares = noise_shares(spec, arm, manifest);
        Ok(Self { arm, rounds, shares, plan, coordinates, model: start, checkpoint })
    }

    /// Resumes from the last checkpoint in `folder`; returns whether there was one.
    pub(super) fn resume(&mut self, folder: &Path) -> bool {
        let Some(checkpoint) = ArmCheckpoint::load(folder, self.arm.series(), self.plan)
            .filter(|checkpoint| checkpoint.round <= self.rounds.rounds)
        else {
            return false;
        };
        self.coordinates.scatter(&checkpoint.parameters, self.model.parameters_mut());
        self.checkpoint = checkpoint;
        true
    }

    /// Writes a checkpoint; durable when this returns.
    ///
    /// # Errors
    /// [`RunError::Failed`] when the disk refuses.
    pub(super) fn save(&self, folder: &Path) -> Result<(), RunError> {
        self.checkpoint.save(folder, self.arm.series())
    }

    /// Returns the number of finished rounds.
    pub(super) const fn finished_rounds(&self) -> u32 {
        self.checkpoint.round
    }

    /// Returns the duration of the rounds, seconds.
    pub(super) const fn seconds(&self) -> f64 {
        self.checkpoint.seconds
    }

    /// Adds seconds to the duration.
    pub(super) fn add_seconds(&mut self, seconds: f64) {
        self.checkpoint.seconds += seconds;
    }

    /// Returns the model at which gradients are computed.
    pub(super) const fn model(&self) -> &Model {
        &self.model
    }

    /// Returns the trained coordinates: those of the arm's vectors.
    pub(super) const fn coordinates(&self) -> &TrainedCoordinates {
        &self.coordinates
    }

    /// Returns the point from which the next round's local steps begin.
    pub(super) fn step_start(&self) -> StepStart<'_> {
        StepStart { model: &self.model, coordinates: &self.coordinates, values: &self.checkpoint.parameters }
    }

    /// Returns the next round's factor of the learning rate.
    pub(super) fn step_scale(&self) -> f64 {
        self.rounds.schedule.factor(self.checkpoint.round + 1, self.rounds.rounds)
    }

    /// Returns the number of steps of each participant between two averages, if updates are sent.
    pub(super) const fn local_steps(&self) -> Option<NonZeroU32> {
        if self.rounds.sends_updates() { NonZeroU32::new(self.rounds.local_steps) } else { None }
    }

    /// Returns the alterations of the copies of each unit, if units have copies.
    pub(super) const fn augmentation(&self) -> Option<UnitAugmentation> {
        self.rounds.augmentation
    }

    /// Returns the terms of the next round's local steps, for a participant that divides by `expected_batch`.
    pub(super) fn step_terms(&self, steps: NonZeroU32, expected_batch: f64) -> StepTerms {
        StepTerms { steps, rule: self.rounds.optimizer, pace: self.step_scale(), expected_batch }
    }

    /// Applies the average of the next round: a step along gradients, or the updates themselves.
    ///
    /// # Errors
    /// [`RunError::Failed`] when it is not a finite vector with one number per trained coordinate; nothing has changed
    /// then.
    pub(super) fn apply(&mut self, average: &RoundAverage) -> Result<(), RunError> {
        let round = self.checkpoint.round + 1;
        if average.mean.len() != self.coordinates.len() || !average.mean.iter().all(|value| value.is_finite()) {
            let series = self.arm.series().to_owned();
            return Err(TrainingError::UnusableAverage { series, round, length: self.coordinates.len() }.into());
        }
        let pace = self.step_scale();
        let ArmCheckpoint { parameters, optimizer, iterates, .. } = &mut self.checkpoint;
        if self.rounds.sends_updates() {
            parameters.iter_mut().zip(&average.mean).for_each(|(parameter, change)| *parameter += change);
        } else {
            let shares: Vec<_> = self.shares.iter().filter_map(|noise| noise.share(round)).collect();
            let noise = variance(&shares, average.contributors as usize);
            optimizer.step(parameters, StepDirection::averaged(&average.mean, noise), pace);
        }
        if let Some(iterates) = iterates {
            iterates.add(parameters);
        }
        self.coordinates.scatter(parameters, self.model.parameters_mut());
        self.checkpoint.round = round;
        Ok(())
    }

    /// Returns the model that is measured, audited and published: of the mean of the iterates if they are averaged.
    pub(super) fn result(&self) -> Model {
        let mut model = self.model.clone();
        self.coordinates.scatter(self.checkpoint.result(), model.parameters_mut());
        model
    }
}

/// The noise of one contributor of an arm.
struct ContributorNoise {
    /// The last round with a vector of it.
    last: u32,
    /// Its weight, and the deviation of independent noise.
    share: NoiseShare,
    /// The encoder of correlated noise.
    encoder: Option<BandedEncoder>,
}

impl ContributorNoise {
    /// Returns the share of a round; `None` after the last one.
    fn share(&self, round: u32) -> Option<NoiseShare> {
        let factor = |encoder: &BandedEncoder| encoder.column_norm() * encoder.step_deviation(round);
        let deviation = self.share.deviation * self.encoder.as_ref().map_or(1.0, factor);
        (self.last >= round).then_some(NoiseShare { deviation, ..self.share })
    }
}

/// Returns the noise of each contributor of an arm.
fn noise_shares(spec: &Spec, arm: Arm, manifest: &Manifest) -> Vec<ContributorNoise> {
    let share = |party: &Party| {
        let units = manifest.participants.iter().find(|signed| signed.dataset == party.dataset)?.units;
        let is_private = arm == Arm::Private;
        let deviation = if is_private { spec.independent_deviation(party, units) } else { 0.0 };
        let last = if is_private { spec.rounds_of(party) } else { u32::MAX };
        let share = NoiseShare { weight: spec.weight(party, units), deviation };
        Some(ContributorNoise { last, share, encoder: spec.encoder(party).filter(|_| is_private) })
    };
    spec.participants.iter().filter_map(share).collect()
}
