//! Compares the engine with a loop over single units through burn's automatic differentiation.
#![expect(clippy::unwrap_used, reason = "the numbers of a test are in range")]

mod adaptation;
mod copies;
mod rows;

use burn::tensor::{Device, Int, Tensor, TensorData, activation};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use undertone_api::job::dp_sgd::{AcousticModel as Proposed, ModelParts, Optimizer as Rule, RecurrentCell};
use undertone_privacy::{NoiseMultiplier, SamplingRate};

use super::gradient::{Criterion, Engine, Example, Unit};
use super::{Model, ModelShape, Normalizer};
use crate::clip::ClippedSum;
use crate::clip::grid::Clip;
use crate::optimizer::{Optimizer, StepDirection};
use crate::sampler::Sampler;

pub(crate) use rows::{rows, text_rows};

pub(crate) struct TestUtterance {
    pub(crate) features: Vec<f32>,
    pub(crate) labels: Vec<u16>,
}

impl TestUtterance {
    fn example(&self) -> Example<'_> {
        Example { features: &self.features, labels: &self.labels }
    }
}

fn test_utterances(shape: &ModelShape, lengths: &[usize], seed: u64) -> Vec<TestUtterance> {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let mut speak = |frames: usize| TestUtterance {
        features: (0..frames * shape.inputs).map(|_| rng.next_u32() as f32 / u32::MAX as f32 * 4.0 - 1.0).collect(),
        // One class stands for the levels of a number.
        labels: (0..frames)
            .map(|_| rng.next_u32() as usize)
            .map(|number| if shape.classes == 1 { number as u16 } else { (number % shape.classes) as u16 })
            .collect(),
    };
    lengths.iter().map(|frames| speak(*frames)).collect()
}

fn model(shape: ModelShape) -> Model {
    let normalizer = Normalizer { mean: vec![0.5; shape.inputs], deviation: vec![1.5; shape.inputs] };
    Model::initialize(shape, normalizer, 11)
}

/// Returns the gradient of the mean cross-entropy over a unit's frames, from a second definition in burn's tensors,
/// frame by frame.
fn oracle(model: &Model, unit: &Unit<'_>) -> Vec<f32> {
    let ModelShape { inputs, hidden, classes, .. } = *model.shape();
    let device = Device::flex().autodiff();
    let split = model.shape().recurrent().end;
    let tensor = |values: &[f32], rows: usize, columns: usize| {
        Tensor::<2>::from_data(TensorData::new(values.to_vec(), [rows, columns]), &device)
    };
    let lstm = tensor(&model.parameters()[..split], inputs + 1 + hidden, 4 * hidden).require_grad();
    let linear = tensor(&model.parameters()[split..], hidden + 1, classes).require_grad();
    let one = tensor(&[1.0], 1, 1);
    let frames: usize = unit.iter().map(|example| example.labels.len()).sum();
    let mut loss = Tensor::<1>::from_data(TensorData::new(vec![0.0_f32], [1]), &device);
    for example in unit {
        let (mut h, mut c) = (tensor(&vec![0.0; hidden], 1, hidden), tensor(&vec![0.0; hidden], 1, hidden));
        for (frame, label) in example.features.chunks(inputs).zip(example.labels) {
            let normal: Vec<f32> = frame
                .iter()
                .zip(&model.normalizer().mean)
                .zip(&model.normalizer().deviation)
                .map(|((value, mean), deviation)| (value - mean) / deviation)
                .collect();
            let z = Tensor::cat(vec![tensor(&normal, 1, inputs), one.clone(), h], 1).matmul(lstm.clone());
            let gate = |n: usize| z.clone().slice([0..1, n * hidden..(n + 1) * hidden]);
            let (i, f) = (activation::sigmoid(gate(0)), activation::sigmoid(gate(1)));
            let (g, o) = (gate(2).tanh(), activation::sigmoid(gate(3)));
            c = f * c + i * g;
            h = o * c.clone().tanh();
            let logits = Tensor::cat(vec![h.clone(), one.clone()], 1).matmul(linear.clone());
            let label = Tensor::<2, Int>::from_data(TensorData::new(vec![i64::from(*label)], [1, 1]), &device);
            let own = activation::log_softmax(logits, 1).gather(1, label);
            loss = loss - own.reshape([1]) / frames as f32;
        }
    }
    let gradients = loss.backward();
    let flat = |tensor: Tensor<2>| tensor.grad(&gradients).unwrap().into_data().try_to_vec::<f32>().unwrap();
    [flat(lstm), flat(linear)].concat()
}

fn distance(a: &[f32], b: &[f32]) -> f64 {
    let square = |v: f64| v * v;
    let difference: f64 = a.iter().zip(b).map(|(a, b)| square(f64::from(*a) - f64::from(*b))).sum();
    let size: f64 = b.iter().map(|b| square(f64::from(*b))).sum();
    (difference / size).sqrt()
}

/// Returns a clip that is above all norms here, on the finest grid.
fn clip() -> Clip {
    Clip::new(16.0, NoiseMultiplier::new(1.0 / 1024.0).unwrap()).unwrap()
}

/// Returns the DP sum of the units' gradients by the parts in `trained`, in steps of the grid.
fn sum(model: &Model, trained: ModelParts, units: &[Unit<'_>]) -> Vec<i64> {
    sum_with(Criterion::CrossEntropy, model, trained, units)
}

fn sum_with(criterion: Criterion, model: &Model, trained: ModelParts, units: &[Unit<'_>]) -> Vec<i64> {
    let mut engine = Engine::with_criterion(criterion);
    let batch = Sampler::new(units.len(), SamplingRate::ONE).draw_fresh();
    let mut sum = ClippedSum::begin_parts(&batch, clip(), &model.shape().lengths(trained));
    let prepared = engine.prepare(model, trained);
    for group in engine.groups(units, model.shape()) {
        engine.add_clipped(&prepared, &units[group], &mut sum);
    }
    sum.in_test().to_vec()
}

/// Returns the gradient of each unit.
fn per_unit(model: &Model, units: &[Unit<'_>]) -> Vec<Vec<f32>> {
    per_unit_with(Criterion::CrossEntropy, model, units)
}

fn per_unit_with(criterion: Criterion, model: &Model, units: &[Unit<'_>]) -> Vec<Vec<f32>> {
    let back = |steps: i64| (steps as f64 * clip().step()) as f32;
    let one = |unit: &Unit<'_>| {
        let steps = sum_with(criterion, model, model.shape().all(), std::slice::from_ref(unit));
        steps.into_iter().map(back).collect::<Vec<f32>>()
    };
    units.iter().map(one).collect()
}

/// Returns one shape of every model kind.
fn kinds() -> Vec<ModelShape> {
    let plain = Proposed::lstm(5, Some(9));
    let deep = Proposed { layers: 2, bidirectional: true, normalize: true, ..plain.clone() };
    let gru = Proposed { cell: RecurrentCell::Gru, layers: 2, context: Some(5), ..plain.clone() };
    let rows = Proposed { normalize: true, ..Proposed::from_rows(rows(), 2, 5) };
    [plain, deep, gru, rows].iter().map(|proposed| ModelShape::from_spec(proposed, 3, 9)).collect()
}

#[test]
fn utterance_gradients_equal_automatic_differentiation() {
    let shape = ModelShape::plain(5, 19, 37);
    let (model, test_utterances) = (model(shape), test_utterances(&shape, &[7, 1, 23, 12, 12, 2, 30, 5, 9], 1));
    let units: Vec<Unit<'_>> = test_utterances.iter().map(|test_utterances| vec![test_utterances.example()]).collect();
    for (index, (fast, unit)) in per_unit(&model, &units).iter().zip(&units).enumerate() {
        let distance = distance(fast, &oracle(&model, unit));
        assert!(distance < 1e-5, "unit {index}: {distance}");
    }
}

#[test]
fn gradients_of_speakers_are_means_over_all_their_frames() {
    let shape = ModelShape::plain(3, 8, 11);
    let (model, test_utterances) = (model(shape), test_utterances(&shape, &[4, 9, 1, 15, 6, 3], 2));
    let examples: Vec<_> = test_utterances.iter().map(TestUtterance::example).collect();
    let units = [examples[..3].to_vec(), examples[3..4].to_vec(), examples[4..].to_vec()];
    for (fast, unit) in per_unit(&model, &units).iter().zip(&units) {
        assert!(distance(fast, &oracle(&model, unit)) < 1e-5);
    }
}

#[test]
fn a_unit_longer_than_a_group_is_cut_without_loss() {
    let shape = ModelShape::plain(2, 3, 4);
    let (model, test_utterances) = (model(shape), test_utterances(&shape, &[3000; 6], 4));
    let whole: Vec<_> = test_utterances.iter().map(TestUtterance::example).collect();
    // The mean over the unit is the mean of the means over its equally long utterances.
    let single: Vec<Unit<'_>> = whole.iter().map(|example| vec![*example]).collect();
    let parts = per_unit(&model, &single);
    let mean: Vec<f32> = (0..shape.parameters()).map(|n| parts.iter().map(|part| part[n]).sum::<f32>() / 6.0).collect();
    assert!(distance(&per_unit(&model, &[whole])[0], &mean) < 1e-5);
}

/// Every criterion; the blank of CTC is a class of all shapes here.
const CRITERIA: [Criterion; 2] = [Criterion::CrossEntropy, Criterion::Ctc { blank: 2 }];

#[test]
fn unit_gradient_does_not_depend_on_other_units() {
    let shapes = || kinds().into_iter().chain([ModelShape::plain(13, 40, 300)]).collect();
    for criterion in CRITERIA {
        check_independence(criterion, shapes());
    }
}

fn check_independence(criterion: Criterion, shapes: Vec<ModelShape>) {
    let lengths = [70, 3, 300, 41, 41, 120, 9, 77, 500, 31, 64, 65, 5, 18, 200, 256, 257, 90, 12, 33, 150, 7, 8, 2, 61];
    for shape in shapes {
        let (model, test_utterances) = (model(shape), test_utterances(&shape, &lengths, 5));
        let units: Vec<Unit<'_>> =
            test_utterances.iter().map(|test_utterances| vec![test_utterances.example()]).collect();
        let of = |units: &[Unit<'_>]| sum_with(criterion, &model, shape.all(), units);
        let all = of(&units);
        let reversed: Vec<_> = units.iter().rev().cloned().collect();
        assert!(of(&reversed) == all, "{shape:?}");
        let mut one_by_one = vec![0; shape.parameters()];
        for (index, unit) in units.iter().enumerate() {
            let alone = of(std::slice::from_ref(unit));
            one_by_one.iter_mut().zip(&alone).for_each(|(sum, steps)| *sum += steps);
            if index % 8 == 2 {
                let mut others = units.clone();
                others.remove(index);
                let moved: Vec<i64> = all.iter().zip(of(&others)).map(|(with, without)| with - without).collect();
                assert!(
                    moved == alone,
                    "unit {index} of {shape:?} moves the sum by its own gradient, to the last step"
                );
            }
        }
        assert!(one_by_one == all, "{shape:?}");
    }
}

#[test]
fn the_gradient_is_the_slope_of_the_loss() {
    for criterion in CRITERIA {
        check_slope(criterion, kinds());
    }
}

fn check_slope(criterion: Criterion, shapes: Vec<ModelShape>) {
    for shape in shapes {
        let (mut model, test_utterances) = (model(shape), test_utterances(&shape, &[14, 9], 6));
        let examples: Vec<_> = test_utterances.iter().map(TestUtterance::example).collect();
        let gradient = per_unit_with(criterion, &model, std::slice::from_ref(&examples)).remove(0);
        let start = model.parameters().to_vec();
        // For each part by itself: along its gradient, the slope of the loss is the gradient's length.
        for (part, range) in shape.parts() {
            let own = &gradient[range.clone()];
            let length: f32 = own.iter().map(|value| value * value).sum::<f32>().sqrt();
            let step = 5e-3;
            let mut loss = |sign: f32| {
                model.parameters_mut().copy_from_slice(&start);
                for (parameter, value) in model.parameters_mut()[range.clone()].iter_mut().zip(own) {
                    *parameter += sign * step * value / length;
                }
                Engine::with_criterion(criterion).score(&model, &examples).mean_loss()
            };
            let slope = (loss(1.0) - loss(-1.0)) / (2.0 * f64::from(step));
            let ratio = slope / f64::from(length);
            assert!((ratio - 1.0).abs() < 3e-3, "{} of {shape:?}, {criterion:?}: {slope} {length}", part.name());
            model.parameters_mut().copy_from_slice(&start);
        }
    }
}

#[test]
fn the_gradient_by_some_parts_is_that_part_of_the_whole() {
    for shape in kinds() {
        let (model, test_utterances) = (model(shape), test_utterances(&shape, &[40, 10, 7], 7));
        let units: Vec<Unit<'_>> =
            test_utterances.iter().map(|test_utterances| vec![test_utterances.example()]).collect();
        let whole = sum(&model, shape.all(), &units);
        for (part, range) in shape.parts() {
            for trained in [[part].into_iter().collect::<ModelParts>(), shape.all().with_part(part, false)] {
                let own = sum(&model, trained, &units);
                let ranges = shape.coordinates(trained).ranges();
                let expected: Vec<i64> = ranges.into_iter().flat_map(|range| &whole[range]).copied().collect();
                assert!(own == expected && !own.is_empty(), "{} at {range:?}", part.name());
            }
        }
    }
}

#[test]
fn ctc_learns_labels_without_their_times() {
    const BLANK: u16 = 2;
    // Sound 0 then sound 1, or the reverse; the labels of the frames do not say when.
    let shape = ModelShape::plain(3, 8, 3);
    let speak = |sounds: [usize; 2], first: usize| {
        let frame = |t: usize| (0..3).map(move |n| if n == sounds[usize::from(t >= first)] { 1.0 } else { -1.0 });
        TestUtterance {
            features: (0..24).flat_map(frame).collect(),
            labels: (0..24).map(|t| sounds[usize::from(t >= 12)] as u16).collect(),
        }
    };
    let utterances: Vec<TestUtterance> =
        (4..20).map(|first| speak(if first % 2 == 0 { [0, 1] } else { [1, 0] }, first)).collect();
    let examples: Vec<_> = utterances.iter().map(TestUtterance::example).collect();
    let mut model = model(shape);
    let mut engine = Engine::with_criterion(Criterion::Ctc { blank: BLANK });
    let before = engine.score(&model, &examples).mean_loss();
    let mut optimizer = Optimizer::new(Rule::Adam { learning_rate: 0.1 }, shape.parameters());
    for _ in 0..300 {
        let mut gradient = vec![0.0; shape.parameters()];
        engine.add_gradient(&model, &examples, 1.0 / examples.len() as f32, &mut gradient);
        optimizer.step(model.parameters_mut(), StepDirection::exact(&gradient), 1.0);
    }
    let after = engine.score(&model, &examples).mean_loss();
    assert!(after < 0.1 * before, "{before} to {after}");
    engine.classify(&model, &examples, &mut |number, logits| {
        let labels = crate::ctc::collapse(&utterances[number].labels, BLANK);
        let probability = |labels: &[u16]| (-crate::ctc::loss(logits, 3, labels, BLANK).unwrap().loss).exp();
        assert!(probability(&labels) > 0.9, "{labels:?}: {}", probability(&labels));
    });
}

#[test]
fn weighted_gradients_add_up_to_those_of_the_units() {
    let shape = ModelShape::plain(3, 8, 11);
    let (model, test_utterances) = (model(shape), test_utterances(&shape, &[40, 10], 7));
    let units: Vec<Unit<'_>> = test_utterances.iter().map(|test_utterances| vec![test_utterances.example()]).collect();
    let parts = per_unit(&model, &units);
    let mut sum = vec![0.0; shape.parameters()];
    let mut engine = Engine::new();
    for unit in &units {
        let frames = unit[0].labels.len();
        let score = engine.add_gradient(&model, unit, 1.0 / frames as f32, &mut sum);
        assert_eq!(score.frames, frames as u64);
        let measured = engine.score(&model, unit);
        assert!(score.right == measured.right && (score.loss - measured.loss).abs() < 1e-6 * score.loss);
    }
    let expected: Vec<f32> = parts[0].iter().zip(&parts[1]).map(|(a, b)| a + b).collect();
    assert!(distance(&sum, &expected) < 1e-5);
    let mut half = vec![0.0; shape.parameters()];
    engine.add_units(&model, shape.all(), &units, 0.5, &mut half);
    let doubled: Vec<f32> = half.iter().map(|value| 2.0 * value).collect();
    assert!(distance(&doubled, &expected) < 1e-5);
}

#[test]
fn groups_hold_every_unit_once_and_bound_memory() {
    let shape = ModelShape::plain(13, 200, 9096);
    let test_utterances = test_utterances(&shape, &[300; 70], 8);
    let units: Vec<Unit<'_>> = test_utterances.iter().map(|test_utterances| vec![test_utterances.example()]).collect();
    let groups = Engine::new().groups(&units, &shape);
    assert_eq!(groups.iter().flat_map(Clone::clone).collect::<Vec<_>>(), (0..70).collect::<Vec<_>>());
    let numbers = shape.output().buffered_numbers(300);
    assert!(groups.iter().all(|group| group.len() * numbers <= 20 << 20) && groups.len() < 20);
}

#[test]
fn a_file_with_a_number_that_is_none_is_refused() {
    let mut model = model(ModelShape::plain(2, 3, 4));
    model.parameters_mut()[5] = f32::NAN;
    let error = Model::from_safetensors(&model.to_safetensors().unwrap()).unwrap_err();
    assert!(error.to_string().contains("layer1.weight"), "{error}");
    assert!(Model::from_safetensors(b"not a model").is_err());
}

#[test]
fn a_coefficient_that_never_changes_is_not_blown_up() {
    let normalizer = Normalizer::new(vec![3.0, 7.0], vec![0.5, 0.0]);
    assert_eq!(normalizer, Normalizer { mean: vec![3.0, 7.0], deviation: vec![0.5, 1.0] });
}
