//! Gradients of the model: of single units for DP-SGD, and of weighted examples for public data.
//!
//! The loss of a unit is the mean cross-entropy over all its frames. Work goes in micro-batches of bounded memory: the LSTM
//! walks over many utterances together, then each unit's part of the weight gradients is a matrix product over its own
//! frames. So that a unit's gradient is a function of the unit alone, bit for bit,
//! * the recurrence computes each row by a fixed chain of operations (`dp::layers::lstm`),
//! * tiles of the output layer begin at the unit's first frame, and the shapes of all products are the unit's own,
//! * a unit too long for one micro-batch is cut where its own length says, and goes alone.
//!
//! Direct per-unit gradients cost no more products than a summed one. Ghost norms (T² per unit) would not: senone models
//! have T ≳ hidden. What DP adds is one pass to clip and one to add, and the noise.

use std::ops::Range;

use super::{Model, Shape};
use crate::dp::layers::linear::Score;
use crate::dp::layers::lstm::Trace;
use crate::dp::matrix::{Into, View, multiply};
use crate::dp::per_unit::PerUnit;

/// Frames that walk together.
const FRAMES: usize = 8192;
/// Coordinates of per-unit gradients that exist together: 256 MiB.
const COORDINATES: usize = 1 << 26;

/// Features and labels of an utterance.
#[derive(Debug, Clone, Copy)]
pub struct Example<'a> {
    /// `[frames, inputs]`.
    pub features: &'a [f32],
    /// `[frames]`, each below the model's classes.
    pub labels: &'a [u16],
}

/// A privacy unit: all its utterances, with at least one frame.
pub type Unit<'a> = Vec<Example<'a>>;

/// Cuts a batch in micro-batches of bounded memory. Where it is cut changes no gradient.
pub fn micro_batches(units: &[Unit<'_>], shape: &Shape) -> Vec<Range<usize>> {
    let most = (COORDINATES / shape.parameters()).max(1);
    let mut batches: Vec<Range<usize>> = Vec::new();
    let mut frames = 0;
    for (index, unit) in units.iter().enumerate() {
        frames += frames_of(unit);
        match batches.last_mut() {
            Some(batch) if batch.len() < most && frames <= FRAMES => batch.end = index + 1,
            _ => {
                batches.push(index..index + 1);
                frames = frames_of(unit);
            }
        }
    }
    batches
}

fn frames_of(unit: &[Example<'_>]) -> usize {
    unit.iter().map(|example| example.labels.len()).sum()
}

/// Cuts examples where their frames would exceed a micro-batch.
fn pieces<'s, 'a>(examples: &'s [Example<'a>]) -> impl Iterator<Item = &'s [Example<'a>]> {
    let mut rest = examples;
    std::iter::from_fn(move || {
        let mut frames = 0;
        let fits = |example: &&Example<'_>| {
            frames += example.labels.len();
            frames <= FRAMES
        };
        let count = rest.iter().take_while(fits).count().max(1).min(rest.len());
        let (piece, after) = rest.split_at(count);
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}

/// One part of a pass: frames that share a weight.
struct Part<'s, 'a> {
    examples: &'s [Example<'a>],
    weight: f32,
}

/// Where the gradients of the parts of a pass go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rows {
    /// Each part's to a row of its own.
    OneEach,
    /// All to the same.
    Shared,
}

/// Computes gradients and scores; holds the buffers.
#[derive(Default)]
pub struct Engine {
    trace: Trace,
    logits: Vec<f32>,
    backward: Vec<f32>,
    gradients: Vec<f32>,
}

impl Engine {
    /// An engine without buffers yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The gradient of each unit of a micro-batch, each the gradient of the mean cross-entropy over the unit's frames.
    ///
    /// # Panics
    /// If a label is not below the model's classes.
    pub fn per_unit(&mut self, model: &Model, units: &[Unit<'_>]) -> PerUnit {
        let length = model.shape().parameters();
        let mut gradients = std::mem::take(&mut self.gradients);
        gradients.clear();
        gradients.resize(units.len() * length, 0.0);
        let weigh = |unit: &Unit<'_>| 1.0 / frames_of(unit) as f32;
        let mut start = 0;
        while start < units.len() {
            let mut frames = 0;
            let fits = |unit: &&Unit<'_>| {
                frames += frames_of(unit);
                frames <= FRAMES
            };
            let count = units[start..].iter().take_while(fits).count();
            if count == 0 {
                let weight = weigh(&units[start]);
                for examples in pieces(&units[start]) {
                    self.pass(
                        model,
                        &[Part { examples, weight }],
                        &mut gradients[start * length..(start + 1) * length],
                        Rows::OneEach,
                    );
                }
                start += 1;
            } else {
                let together = &units[start..start + count];
                let parts: Vec<_> = together.iter().map(|unit| Part { examples: unit, weight: weigh(unit) }).collect();
                self.pass(model, &parts, &mut gradients[start * length..(start + count) * length], Rows::OneEach);
                start += count;
            }
        }
        PerUnit::new(gradients, length)
    }

    /// Takes back the buffer of a spent [`PerUnit`].
    pub fn recycle(&mut self, buffer: Vec<f32>) {
        self.gradients = buffer;
    }

    /// Adds `weight` times the gradient of the *sum* of the examples' cross-entropies to `gradient`. Without protection:
    /// for data that are public or opened by their owner.
    ///
    /// # Panics
    /// If a label is not below the model's classes, or the gradient has another length than the parameters.
    pub fn add_gradient(
        &mut self,
        model: &Model,
        examples: &[Example<'_>],
        weight: f32,
        gradient: &mut [f32],
    ) -> Score {
        pieces(examples).fold(Score::default(), |score, examples| {
            score.plus(self.pass(model, &[Part { examples, weight }], gradient, Rows::Shared))
        })
    }

    /// Adds `weight` times the sum of the gradients of the units to `gradient`: each the gradient of the mean cross-entropy
    /// over its unit's frames, as in [`Engine::per_unit`], but neither kept apart nor clipped. Without protection: for data
    /// that are public or opened by their owner.
    ///
    /// # Panics
    /// If a label is not below the model's classes, or the gradient has another length than the parameters.
    pub fn add_units(&mut self, model: &Model, units: &[Unit<'_>], weight: f32, gradient: &mut [f32]) {
        let mut parts = Vec::new();
        let mut frames = 0;
        for unit in units {
            let weight = weight / frames_of(unit) as f32;
            for examples in pieces(unit) {
                if frames + frames_of(examples) > FRAMES && !parts.is_empty() {
                    self.pass(model, &std::mem::take(&mut parts), gradient, Rows::Shared);
                    frames = 0;
                }
                frames += frames_of(examples);
                parts.push(Part { examples, weight });
            }
        }
        if !parts.is_empty() {
            self.pass(model, &parts, gradient, Rows::Shared);
        }
    }

    /// Classifies examples and compares with their labels.
    ///
    /// # Panics
    /// If a label is not below the model's classes.
    pub fn score(&mut self, model: &Model, examples: &[Example<'_>]) -> Score {
        pieces(examples).fold(Score::default(), |score, examples| {
            self.forward(model, examples.iter());
            let labels: Vec<u16> = examples.iter().flat_map(|example| example.labels).copied().collect();
            let parameters = &model.parameters()[model.shape().recurrent().end..];
            let linear = model.shape().linear();
            score.plus(linear.score(parameters, &self.trace.outputs, &labels, &mut self.logits))
        })
    }

    fn forward<'s, 'a: 's>(&mut self, model: &Model, examples: impl Iterator<Item = &'s Example<'a>> + Clone) {
        let lstm = model.shape().lstm();
        let normalizer = model.normalizer();
        let lengths = examples.clone().map(|example| example.labels.len()).collect();
        let frames = examples.flat_map(|example| example.features.chunks_exact(lstm.inputs));
        for (row, frame) in self.trace.prepare(&lstm, lengths).zip(frames) {
            for (n, value) in row.iter_mut().enumerate() {
                *value = (frame[n] - normalizer.mean[n]) / normalizer.deviation[n];
            }
        }
        lstm.forward(&model.parameters()[model.shape().recurrent()], &mut self.trace);
    }

    /// Forward and backward over some parts; adds their gradients to their rows of `gradients`.
    fn pass(&mut self, model: &Model, parts: &[Part<'_, '_>], gradients: &mut [f32], target: Rows) -> Score {
        let shape = *model.shape();
        let (lstm, linear, split) = (shape.lstm(), shape.linear(), shape.recurrent().end);
        let (recurrent, outer) = model.parameters().split_at(split);
        self.forward(model, parts.iter().flat_map(|part| part.examples));
        let Self { trace, logits, backward, .. } = self;
        backward.resize(trace.outputs.len() / (shape.hidden + 1) * shape.hidden, 0.0);

        let mut score = Score::default();
        let mut start = 0;
        let length = shape.parameters();
        let row = |index: usize| if target == Rows::Shared { 0..length } else { index * length..(index + 1) * length };
        let frames = |start: usize, part: &Part<'_, '_>| start..start + frames_of(part.examples);
        for (index, part) in parts.iter().enumerate() {
            let gradient = &mut gradients[row(index)];
            let rows = frames(start, part);
            start = rows.end;
            let labels: Vec<u16> = part.examples.iter().flat_map(|example| example.labels).copied().collect();
            score = score.plus(linear.backward(
                outer,
                &trace.outputs[rows.start * (shape.hidden + 1)..rows.end * (shape.hidden + 1)],
                &labels,
                part.weight,
                &mut gradient[split..],
                &mut backward[rows.start * shape.hidden..rows.end * shape.hidden],
                logits,
            ));
        }
        lstm.backward(recurrent, trace, backward);
        start = 0;
        for (index, part) in parts.iter().enumerate() {
            let gradient = &mut gradients[row(index)];
            let rows = frames(start, part);
            start = rows.end;
            let (width, gates) = (lstm.width(), 4 * shape.hidden);
            let inputs = View::new(&trace.inputs[rows.start * width..rows.end * width], rows.len(), width);
            let errors = View::new(&trace.gates[rows.start * gates..rows.end * gates], rows.len(), gates);
            multiply(&mut gradient[..split], inputs.transposed(), errors, Into::Add);
        }
        score
    }
}
