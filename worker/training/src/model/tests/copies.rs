//! Altered copies: the gradient of a unit is the mean over them, and is clipped after that.

use undertone_api::job::dp_sgd::UnitAugmentation;
use undertone_privacy::{NoiseMultiplier, SamplingRate};

use super::{
    CRITERIA, Criterion, Engine, Example, Model, ModelShape, TestUtterance, Unit, clip, distance, kinds, model,
    per_unit_with, test_utterances,
};
use crate::clip::ClippedSum;
use crate::clip::grid::Clip;
use crate::model::augmentation::alter_features;
use crate::model::gradient::{BatchAugmentation, BatchUnits};
use crate::randomness::{Purpose, Randomness};
use crate::sampler::Sampler;

const NONE: UnitAugmentation = UnitAugmentation { copies: 4, frame_masks: None, coefficient_masks: None, noise: 0.0 };
const USUAL: UnitAugmentation = UnitAugmentation::with_usual_alterations(4);

fn coins(seed: u8) -> Randomness {
    Randomness::in_test(Purpose::Augmentation, seed)
}

/// Returns the sum of the clipped gradients of units with copies, in steps of the grid.
fn copied_sum(
    (criterion, clip): (Criterion, Clip),
    model: &Model,
    augmentation: UnitAugmentation,
    (units, numbers): (&[Unit<'_>], &[usize]),
    seed: u8,
) -> Vec<i64> {
    let mut engine = Engine::with_criterion(criterion);
    let all = model.shape().all();
    let batch = Sampler::new(units.len(), SamplingRate::ONE).draw_fresh();
    let mut sum = ClippedSum::begin_parts(&batch, clip, &model.shape().lengths(all));
    let prepared = engine.prepare(model, all);
    let augmentation = Some(BatchAugmentation::new(augmentation, coins(seed)));
    let units = BatchUnits::new(units.to_vec(), numbers, augmentation);
    for group in units.groups(&engine, model.shape()) {
        units.add_clipped(group, &mut engine, &prepared, &mut sum);
    }
    sum.in_test().to_vec()
}

/// Returns the gradient of a unit with copies.
fn copied_gradient(
    criterion: Criterion,
    model: &Model,
    augmentation: UnitAugmentation,
    unit: &Unit<'_>,
    seed: u8,
) -> Vec<f32> {
    let sum = copied_sum((criterion, clip()), model, augmentation, (std::slice::from_ref(unit), &[3]), seed);
    sum.into_iter().map(|steps| (steps as f64 * clip().step()) as f32).collect()
}

fn speech() -> impl Iterator<Item = ModelShape> {
    kinds().into_iter().take(3)
}

#[test]
fn equal_copies_have_the_gradient_of_the_unit() {
    for (shape, criterion) in speech().flat_map(|shape| CRITERIA.map(|criterion| (shape, criterion))) {
        let (model, test_utterances) = (model(shape), test_utterances(&shape, &[40, 3, 17, 90], 5));
        let examples: Vec<_> = test_utterances.iter().map(TestUtterance::example).collect();
        for unit in [vec![examples[0]], examples.clone(), examples[1..3].to_vec()] {
            let once = per_unit_with(criterion, &model, std::slice::from_ref(&unit)).remove(0);
            let distance = distance(&copied_gradient(criterion, &model, NONE, &unit, 1), &once);
            assert!(distance < 1e-5, "{criterion:?}: {distance}");
        }
    }
}

/// Returns the gradient of a unit as the mean of the gradients of its copies, each made from the same coins and passed alone.
fn mean_of_copies(criterion: Criterion, model: &Model, unit: &Unit<'_>, seed: u8) -> Vec<f32> {
    let mut stream = coins(seed).stream(3);
    let mut mean = vec![0.0; model.shape().parameters()];
    for _ in 0..USUAL.copies {
        let features: Vec<Vec<f32>> = unit
            .iter()
            .map(|example| alter_features(example.features, model.normalizer(), &USUAL, &mut stream))
            .collect();
        let examples = unit.iter().zip(&features);
        let copy: Unit<'_> = examples.map(|(example, features)| Example { features, ..*example }).collect();
        let gradient = per_unit_with(criterion, model, &[copy]).remove(0);
        mean.iter_mut().zip(gradient).for_each(|(mean, value)| *mean += value / USUAL.copies as f32);
    }
    mean
}

#[test]
fn gradient_of_a_unit_is_the_mean_over_its_copies() {
    for (shape, criterion) in speech().flat_map(|shape| CRITERIA.map(|criterion| (shape, criterion))) {
        let (model, test_utterances) = (model(shape), test_utterances(&shape, &[40, 25], 6));
        let unit: Vec<_> = test_utterances.iter().map(TestUtterance::example).collect();
        let copied = copied_gradient(criterion, &model, USUAL, &unit, 2);
        let distance_of_mean = distance(&copied, &mean_of_copies(criterion, &model, &unit, 2));
        assert!(distance_of_mean < 1e-5, "{criterion:?}: {distance_of_mean}");
        let once = per_unit_with(criterion, &model, std::slice::from_ref(&unit)).remove(0);
        assert!(distance(&copied, &once) > 1e-3, "the copies are altered");
    }
}

#[test]
fn copies_too_long_for_one_pass_have_the_same_mean() {
    let shape = ModelShape::plain(2, 3, 4);
    let (model, test_utterances) = (model(shape), test_utterances(&shape, &[3000, 700], 4));
    let unit: Vec<_> = test_utterances.iter().map(TestUtterance::example).collect();
    let copied = copied_gradient(Criterion::CrossEntropy, &model, USUAL, &unit, 2);
    let expected = mean_of_copies(Criterion::CrossEntropy, &model, &unit, 2);
    let distance_of_mean = distance(&copied, &expected);
    assert!(distance_of_mean < 1e-5, "{distance_of_mean}");
    let mut exact = vec![0.0; shape.parameters()];
    let engine = Engine::new();
    let units = BatchUnits::new(vec![unit], &[3], Some(BatchAugmentation::new(USUAL, coins(2))));
    units.add_exact(0..1, &engine, &engine.prepare(&model, shape.all()), 1.0, &mut exact);
    assert!(distance(&exact, &expected) < 1e-5);
}

#[test]
fn unit_with_copies_moves_the_sum_by_at_most_the_clip() {
    let shape = ModelShape::plain(3, 8, 11);
    let (mut model, test_utterances) = (model(shape), test_utterances(&shape, &[40, 9, 3000, 5], 7));
    for scale in [1.0, 1e3, 1e20] {
        model.parameters_mut().iter_mut().for_each(|parameter| *parameter *= scale);
        for bound in [1e-3, 0.1] {
            let clip = Clip::new(bound, NoiseMultiplier::new(1.0).unwrap()).unwrap();
            for utterance in &test_utterances {
                let unit = [vec![utterance.example()]];
                let sum = copied_sum((Criterion::CrossEntropy, clip), &model, USUAL, (&unit, &[3]), 1);
                let squares: u128 = sum.iter().map(|steps| u128::from(steps.unsigned_abs()).pow(2)).sum();
                assert!(squares <= u128::from(clip.radius()).pow(2), "{bound} {scale}: {squares}");
            }
        }
    }
}

#[test]
fn copies_do_not_depend_on_the_other_units() {
    let shape = ModelShape::plain(3, 8, 11);
    let (model, test_utterances) = (model(shape), test_utterances(&shape, &[70, 3, 300, 41, 3000, 9, 500], 5));
    let units: Vec<Unit<'_>> = test_utterances.iter().map(|utterance| vec![utterance.example()]).collect();
    let numbers = [2, 3, 5, 8, 13, 21, 34];
    let sum = |units: &[Unit<'_>], numbers: &[usize]| {
        copied_sum((Criterion::CrossEntropy, clip()), &model, USUAL, (units, numbers), 1)
    };
    let mut one_by_one = vec![0; shape.parameters()];
    for (unit, number) in units.iter().zip(numbers) {
        let alone = sum(std::slice::from_ref(unit), &[number]);
        one_by_one.iter_mut().zip(alone).for_each(|(sum, steps)| *sum += steps);
    }
    assert!(sum(&units, &numbers) == one_by_one, "to the last step");
}

#[test]
fn copies_follow_from_the_coins_and_the_number() {
    let shape = ModelShape::plain(3, 8, 11);
    let (model, test_utterances) = (model(shape), test_utterances(&shape, &[60], 5));
    let units = [vec![test_utterances[0].example()]];
    let sum = |number: usize, seed: u8| {
        copied_sum((Criterion::CrossEntropy, clip()), &model, USUAL, (&units, &[number]), seed)
    };
    assert!(sum(7, 1) == sum(7, 1), "the same coins");
    assert!(sum(7, 1) != sum(7, 2) && sum(7, 1) != sum(8, 1), "other coins, or another unit's");
}

#[test]
fn groups_bound_the_frames_of_all_copies() {
    let shape = ModelShape::plain(3, 8, 11);
    let test_utterances = test_utterances(&shape, &[300; 70], 8);
    let units: Vec<Unit<'_>> = test_utterances.iter().map(|utterance| vec![utterance.example()]).collect();
    let numbers: Vec<usize> = (0..70).collect();
    let engine = Engine::new();
    let augmentation = Some(BatchAugmentation::new(USUAL, coins(1)));
    let batch = BatchUnits::new(units.clone(), &numbers, augmentation);
    let groups = batch.groups(&engine, &shape);
    assert_eq!(groups.iter().flat_map(Clone::clone).collect::<Vec<_>>(), numbers);
    // Four copies of 300 frames: six units in a pass of 8,192.
    assert!(groups.iter().all(|group| group.len() <= 6), "{groups:?}");
    let plain = BatchUnits::new(units.clone(), &numbers, None);
    assert_eq!(plain.groups(&engine, &shape), engine.groups(&units, &shape));
}
