//! A private lead: each classifier is one paid release, and nothing else of its log leaves.

use undertone_api::job::active_learning::{CLASSIFIER_FILE, TRAINING};

use super::annotation::{ASKER, FREQUENT_TEXTS, LEAD, STEPS, TestAnnotation, true_label};
use super::{parse_lines, report};
use crate::queries::classifier::Classifier;
use crate::run::active_learning::output::{LABELS_FILE, POOL_FILE};
use crate::run::fake::CrashPoint;
use crate::run::{RoundKey, RunError};

#[test]
fn private_lead_pays_for_each_training_and_learns() {
    let job = TestAnnotation::with_private_lead(|_| ());
    // Without a seed, no training of the job learned in one of 60 runs.
    job.seed_lead();
    job.run_process(ASKER).unwrap();
    job.run_process(LEAD).unwrap();
    assert_eq!(
        (job.lead_payments(), job.payments()),
        (3, 1),
        "one release before the questions, and one after each round"
    );
    assert_eq!(job.trainings().keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(job.lead_draws(), [3 * STEPS; 2], "a fresh batch and fresh noise for each step");
    let report = report(&job);
    let rounds: Vec<_> = report.learning.iter().map(|point| (point.round, point.asked, point.labelled)).collect();
    assert_eq!(rounds, [(0, 0, 0), (1, 4, 4), (2, 8, 8)]);
    let accuracy = report.learning.iter().map(|point| point.tests[0].accuracy).fold(0.0, f64::max);
    assert!(accuracy > 0.8, "{:?}", report.learning);
    assert_eq!((report.contents.len(), report.rehearsal.len()), (1, 0), "the test set, and nothing of the private log");
    assert_eq!(
        report.frequency.iter().map(|bin| bin.queries).sum::<u64>(),
        FREQUENT_TEXTS as u64,
        "of released counts"
    );
    assert_eq!(job.file_names(), [CLASSIFIER_FILE, LABELS_FILE, POOL_FILE]);
    for line in parse_lines(job.file(LABELS_FILE)).iter().chain(&parse_lines(job.file(POOL_FILE))) {
        let text = line["text"].as_str().unwrap();
        assert!(text.starts_with("patient"), "a text of the other log, which its gate released: {text}");
        assert!(line["label"].is_null() || line["label"] == true_label(text));
    }
    assert!(Classifier::from_safetensors(&job.file(CLASSIFIER_FILE)).is_ok());
}

#[test]
fn killed_private_lead_pays_once_and_keeps_its_classifiers() {
    let whole = TestAnnotation::with_private_lead(|_| ());
    whole.seed_lead();
    whole.run_process(ASKER).unwrap();
    whole.run_process(LEAD).unwrap();
    for point in [CrashPoint::Cleared, CrashPoint::Stored, CrashPoint::Accepted] {
        for round in 1..=3 {
            let job = TestAnnotation::with_private_lead(|_| ());
            job.seed_lead();
            job.add_pool(whole.stored_pool());
            job.crash_at_training(point, round);
            assert!(matches!(job.run_process(LEAD), Err(RunError::Stopped(_))), "{point:?} {round}");
            job.run_process(LEAD).unwrap();
            let key = RoundKey::new(TRAINING, round);
            assert_eq!(job.lead_payments(), 3, "{point:?} of {key}");
            assert!(job.trainings() == whole.trainings(), "{point:?} of {key}");
            assert_eq!((job.choices(), job.report()), (whole.choices(), whole.report()), "{point:?} of {key}");
            assert!(job.file(CLASSIFIER_FILE) == whole.file(CLASSIFIER_FILE), "{point:?} of {key}");
        }
    }
}

#[test]
fn private_lead_without_a_grant_releases_nothing() {
    let job = TestAnnotation::with_private_lead(|_| ());
    job.run_process(ASKER).unwrap();
    job.refuse_releases();
    assert!(matches!(job.run_process(LEAD), Err(RunError::Refused(_))));
    assert_eq!((job.lead_payments(), job.trainings().len()), (0, 0));
    assert!(job.choices().is_empty() && job.file_names().is_empty() && job.measurement_rounds().is_empty());
    assert_eq!(job.lead_draws()[1], 0, "no noise was drawn, so nothing was made");
}

#[test]
fn private_lead_without_tests_keeps_the_last_classifier() {
    let job = TestAnnotation::with_private_lead(|spec| spec.tests.clear());
    job.run_process(ASKER).unwrap();
    job.run_process(LEAD).unwrap();
    let report = report(&job);
    assert_eq!((report.best, report.learning.len()), (Some(2), 3));
    assert!(job.measurement_rounds().is_empty() && report.contents.is_empty());
}
