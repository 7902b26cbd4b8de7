//! Training of few coordinates: their gradients are those of the model along the directions, clipped and independent of
//! other units.

use undertone_api::job::dp_sgd::{ModelParts, ParameterAdaptation, UnitAugmentation};
use undertone_privacy::{NoiseMultiplier, SamplingRate};

use super::{
    CRITERIA, Criterion, Engine, Model, ModelShape, TestUtterance, Unit, clip, distance, kinds, model, per_unit_with,
    test_utterances,
};
use crate::clip::{Clip, ClipMode, ClippedSum};
use crate::model::coordinates::TrainedCoordinates;
use crate::model::gradient::{BatchAugmentation, BatchUnits, PreparedModel};
use crate::randomness::{Purpose, Randomness};
use crate::sampler::Sampler;

/// The biases, and ranks from 1 to more than any side.
const ADAPTATIONS: [ParameterAdaptation; 4] = [
    ParameterAdaptation::Biases,
    ParameterAdaptation::LowRank { rank: 1 },
    ParameterAdaptation::LowRank { rank: 3 },
    ParameterAdaptation::LowRank { rank: 100 },
];

fn adapt(model: &Model, parts: ModelParts, adaptation: ParameterAdaptation) -> TrainedCoordinates {
    TrainedCoordinates::new(model, parts, Some(adaptation)).unwrap()
}

/// Moves a model along all of its coordinates, each by up to a tenth.
fn move_model(model: &Model, coordinates: &TrainedCoordinates) -> (Model, Vec<f32>) {
    let mut moved = model.clone();
    let mut values = coordinates.gather(model.parameters());
    values.iter_mut().enumerate().for_each(|(place, value)| *value += (place * 37 % 21) as f32 / 100.0 - 0.1);
    coordinates.scatter(&values, moved.parameters_mut());
    (moved, values)
}

/// Returns the sum of the units' clipped gradients by the coordinates, in steps of the grid.
fn adapted_sum(
    (criterion, clip): (Criterion, Clip),
    model: &Model,
    coordinates: &TrainedCoordinates,
    units: &[Unit<'_>],
) -> Vec<i64> {
    let mut engine = Engine::with_criterion(criterion);
    let batch = Sampler::new(units.len(), SamplingRate::ONE).draw_fresh();
    let mut sum = ClippedSum::begin_parts(&batch, clip, coordinates.lengths());
    let prepared = engine.prepare_coordinates(model, coordinates);
    for group in engine.groups(units, model.shape()) {
        engine.add_clipped(&prepared, &units[group], &mut sum);
    }
    sum.in_test().to_vec()
}

/// Returns the gradient of a unit by the coordinates.
fn adapted_gradient(
    criterion: Criterion,
    model: &Model,
    coordinates: &TrainedCoordinates,
    unit: &Unit<'_>,
) -> Vec<f32> {
    let sum = adapted_sum((criterion, clip()), model, coordinates, std::slice::from_ref(unit));
    sum.into_iter().map(|steps| (steps as f64 * clip().step()) as f32).collect()
}

/// The unit with 300 frames has a stored gradient, the others have products of rows.
#[test]
fn gradient_by_coordinates_is_the_projected_gradient() {
    for (shape, criterion) in kinds().into_iter().flat_map(|shape| CRITERIA.map(|criterion| (shape, criterion))) {
        let (start, test_utterances) = (model(shape), test_utterances(&shape, &[40, 3, 300], 5));
        let examples: Vec<_> = test_utterances.iter().map(TestUtterance::example).collect();
        for adaptation in ADAPTATIONS {
            let coordinates = adapt(&start, shape.all(), adaptation);
            let (moved, _) = move_model(&start, &coordinates);
            for unit in [vec![examples[0]], examples[..2].to_vec(), vec![examples[2]]] {
                let whole = per_unit_with(criterion, &moved, std::slice::from_ref(&unit)).remove(0);
                let expected = coordinates.project_in_test(&whole);
                let own = adapted_gradient(criterion, &moved, &coordinates, &unit);
                let distance = distance(&own, &expected);
                assert!(distance < 2e-5, "{adaptation:?} of {shape:?}, {criterion:?}: {distance}");
            }
        }
    }
}

#[test]
fn unit_longer_than_a_pass_has_the_projected_gradient() {
    let shape = ModelShape::plain(2, 3, 4);
    let (start, test_utterances) = (model(shape), test_utterances(&shape, &[3000; 6], 4));
    let unit: Unit<'_> = test_utterances.iter().map(TestUtterance::example).collect();
    let whole = per_unit_with(Criterion::CrossEntropy, &start, std::slice::from_ref(&unit)).remove(0);
    for adaptation in ADAPTATIONS {
        let coordinates = adapt(&start, shape.all(), adaptation);
        let own = adapted_gradient(Criterion::CrossEntropy, &start, &coordinates, &unit);
        let distance = distance(&own, &coordinates.project_in_test(&whole));
        assert!(distance < 2e-5, "{adaptation:?}: {distance}");
    }
}

#[test]
fn gradient_by_coordinates_is_the_slope_of_the_loss() {
    for (shape, criterion) in kinds().into_iter().flat_map(|shape| CRITERIA.map(|criterion| (shape, criterion))) {
        let (start, test_utterances) = (model(shape), test_utterances(&shape, &[14, 9], 6));
        let examples: Vec<_> = test_utterances.iter().map(TestUtterance::example).collect();
        for adaptation in [ParameterAdaptation::Biases, ParameterAdaptation::LowRank { rank: 2 }] {
            let coordinates = adapt(&start, shape.all(), adaptation);
            let (mut moved, values) = move_model(&start, &coordinates);
            let gradient = adapted_gradient(criterion, &moved, &coordinates, &examples);
            let mut first = 0;
            for length in coordinates.lengths() {
                let own = first..first + length;
                first += length;
                let norm = gradient[own.clone()].iter().map(|value| value * value).sum::<f32>().sqrt();
                let step = 5e-3;
                let mut loss = |sign: f32| {
                    let mut values = values.clone();
                    let pairs = values[own.clone()].iter_mut().zip(&gradient[own.clone()]);
                    pairs.for_each(|(value, slope)| *value += sign * step * slope / norm);
                    coordinates.scatter(&values, moved.parameters_mut());
                    Engine::with_criterion(criterion).score(&moved, &examples).mean_loss()
                };
                let slope = (loss(1.0) - loss(-1.0)) / (2.0 * f64::from(step));
                let ratio = slope / f64::from(norm);
                assert!((ratio - 1.0).abs() < 1e-2, "{adaptation:?} of {shape:?}, {criterion:?}: {slope} {norm}");
            }
        }
    }
}

#[test]
fn parts_are_adapted_apart() {
    for shape in kinds() {
        let (start, test_utterances) = (model(shape), test_utterances(&shape, &[40, 10, 7], 7));
        let units: Vec<Unit<'_>> = test_utterances.iter().map(|utterance| vec![utterance.example()]).collect();
        for adaptation in ADAPTATIONS {
            let all = adapt(&start, shape.all(), adaptation);
            let whole = adapted_sum((Criterion::CrossEntropy, clip()), &start, &all, &units);
            let mut rest = &whole[..];
            for ((part, _), length) in shape.parts().into_iter().zip(all.lengths()) {
                let (expected, after) = rest.split_at(*length);
                rest = after;
                let alone = adapt(&start, [part].into_iter().collect(), adaptation);
                let own = adapted_sum((Criterion::CrossEntropy, clip()), &start, &alone, &units);
                assert!(own == expected && !own.is_empty(), "{} with {adaptation:?}", part.name());
            }
        }
    }
}

#[test]
fn unit_moves_the_coordinates_by_at_most_the_clip() {
    let shape = ModelShape::plain(3, 8, 11);
    let (mut model, test_utterances) = (model(shape), test_utterances(&shape, &[40, 9, 9000, 5], 7));
    for scale in [1.0, 1e3, 1e20] {
        model.parameters_mut().iter_mut().for_each(|parameter| *parameter *= scale);
        for adaptation in ADAPTATIONS {
            let coordinates = adapt(&model, shape.all(), adaptation);
            for (bound, mode) in [(1e-3, ClipMode::Flat), (0.1, ClipMode::PerLayer), (0.1, ClipMode::Automatic)] {
                let clip = Clip::new(bound, NoiseMultiplier::new(1.0).unwrap()).unwrap().with_mode(mode);
                for utterance in &test_utterances {
                    let unit = [vec![utterance.example()]];
                    let sum = adapted_sum((Criterion::CrossEntropy, clip), &model, &coordinates, &unit);
                    let squares: u128 = sum.iter().map(|steps| u128::from(steps.unsigned_abs()).pow(2)).sum();
                    assert!(squares <= u128::from(clip.radius()).pow(2), "{adaptation:?} {bound} {scale}: {squares}");
                }
            }
        }
    }
}

/// The integers of a batch are the plain sum of those of its units, as secure aggregation adds them.
#[test]
fn adapted_sum_is_the_sum_of_the_units_alone() {
    let lengths = [70, 3, 300, 41, 41, 120, 9, 77, 500, 31, 64, 65, 5];
    for shape in kinds() {
        let (start, test_utterances) = (model(shape), test_utterances(&shape, &lengths, 5));
        let units: Vec<Unit<'_>> = test_utterances.iter().map(|utterance| vec![utterance.example()]).collect();
        for (adaptation, criterion) in ADAPTATIONS.into_iter().zip(CRITERIA.into_iter().cycle()) {
            let coordinates = adapt(&start, shape.all(), adaptation);
            let sum = |units: &[Unit<'_>]| adapted_sum((criterion, clip()), &start, &coordinates, units);
            let mut one_by_one = vec![0; coordinates.len()];
            for unit in &units {
                let alone = sum(std::slice::from_ref(unit));
                one_by_one.iter_mut().zip(alone).for_each(|(sum, steps)| *sum += steps);
            }
            assert!(sum(&units) == one_by_one, "{adaptation:?} of {shape:?}, to the last step");
        }
    }
}

#[test]
fn exact_gradients_and_copies_have_the_coordinates() {
    let shape = ModelShape::plain(3, 8, 11);
    let (start, test_utterances) = (model(shape), test_utterances(&shape, &[40, 3000, 12], 6));
    let units: Vec<Unit<'_>> = test_utterances.iter().map(|utterance| vec![utterance.example()]).collect();
    let engine = Engine::new();
    let exact = |prepared: &PreparedModel<'_>, length: usize, augmentation: Option<UnitAugmentation>| {
        let coins = |terms| BatchAugmentation::new(terms, Randomness::in_test(Purpose::Augmentation, 2));
        let batch = BatchUnits::new(units.clone(), &[0, 1, 2], augmentation.map(coins));
        let mut gradient = vec![0.0; length];
        for group in batch.groups(&engine, &shape) {
            batch.add_exact(group, &engine, prepared, 0.5, &mut gradient);
        }
        gradient
    };
    for adaptation in ADAPTATIONS {
        let coordinates = adapt(&start, shape.all(), adaptation);
        let adapted = engine.prepare_coordinates(&start, &coordinates);
        let whole = engine.prepare(&start, shape.all());
        // Four copies of 3,000 frames are too long for one pass.
        for augmentation in [None, Some(UnitAugmentation::with_usual_alterations(4))] {
            let expected = coordinates.project_in_test(&exact(&whole, shape.parameters(), augmentation));
            let distance = distance(&exact(&adapted, coordinates.len(), augmentation), &expected);
            assert!(distance < 1e-5, "{adaptation:?}: {distance}");
        }
    }
}
