//! A private test set: each measurement is one paid vector of histograms, and nothing else of its log leaves.

use super::annotation::{TESTER, TestAnnotation};
use super::report;
use crate::queries::classifier::{Classifier, Settings};
use crate::run::RunError;
use crate::run::active_learning::output::{LABELS_FILE, POOL_FILE};
use crate::run::active_learning::private_test::{ROUNDS_FILE, classifier_file};
use crate::run::fake::CrashPoint;
use undertone_api::job::active_learning::CLASSIFIER_FILE;

#[test]
fn private_test_set_pays_for_each_measurement_that_is_reported() {
    // Without dropout, each pass over the public test set is the one over the private test set.
    let job = TestAnnotation::with_private_test(2, |spec| spec.classifier.dropout = 0.0);
    job.run_measured().unwrap();
    assert_eq!((job.tester_payments(), job.payments()), (2, 1));
    assert_eq!(job.measurements().keys().copied().collect::<Vec<_>>(), [1, 2]);
    let report = report(&job);
    let is_measured: Vec<bool> = report.learning.iter().map(|point| point.private_test.is_some()).collect();
    assert_eq!(is_measured, [true, false, true], "the first classifier and the last");
    let result = report.learning[2].private_test.as_ref().unwrap();
    let accuracy = result.accuracy.unwrap();
    // The same rows are the public test set here: noise is the only difference.
    let truth = report.learning[2].tests[0].accuracy;
    assert!(accuracy.noise > 0.0 && accuracy.sampling > 0.0, "{accuracy:?}");
    assert!((accuracy.value - truth).abs() < 7.0 * accuracy.noise, "{accuracy:?} and {truth}");
    assert!((result.deviation - 0.1 * 3.0_f64.sqrt()).abs() < 1e-9 && result.classes.len() == 2, "{result:?}");
    let units = result.classes[0].metrics.as_ref().map(|metrics| metrics.positives + metrics.negatives);
    assert!(units.is_some_and(|units| (units - 20.0).abs() < 8.0), "the 20 rows of the test split: {units:?}");
    assert_eq!(job.measurement_rounds(), [0, 1, 2], "of the public test set alone");
    let [first, last] = [0, 2].map(classifier_file);
    assert_eq!(job.file_names(), [&*first, &last, CLASSIFIER_FILE, LABELS_FILE, ROUNDS_FILE, POOL_FILE]);
}

#[test]
fn killed_test_set_pays_once_and_sends_the_same_bytes() {
    let whole = TestAnnotation::with_private_test(2, |_| ());
    whole.seed(TESTER);
    whole.run_measured().unwrap();
    for point in [CrashPoint::Cleared, CrashPoint::Stored, CrashPoint::Accepted] {
        for number in [1, 2] {
            let job = TestAnnotation::with_private_test(2, |_| ());
            job.seed(TESTER);
            job.crash_at_measurement(point, number);
            job.run_measured().unwrap();
            assert_eq!(job.tester_payments(), 2, "{point:?} of {number}");
            assert_eq!(job.measurements().len(), 2);
        }
    }
    let stored = TestAnnotation::with_private_test(2, |_| ());
    stored.seed(TESTER);
    stored.add_pool(whole.stored_pool());
    stored.crash_at_measurement(CrashPoint::Stored, 1);
    stored.run_measured().unwrap();
    assert!(stored.measurements() == whole.measurements(), "a stored vector is sent as it is");
}

#[test]
fn released_accuracy_keeps_the_best_classifier_without_public_tests() {
    let job = TestAnnotation::with_private_test(3, |spec| spec.tests.clear());
    job.run_measured().unwrap();
    let report = report(&job);
    let accuracy = |round: u32| report.learning[round as usize].released_accuracy().unwrap().value;
    let best = report.best.unwrap();
    assert!((0..3).all(|round| accuracy(round) <= accuracy(best)), "{:?}", report.learning);
    assert!(job.file(CLASSIFIER_FILE) == job.file(&classifier_file(best)), "the file is the kept classifier");
    assert!(job.measurement_rounds().is_empty(), "no exact figure");
}

#[test]
fn questions_that_end_early_end_the_measurements() {
    let job = TestAnnotation::with_private_test(3, |spec| spec.batch = 100);
    job.run_measured().unwrap();
    assert_eq!((job.tester_payments(), report(&job).learning.len()), (2, 2), "round 0 and the one of all questions");
    assert_eq!(job.file(ROUNDS_FILE), b"[0,1]");
}

#[test]
fn test_set_without_a_grant_releases_nothing() {
    let job = TestAnnotation::with_private_test(1, |_| ());
    job.refuse_releases_of(TESTER);
    assert!(matches!(job.run_measured(), Err(RunError::Refused(_))));
    assert_eq!((job.tester_payments(), job.measurements().len()), (0, 0));
    assert!(job.report().is_none());
}

#[test]
fn other_classifier_and_too_many_rounds_are_refused_before_data_are_read() {
    let job = TestAnnotation::with_private_test(1, |_| ());
    let labels = ["billing", "other"].map(str::to_owned);
    let settings = Settings { buckets: 512, embedding: 8, hidden: 8, ..Settings::default() };
    let other = Classifier::begin(&settings, &labels, 7).unwrap();
    job.put_file(ROUNDS_FILE, b"[2]".to_vec());
    job.put_file(&classifier_file(2), other.to_safetensors().unwrap());
    let end = job.run_process(TESTER).unwrap_err().to_string();
    assert!(end.contains("classifier-round-2.safetensors") && end.contains("other labels"), "{end}");
    job.put_file(ROUNDS_FILE, b"[1,2]".to_vec());
    let end = job.run_process(TESTER).unwrap_err().to_string();
    assert!(end.contains("announces 2 measurements, and the job has 1"), "{end}");
    assert_eq!((job.tester_payments(), job.measurements().len()), (0, 0));
}
