#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

mod hub;

use undertone_api::job::active_learning::{Acquisition, Aggregation, BINS, Rehearsal, Report};

use super::telling::{CLASSIFIER_FILE, LABELS_FILE, POOL_FILE};
use crate::fault::{self, FailureKind, FailurePlan};
use crate::queries::classifier::Classifier;
use crate::run::{Past, RunError};
use hub::{ASKER, Hub, LEAD};

/// Returns the lead's report.
fn report(hub: &Hub) -> Report {
    hub.report().unwrap()
}

fn text_of(file: Vec<u8>) -> Vec<serde_json::Value> {
    let text = String::from_utf8(file).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_lead_learns_from_what_sites_released_and_tells_what_came_of_it() {
    let hub = Hub::new(|_| ());
    hub.live(ASKER).unwrap();
    hub.live(LEAD).unwrap();
    let report = report(&hub);
    let pool = &report.pools[0];
    assert_eq!((report.pools.len(), pool.queries, pool.threshold), (1, hub::OFTEN as u64, 30));
    assert!(
        pool.epsilon.is_some_and(|epsilon| epsilon >= 1.0)
            && pool.delta.is_some_and(|delta| (0.0..1e-7).contains(&delta))
    );
    let rounds: Vec<_> = report.learning.iter().map(|point| (point.round, point.asked, point.labelled)).collect();
    assert_eq!(rounds, [(0, 0, 0), (1, 4, 4), (2, 8, 8)]);
    assert!(report.learning.iter().all(|point| point.tests.len() == 1 && point.tests[0].examples == 20));
    assert!(report.learning[2].tests[0].accuracy > 0.9, "{:?}", report.learning);
    let asked_of: Vec<u64> = report.uncertainty.iter().map(|before| before.bins.iter().sum()).collect();
    assert_eq!((report.uncertainty[0].bins.len(), asked_of), (BINS, vec![hub::OFTEN as u64, hub::OFTEN as u64 - 4]));
    assert_eq!(
        report.frequency.iter().map(|bin| bin.queries).sum::<u64>(),
        hub::OFTEN as u64,
        "of the released counts"
    );
    assert_eq!((report.annotators.len(), report.annotators[0].annotations, report.agreement), (1, 8, None));
    assert_eq!(report.annotators[0].accuracy, None, "nobody else answered");
    assert_eq!((report.annotators[0].agreement, report.contents.len()), (Some(1.0), 1));
    assert_eq!(hub.measured(), [0, 1, 2], "each round was told, once");

    let labels = text_of(hub.file(LABELS_FILE));
    assert_eq!(labels.len(), 8);
    assert!(labels.iter().all(|line| hub::truth(line["text"].as_str().unwrap()) == line["label"]));
    let pool = text_of(hub.file(POOL_FILE));
    assert!(pool.len() == hub::OFTEN && pool.iter().all(|line| line["count"].as_u64() >= Some(30)));
    let classifier = Classifier::from_safetensors(&hub.file(CLASSIFIER_FILE)).unwrap();
    assert_eq!(classifier.labels(), ["billing", "card"]);
}

#[test]
fn a_lead_that_dies_after_any_step_ends_as_if_it_had_not() {
    let whole = Hub::new(|_| ());
    whole.live(ASKER).unwrap();
    whole.live(LEAD).unwrap();
    let steps = whole.steps();
    assert!(steps > 10, "{steps}");
    for step in 1..=steps {
        let hub = Hub::new(|_| ());
        // A second sample would be another pool.
        hub.pose(whole.kept());
        hub.die_after(step);
        assert!(matches!(hub.live(LEAD), Err(RunError::Stopped(_))), "{step}");
        hub.live(LEAD).unwrap();
        assert_eq!((hub.chosen(), hub.report()), (whole.chosen(), whole.report()), "{step}");
        for name in [CLASSIFIER_FILE, LABELS_FILE, POOL_FILE] {
            assert!(hub.file(name) == whole.file(name), "{step}: {name}");
        }
    }
}

#[test]
fn full_disk_pauses_a_lead_that_then_ends_as_if_it_had_not() {
    let whole = Hub::new(|_| ());
    whole.live(ASKER).unwrap();
    whole.live(LEAD).unwrap();
    let hub = Hub::new(|_| ());
    hub.pose(whole.kept());
    let mut pauses = 0;
    for after in 1.. {
        fault::plan(Some(FailurePlan { accident: FailureKind::Disk, after }));
        let end = hub.live(LEAD);
        fault::plan(None);
        match end {
            Ok(()) => break,
            Err(RunError::Disk(_)) => pauses += 1,
            Err(other) => panic!("{after}: {other}"),
        }
    }
    assert!(pauses > 3, "{pauses}");
    assert_eq!((hub.chosen(), hub.report()), (whole.chosen(), whole.report()));
}

#[test]
fn what_was_chosen_stays_chosen_though_the_next_life_would_choose_otherwise() {
    let hub = Hub::new(|_| ());
    hub.live(ASKER).unwrap();
    hub.die_at_choice(1);
    assert!(matches!(hub.live(LEAD), Err(RunError::Stopped(_))));
    let chosen = hub.chosen();
    // The change imitates another machine with another classifier.
    hub.change(|spec| spec.acquisition = Acquisition::Random);
    hub.live(LEAD).unwrap();
    assert_eq!(hub.chosen()[&1], chosen[&1]);
}

#[test]
fn one_who_asks_pays_once_and_sends_what_was_kept() {
    let hub = Hub::new(|_| ());
    hub.die_after_keeping();
    assert!(matches!(hub.live(ASKER), Err(RunError::Stopped(_))));
    assert_eq!((hub.past(), hub.paid(), hub.posed().len()), (Past::Stored, 1, 0));
    let kept = hub.kept();
    hub.live(ASKER).unwrap();
    hub.live(ASKER).unwrap();
    assert_eq!((hub.past(), hub.paid(), hub.posed()), (Past::Accepted, 1, vec![kept]), "and not a third time");
}

#[test]
fn nothing_private_is_left_behind_and_nothing_is_paid_for_a_log_that_cannot_be_read() {
    let hub = Hub::new(|_| ());
    hub.live(ASKER).unwrap();
    assert_eq!(hub.left_behind(), [""; 0]);
    let hub = Hub::new(|_| ());
    hub.break_log();
    assert!(matches!(hub.live(ASKER), Err(RunError::Failed(_))));
    assert_eq!((hub.paid(), hub.left_behind()), (0, Vec::new()));
}

#[test]
fn several_answers_become_one_label_and_show_who_is_careless() {
    let hub = Hub::new(|spec| {
        spec.annotators = 3;
        spec.aggregation = Aggregation::DawidSkene;
    });
    // The third gives the other label each time.
    hub.people(&[true, true, false]);
    hub.live(ASKER).unwrap();
    hub.live(LEAD).unwrap();
    let labels = text_of(hub.file(LABELS_FILE));
    assert!(labels.len() == 8 && labels.iter().all(|line| hub::truth(line["text"].as_str().unwrap()) == line["label"]));
    let report = report(&hub);
    let told: Vec<_> = report.annotators.iter().map(|one| (one.annotator, one.annotations, one.agreement)).collect();
    assert_eq!(told, [(1, 8, Some(1.0)), (2, 8, Some(1.0)), (3, 8, Some(0.0))]);
    let accuracy = |index: usize| report.annotators[index].accuracy.unwrap();
    assert!(accuracy(0) > 0.9 && accuracy(2) < 0.1, "{:?}", report.annotators);
    assert!(report.agreement.is_some_and(|kappa| kappa < 0.5));
}

#[test]
fn answers_that_are_none_teach_nothing() {
    let hub = Hub::new(|_| ());
    hub.live(ASKER).unwrap();
    hub.only_nonsense();
    hub.live(LEAD).unwrap();
    let report = report(&hub);
    assert!(report.learning.iter().all(|point| point.labelled == 0), "{:?}", report.learning);
    assert!(
        report.learning.windows(2).all(|pair| pair[0].tests == pair[1].tests),
        "the same labels, the same classifier"
    );
    let told: Vec<_> = report.annotators.iter().map(|one| (one.annotator, one.annotations)).collect();
    assert_eq!(told, [(1, 8)], "unsure counts; skips, other jobs' questions and strange labels do not");
    assert!(hub.file(LABELS_FILE).is_empty());
}

#[test]
fn rounds_end_when_everything_was_asked() {
    let hub = Hub::new(|spec| (spec.rounds, spec.batch, spec.diversity) = (9, 25, true));
    hub.live(ASKER).unwrap();
    hub.live(LEAD).unwrap();
    let asked: Vec<u64> = report(&hub).learning.iter().map(|point| point.asked).collect();
    assert_eq!(asked, [0, 25, 50, hub::OFTEN as u64]);
}

#[test]
fn a_job_whose_pools_are_empty_still_ends_with_the_golden_set() {
    let hub = Hub::new(|_| ());
    hub.live(LEAD).unwrap();
    let report = report(&hub);
    assert_eq!((report.learning.len(), report.pools[0].queries), (1, 0));
    assert!(!report.frequency.is_empty(), "of the lead's public log");
}

#[test]
fn a_rehearsal_is_made_once_and_told() {
    let rehearsal =
        Rehearsal { rates: vec![0.5], thresholds: vec![1], questions: 4, repeats: 1, annotator_accuracy: 1.0 };
    let hub = Hub::new(|spec| spec.rehearsal = Some(rehearsal));
    hub.live(ASKER).unwrap();
    hub.die_after(hub::BEFORE_FILES);
    assert!(matches!(hub.live(LEAD), Err(RunError::Stopped(_))));
    hub.live(LEAD).unwrap();
    let found = report(&hub).rehearsal;
    assert_eq!(
        found.iter().map(|one| (one.baseline, one.threshold, one.violations)).collect::<Vec<_>>(),
        [(true, 1, 0), (false, 1, 0)]
    );
    assert!(found.iter().all(|one| one.points.len() == 2) && found[1].delta.is_some(), "{found:?}");
    hub.forget_rehearsal();
    assert_eq!(hub.left_behind(), [""; 0]);
}

#[test]
fn a_lead_whose_log_is_not_public_does_not_lead() {
    let hub = Hub::new(|_| ());
    hub.close_lead();
    assert!(matches!(hub.live(LEAD), Err(RunError::Refused(_))));
    assert!(hub.measured().is_empty());
}
