//! Gradients of the model: of single units for DP-SGD, and of weighted examples for public data.
//!
//! The loss of a unit is the mean cross-entropy over all its frames, or the sum of the CTC losses of its utterances
//! divided by the number of its frames, or the mean squared error of its rows ([`Criterion`]). Units pass through the layers in groups of bounded
//! memory, once forward and once back. From the result, the norm of each unit is computed, and then the clipped
//! gradient of each unit is streamed into the sum ([`crate::layers::piece`], [`ClippedSum::add_group`]). The engine
//! does not store the gradient of a single unit, except for units too long for a group: these are summed piece by piece
//! into one vector, split by their own length.
//!
//! The gradient of a unit by fewer coordinates than parameters ([`TrainedCoordinates`]) is that of the same pass: the
//! layers map their operands before the norms are computed, so units are clipped by these coordinates.
//!
//! The gradient of a unit is a function of that unit alone, bit for bit. Layers guarantee it within a group, the
//! decision that a unit is too long depends on its own frames, and on devices without such a guarantee each unit has
//! its own pass ([`device::Processor::shares_passes`]).

mod copies;

use std::ops::Range;

use burn::tensor::{Device, Tensor, TensorData};
use undertone_api::job::dp_sgd::{ModelPart, ModelParts};

use super::coordinates::TrainedCoordinates;
use super::{Model, ModelShape};
#[cfg(any(test, feature = "bench"))]
use crate::bench::StageClock;
use crate::clip::ClippedSum;
use crate::device;
use crate::layers::output::{FrameScore, FrameTargets, LoadedOutput, PassBuffers};
use crate::layers::stack::Stack;
use crate::layers::{Gradient, GradientProjection, GradientRequest, Layout, Parameters};
use crate::per_unit::PerUnit;

pub use copies::{BatchAugmentation, BatchUnits};

/// Maximum frames per pass.
const FRAMES: usize = 8192;
/// Maximum count of numbers that the output layer allocates at a time: 80 MiB. A larger limit gains little speed.
const HELD: usize = 20 << 20;

/// Features and labels of an utterance.
#[derive(Debug, Clone, Copy)]
pub struct Example<'a> {
    /// `[frames, inputs]`.
    pub features: &'a [f32],
    /// `[frames]`, each below the model's classes.
    pub labels: &'a [u16],
}

/// The loss of an utterance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Criterion {
    /// The sum of the cross-entropies of its frames.
    #[default]
    CrossEntropy,
    /// The CTC loss of the sequence to which its labels collapse ([`crate::ctc::collapse`]). The times of the labels have
    /// no effect.
    Ctc {
        /// The class of the blank.
        blank: u16,
    },
    /// The sum of the squared errors of its rows: the model has one output, and a label is the level of a number
    /// ([`undertone_api::job::dp_sgd::level_value`]).
    SquaredError,
}

/// A privacy unit: all its utterances, with at least one frame in total.
pub type Unit<'a> = Vec<Example<'a>>;

fn frames_of(unit: &[Example<'_>]) -> usize {
    unit.iter().map(|example| example.labels.len()).sum()
}

/// Splits items into groups. Each item is given by its frames and the count of numbers that the output layer allocates
/// for it. An item above the limits forms its own group.
fn split_groups(sizes: impl Iterator<Item = (usize, usize)>) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut sum = (0, 0);
    for (index, (frames, numbers)) in sizes.enumerate() {
        sum = (sum.0 + frames, sum.1 + numbers);
        match ranges.last_mut() {
            Some(range) if sum.0 <= FRAMES && sum.1 <= HELD => range.end = index + 1,
            _ => {
                ranges.push(index..index + 1);
                sum = (frames, numbers);
            }
        }
    }
    ranges
}

/// Splits examples whose gradients are only summed.
fn pieces(examples: &[Example<'_>], shape: &ModelShape) -> Vec<Range<usize>> {
    split_groups(examples.iter().map(|example| (example.labels.len(), example.labels.len() * shape.classes)))
}

/// Examples with one weight for each frame.
struct WeightedExamples<'s, 'a> {
    examples: &'s [Example<'a>],
    weight: f32,
}

/// A model prepared for passes: its parameters on the device and packed for the loops. Built once for all groups of a
/// batch.
pub struct PreparedModel<'m> {
    model: &'m Model,
    /// The number of trained coordinates.
    length: usize,
    stack: Stack,
    parameters: Parameters<'m>,
    output: LoadedOutput<'m>,
    /// The derivatives requested from the output layer.
    below: GradientRequest,
}

/// Computes gradients and scores of models on one device.
pub struct Engine {
    device: Device,
    shares: bool,
    criterion: Criterion,
    buffers: PassBuffers,
}

/// How a backward pass reports gradients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GradientMode {
    PerUnit,
    Summed,
}

impl Default for Engine {
    fn default() -> Self {
        Self::new()
    }
}

impl Engine {
    /// Returns an engine for the device of this process ([`device::chosen`]), with cross-entropy.
    pub fn new() -> Self {
        Self::with_criterion(Criterion::CrossEntropy)
    }

    /// Returns an engine for the device of this process with a criterion.
    pub fn with_criterion(criterion: Criterion) -> Self {
        let (processor, device) = device::chosen();
        Self { device, shares: processor.shares_passes(), criterion, buffers: PassBuffers::default() }
    }

    /// Splits a batch into groups that share a pass. The split does not affect a gradient.
    pub fn groups(&self, units: &[Unit<'_>], shape: &ModelShape) -> Vec<Range<usize>> {
        self.groups_of_copies(units, 1, shape)
    }

    /// Splits a batch into groups that share a pass, each unit with so many times its frames.
    fn groups_of_copies(&self, units: &[Unit<'_>], copies: usize, shape: &ModelShape) -> Vec<Range<usize>> {
        let output = shape.output();
        let size = |unit: &Unit<'_>| {
            let frames = frames_of(unit) * copies;
            (frames, if self.shares { output.buffered_numbers(frames) } else { HELD })
        };
        split_groups(units.iter().map(size))
    }

    /// Prepares a model for passes that train each parameter of the parts in `trained`.
    pub fn prepare<'m>(&self, model: &'m Model, trained: ModelParts) -> PreparedModel<'m> {
        self.prepare_parts(model, trained, None, model.shape().lengths(trained).iter().sum())
    }

    /// Prepares a model for passes that train these coordinates.
    pub fn prepare_coordinates<'m>(&self, model: &'m Model, coordinates: &'m TrainedCoordinates) -> PreparedModel<'m> {
        self.prepare_parts(model, coordinates.parts(), coordinates.projection(), coordinates.len())
    }

    fn prepare_parts<'m>(
        &self,
        model: &'m Model,
        trained: ModelParts,
        projection: Option<&'m GradientProjection>,
        length: usize,
    ) -> PreparedModel<'m> {
        let shape = model.shape();
        let below = GradientRequest {
            by_input: shape.parts().iter().any(|(part, _)| *part != ModelPart::Output && trained.contains(*part)),
            gradient: trained.contains(ModelPart::Output),
        };
        let parameters = Parameters::load(model.parameters(), &self.device).with_projection(projection);
        let output = shape.output().load(parameters.part(shape.output_range()), below.by_input);
        let parameters = parameters.part(shape.recurrent());
        PreparedModel { model, length, stack: shape.body(trained), parameters, output, below }
    }

    /// Adds the clipped gradients of the units of one group by the trained coordinates, each the gradient of the mean
    /// cross-entropy over the unit's frames. The sum has the same parts, in the model's order.
    ///
    /// # Panics
    /// If a label is not below the model's classes, or the sum has other parts.
    pub fn add_clipped(&mut self, prepared: &PreparedModel<'_>, group: &[Unit<'_>], sum: &mut ClippedSum) {
        if let [unit] = group
            && frames_of(unit) > FRAMES
        {
            let mut gradient = vec![0.0; prepared.length];
            self.add_prepared(prepared, group, 1.0, &mut gradient);
            let length = gradient.len();
            sum.add(PerUnit::new(gradient, length));
            return;
        }
        let weigh = |unit| WeightedExamples { examples: unit, weight: 1.0 / frames_of(unit) as f32 };
        let weighted: Vec<_> = group.iter().map(|unit| weigh(unit)).collect();
        let (_, gradient, layout) = self.pass(prepared, &weighted, GradientMode::PerUnit);
        sum.add_group(&gradient, &layout);
    }

    /// Adds `weight` times the gradient of the *sum* of the examples' cross-entropies to `gradient`, by all parts. The
    /// result has no protection: use it for data that are public or disclosed by their owner.
    ///
    /// # Panics
    /// If a label is not below the model's classes, or the length of `gradient` differs from that of the parameters.
    pub fn add_gradient(
        &mut self,
        model: &Model,
        examples: &[Example<'_>],
        weight: f32,
        gradient: &mut [f32],
    ) -> FrameScore {
        let prepared = self.prepare(model, model.shape().all());
        pieces(examples, model.shape()).into_iter().fold(FrameScore::default(), |score, piece| {
            let some = [WeightedExamples { examples: &examples[piece], weight }];
            let (own, pieces, _) = self.pass(&prepared, &some, GradientMode::Summed);
            pieces.add_to(gradient);
            score.plus(own)
        })
    }

    /// Adds `weight` times the sum of the units' gradients by the trained parts to `gradient`. Each is the gradient of
    /// the mean cross-entropy over its unit's frames, as in [`Engine::add_clipped`], but without clipping. The result
    /// has no protection: use it for data that are public or disclosed by their owner.
    ///
    /// # Panics
    /// If a label is not below the model's classes, or the length of `gradient` differs from that of the trained parts.
    pub fn add_units(
        &mut self,
        model: &Model,
        trained: ModelParts,
        units: &[Unit<'_>],
        weight: f32,
        gradient: &mut [f32],
    ) {
        self.add_prepared(&self.prepare(model, trained), units, weight, gradient);
    }

    fn add_prepared(&self, prepared: &PreparedModel<'_>, units: &[Unit<'_>], weight: f32, gradient: &mut [f32]) {
        let shape = prepared.model.shape();
        let weighted: Vec<_> = units
            .iter()
            .flat_map(|unit| {
                let weight = weight / frames_of(unit) as f32;
                pieces(unit, shape).into_iter().map(move |piece| WeightedExamples { examples: &unit[piece], weight })
            })
            .collect();
        let sizes = weighted.iter().map(|piece| (frames_of(piece.examples), frames_of(piece.examples) * shape.classes));
        for some in split_groups(sizes) {
            let (_, pieces, _) = self.pass(prepared, &weighted[some], GradientMode::Summed);
            pieces.add_to(gradient);
        }
    }

    /// Classifies examples and compares the result with their labels.
    ///
    /// # Panics
    /// If a label is not below the model's classes.
    pub fn score(&mut self, model: &Model, examples: &[Example<'_>]) -> FrameScore {
        let shape = model.shape();
        let parameters = Parameters::load(model.parameters(), &self.device);
        let (below, above) = (parameters.part(shape.recurrent()), parameters.part(shape.output_range()));
        let (stack, output) = (shape.body(shape.all()), shape.output().load(above, false));
        pieces(examples, shape).into_iter().fold(FrameScore::default(), |score, piece| {
            let some = [WeightedExamples { examples: &examples[piece], weight: 1.0 }];
            let layout = layout(&some);
            let (activations, _) = stack.run(&below, self.features(model, &some, &layout), &layout);
            score.plus(match self.criterion {
                Criterion::CrossEntropy => output.score(activations, &labels(&some)),
                Criterion::Ctc { blank } => output.score_ctc(activations, &labels(&some), &layout, blank),
                Criterion::SquaredError => output.score_squared(activations, &labels(&some)),
            })
        })
    }

    /// Calls `visit` with the number of each example and its logits, `[frames, classes]` row-major. Each example passes
    /// alone, so its logits do not depend on any other, to the last bit.
    pub fn classify(&mut self, model: &Model, examples: &[Example<'_>], visit: &mut dyn FnMut(usize, &[f32])) {
        let shape = model.shape();
        let parameters = Parameters::load(model.parameters(), &self.device);
        let (below, above) = (parameters.part(shape.recurrent()), parameters.part(shape.output_range()));
        let (stack, output) = (shape.body(shape.all()), shape.output().load(above, false));
        for (number, example) in examples.iter().enumerate().filter(|(_, example)| !example.labels.is_empty()) {
            let alone = [WeightedExamples { examples: std::slice::from_ref(example), weight: 1.0 }];
            let layout = layout(&alone);
            let (activations, _) = stack.run(&below, self.features(model, &alone, &layout), &layout);
            visit(number, &output.classify(activations));
        }
    }

    /// Runs one forward and one backward pass. Returns the scores of all frames and the derivatives of each unit's loss
    /// by the trained coordinates.
    fn pass(
        &self,
        prepared: &PreparedModel<'_>,
        units: &[WeightedExamples<'_, '_>],
        mode: GradientMode,
    ) -> (FrameScore, Gradient, Layout) {
        self.marked_pass(prepared, units, mode, &mut |_| ())
    }

    /// Runs the same pass and calls `mark` at the end of each stage.
    fn marked_pass(
        &self,
        prepared: &PreparedModel<'_>,
        units: &[WeightedExamples<'_, '_>],
        mode: GradientMode,
        mark: &mut dyn FnMut(&'static str),
    ) -> (FrameScore, Gradient, Layout) {
        let PreparedModel { model, stack, parameters, output, below, .. } = prepared;
        let layout = layout(units);
        let (activations, tape) = stack.run(parameters, self.features(model, units, &layout), &layout);
        mark("layers_forward");
        let weights: Vec<f32> =
            units.iter().flat_map(|unit| std::iter::repeat_n(unit.weight, frames_of(unit.examples))).collect();
        let targets = FrameTargets { labels: &labels(units), weights: &weights };
        let passed = match self.criterion {
            Criterion::CrossEntropy => {
                output.pass(activations, targets, &layout, *below, mode == GradientMode::PerUnit, &self.buffers)
            }
            Criterion::Ctc { blank } => output.pass_ctc(activations, targets, &layout, blank, *below),
            Criterion::SquaredError => output.pass_squared(activations, targets, *below),
        };
        mark("output_both_ways");
        let mut gradient = match passed.by_input {
            Some(by_output) => stack.gradient(parameters, tape, by_output, &layout),
            None => Gradient::new(),
        };
        mark("layers_back");
        if let Some(piece) = passed.piece {
            gradient.push(ModelPart::Output.name(), vec![piece]);
        }
        (passed.score, gradient, layout)
    }

    /// Runs [`Engine::add_clipped`] for a group without overlong units, and records the duration of each stage.
    #[cfg(any(test, feature = "bench"))]
    pub(crate) fn time_clipped(
        &mut self,
        prepared: &PreparedModel<'_>,
        group: &[Unit<'_>],
        sum: &mut ClippedSum,
        clock: &mut StageClock<'_>,
    ) {
        let weigh = |unit| WeightedExamples { examples: unit, weight: 1.0 / frames_of(unit) as f32 };
        let weighted: Vec<_> = group.iter().map(|unit| weigh(unit)).collect();
        let mark = &mut |stage| clock.mark(stage);
        let (_, gradient, layout) = self.marked_pass(prepared, &weighted, GradientMode::PerUnit, mark);
        for (_, pieces) in gradient.parts() {
            for piece in pieces {
                drop(piece.squared_norms(&layout));
            }
        }
        clock.mark("norms");
        sum.add_group(&gradient, &layout);
        clock.mark("norms_and_steps");
    }

    /// Runs [`Engine::add_gradient`] and records the duration of each stage.
    #[cfg(any(test, feature = "bench"))]
    pub(crate) fn time_summed(
        &mut self,
        model: &Model,
        examples: &[Example<'_>],
        gradient: &mut [f32],
        clock: &mut StageClock<'_>,
    ) {
        let prepared = self.prepare(model, model.shape().all());
        clock.mark("prepare");
        for piece in pieces(examples, model.shape()) {
            let some = [WeightedExamples { examples: &examples[piece], weight: 1.0 }];
            let mark = &mut |stage| clock.mark(stage);
            let (_, pieces, _) = self.marked_pass(&prepared, &some, GradientMode::Summed, mark);
            pieces.add_to(gradient);
            clock.mark("sum");
        }
    }

    /// Returns the normalized features, `[rows, inputs]`.
    fn features(&self, model: &Model, units: &[WeightedExamples<'_, '_>], layout: &Layout) -> Tensor<2> {
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

fn layout(units: &[WeightedExamples<'_, '_>]) -> Layout {
    Layout::new(units.iter().map(|unit| unit.examples.iter().map(|example| example.labels.len()).collect::<Vec<_>>()))
}

fn labels(units: &[WeightedExamples<'_, '_>]) -> Vec<u16> {
    units.iter().flat_map(|unit| unit.examples).flat_map(|example| example.labels).copied().collect()
}

fn tensor(values: Vec<f32>, shape: [usize; 2], device: &Device) -> Tensor<2> {
    Tensor::from_data(TensorData::new(values, shape), device)
}
