//! Whole runs of three participants on threads, with a server in memory that averages and sites that pay, store and
//! crash.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod audit;
mod hub;
mod local;
mod models;
mod selection;

use undertone_api::job::Report as AnyReport;
use undertone_api::job::dp_sgd::{Arm, Report};
use undertone_privacy::PrivacyUnit;

use self::hub::{Crash, Hub};
use crate::fault::{self, FailureKind, FailurePlan};
use crate::run::RunError;

fn report(hub: &Hub) -> Report {
    let AnyReport::DpSgd(report) = hub.report().expect("the lead reports") else { panic!("it is of another kind") };
    report
}

#[test]
fn all_learn_and_end_with_the_same_bits() {
    let hub = Hub::new(|spec| spec.warm_start.epochs = 0);
    hub.run_all();
    let report = report(&hub);
    let arms: Vec<_> = report.arms.iter().map(|arm| (arm.arm, arm.rounds)).collect();
    assert_eq!(arms, [(Arm::Public, 0), (Arm::Open, 40), (Arm::Private, 40)]);
    let accuracy = |arm: usize| report.arms[arm].tests[0].accuracy;
    assert!(accuracy(0) < 0.6, "untrained, of four classes: {}", accuracy(0));
    assert!(accuracy(1) > 0.8 && accuracy(2) > 0.7, "open {}, private {}", accuracy(1), accuracy(2));
    for series in ["open", "private"] {
        let lead = hub.parameters(0, series);
        assert!(hub.parameters(1, series) == lead && hub.parameters(2, series) == lead, "{series}");
        assert!(hub.model(&format!("model-{series}.safetensors")).parameters() == lead);
    }
    assert!(hub.file("model.safetensors") == hub.file("model-private.safetensors"));
    assert_eq!(hub.paid(0), 0, "public data are not charged");
    assert_eq!((hub.paid(1), hub.paid(2)), (80, 80), "one payment a round");
}

#[test]
fn the_lead_measures_before_the_first_round_at_the_steps_asked_for_and_at_the_end() {
    let hub = Hub::new(|spec| {
        spec.open = None;
        spec.private.as_mut().unwrap().rounds = 5;
        spec.private.as_mut().unwrap().evaluate_every = 2;
    });
    hub.run_all();
    assert_eq!(hub.measured("private"), [0, 2, 4, 5]);
    assert_eq!(hub.measured("public"), [0, 1, 2]);
}

#[test]
fn speakers_can_be_the_unit() {
    let hub = Hub::new(|spec| {
        spec.unit = PrivacyUnit::Speaker;
        spec.open = None;
    });
    hub.run_all();
    assert!(report(&hub).arms[1].tests[0].accuracy > 0.6);
}

#[test]
fn users_can_be_the_unit_where_the_lead_that_is_public_has_none() {
    let hub = Hub::new(|spec| {
        spec.unit = PrivacyUnit::User;
        spec.open = None;
    });
    hub.run_all();
    assert!(report(&hub).arms[1].tests[0].accuracy > 0.6);
    assert_eq!((hub.paid(0), hub.paid(1)), (0, 40));
}

#[test]
fn a_vector_that_was_paid_and_stored_is_sent_again_and_not_paid_again() {
    let hub = Hub::new(|spec| spec.open = None);
    hub.crash(1, Crash::Stored, "private", 3);
    hub.crash(1, Crash::Accepted, "private", 7);
    hub.crash(2, Crash::Stored, "private", 40);
    hub.crash(0, Crash::Accepted, "private", 25);
    hub.run_all();
    assert_eq!((hub.paid(1), hub.paid(2)), (40, 40));
    assert_eq!((hub.lives(0), hub.lives(1), hub.lives(2)), (2, 3, 2));
    let lead = hub.parameters(0, "private");
    assert!(hub.parameters(1, "private") == lead && hub.parameters(2, "private") == lead);
}

#[test]
fn crash_before_payment_costs_nothing() {
    let hub = Hub::new(|spec| spec.open = None);
    hub.crash(1, Crash::Granted, "private", 5);
    hub.run_all();
    assert_eq!((hub.paid(1), hub.paid(2)), (40, 40));
    assert!(hub.parameters(1, "private") == hub.parameters(0, "private"));
}

#[test]
fn a_killed_warm_start_ends_with_the_same_bytes() {
    let only_public = |spec: &mut undertone_api::job::dp_sgd::Spec| {
        spec.open = None;
        spec.private = None;
        spec.warm_start.epochs = 4;
        spec.participants.truncate(1);
    };
    let (straight, killed) = (Hub::new(only_public), Hub::new(only_public));
    straight.run_all();
    for calls in [3, 9, 14] {
        killed.stop_after(0, calls);
        assert!(matches!(killed.live(0), Err(RunError::Stopped(_))));
    }
    killed.run_all();
    assert!(straight.file("warm_start.safetensors") == killed.file("warm_start.safetensors"));
    let accuracy = |hub: &Hub| report(hub).arms[0].tests[0].accuracy;
    assert!(accuracy(&straight) > 0.5 && (accuracy(&straight) - accuracy(&killed)).abs() < f64::EPSILON);
}

#[test]
fn full_disk_pauses_a_warm_start_that_ends_with_the_same_bytes() {
    let only_public = |spec: &mut undertone_api::job::dp_sgd::Spec| {
        spec.open = None;
        spec.private = None;
        spec.warm_start.epochs = 4;
        spec.participants.truncate(1);
    };
    let (straight, paused) = (Hub::new(only_public), Hub::new(only_public));
    straight.run_all();
    let mut pauses = 0;
    for after in 1.. {
        fault::plan(Some(FailurePlan { accident: FailureKind::Disk, after }));
        let end = paused.live(0);
        fault::plan(None);
        match end {
            Ok(()) => break,
            Err(RunError::Disk(_)) => pauses += 1,
            Err(other) => panic!("{after}: {other}"),
        }
    }
    assert!(pauses > 1, "{pauses}");
    assert!(straight.file("warm_start.safetensors") == paused.file("warm_start.safetensors"));
}

#[test]
fn a_site_that_refuses_sends_nothing() {
    let hub = Hub::new(|spec| spec.open = None);
    hub.refuse(2);
    std::thread::scope(|scope| {
        scope.spawn(|| hub.live(0));
        scope.spawn(|| hub.live(1));
        let end = hub.live(2);
        hub.cancel();
        assert!(matches!(end, Err(RunError::Refused(_))), "{end:?}");
    });
    assert_eq!((hub.paid(2), hub.sent(2)), (0, 0));
}

#[test]
fn a_model_of_too_few_classes_is_named() {
    let hub = Hub::new(|spec| spec.model.classes = Some(2));
    let end = hub.live(0);
    assert!(matches!(&end, Err(RunError::Failed(text)) if text.contains("model.classes")), "{end:?}");
}

#[test]
fn a_manifest_that_leaves_the_classes_open_is_not_run() {
    let hub = Hub::new(|spec| spec.model.classes = None);
    let end = hub.live(0);
    assert!(matches!(&end, Err(RunError::Failed(text)) if text.contains("how many classes")), "{end:?}");
}

#[test]
fn a_round_that_closed_in_a_long_absence_is_not_paid_for() {
    let hub = Hub::new(|spec| spec.open = None);
    hub.close_without(2, 2);
    hub.run_all();
    assert_eq!((hub.paid(1), hub.paid(2)), (40, 38));
    assert!(hub.parameters(2, "private") == hub.parameters(0, "private"));
}
