//! Gradients of the model: of single units for DP-SGD, and of weighted examples for public data.
//!
//! The loss of a unit is the mean cross-entropy over all its frames. Units go through the layers in groups of bounded memory,
//! once forward and once back; what that leaves behind tells each unit's norm, and then each unit's clipped gradient is
//! streamed into the sum ([`crate::dp::layers::piece`], [`ClippedSum::add_group`]). No gradient of a single unit is ever held,
//! but for units too long for a group: they pass piece by piece into one vector, cut where their own length says.
//!
//! A unit's gradient is a function of the unit alone, bit for bit: layers see to it within a group, whether a unit is too long
//! depends on its own frames, and on devices that give no such promise each unit passes alone ([`device::Processor::shares_passes`]).

use std::ops::Range;

use burn::tensor::{Device, Tensor, TensorData};
use undertone_api::job::dp_sgd::{Part, Parts};

use super::{Model, Shape};
use crate::dp::bench::Clock;
use crate::dp::clip::ClippedSum;
use crate::dp::device;
use crate::dp::layers::output::{Buffers, Loaded, Score, Targets};
use crate::dp::layers::stack::Stack;
use crate::dp::layers::{Gradient, Layout, Parameters, Wanted};
use crate::dp::per_unit::PerUnit;

/// Most frames that pass together.
const FRAMES: usize = 8192;
/// Most numbers that the output layer holds at a time: 80 MiB. More at a time would pass little faster.
const HELD: usize = 20 << 20;

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

fn frames_of(unit: &[Example<'_>]) -> usize {
    unit.iter().map(|example| example.labels.len()).sum()
}

/// Cuts things of so many frames, each of which makes the output layer hold so many numbers, where together they would be too
/// many; one that is so by itself goes alone.
fn cut(sizes: impl Iterator<Item = (usize, usize)>) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut sum = (0, 0);
    for (index, (frames, held)) in sizes.enumerate() {
        sum = (sum.0 + frames, sum.1 + held);
        match ranges.last_mut() {
            Some(range) if sum.0 <= FRAMES && sum.1 <= HELD => range.end = index + 1,
            _ => {
                ranges.push(index..index + 1);
                sum = (frames, held);
            }
        }
    }
    ranges
}

/// Cuts examples whose gradients are only summed.
fn pieces(examples: &[Example<'_>], shape: &Shape) -> Vec<Range<usize>> {
    cut(examples.iter().map(|example| (example.labels.len(), example.labels.len() * shape.classes)))
}

/// Some examples, each frame with this weight.
struct Weighted<'s, 'a> {
    examples: &'s [Example<'a>],
    weight: f32,
}

/// A model as passes read it: on the device, and laid out for the loops. Made once for all groups of a batch.
pub struct Prepared<'m> {
    model: &'m Model,
    trained: Parts,
    stack: Stack,
    parameters: Parameters<'m>,
    output: Loaded<'m>,
    /// Of the output layer.
    below: Wanted,
}

/// Computes gradients and scores of models on one device.
pub struct Engine {
    device: Device,
    shares: bool,
    buffers: Buffers,
}

/// Whether a pass tells units from each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Apart,
    Together,
}

impl Default for Engine {
    fn default() -> Self {
        Self::new()
    }
}

impl Engine {
    /// On what this process computes with ([`device::chosen`]).
    pub fn new() -> Self {
        let (processor, device) = device::chosen();
        Self { device, shares: processor.shares_passes(), buffers: Buffers::default() }
    }

    /// Cuts a batch in groups that pass together. Where it is cut changes no gradient.
    pub fn groups(&self, units: &[Unit<'_>], shape: &Shape) -> Vec<Range<usize>> {
        let output = shape.output();
        let size = |unit: &Unit<'_>| (frames_of(unit), if self.shares { output.held(frames_of(unit)) } else { HELD });
        cut(units.iter().map(size))
    }

    /// Makes a model ready for passes in which these of its parts are trained.
    pub fn prepare<'m>(&self, model: &'m Model, trained: Parts) -> Prepared<'m> {
        let shape = model.shape();
        let below = Wanted {
            by_input: shape.parts().iter().any(|(part, _)| *part != Part::Output && trained.contains(*part)),
            gradient: trained.contains(Part::Output),
        };
        let parameters = Parameters::load(model.parameters(), &self.device);
        let output = shape.output().load(parameters.part(shape.output_range()), below.by_input);
        let parameters = parameters.part(shape.recurrent());
        Prepared { model, trained, stack: shape.body(trained), parameters, output, below }
    }

    /// Adds the clipped gradients of the units of one group by the parts that are trained: of each the gradient of the mean
    /// cross-entropy over the unit's frames. The sum has those parts, in the model's order.
    ///
    /// # Panics
    /// If a label is not below the model's classes, or the sum has other parts.
    pub fn add_clipped(&mut self, prepared: &Prepared<'_>, group: &[Unit<'_>], sum: &mut ClippedSum) {
        if let [unit] = group
            && frames_of(unit) > FRAMES
        {
            let mut gradient = vec![0.0; prepared.model.shape().subset(prepared.trained).len()];
            self.add_prepared(prepared, group, 1.0, &mut gradient);
            let length = gradient.len();
            sum.add(PerUnit::new(gradient, length));
            return;
        }
        let weigh = |unit| Weighted { examples: unit, weight: 1.0 / frames_of(unit) as f32 };
        let weighted: Vec<_> = group.iter().map(|unit| weigh(unit)).collect();
        let (_, gradient, layout) = self.pass(prepared, &weighted, Told::Apart);
        sum.add_group(&gradient, &layout);
    }

    /// Adds `weight` times the gradient of the *sum* of the examples' cross-entropies to `gradient`, by all parts. Without
    /// protection: for data that are public or opened by their owner.
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
        let prepared = self.prepare(model, model.shape().all());
        pieces(examples, model.shape()).into_iter().fold(Score::default(), |score, piece| {
            let some = [Weighted { examples: &examples[piece], weight }];
            let (own, pieces, _) = self.pass(&prepared, &some, Told::Together);
            pieces.add_to(gradient);
            score.plus(own)
        })
    }

    /// Adds `weight` times the sum of the gradients of the units by the parts that are trained to `gradient`: each the gradient
    /// of the mean cross-entropy over its unit's frames, as in [`Engine::add_clipped`], but neither kept apart nor clipped.
    /// Without protection: for data that are public or opened by their owner.
    ///
    /// # Panics
    /// If a label is not below the model's classes, or the gradient has another length than the parts that are trained.
    pub fn add_units(&mut self, model: &Model, trained: Parts, units: &[Unit<'_>], weight: f32, gradient: &mut [f32]) {
        self.add_prepared(&self.prepare(model, trained), units, weight, gradient);
    }

    fn add_prepared(&self, prepared: &Prepared<'_>, units: &[Unit<'_>], weight: f32, gradient: &mut [f32]) {
        let shape = prepared.model.shape();
        let weighted: Vec<_> = units
            .iter()
            .flat_map(|unit| {
                let weight = weight / frames_of(unit) as f32;
                pieces(unit, shape).into_iter().map(move |piece| Weighted { examples: &unit[piece], weight })
            })
            .collect();
        let sizes = weighted.iter().map(|piece| (frames_of(piece.examples), frames_of(piece.examples) * shape.classes));
        for some in cut(sizes) {
            let (_, pieces, _) = self.pass(prepared, &weighted[some], Told::Together);
            pieces.add_to(gradient);
        }
    }

    /// Classifies examples and compares with their labels.
    ///
    /// # Panics
    /// If a label is not below the model's classes.
    pub fn score(&mut self, model: &Model, examples: &[Example<'_>]) -> Score {
        let shape = model.shape();
        let parameters = Parameters::load(model.parameters(), &self.device);
        let (below, above) = (parameters.part(shape.recurrent()), parameters.part(shape.output_range()));
        let (stack, output) = (shape.body(shape.all()), shape.output().load(above, false));
        pieces(examples, shape).into_iter().fold(Score::default(), |score, piece| {
            let some = [Weighted { examples: &examples[piece], weight: 1.0 }];
            let layout = layout(&some);
            let (activations, _) = stack.run(&below, self.features(model, &some, &layout), &layout);
            score.plus(output.score(activations, &labels(&some)))
        })
    }

    /// Once forward and once back: the scores of all frames, and the derivatives of each unit's loss by the parts that are
    /// trained.
    fn pass(&self, prepared: &Prepared<'_>, units: &[Weighted<'_, '_>], told: Told) -> (Score, Gradient, Layout) {
        self.marked_pass(prepared, units, told, &mut |_| ())
    }

    /// The same, telling of each stage when it ends.
    fn marked_pass(
        &self,
        prepared: &Prepared<'_>,
        units: &[Weighted<'_, '_>],
        told: Told,
        mark: &mut dyn FnMut(&'static str),
    ) -> (Score, Gradient, Layout) {
        let Prepared { model, stack, parameters, output, below, .. } = prepared;
        let layout = layout(units);
        let (activations, tape) = stack.run(parameters, self.features(model, units, &layout), &layout);
        mark("layers_forward");
        let weights: Vec<f32> =
            units.iter().flat_map(|unit| std::iter::repeat_n(unit.weight, frames_of(unit.examples))).collect();
        let targets = Targets { labels: &labels(units), weights: &weights };
        let passed = output.pass(activations, targets, &layout, *below, told == Told::Apart, &self.buffers);
        mark("output_both_ways");
        let mut gradient = match passed.by_input {
            Some(by_output) => stack.gradient(parameters, tape, by_output, &layout),
            None => Gradient::new(),
        };
        mark("layers_back");
        if let Some(piece) = passed.piece {
            gradient.push(Part::Output.name(), vec![piece]);
        }
        (passed.score, gradient, layout)
    }

    /// As [`Engine::add_clipped`] of a group of units that are not too long, telling how long each stage takes.
    pub(crate) fn time_clipped(
        &mut self,
        prepared: &Prepared<'_>,
        group: &[Unit<'_>],
        sum: &mut ClippedSum,
        clock: &mut Clock<'_>,
    ) {
        let weigh = |unit| Weighted { examples: unit, weight: 1.0 / frames_of(unit) as f32 };
        let weighted: Vec<_> = group.iter().map(|unit| weigh(unit)).collect();
        let mark = &mut |stage| clock.mark(stage);
        let (_, gradient, layout) = self.marked_pass(prepared, &weighted, Told::Apart, mark);
        for (_, pieces) in gradient.parts() {
            for piece in pieces {
                drop(piece.squared_norms(&layout));
            }
        }
        clock.mark("norms");
        sum.add_group(&gradient, &layout);
        clock.mark("norms_and_steps");
    }

    /// As [`Engine::add_gradient`], telling how long each stage takes.
    pub(crate) fn time_summed(
        &mut self,
        model: &Model,
        examples: &[Example<'_>],
        gradient: &mut [f32],
        clock: &mut Clock<'_>,
    ) {
        let prepared = self.prepare(model, model.shape().all());
        clock.mark("prepare");
        for piece in pieces(examples, model.shape()) {
            let some = [Weighted { examples: &examples[piece], weight: 1.0 }];
            let mark = &mut |stage| clock.mark(stage);
            let (_, pieces, _) = self.marked_pass(&prepared, &some, Told::Together, mark);
            pieces.add_to(gradient);
            clock.mark("sum");
        }
    }

    /// Normalized features, `[rows, inputs]`.
    fn features(&self, model: &Model, units: &[Weighted<'_, '_>], layout: &Layout) -> Tensor<2> {
        let (inputs, normalizer) = (model.shape().inputs, model.normalizer());
        let mut values = Vec::with_capacity(layout.rows() * inputs);
        let examples = units.iter().flat_map(|unit| unit.examples);
        for frame in examples.flat_map(|example| example.features.chunks_exact(inputs)) {
            let normal = frame.iter().zip(&normalizer.mean).zip(&normalizer.deviation);
            values.extend(normal.map(|((value, mean), deviation)| (value - mean) / deviation));
        }
        tensor(values, [layout.rows(), inputs], &self.device)
    }
}

fn layout(units: &[Weighted<'_, '_>]) -> Layout {
    Layout::new(units.iter().map(|unit| unit.examples.iter().map(|example| example.labels.len()).collect::<Vec<_>>()))
}

fn labels(units: &[Weighted<'_, '_>]) -> Vec<u16> {
    units.iter().flat_map(|unit| unit.examples).flat_map(|example| example.labels).copied().collect()
}

fn tensor(values: Vec<f32>, shape: [usize; 2], device: &Device) -> Tensor<2> {
    Tensor::from_data(TensorData::new(values, shape), device)
}
