//! Compares each layer with a loop over single units through burn's automatic differentiation, on every available
//! device.

mod layers;
mod oracle;
mod stack;

use burn::tensor::{Device, Tensor};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use undertone_privacy::{NoiseMultiplier, SamplingRate};

use self::oracle::{ExpectedGradients, Forward, truth};
use super::rows::{host, tensor};
use super::{BlockFill, GradientPiece, GradientRequest, GradientSink, Layer, Layout, MatrixBlock, Parameters};
use crate::clip::ClippedSum;
use crate::clip::grid::Clip;
use crate::clip::mode::ClipMode;
use crate::device::devices_present;
use crate::sampler::Sampler;

/// Returns a layout with several sequences per unit, and units of one frame, no frame and many frames.
fn ragged() -> Layout {
    Layout::new([vec![7, 1, 4], vec![12], vec![], vec![1], vec![3, 9], vec![23, 0, 2]])
}

/// A layer, its definition as an oracle, and random numbers to compute with.
struct LayerTest<'a, L> {
    layer: &'a L,
    /// The same layer in burn's tensors, for one sequence.
    forward: &'a Forward<'a>,
    layout: Layout,
    parameters: Vec<f32>,
    input: Vec<f32>,
    /// The loss is the sum of the outputs times these weights.
    weights: Vec<f32>,
}

/// Output, derivatives by the input, and pieces.
type Passed = (Vec<f32>, Option<Vec<f32>>, Vec<Box<dyn GradientPiece>>);

/// Returns numbers from −1 to 1.
fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    (0..count).map(|_| rng.next_u32() as f32 / u32::MAX as f32 * 2.0 - 1.0).collect()
}

impl<'a, L: Layer> LayerTest<'a, L> {
    fn new(layer: &'a L, forward: &'a Forward<'a>, layout: Layout) -> Self {
        let rows = layout.rows();
        Self {
            parameters: numbers(layer.parameters(), 1).into_iter().map(|value| value * 0.7).collect(),
            input: numbers(rows * layer.inputs(), 2),
            weights: numbers(rows * layer.outputs(), 3),
            layer,
            forward,
            layout,
        }
    }

    /// Returns the same test with symbols below `symbols` as inputs.
    fn of_symbols(mut self, symbols: usize) -> Self {
        self.input = self.input.into_iter().map(|value| ((value + 1.0) * 0.4999 * symbols as f32).floor()).collect();
        self
    }

    /// Returns the same test with only these units, in this order.
    fn units(&self, units: &[usize]) -> Self {
        let lengths = |unit: usize| {
            let rows = self.layout.unit(unit);
            let inside = |sequence: &std::ops::Range<usize>| {
                !sequence.is_empty() && rows.contains(&sequence.start) && sequence.end <= rows.end
            };
            self.layout.sequences().filter(inside).map(|sequence| sequence.len()).collect::<Vec<_>>()
        };
        let some = |values: &[f32], width: usize| {
            let rows = units.iter().map(|unit| self.layout.unit(*unit));
            rows.flat_map(|rows| &values[rows.start * width..rows.end * width]).copied().collect()
        };
        Self {
            layer: self.layer,
            forward: self.forward,
            layout: Layout::new(units.iter().map(|unit| lengths(*unit))),
            parameters: self.parameters.clone(),
            input: some(&self.input, self.layer.inputs()),
            weights: some(&self.weights, self.layer.outputs()),
        }
    }

    /// Runs a forward and a backward pass.
    fn pass(&self, device: &Device) -> Passed {
        let (layer, rows) = (self.layer, self.layout.rows());
        let parameters = Parameters::load(&self.parameters, device);
        let input = tensor(self.input.clone(), [rows, layer.inputs()], device);
        let (output, tape) = layer.forward(&parameters, input, &self.layout);
        let weights = tensor(self.weights.clone(), [rows, layer.outputs()], device);
        let back = layer.backward(&parameters, tape, weights, &self.layout, GradientRequest::ALL);
        assert_eq!(back.by_input.is_some(), layer.passes_back());
        (host(output), back.by_input.map(host), back.pieces)
    }

    /// Returns the gradient of each unit.
    fn gradients(&self, device: &Device) -> Vec<Vec<f32>> {
        let mut collected = UnitGradients(vec![vec![0.0; self.layer.parameters()]; self.layout.units()]);
        let mut at = 0;
        for piece in self.pass(device).2 {
            piece.stream(&self.layout, at, &mut collected);
            at += piece.parameters();
        }
        collected.0
    }

    /// Returns the sum of clipped gradients.
    fn clipped(&self, device: &Device, clip: Clip) -> Vec<i64> {
        let mut gradient = super::Gradient::new();
        gradient.push("layer", self.pass(device).2);
        let batch = Sampler::new(self.layout.units(), SamplingRate::ONE).draw_fresh();
        let mut sum = ClippedSum::begin(&batch, clip, self.layer.parameters());
        sum.add_group(&gradient, &self.layout);
        sum.in_test().to_vec()
    }

    /// Checks all properties of a layer.
    fn check(&self) {
        let ExpectedGradients { output, by_input, gradients } = truth(self);
        for (name, device) in devices_present() {
            let (own, back, pieces) = self.pass(&device);
            assert_close(&own, &output, &format!("outputs on {name}"));
            if let Some(back) = back {
                assert_close(&back, &by_input, &format!("derivatives by the input on {name}"));
            }
            let count: usize = pieces.iter().map(|piece| piece.parameters()).sum();
            assert_eq!(count, self.layer.parameters(), "pieces are all parameters");
            let mut norms = vec![0.0; self.layout.units()];
            for piece in &pieces {
                norms.iter_mut().zip(piece.squared_norms(&self.layout)).for_each(|(norm, own)| *norm += own);
            }
            for (unit, (own, truth)) in self.gradients(&device).iter().zip(&gradients).enumerate() {
                assert_close(own, truth, &format!("gradient of unit {unit} on {name}"));
                let (norm, truth) = (norms[unit].max(0.0).sqrt(), length(truth));
                assert!((norm - truth).abs() <= 1e-5 * truth, "norm of unit {unit} on {name}: {norm} {truth}");
            }
            self.check_sums(&device, &pieces, &gradients);
        }
        self.check_company();
    }

    /// Compares clipped and plain sums with a loop over the units' gradients.
    fn check_sums(&self, device: &Device, pieces: &[Box<dyn GradientPiece>], gradients: &[Vec<f32>]) {
        let count = self.layer.parameters();
        let (mut plain, mut sum) = (vec![0.0; count], vec![0.0; count]);
        let mut at = 0;
        for piece in pieces {
            piece.add_to(&mut plain[at..at + piece.parameters()]);
            at += piece.parameters();
        }
        for gradient in gradients {
            sum.iter_mut().zip(gradient).for_each(|(sum, value)| *sum += value);
        }
        assert_close(&plain, &sum, "plain sum");
        // Half of the units are longer than the bound.
        let mut lengths: Vec<f64> = gradients.iter().map(|gradient| length(gradient)).collect();
        lengths.sort_by(f64::total_cmp);
        let bound = lengths[lengths.len() / 2] * 0.9;
        let one = NoiseMultiplier::new(1.0).expect("in range");
        for (mode, shrink) in [
            (ClipMode::Flat, (|norm, bound| f64::min(1.0, bound / norm)) as fn(f64, f64) -> f64),
            (ClipMode::Automatic, |norm, bound| bound / (norm + 0.01)),
        ] {
            let clip = Clip::new(bound, one).expect("in range").with_mode(mode);
            let own: Vec<f32> =
                self.clipped(device, clip).iter().map(|steps| (*steps as f64 * clip.step()) as f32).collect();
            let mut sum = vec![0.0_f32; count];
            for gradient in gradients {
                let factor = shrink(length(gradient), bound) as f32;
                sum.iter_mut().zip(gradient).for_each(|(sum, value)| *sum += factor * value);
            }
            // The factor's margin is 3e-5, and each unit's coordinates are cut by up to a step of the grid.
            let rounding = gradients.len() as f64 * (count as f64).sqrt() * clip.step() / length(&sum);
            assert!(distance(&own, &sum) < 5e-5 + rounding, "clipped sum, {mode:?}: {}", distance(&own, &sum));
        }
    }

    /// Checks that, on the CPU, a unit's gradient and the integers it adds have the same bits in any group.
    fn check_company(&self) {
        let device = Device::flex();
        let clip = Clip::new(0.5, NoiseMultiplier::new(1.0).expect("in range")).expect("in range");
        let some: Vec<usize> = (0..self.layout.units()).filter(|unit| !self.layout.unit(*unit).is_empty()).collect();
        let reversed: Vec<usize> = some.iter().rev().copied().collect();
        let (together, backwards) = (self.units(&some), self.units(&reversed));
        let (first, second) = (together.gradients(&device), backwards.gradients(&device));
        let mut sum = vec![0_i64; self.layer.parameters()];
        for (place, unit) in some.iter().enumerate() {
            let alone = self.units(&[*unit]);
            let bits = |gradient: &[f32]| gradient.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
            let own = bits(&alone.gradients(&device)[0]);
            assert!(own == bits(&first[place]), "unit {unit} alone and among others");
            assert!(own == bits(&second[some.len() - 1 - place]), "unit {unit} alone and among others, reversed");
            sum.iter_mut().zip(alone.clipped(&device, clip)).for_each(|(sum, steps)| *sum += steps);
        }
        assert!(together.clipped(&device, clip) == sum, "a sum is exactly the sum of its units alone");
        assert!(backwards.clipped(&device, clip) == sum, "in any order");
    }
}

/// Collects the gradients by unit, unclipped.
struct UnitGradients(Vec<Vec<f32>>);

impl GradientSink for UnitGradients {
    fn matrix(&mut self, at: usize, shape: [usize; 2], block: [usize; 2], fill: &BlockFill<'_>) {
        for row in (0..shape[0]).step_by(block[0].max(1)) {
            for column in (0..shape[1]).step_by(block[1].max(1)) {
                let rows = row..(row + block[0]).min(shape[0]);
                let block = MatrixBlock { rows, columns: column..(column + block[1]).min(shape[1]) };
                for (unit, gradient) in self.0.iter_mut().enumerate() {
                    let mut values = vec![f32::NAN; block.len()];
                    if !fill(unit, &block, &mut values) {
                        continue;
                    }
                    for (row, values) in block.rows.clone().zip(values.chunks(block.columns.len())) {
                        let start = at + row * shape[1] + block.columns.start;
                        gradient[start..start + values.len()].copy_from_slice(values);
                    }
                }
            }
        }
    }
}

fn length(values: &[f32]) -> f64 {
    values.iter().map(|value| f64::from(*value) * f64::from(*value)).sum::<f64>().sqrt()
}

/// Returns the distance of `values` from `truth`, relative to the length of `truth`.
fn distance(values: &[f32], truth: &[f32]) -> f64 {
    let difference: Vec<f32> = values.iter().zip(truth).map(|(a, b)| a - b).collect();
    length(&difference) / length(truth).max(1e-30)
}

fn assert_close(values: &[f32], truth: &[f32], what: &str) {
    assert_eq!(values.len(), truth.len(), "{what}");
    if truth.iter().all(|value| value.abs() == 0.0) {
        assert!(length(values) < 1e-30, "{what} is zero");
    } else {
        let distance = distance(values, truth);
        assert!(distance < 1e-5, "{what}: {distance}");
    }
}

/// Returns `rows` rows of a matrix in the flat parameters, starting at `at`.
fn matrix(parameters: &Tensor<1>, at: usize, rows: usize, columns: usize) -> Tensor<2> {
    parameters.clone().narrow(0, at, rows * columns).reshape([rows, columns])
}
