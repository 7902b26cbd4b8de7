//! The fast path against a loop over single units through burn's automatic differentiation.
#![expect(clippy::unwrap_used, reason = "the numbers of a test are in range")]

use burn::tensor::{Device, Int, Tensor, TensorData, activation};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::gradient::{Engine, Example, Unit, micro_batches};
use super::{Model, Normalizer, Shape};
use crate::dp::layers::linear::TILE;

pub(crate) struct Spoken {
    pub(crate) features: Vec<f32>,
    pub(crate) labels: Vec<u16>,
}

impl Spoken {
    fn example(&self) -> Example<'_> {
        Example { features: &self.features, labels: &self.labels }
    }
}

fn spoken(shape: &Shape, lengths: &[usize], seed: u64) -> Vec<Spoken> {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let mut speak = |frames: usize| Spoken {
        features: (0..frames * shape.inputs).map(|_| rng.next_u32() as f32 / u32::MAX as f32 * 4.0 - 1.0).collect(),
        labels: (0..frames).map(|_| (rng.next_u32() as usize % shape.classes) as u16).collect(),
    };
    lengths.iter().map(|frames| speak(*frames)).collect()
}

fn model(shape: Shape) -> Model {
    let normalizer = Normalizer { mean: vec![0.5; shape.inputs], deviation: vec![1.5; shape.inputs] };
    Model::initialize(shape, normalizer, 11)
}

/// Gradient of the mean cross-entropy over a unit's frames, written down once more in burn's tensors, frame after frame.
fn oracle(model: &Model, unit: &Unit<'_>) -> Vec<f32> {
    let Shape { inputs, hidden, classes } = *model.shape();
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

fn per_unit(model: &Model, units: &[Unit<'_>]) -> Vec<Vec<f32>> {
    let length = model.shape().parameters();
    let mut engine = Engine::new();
    let mut all = Vec::new();
    for batch in micro_batches(units, model.shape()) {
        let gradients = engine.per_unit(model, &units[batch]);
        all.extend(gradients.in_test().chunks(length).map(<[f32]>::to_vec));
    }
    all
}

#[test]
fn gradients_of_utterances_equal_a_loop_through_automatic_differentiation() {
    let shape = Shape { inputs: 5, hidden: 19, classes: 37 };
    let (model, spoken) = (model(shape), spoken(&shape, &[7, 1, 23, 12, 12, 2, 30, 5, 9], 1));
    let units: Vec<Unit<'_>> = spoken.iter().map(|spoken| vec![spoken.example()]).collect();
    for (index, (fast, unit)) in per_unit(&model, &units).iter().zip(&units).enumerate() {
        let distance = distance(fast, &oracle(&model, unit));
        assert!(distance < 1e-5, "unit {index}: {distance}");
    }
}

#[test]
fn gradients_of_speakers_are_means_over_all_their_frames() {
    let shape = Shape { inputs: 3, hidden: 8, classes: 11 };
    let (model, spoken) = (model(shape), spoken(&shape, &[4, 9, 1, 15, 6, 3], 2));
    let examples: Vec<_> = spoken.iter().map(Spoken::example).collect();
    let units = [examples[..3].to_vec(), examples[3..4].to_vec(), examples[4..].to_vec()];
    for (fast, unit) in per_unit(&model, &units).iter().zip(&units) {
        assert!(distance(fast, &oracle(&model, unit)) < 1e-5);
    }
}

#[test]
fn a_unit_longer_than_a_tile_is_the_same_unit() {
    let shape = Shape { inputs: 2, hidden: 6, classes: 9 };
    let (model, spoken) = (model(shape), spoken(&shape, &[TILE - 1, 3, TILE + 7], 3));
    let unit: Vec<_> = spoken.iter().map(Spoken::example).collect();
    assert!(distance(&per_unit(&model, std::slice::from_ref(&unit))[0], &oracle(&model, &unit)) < 1e-5);
}

#[test]
fn a_unit_longer_than_a_micro_batch_is_cut_without_loss() {
    let shape = Shape { inputs: 2, hidden: 3, classes: 4 };
    let (model, spoken) = (model(shape), spoken(&shape, &[3000; 6], 4));
    let whole: Vec<_> = spoken.iter().map(Spoken::example).collect();
    // The mean over the unit is the mean of the means over its equally long utterances.
    let single: Vec<Unit<'_>> = whole.iter().map(|example| vec![*example]).collect();
    let parts = per_unit(&model, &single);
    let mean: Vec<f32> = (0..shape.parameters()).map(|n| parts.iter().map(|part| part[n]).sum::<f32>() / 6.0).collect();
    assert!(distance(&per_unit(&model, &[whole])[0], &mean) < 1e-5);
}

#[test]
fn the_gradient_of_a_unit_does_not_depend_on_its_company() {
    let shape = Shape { inputs: 13, hidden: 40, classes: 300 };
    let lengths = [70, 3, 300, 41, 41, 120, 9, 77, 500, 31, 64, 65, 5, 18, 200, 256, 257, 90, 12, 33, 150, 7, 8, 2, 61];
    let (model, spoken) = (model(shape), spoken(&shape, &lengths, 5));
    let units: Vec<Unit<'_>> = spoken.iter().map(|spoken| vec![spoken.example()]).collect();
    let together = per_unit(&model, &units);
    let reversed: Vec<_> = units.iter().rev().cloned().collect();
    let backwards = per_unit(&model, &reversed);
    for (index, unit) in units.iter().enumerate() {
        let alone = &per_unit(&model, std::slice::from_ref(unit))[0];
        let same = |other: &[f32]| alone.iter().zip(other).all(|(a, b)| a.to_bits() == b.to_bits());
        assert!(same(&together[index]) && same(&backwards[units.len() - 1 - index]), "unit {index}");
    }
}

#[test]
fn the_gradient_is_the_slope_of_the_loss() {
    let shape = Shape { inputs: 3, hidden: 7, classes: 5 };
    let (mut model, spoken) = (model(shape), spoken(&shape, &[14, 9], 6));
    let examples: Vec<_> = spoken.iter().map(Spoken::example).collect();
    let gradient = per_unit(&model, std::slice::from_ref(&examples)).remove(0);
    let length: f32 = gradient.iter().map(|value| value * value).sum::<f32>().sqrt();
    // Along the gradient the loss climbs by its length.
    let step = 1e-2;
    let mut loss = |sign: f32| {
        for (parameter, value) in model.parameters_mut().iter_mut().zip(&gradient) {
            *parameter += sign * step * value / length;
        }
        Engine::new().score(&model, &examples).mean_loss()
    };
    let (above, below) = (loss(1.0), loss(-2.0));
    let slope = (above - below) / (2.0 * f64::from(step));
    assert!((slope / f64::from(length) - 1.0).abs() < 1e-3, "{slope} {length}");
}

#[test]
fn weighted_gradients_add_up_to_those_of_the_units() {
    let shape = Shape { inputs: 3, hidden: 8, classes: 11 };
    let (model, spoken) = (model(shape), spoken(&shape, &[40, 10], 7));
    let units: Vec<Unit<'_>> = spoken.iter().map(|spoken| vec![spoken.example()]).collect();
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
    engine.add_units(&model, &units, 0.5, &mut half);
    let doubled: Vec<f32> = half.iter().map(|value| 2.0 * value).collect();
    assert!(distance(&doubled, &expected) < 1e-5);
}

#[test]
fn micro_batches_hold_every_unit_once_and_bound_memory() {
    let shape = Shape { inputs: 13, hidden: 200, classes: 9096 };
    let spoken = spoken(&shape, &[300; 70], 8);
    let units: Vec<Unit<'_>> = spoken.iter().map(|spoken| vec![spoken.example()]).collect();
    let batches = micro_batches(&units, &shape);
    assert_eq!(batches.iter().flat_map(Clone::clone).collect::<Vec<_>>(), (0..70).collect::<Vec<_>>());
    assert!(batches.iter().all(|batch| batch.len() * shape.parameters() <= 1 << 26 && batch.len() * 300 <= 8192));
}

#[test]
fn a_model_survives_its_file() {
    let model = model(Shape { inputs: 13, hidden: 9, classes: 21 });
    let file = model.to_safetensors().unwrap();
    assert_eq!(Model::from_safetensors(&file).unwrap(), model);
}

#[test]
fn a_file_with_a_number_that_is_none_is_refused() {
    let mut model = model(Shape { inputs: 2, hidden: 3, classes: 4 });
    model.parameters_mut()[5] = f32::NAN;
    let error = Model::from_safetensors(&model.to_safetensors().unwrap()).unwrap_err();
    assert!(error.to_string().contains("lstm.weight"), "{error}");
    assert!(Model::from_safetensors(b"not a model").is_err());
}

#[test]
fn a_coefficient_that_never_changes_is_not_blown_up() {
    let normalizer = Normalizer::new(vec![3.0, 7.0], vec![0.5, 0.0]);
    assert_eq!(normalizer, Normalizer { mean: vec![3.0, 7.0], deviation: vec![0.5, 1.0] });
}
