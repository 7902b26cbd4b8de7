//! Clipped sums of private units: their norm, their independence, and that a classifier learns from them with noise.
#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use std::convert::Infallible;
use std::num::NonZeroU32;

use undertone_api::job::active_learning::Encoder;
use undertone_api::job::dp_sgd::Optimizer as Rule;
use undertone_api::job::evaluation::{HistogramRelease, ScoreBins};
use undertone_privacy::{Event, NoiseMultiplier, PrivacyUnit, SamplingRate};
use undertone_worker_site::clearance::{Clearance, ReleaseGrant};
use undertone_worker_training::clip::{Clip, ClippedSum};
use undertone_worker_training::randomness::{Purpose, Randomness};
use undertone_worker_training::release::Update;
use undertone_worker_training::sampler::Sampler;

use super::super::tests::settings;
use super::super::{Classifier, Example, Visible};
use super::{MOST_ROWS, PrivateUnits};
use crate::dataset::Row;

const LABELS: u16 = 3;

fn labels() -> Vec<String> {
    (0..LABELS).map(|label| format!("label {label}")).collect()
}

/// Returns `count` rows of three subjects, each by a user of its own.
fn rows(count: u64) -> Vec<Row> {
    let subjects = ["cancel stop end", "where track find", "hello good nice"];
    let row = |number: u64| {
        let label = (number % u64::from(LABELS)) as u16;
        let word = subjects[usize::from(label)].split(' ').nth(number as usize / 3 % 3).unwrap();
        Row {
            text: format!("{word} it now {}", number % 7),
            user: Some(u128::from(number)),
            count: 1,
            label: Some(label),
        }
    };
    (0..count).map(row).collect()
}

fn read(rows: Vec<Row>, unit: PrivacyUnit) -> PrivateUnits {
    let rows = rows.into_iter().map(Ok::<_, Infallible>);
    PrivateUnits::read(rows, |label| (label < LABELS).then_some(label), unit, &settings(Encoder::Bag)).unwrap()
}

fn clip(bound: f64, noise: f64) -> Clip {
    Clip::new(bound, NoiseMultiplier::new(noise).unwrap()).unwrap()
}

/// Returns the clipped sum of all units.
fn sum_all(classifier: &Classifier, units: &PrivateUnits, clip: Clip) -> ClippedSum {
    let batch = units.sampler(SamplingRate::ONE).draw_fresh();
    classifier.sum_gradients(units, &batch, clip, &|| true).unwrap()
}

fn norm(sum: &ClippedSum) -> f64 {
    sum.in_test().iter().map(|value| (*value as f64).powi(2)).sum::<f64>().sqrt()
}

#[test]
fn each_unit_adds_its_own_gradient_of_at_most_the_clip() {
    for encoder in [Encoder::Bag, Encoder::Lstm] {
        let classifier = Classifier::begin(&settings(encoder), &labels(), 5).unwrap();
        let bound = clip(0.01, 1.0);
        let alone: Vec<ClippedSum> =
            rows(5).into_iter().map(|row| sum_all(&classifier, &read(vec![row], PrivacyUnit::Record), bound)).collect();
        for one in &alone {
            let share = norm(one) / bound.radius() as f64;
            assert!(share <= 1.0 && share > 0.999, "the gradient is longer than the clip: {share}");
        }
        let together = sum_all(&classifier, &read(rows(5), PrivacyUnit::Record), bound);
        let added: Vec<i64> =
            (0..together.in_test().len()).map(|at| alone.iter().map(|one| one.in_test()[at]).sum()).collect();
        assert_eq!(together.in_test(), added, "to the bit, whatever the other units are");
    }
}

#[test]
fn gradient_is_that_of_the_public_training() {
    // With one example in a batch, a step of plain gradient descent and the private sum have one direction.
    let classifier = Classifier::begin(&settings(Encoder::Bag), &labels(), 5).unwrap();
    let units = read(rows(1), PrivacyUnit::Record);
    let sum = sum_all(&classifier, &units, clip(1000.0, 1.0));
    let text = rows(1)[0].text.clone();
    let example = [(Example::new(Visible::in_test(&text), 0), 1)];
    let no_dropout = Classifier { settings: undropped(&classifier), ..classifier.clone() };
    let before = no_dropout.examine(&example).mean_loss();
    let scale = -1e-4 / norm(&sum);
    let change: Vec<f32> = sum.in_test().iter().map(|value| (*value as f64 * scale) as f32).collect();
    let after = no_dropout.with_change(&change).unwrap().examine(&example).mean_loss();
    let gradient_norm = norm(&sum) * sum.clip().bound() / sum.clip().radius() as f64;
    let expected = -1e-4 * gradient_norm;
    assert!(((after - before) / expected - 1.0).abs() < 0.05, "{before} {after} {expected}");
    assert!(classifier.with_change(&change[1..]).is_none());
    assert!(classifier.with_change(&vec![f32::NAN; change.len()]).is_none());
}

fn undropped(classifier: &Classifier) -> super::Settings {
    super::Settings { dropout: 0.0, ..*classifier.settings() }
}

#[test]
fn users_are_cut_and_unusable_rows_take_no_part() {
    let row = |text: &str, user, count, label| Row { text: text.to_owned(), user, count, label };
    let many = (0..100).map(|number| row(&format!("text {number}"), Some(1), 1, Some(0)));
    let rows: Vec<Row> = many
        .chain([row("often", Some(2), 50, Some(1)), row("nobody", None, 1, Some(1)), row("other", Some(3), 1, Some(7))])
        .chain([row("none", Some(4), 1, None)])
        .collect();
    let users = read(rows.clone(), PrivacyUnit::User);
    assert_eq!(users.units.iter().map(Vec::len).collect::<Vec<_>>(), [MOST_ROWS, MOST_ROWS]);
    let records = read(rows, PrivacyUnit::Record);
    assert_eq!(records.units.len(), 100 + 50 + 1, "a row that occurs 50 times is 50 records");
    assert!(records.units.iter().all(|unit| unit.len() == 1));
    let made_up = PrivateUnits::synthetic(3, PrivacyUnit::User, &settings(Encoder::Bag));
    assert_eq!(made_up.units, vec![vec![0; MOST_ROWS]; 3]);
}

#[test]
fn cancelled_sum_is_none_and_an_empty_batch_is_zero() {
    let classifier = Classifier::begin(&settings(Encoder::Bag), &labels(), 5).unwrap();
    let units = read(rows(3), PrivacyUnit::Record);
    let batch = units.sampler(SamplingRate::ONE).draw_fresh();
    assert!(classifier.sum_gradients(&units, &batch, clip(1.0, 1.0), &|| false).is_none());
    let empty = Sampler::new(0, SamplingRate::ONE).draw_fresh();
    let sum = classifier.sum_gradients(&units, &empty, clip(1.0, 1.0), &|| true).unwrap();
    assert!(sum.in_test().iter().all(|value| *value == 0) && sum.in_test().len() == classifier.dense_length());
}

fn histograms(labels: u16) -> HistogramRelease {
    HistogramRelease {
        classes: (0..u32::from(labels)).collect(),
        bins: ScoreBins::default(),
        accuracy: true,
        noise_multiplier: NoiseMultiplier::new(1.0).unwrap(),
    }
}

/// Returns the sum of the histograms of all units.
fn sum_scores(classifier: &Classifier, units: &PrivateUnits, release: &HistogramRelease) -> ClippedSum {
    let randomness = Randomness::in_test(Purpose::Sampling, 1);
    classifier.sum_histograms(units, release, &randomness, &|| true).unwrap().unwrap()
}

/// Returns the number of correct answers and of wrong ones in a sum.
fn count_answers(sum: &ClippedSum) -> [f64; 2] {
    let step = sum.clip().bound() / sum.clip().radius() as f64;
    let sums = sum.in_test();
    [2, 1].map(|back| sums[sums.len() - back] as f64 * step)
}

#[test]
fn histograms_count_the_answers_of_the_public_examination() {
    // Two labels have one output of the network, more have one for each.
    for count in [2, LABELS] {
        let settings = super::Settings { dropout: 0.0, ..settings(Encoder::Bag) };
        let names: Vec<String> = labels().into_iter().take(count.into()).collect();
        let classifier = Classifier::begin(&settings, &names, 5).unwrap();
        let rows: Vec<Row> = rows(60).into_iter().filter(|row| row.label < Some(count)).collect();
        let examples: Vec<(Example<'_>, u64)> =
            rows.iter().map(|row| (Example::new(Visible::in_test(&row.text), row.label.unwrap()), 1)).collect();
        let right = classifier.examine(&examples).right as f64;
        let units = read(rows.clone(), PrivacyUnit::Record);
        let [correct, wrong] = count_answers(&sum_scores(&classifier, &units, &histograms(count)));
        assert!((correct - right).abs() < 1e-2, "{count} labels: {correct} of {right}");
        assert!((correct + wrong - rows.len() as f64).abs() < 1e-2, "{count} labels: {wrong}");
    }
}

#[test]
fn each_unit_adds_its_own_histograms_of_at_most_the_clip() {
    let classifier = Classifier::begin(&settings(Encoder::Lstm), &labels(), 5).unwrap();
    let release = histograms(LABELS);
    let alone: Vec<ClippedSum> = rows(5)
        .into_iter()
        .map(|row| sum_scores(&classifier, &read(vec![row], PrivacyUnit::Record), &release))
        .collect();
    for one in &alone {
        let share = norm(one) / one.clip().radius() as f64;
        assert!(share <= 1.0 && share > 0.5, "a later bin has a shorter contribution: {share}");
    }
    let together = sum_scores(&classifier, &read(rows(5), PrivacyUnit::Record), &release);
    let added: Vec<i64> =
        (0..together.in_test().len()).map(|at| alone.iter().map(|one| one.in_test()[at]).sum()).collect();
    assert_eq!(together.in_test(), added, "to the bit, whatever the other units are");
    let user: Vec<Row> = rows(5).into_iter().map(|row| Row { user: Some(1), ..row }).collect();
    let user = sum_scores(&classifier, &read(user, PrivacyUnit::User), &release);
    assert!(norm(&user) <= user.clip().radius() as f64, "a user with five rows is one unit");
    assert!((count_answers(&user).iter().sum::<f64>() - 1.0).abs() < 1e-2);
    let units = read(rows(3), PrivacyUnit::Record);
    let randomness = Randomness::in_test(Purpose::Sampling, 1);
    let cancelled = classifier.sum_histograms(&units, &release, &randomness, &|| false).unwrap();
    assert!(cancelled.is_none());
}

#[test]
fn classifier_learns_from_noisy_steps() {
    let settings = super::Settings { dropout: 0.0, ..settings(Encoder::Bag) };
    let start = Classifier::begin(&settings, &labels(), 5).unwrap();
    let units = read(rows(600), PrivacyUnit::Record);
    let (rate, noise) = (SamplingRate::new(0.25).unwrap(), NoiseMultiplier::new(1.0).unwrap());
    let bound = Clip::new(1.0, noise).unwrap();
    let steps = NonZeroU32::new(40).unwrap();
    let event = Event::PoissonSampledGaussian { sampling_rate: rate, noise_multiplier: noise };
    let grant = Clearance::Granted(ReleaseGrant::in_test(event.times(40)));
    let (mut permits, ticket) = grant.split(steps).unwrap();
    let mut update = Update::begin(Rule::DpAdam { learning_rate: 0.05 }, 1.0, start.dense_length());
    for step in 0..40 {
        let model = start.with_change(update.moved()).unwrap();
        let batch = units.sampler(rate).draw(&Randomness::in_test(Purpose::Sampling, step));
        let sum = model.sum_gradients(&units, &batch, bound, &|| true).unwrap();
        let noise = Randomness::in_test(Purpose::Noise, step);
        update.take(sum.step(150.0, permits.take().unwrap(), &noise).unwrap()).unwrap();
    }
    let learned = start.with_change(update.leave(ticket).unwrap().vector()).unwrap();
    let texts = ["cancel that", "track that", "hello you", "end this", "find this", "nice"];
    let examples: Vec<(Example<'_>, u64)> = texts
        .iter()
        .zip([0, 1, 2, 0, 1, 2])
        .map(|(text, label)| (Example::new(Visible::in_test(text), label), 1))
        .collect();
    let [before, after] = [&start, &learned].map(|classifier| classifier.examine(&examples).right);
    assert!(after >= 5 && after > before, "{before} {after}");
}
