#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

mod annotation;
mod private_lead;
mod private_test;

use undertone_api::job::active_learning::{Acquisition, Aggregation, BINS, CLASSIFIER_FILE, Rehearsal, Report};

use super::output::{LABELS_FILE, POOL_FILE};
use crate::fault::{self, FailureKind, FailurePlan};
use crate::queries::classifier::Classifier;
use crate::run::{RoundProgress, RunError};
use annotation::{ASKER, CALLS_BEFORE_FILES, FREQUENT_TEXTS, LEAD, TestAnnotation, true_label};

/// Returns the lead's report.
fn report(job: &TestAnnotation) -> Report {
    job.report().unwrap()
}

fn parse_lines(file: Vec<u8>) -> Vec<serde_json::Value> {
    let text = String::from_utf8(file).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn lead_learns_from_released_questions_and_reports() {
    let job = TestAnnotation::new(|_| ());
    job.run_process(ASKER).unwrap();
    job.run_process(LEAD).unwrap();
    let report = report(&job);
    let pool = &report.pools[0];
    assert_eq!((report.pools.len(), pool.queries, pool.threshold), (1, FREQUENT_TEXTS as u64, 30));
    assert!(
        pool.epsilon.is_some_and(|epsilon| epsilon >= 1.0)
            && pool.delta.is_some_and(|delta| (0.0..1e-7).contains(&delta))
    );
    let rounds: Vec<_> = report.learning.iter().map(|point| (point.round, point.asked, point.labelled)).collect();
    assert_eq!(rounds, [(0, 0, 0), (1, 4, 4), (2, 8, 8)]);
    assert!(report.learning.iter().all(|point| point.tests.len() == 1 && point.tests[0].examples == 20));
    assert!(report.learning[2].tests[0].accuracy > 0.9, "{:?}", report.learning);
    let remaining: Vec<u64> = report.uncertainty.iter().map(|before| before.bins.iter().sum()).collect();
    assert_eq!(
        (report.uncertainty[0].bins.len(), remaining),
        (BINS, vec![FREQUENT_TEXTS as u64, FREQUENT_TEXTS as u64 - 4])
    );
    assert!(report.uncertainty.iter().all(|before| {
        before.confidence.len() == BINS && before.confidence.iter().sum::<u64>() == before.bins.iter().sum::<u64>()
    }));
    assert_eq!(
        report.frequency.iter().map(|bin| bin.queries).sum::<u64>(),
        FREQUENT_TEXTS as u64,
        "of the released counts"
    );
    assert_eq!((report.annotators.len(), report.annotators[0].annotations, report.agreement), (1, 8, None));
    assert_eq!(report.annotators[0].accuracy, None, "there is no other annotator");
    assert_eq!((report.annotators[0].agreement, report.contents.len()), (Some(1.0), 1));
    assert_eq!(job.measurement_rounds(), [0, 1, 2], "each round is reported once");

    let labels = parse_lines(job.file(LABELS_FILE));
    assert_eq!(labels.len(), 8);
    assert!(labels.iter().all(|line| true_label(line["text"].as_str().unwrap()) == line["label"]));
    let pool = parse_lines(job.file(POOL_FILE));
    assert!(pool.len() == FREQUENT_TEXTS && pool.iter().all(|line| line["count"].as_u64() >= Some(30)));
    let classifier = Classifier::from_safetensors(&job.file(CLASSIFIER_FILE)).unwrap();
    assert_eq!(classifier.labels(), ["billing", "card"]);
}

#[test]
fn lead_killed_after_any_call_ends_with_the_same_result() {
    let whole = TestAnnotation::new(|_| ());
    whole.run_process(ASKER).unwrap();
    whole.run_process(LEAD).unwrap();
    let steps = whole.calls();
    assert!(steps > 10, "{steps}");
    for step in 1..=steps {
        let job = TestAnnotation::new(|_| ());
        // A second sample would be another pool.
        job.add_pool(whole.stored_pool());
        job.crash_after_calls(step);
        assert!(matches!(job.run_process(LEAD), Err(RunError::Stopped(_))), "{step}");
        job.run_process(LEAD).unwrap();
        assert_eq!((job.choices(), job.report()), (whole.choices(), whole.report()), "{step}");
        for name in [CLASSIFIER_FILE, LABELS_FILE, POOL_FILE] {
            assert!(job.file(name) == whole.file(name), "{step}: {name}");
        }
    }
}

#[test]
fn full_disk_pauses_the_lead_and_changes_no_result() {
    let whole = TestAnnotation::new(|_| ());
    whole.run_process(ASKER).unwrap();
    whole.run_process(LEAD).unwrap();
    let job = TestAnnotation::new(|_| ());
    job.add_pool(whole.stored_pool());
    let mut pauses = 0;
    for after in 1.. {
        fault::plan(Some(FailurePlan { accident: FailureKind::Disk, after }));
        let end = job.run_process(LEAD);
        fault::plan(None);
        match end {
            Ok(()) => break,
            Err(RunError::Disk(_)) => pauses += 1,
            Err(other) => panic!("{after}: {other}"),
        }
    }
    assert!(pauses > 3, "{pauses}");
    assert_eq!((job.choices(), job.report()), (whole.choices(), whole.report()));
}

#[test]
fn choice_of_a_killed_lead_is_kept_by_its_next_process() {
    let mut job = TestAnnotation::new(|_| ());
    job.run_process(ASKER).unwrap();
    job.crash_at_choice(1);
    assert!(matches!(job.run_process(LEAD), Err(RunError::Stopped(_))));
    let choices = job.choices();
    // The change imitates another machine with another classifier.
    job.change_spec(|spec| spec.acquisition = Acquisition::Random);
    job.run_process(LEAD).unwrap();
    assert_eq!(job.choices()[&1], choices[&1]);
}

#[test]
fn asking_site_pays_once_and_sends_the_stored_pool() {
    let job = TestAnnotation::new(|_| ());
    job.crash_before_sending();
    assert!(matches!(job.run_process(ASKER), Err(RunError::Stopped(_))));
    assert_eq!((job.progress(), job.payments(), job.pools().len()), (RoundProgress::Stored, 1, 0));
    let pool = job.stored_pool();
    job.run_process(ASKER).unwrap();
    job.run_process(ASKER).unwrap();
    assert_eq!(
        (job.progress(), job.payments(), job.pools()),
        (RoundProgress::Accepted, 1, vec![pool]),
        "and not a third time"
    );
}

#[test]
fn unreadable_log_costs_nothing_and_leaves_no_file() {
    let job = TestAnnotation::new(|_| ());
    job.run_process(ASKER).unwrap();
    assert_eq!(job.work_files(), [""; 0]);
    let job = TestAnnotation::new(|_| ());
    job.damage_log();
    assert!(matches!(job.run_process(ASKER), Err(RunError::Failed(_))));
    assert_eq!((job.payments(), job.work_files()), (0, Vec::new()));
}

#[test]
fn several_answers_give_one_label_and_rate_the_annotators() {
    let job = TestAnnotation::new(|spec| {
        spec.annotators = 3;
        spec.aggregation = Aggregation::DawidSkene;
    });
    // The third gives the other label each time.
    job.set_annotators(&[true, true, false]);
    job.run_process(ASKER).unwrap();
    job.run_process(LEAD).unwrap();
    let labels = parse_lines(job.file(LABELS_FILE));
    assert!(labels.len() == 8 && labels.iter().all(|line| true_label(line["text"].as_str().unwrap()) == line["label"]));
    let report = report(&job);
    let results: Vec<_> = report.annotators.iter().map(|one| (one.annotator, one.annotations, one.agreement)).collect();
    assert_eq!(results, [(1, 8, Some(1.0)), (2, 8, Some(1.0)), (3, 8, Some(0.0))]);
    let accuracy = |index: usize| report.annotators[index].accuracy.unwrap();
    assert!(accuracy(0) > 0.9 && accuracy(2) < 0.1, "{:?}", report.annotators);
    assert!(report.agreement.is_some_and(|kappa| kappa < 0.5));
}

#[test]
fn best_classifier_of_all_rounds_is_kept() {
    let job = TestAnnotation::new(|spec| (spec.golden, spec.batch) = (2, 20));
    // All answers are wrong, and far more than the golden set.
    job.set_annotators(&[false]);
    job.run_process(ASKER).unwrap();
    job.run_process(LEAD).unwrap();
    let worse = report(&job);
    let accuracy = |round: usize| worse.learning[round].tests[0].accuracy;
    assert!(accuracy(2) < accuracy(0), "{:?}", worse.learning);
    let best = worse.best.unwrap();
    assert!(worse.learning.iter().all(|point| point.tests[0].accuracy <= accuracy(best as usize)));
    assert!(best < 2, "{best}");
    let kept = job.file(CLASSIFIER_FILE);
    // A lead whose answers end with the best round has the same file.
    let short = TestAnnotation::new(|spec| (spec.golden, spec.batch, spec.rounds) = (2, 20, best.max(1)));
    short.set_annotators(&[false]);
    short.add_pool(job.stored_pool());
    short.run_process(LEAD).unwrap();
    assert_eq!((report(&short).best, short.file(CLASSIFIER_FILE) == kept), (Some(best), true));
}

#[test]
fn answers_without_a_label_teach_nothing() {
    let job = TestAnnotation::new(|_| ());
    job.run_process(ASKER).unwrap();
    job.set_useless_annotators();
    job.run_process(LEAD).unwrap();
    let report = report(&job);
    assert!(report.learning.iter().all(|point| point.labelled == 0), "{:?}", report.learning);
    assert!(
        report.learning.windows(2).all(|pair| pair[0].tests == pair[1].tests),
        "the same labels, the same classifier"
    );
    let results: Vec<_> = report.annotators.iter().map(|one| (one.annotator, one.annotations)).collect();
    assert_eq!(results, [(1, 8)], "unsure counts; skips, other jobs' questions and strange labels do not");
    assert!(job.file(LABELS_FILE).is_empty());
}

#[test]
fn rounds_end_when_every_question_was_asked() {
    let job = TestAnnotation::new(|spec| (spec.rounds, spec.batch, spec.diversity) = (9, 25, true));
    job.run_process(ASKER).unwrap();
    job.run_process(LEAD).unwrap();
    let counts: Vec<u64> = report(&job).learning.iter().map(|point| point.asked).collect();
    assert_eq!(counts, [0, 25, 50, FREQUENT_TEXTS as u64]);
}

#[test]
fn job_with_empty_pools_learns_from_the_golden_set() {
    let job = TestAnnotation::new(|_| ());
    job.run_process(LEAD).unwrap();
    let report = report(&job);
    assert_eq!((report.learning.len(), report.pools[0].queries), (1, 0));
    assert!(!report.frequency.is_empty(), "of the lead's public log");
}

#[test]
fn rehearsal_runs_once_and_is_reported() {
    let rehearsal = Rehearsal {
        rates: vec![0.5],
        thresholds: vec![1],
        questions: 4,
        repeats: 1,
        annotator_accuracy: 1.0,
        annotator_deviation: 0.0,
    };
    let job = TestAnnotation::new(|spec| spec.rehearsal = Some(rehearsal));
    job.run_process(ASKER).unwrap();
    job.crash_after_calls(CALLS_BEFORE_FILES);
    assert!(matches!(job.run_process(LEAD), Err(RunError::Stopped(_))));
    job.run_process(LEAD).unwrap();
    let results = report(&job).rehearsal;
    assert_eq!(
        results.iter().map(|one| (one.baseline, one.threshold, one.violations)).collect::<Vec<_>>(),
        [(true, 1, 0), (false, 1, 0)]
    );
    assert!(results.iter().all(|one| one.points.len() == 2) && results[1].delta.is_some(), "{results:?}");
    job.remove_rehearsal();
    assert_eq!(job.work_files(), [""; 0]);
}

#[test]
fn lead_with_a_private_log_and_no_training_is_refused() {
    let job = TestAnnotation::new(|_| ());
    job.close_lead_log();
    assert!(matches!(job.run_process(LEAD), Err(RunError::Refused(_))));
    assert!(job.measurement_rounds().is_empty());
}
