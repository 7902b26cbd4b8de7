//! The output layer of a classifier of frames: a linear map to classes, with softmax and cross-entropy in the same passes.
//!
//! It is the last layer of a model and by far the largest. On the CPU, the logits and their derivatives exist only for
//! the frames of one pass. For a unit so long that it is cheaper, the layer stores the gradient once instead of
//! computing it twice. On other devices the layer is a composition of tensor operations.
//!
//! With CTC ([`crate::ctc`]) the loss needs all frames of a sequence at once. Its logits exist together, and the losses
//! are computed in this process on every device.
//!
//! With the squared error ([`LoadedOutput::pass_squared`]) the layer has one output, and the labels are levels of the
//! target's range ([`level_value`]).

use std::ops::Range;

use burn::tensor::{Int, Tensor, TensorData, activation};
use rayon::prelude::*;
use undertone_api::job::dp_sgd::level_value;

use super::host::{GradientSource, HostOuter};
use super::outer::OuterGradient;
use super::product::Matrix;
use super::rows::{host, tensor, with_one};
use super::{GradientPiece, GradientRequest, Layout, Parameters};
use crate::ctc;
use crate::device::is_cpu;
use crate::kernels::outer::{StoredSum, storing_is_cheaper};
use crate::kernels::pool::BufferPool;
use crate::kernels::softmax::{self, OutputWeights};

pub use crate::kernels::softmax::FrameScore;

/// The distance within which a prediction of a number counts as right: a twentieth of the target's range, which is 2.
const TOLERANCE: f32 = 0.1;
/// Maximum frames of a unit whose derivatives exist together while its gradient is stored.
const PIECE: usize = 512;

/// Dimensions. Parameters are `[inputs + 1, classes]` row-major; the last row is the bias.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputLayer {
    /// Number of inputs per frame.
    pub inputs: usize,
    /// Number of classes.
    pub classes: usize,
}

/// Labels and weights of the frames of a group.
#[derive(Debug, Clone, Copy)]
pub struct FrameTargets<'a> {
    /// The class of each frame.
    pub labels: &'a [u16],
    /// The factor of each frame's cross-entropy.
    pub weights: &'a [f32],
}

/// The result of the passes through the layer.
pub struct OutputPass {
    /// Totals over all frames, unweighted.
    pub score: FrameScore,
    /// The derivatives by the input, `[rows, inputs]`, if requested.
    pub by_input: Option<Tensor<2>>,
    /// The derivatives by the parameters, if requested.
    pub piece: Option<Box<dyn GradientPiece>>,
}

/// The layer with its parameters in the layout that passes read.
pub struct LoadedOutput<'a> {
    layer: OutputLayer,
    parameters: Parameters<'a>,
    /// Parameters packed for the CPU loops.
    weights: Option<OutputWeights>,
}

/// The rows of a pass through the CPU loops.
struct PassRows {
    /// `[rows, inputs]`.
    input: Vec<f32>,
    /// The left operand of the gradient by fewer coordinates than parameters, `[rows, width]`, and its width.
    left: Option<(Vec<f32>, usize)>,
}

/// Large buffers that passes reuse.
#[derive(Debug, Clone, Default)]
pub struct PassBuffers(BufferPool);

impl OutputLayer {
    /// Returns the number of parameters.
    pub const fn parameters(&self) -> usize {
        (self.inputs + 1) * self.classes
    }

    /// Returns the count of numbers allocated for a unit of `rows` rows until its group is processed.
    pub const fn buffered_numbers(&self, rows: usize) -> usize {
        if storing_is_cheaper(rows, [self.inputs + 1, self.classes]) { self.parameters() } else { rows * self.classes }
    }

    /// Prepares parameters for passes; `back` prepares derivatives by the input.
    ///
    /// # Panics
    /// If the number of parameters differs.
    pub fn load<'a>(&self, parameters: Parameters<'a>, back: bool) -> LoadedOutput<'a> {
        let cpu = is_cpu(parameters.device());
        let weights = cpu.then(|| OutputWeights::new(parameters.host(), self.inputs, self.classes, back));
        LoadedOutput { layer: *self, parameters, weights }
    }
}

impl LoadedOutput<'_> {
    /// Classifies frames `[rows, inputs]` and compares the result with their labels.
    ///
    /// # Panics
    /// If a label is not a class.
    pub fn score(&self, input: Tensor<2>, labels: &[u16]) -> FrameScore {
        match &self.weights {
            Some(weights) => softmax::score(weights, &host(input), labels),
            None => self.compare(&self.logits(with_one(input)), labels),
        }
    }

    /// Returns the logits of frames `[rows, inputs]`: `[rows, classes]`, row-major.
    pub fn classify(&self, input: Tensor<2>) -> Vec<f32> {
        host(self.logits(with_one(input)))
    }

    /// Runs one forward and one backward pass. With `apart`, the piece yields the gradient of each unit; otherwise only
    /// the sum.
    ///
    /// # Panics
    /// If a label is not a class, or the operands differ in their number of frames.
    pub fn pass(
        &self,
        input: Tensor<2>,
        targets: FrameTargets<'_>,
        layout: &Layout,
        request: GradientRequest,
        apart: bool,
        buffers: &PassBuffers,
    ) -> OutputPass {
        match &self.weights {
            Some(weights) => {
                let rows = self.take_rows(input, request);
                self.fused(weights, &rows, targets, (layout, apart), request, &buffers.0)
            }
            None => self.composed(input, targets, request),
        }
    }

    /// Takes the rows of a pass to host memory.
    fn take_rows(&self, input: Tensor<2>, request: GradientRequest) -> PassRows {
        let is_projected = request.gradient && self.parameters.is_projected();
        let left = is_projected.then(|| {
            let width = self.parameters.coordinates() / self.layer.classes;
            let is_empty = input.dims()[0] == 0;
            let left = if is_empty { None } else { self.parameters.project(with_one(input.clone())) };
            (left.map_or_else(Vec::new, host), width)
        });
        PassRows { input: host(input), left }
    }

    fn fused(
        &self,
        weights: &OutputWeights,
        rows: &PassRows,
        targets: FrameTargets<'_>,
        (layout, apart): (&Layout, bool),
        request: GradientRequest,
        pool: &BufferPool,
    ) -> OutputPass {
        let OutputLayer { inputs, classes } = self.layer;
        let input = &rows.input;
        let shape = [rows.left.as_ref().map_or(inputs + 1, |(_, width)| *width), classes];
        let mut by_input = vec![0.0; input.len()];
        let mut score = FrameScore::default();
        let left = rows.left.as_ref().map(|(left, width)| (&left[..], *width));
        let mut pass = |rows: Range<usize>| {
            let (products, own) = softmax::derivatives(
                weights,
                &input[rows.start * inputs..rows.end * inputs],
                &targets.labels[rows.clone()],
                &targets.weights[rows.clone()],
                &mut by_input[rows.start * inputs..rows.end * inputs],
                left.map(|(left, width)| (&left[rows.start * width..rows.end * width], width)),
                pool.take(rows.len() * classes),
            );
            score = score.plus(own);
            products
        };
        let (mut products, mut kept, mut sources) = (Vec::new(), Vec::new(), Vec::new());
        for run in runs(layout, shape, apart && request.gradient) {
            let first = layout.unit(run.units.start).start;
            if run.keep {
                let rows = layout.unit(run.units.start);
                let mut sum: Option<(StoredSum, f64)> = None;
                for start in rows.clone().step_by(PIECE) {
                    let product = pass(start..(start + PIECE).min(rows.end));
                    match &mut sum {
                        None => sum = Some(StoredSum::new(pool.take(shape[0] * shape[1]), &product)),
                        Some((kept, norm)) => *norm = kept.add(&product),
                    }
                    pool.give(product.into_buffer());
                }
                sources.push(GradientSource::StoredSum(kept.len()));
                kept.extend(sum);
            } else {
                let end = layout.unit(run.units.end - 1).end;
                let product = pass(first..end);
                sources.extend(run.units.map(|unit| match layout.unit(unit) {
                    rows if rows.is_empty() => GradientSource::Nowhere,
                    rows => GradientSource::Rows(products.len(), rows.start - first..rows.end - first),
                }));
                if request.gradient {
                    products.push(product);
                } else {
                    pool.give(product.into_buffer());
                }
            }
        }
        let by_input = request.by_input.then(|| tensor(by_input, [layout.rows(), inputs], self.parameters.device()));
        let piece = request.gradient.then(|| {
            Box::new(HostOuter::of_units(shape, products, kept, sources).with_pool(pool)) as Box<dyn GradientPiece>
        });
        OutputPass { score, by_input, piece }
    }

    /// Runs the same passes with the CTC loss of each sequence. The target of a sequence is what its labels collapse to
    /// ([`ctc::collapse`]); the weight of its first frame is that of its loss. The labels are one path, so the frames
    /// always suffice for the target.
    ///
    /// # Panics
    /// If a label or the blank is not a class, or the operands differ in their number of frames.
    pub fn pass_ctc(
        &self,
        input: Tensor<2>,
        targets: FrameTargets<'_>,
        layout: &Layout,
        blank: u16,
        request: GradientRequest,
    ) -> OutputPass {
        let (device, rows) = (input.device(), input.dims()[0]);
        assert!(rows == layout.rows() && rows == targets.weights.len(), "a weight for each frame");
        let input = with_one(input);
        let logits = host(self.logits(input.clone()));
        let losses = self.ctc_losses(&logits, targets.labels, layout, blank);
        let mut errors = vec![0.0; rows * self.layer.classes];
        for (sequence, loss) in layout.sequences().zip(&losses) {
            let Some(loss) = loss else { continue };
            let weight = targets.weights[sequence.start];
            let own = &mut errors[sequence.start * self.layer.classes..sequence.end * self.layer.classes];
            own.iter_mut().zip(&loss.by_logits).for_each(|(error, value)| *error = value * weight);
        }
        let score = self.ctc_score(&logits, layout, &losses);
        self.back(input, tensor(errors, [rows, self.layer.classes], &device), score, request)
    }

    /// Returns the CTC losses of sequences. A frame counts as right if its most probable class is that of the paths of
    /// the target.
    ///
    /// # Panics
    /// If a label or the blank is not a class, or the operands differ in their number of frames.
    pub fn score_ctc(&self, input: Tensor<2>, labels: &[u16], layout: &Layout, blank: u16) -> FrameScore {
        let logits = host(self.logits(with_one(input)));
        self.ctc_score(&logits, layout, &self.ctc_losses(&logits, labels, layout, blank))
    }

    fn ctc_losses(&self, logits: &[f32], labels: &[u16], layout: &Layout, blank: u16) -> Vec<Option<ctc::CtcLoss>> {
        let classes = self.layer.classes;
        assert_eq!(labels.len(), layout.rows(), "a label for each frame");
        let sequences: Vec<Range<usize>> = layout.sequences().collect();
        let one = |rows: &Range<usize>| {
            let target = ctc::collapse(&labels[rows.clone()], blank);
            ctc::loss(&logits[rows.start * classes..rows.end * classes], classes, &target, blank)
        };
        sequences.par_iter().map(one).collect()
    }

    fn ctc_score(&self, logits: &[f32], layout: &Layout, losses: &[Option<ctc::CtcLoss>]) -> FrameScore {
        let mut score = FrameScore::default();
        for (rows, loss) in layout.sequences().zip(losses) {
            let Some(loss) = loss else { continue };
            let frames = logits.chunks_exact(self.layer.classes).skip(rows.start).take(rows.len());
            let is_right =
                |(frame, class): &(&[f32], &u16)| frame.iter().all(|logit| *logit <= frame[usize::from(**class)]);
            score.frames += rows.len() as u64;
            score.right += frames.zip(&loss.alignment).filter(is_right).count() as u64;
            score.loss += loss.loss;
        }
        score
    }

    /// Runs the same passes with the squared error of the one output. The label of a row is the level of its target, and
    /// a row counts as right if the prediction is within a twentieth of the target's range.
    ///
    /// # Panics
    /// If the layer has several outputs, or the operands differ in their number of rows.
    pub fn pass_squared(&self, input: Tensor<2>, targets: FrameTargets<'_>, request: GradientRequest) -> OutputPass {
        let (device, rows) = (input.device(), input.dims()[0]);
        assert!(rows == targets.weights.len(), "a weight for each row");
        let input = with_one(input);
        let distances = self.distances(input.clone(), targets.labels);
        let errors = distances.iter().zip(targets.weights).map(|(distance, weight)| 2.0 * distance * weight).collect();
        self.back(input, tensor(errors, [rows, 1], &device), score_distances(&distances), request)
    }

    /// Returns the squared errors of rows `[rows, inputs]`, see [`Self::pass_squared`].
    ///
    /// # Panics
    /// If the layer has several outputs, or the operands differ in their number of rows.
    pub fn score_squared(&self, input: Tensor<2>, labels: &[u16]) -> FrameScore {
        score_distances(&self.distances(with_one(input), labels))
    }

    /// Returns prediction less target of each row.
    fn distances(&self, input: Tensor<2>, labels: &[u16]) -> Vec<f32> {
        assert_eq!((self.layer.classes, input.dims()[0]), (1, labels.len()), "one output, and a target for each row");
        let predictions = host(self.logits(input));
        predictions.iter().zip(labels).map(|(prediction, level)| prediction - level_value(*level)).collect()
    }

    /// Computes the same result as [`LoadedOutput::fused`] with tensor operations.
    fn composed(&self, input: Tensor<2>, targets: FrameTargets<'_>, request: GradientRequest) -> OutputPass {
        let (device, rows) = (input.device(), input.dims()[0]);
        let input = with_one(input);
        let logits = self.logits(input.clone());
        let score = self.compare(&logits, targets.labels);
        let weights = tensor(targets.weights.to_vec(), [rows, 1], &device);
        let labels = self.labels(targets.labels).reshape([rows as i32]);
        let one_hot = labels.one_hot::<2>(self.layer.classes).float();
        let errors = (activation::softmax(logits, 1) - one_hot) * weights;
        self.back(input, errors, score, request)
    }

    /// Returns the derivatives by the input and the parameters, for the derivatives by the logits.
    fn back(&self, input: Tensor<2>, errors: Tensor<2>, score: FrameScore, request: GradientRequest) -> OutputPass {
        let by_input = request.by_input.then(|| {
            let inner = self.parameters.part(0..self.layer.inputs * self.layer.classes);
            Matrix::transposed(&inner, self.layer.inputs, self.layer.classes).times(errors.clone())
        });
        let piece = if request.gradient { OuterGradient::of_matrix(&self.parameters, input, errors) } else { None };
        OutputPass { score, by_input, piece }
    }

    fn logits(&self, input: Tensor<2>) -> Tensor<2> {
        Matrix::new(&self.parameters, self.layer.inputs + 1, self.layer.classes).times(input)
    }

    /// Returns the labels, `[rows, 1]`.
    fn labels(&self, labels: &[u16]) -> Tensor<2, Int> {
        let is_class = |label: &u16| usize::from(*label) < self.layer.classes;
        assert!(labels.iter().all(is_class), "labels below {}", self.layer.classes);
        let values: Vec<i64> = labels.iter().map(|label| i64::from(*label)).collect();
        Tensor::from_data(TensorData::new(values, [labels.len(), 1]), self.parameters.device())
    }

    fn compare(&self, logits: &Tensor<2>, labels: &[u16]) -> FrameScore {
        let own = activation::log_softmax(logits.clone(), 1).gather(1, self.labels(labels));
        let highest = logits.clone().max_dim(1);
        let gap = highest - logits.clone().gather(1, self.labels(labels));
        let right = host(gap).iter().filter(|gap| **gap <= 0.0).count() as u64;
        let loss = -host(own).iter().map(|own| f64::from(*own)).sum::<f64>();
        FrameScore { frames: labels.len() as u64, right, loss }
    }
}

fn score_distances(distances: &[f32]) -> FrameScore {
    FrameScore {
        frames: distances.len() as u64,
        right: distances.iter().filter(|distance| distance.abs() <= TOLERANCE).count() as u64,
        loss: distances.iter().map(|distance| f64::from(*distance).powi(2)).sum(),
    }
}

/// Adjacent units in one pass, or a single unit with a stored gradient.
struct UnitRun {
    units: Range<usize>,
    keep: bool,
}

/// Splits all units in order. Storage of a unit's gradient depends on its own rows alone.
fn runs(layout: &Layout, shape: [usize; 2], apart: bool) -> Vec<UnitRun> {
    let mut runs: Vec<UnitRun> = Vec::new();
    for unit in 0..layout.units() {
        let keep = apart && storing_is_cheaper(layout.unit(unit).len(), shape);
        match runs.last_mut() {
            Some(run) if !keep && !run.keep => run.units.end = unit + 1,
            _ => runs.push(UnitRun { units: unit..unit + 1, keep }),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "the numbers of a test are in range")]

    use super::{FrameTargets, GradientRequest, OutputLayer, PassBuffers, runs};
    use crate::device::devices_present;
    use crate::layers::rows::{host, tensor};
    use crate::layers::{Layout, Parameters};

    fn values(count: usize, by: usize) -> Vec<f32> {
        (0..count).map(|n| (n * by % 1009) as f32 / 504.0 - 1.0).collect()
    }

    #[test]
    fn loops_and_tensors_compute_the_same_on_every_device() {
        let output = OutputLayer { inputs: 9, classes: 61 };
        let layout = Layout::new([vec![4], vec![], vec![700], vec![10, 3]]);
        let (parameters, input) = (values(output.parameters(), 379), values(layout.rows() * 9, 211));
        let labels: Vec<u16> = (0..layout.rows()).map(|t| (t * 31 % 61) as u16).collect();
        let weights: Vec<f32> = (0..layout.rows()).map(|t| 0.5 + (t % 7) as f32).collect();
        let targets = FrameTargets { labels: &labels, weights: &weights };
        assert_eq!(runs(&layout, [10, 61], true).iter().filter(|run| run.keep).count(), 1);
        let mut first: Option<(Vec<f32>, Vec<f32>, Vec<f64>)> = None;
        for (name, device) in devices_present() {
            let loaded = output.load(Parameters::load(&parameters, &device), true);
            let rows = || tensor(input.clone(), [layout.rows(), 9], &device);
            let fused = loaded.pass(rows(), targets, &layout, GradientRequest::ALL, true, &PassBuffers::default());
            let together = loaded.pass(rows(), targets, &layout, GradientRequest::ALL, false, &PassBuffers::default());
            let composed = loaded.composed(rows(), targets, GradientRequest::ALL);
            for passed in [fused, together, composed] {
                let piece = passed.piece.unwrap();
                let mut gradient = vec![0.0; output.parameters()];
                piece.add_to(&mut gradient);
                let by_input = host(passed.by_input.unwrap());
                let norms = piece.squared_norms(&layout);
                let score = loaded.score(rows(), &labels);
                assert!(score.right == passed.score.right && (score.loss / passed.score.loss - 1.0).abs() < 1e-5);
                let (expected, expected_by_input, expected_norms) =
                    first.get_or_insert_with(|| (gradient.clone(), by_input.clone(), norms.clone()));
                let close = |a: &[f32], b: &[f32]| {
                    let distance: f32 = a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum();
                    let size: f32 = b.iter().map(|b| b * b).sum();
                    (distance / size).sqrt() < 1e-5
                };
                assert!(close(&gradient, expected) && close(&by_input, expected_by_input), "{name}");
                for (norm, expected) in norms.iter().zip(expected_norms) {
                    assert!((*norm - *expected).abs() <= 1e-4 * *expected, "{name}: {norm} {expected}");
                }
            }
        }
    }

    #[test]
    fn a_frozen_layer_leaves_nothing_but_the_way_back() {
        let (output, layout) = (OutputLayer { inputs: 3, classes: 5 }, Layout::new([vec![2]]));
        let (parameters, device) = (values(output.parameters(), 379), &devices_present()[0].1);
        let loaded = output.load(Parameters::load(&parameters, device), true);
        let input = tensor(values(6, 211), [2, 3], device);
        let targets = FrameTargets { labels: &[1, 4], weights: &[1.0, 1.0] };
        let request = GradientRequest { by_input: true, gradient: false };
        let passed = loaded.pass(input, targets, &layout, request, true, &PassBuffers::default());
        assert!(passed.piece.is_none() && passed.by_input.is_some_and(|rows| rows.dims() == [2, 3]));
    }
}
