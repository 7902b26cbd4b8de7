//! Local steps of a participant, between two averages (federated averaging by local DP-SGD; `privacy.md`, 5).
//!
//! From the shared model, s times: a fresh Poisson batch, its clipped sum, fresh noise, one step of the participant's
//! own optimizer along the noisy gradient. The difference to the shared model is sent. It is post-processing of s
//! releases. All are granted at once, after the first batch is summed and before the first noise is drawn, and paid at
//! once when the update is on disk. A crash before the payment costs nothing and has released nothing, and no part of a
//! round is ever resumed.
//!
//! The optimizer begins each round without memory: a participant's steps depend on the shared model and on no local
//! state. So a participant that returns after a crash or an absence matches the others.

use std::num::NonZeroU32;

use undertone_api::job::dp_sgd::Optimizer as Rule;

use super::error::TrainingError;
use crate::dp::clip::ClippedSum;
use crate::dp::optimizer::{Optimizer, StepDirection};
use crate::dp::randomness::Randomness;
use crate::dp::release::{LocalStep, Update};
use crate::run::RunError;
use crate::site::clearance::StepPermits;
use crate::speech::model::Model;
use crate::speech::model::coordinates::TrainedCoordinates;

/// The public terms of a round's local steps.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepTerms {
    /// The number of steps, s.
    pub(super) steps: NonZeroU32,
    /// The rule from a gradient to a step.
    pub(super) rule: Rule,
    /// The factor of the rule's learning rate in all steps of the round: 0 to 1.
    pub(super) pace: f64,
    /// q n: the divisor of every sum.
    pub(super) expected_batch: f64,
}

/// The point from which the steps of a round begin: a model, with its trained coordinates and their values.
#[derive(Clone, Copy)]
pub(super) struct StepStart<'a> {
    pub(super) model: &'a Model,
    pub(super) coordinates: &'a TrainedCoordinates,
    pub(super) values: &'a [f32],
}

impl StepStart<'_> {
    /// Sets `model`, which has the parameters of the start outside the trained coordinates, to the start moved by `change`.
    ///
    /// # Panics
    /// If the number of coordinates differs.
    pub(super) fn advance(&self, change: &[f32], model: &mut Model) {
        assert_eq!(change.len(), self.values.len(), "a number for each coordinate");
        let moved: Vec<f32> = self.values.iter().zip(change).map(|(value, change)| value + change).collect();
        self.coordinates.scatter(&moved, model.parameters_mut());
    }
}

/// The source of batches, permits and noise for private steps.
pub(super) trait StepSource {
    /// Draws a fresh batch and returns its clipped sum at a model.
    ///
    /// # Errors
    /// [`RunError`] when the run has to stop.
    fn sum_batch(&mut self, model: &Model) -> Result<ClippedSum, RunError>;

    /// Returns the permits for all steps of the round; called once, after the first sum and before the first noise.
    ///
    /// # Errors
    /// [`RunError::Refused`] when ledger or policy refuse.
    fn request_permits(&mut self) -> Result<StepPermits, RunError>;

    /// Returns fresh randomness for one step's noise.
    fn draw_noise(&mut self) -> Randomness;

    /// Receives every release.
    fn observe(&mut self, step: &LocalStep) {
        let _ = step;
    }
}

/// Takes the private steps of a round from `start`; only the trained coordinates move. The update may leave with the ticket
/// of the grant; [`StepStart::advance`] makes its model.
///
/// # Errors
/// Any error of the source, and [`RunError::Refused`] when the grant does not match the releases.
pub(super) fn take_private_steps(
    start: &StepStart<'_>,
    terms: &StepTerms,
    source: &mut impl StepSource,
) -> Result<Update, RunError> {
    let mut update = Update::begin(terms.rule, terms.pace, start.coordinates.len());
    let mut first = Some(source.sum_batch(start.model)?);
    let mut permits = source.request_permits()?;
    let mut model = start.model.clone();
    for _ in 0..terms.steps.get() {
        let sum = if let Some(sum) = first.take() {
            sum
        } else {
            start.advance(update.moved(), &mut model);
            source.sum_batch(&model)?
        };
        let permit = permits.take().ok_or(TrainingError::TooFewSteps(terms.steps))?;
        let step = sum.step(terms.expected_batch, permit, &source.draw_noise())?;
        source.observe(&step);
        update.take(step)?;
    }
    Ok(update)
}

/// Takes the same steps along exact gradients, for data that are public or opened by their owner; returns their sum.
///
/// # Errors
/// Any error of `gradient`.
pub(super) fn take_exact_steps(
    start: &StepStart<'_>,
    terms: &StepTerms,
    mut gradient: impl FnMut(&Model) -> Result<Vec<f32>, RunError>,
) -> Result<Vec<f32>, RunError> {
    let mut optimizer = Optimizer::new(terms.rule, start.coordinates.len());
    let mut change = vec![0.0; start.coordinates.len()];
    let mut model = start.model.clone();
    for _ in 0..terms.steps.get() {
        let gradient = gradient(&model)?;
        optimizer.step(&mut change, StepDirection::exact(&gradient), terms.pace);
        start.advance(&change, &mut model);
    }
    Ok(change)
}
