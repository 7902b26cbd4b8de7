//! Whole runs of three participants on threads, with a server in memory that averages and sites that pay, store and
//! crash.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod adaptation;
mod audit;
mod copies;
mod correlated;
mod initial;
mod local;
mod masked;
mod models;
mod rehearsal;
mod rows;
mod selection;
mod training;

use undertone_api::job::Report as AnyReport;
use undertone_api::job::dp_sgd::{Arm, Report};
use undertone_privacy::PrivacyUnit;

pub(super) use self::training::spec as test_spec;
pub(crate) use self::training::{columns, row_spec, write_table};

use self::training::TestTraining;
use crate::fault::{self, FailureKind, FailurePlan};
use crate::run::RunError;
use crate::run::fake::CrashPoint;

fn report(job: &TestTraining) -> Report {
    let AnyReport::DpSgd(report) = job.report().expect("the lead reports") else { panic!("it is of another kind") };
    report
}

#[test]
fn participants_learn_and_end_with_the_same_bits() {
    let job = TestTraining::new(|spec| spec.warm_start.epochs = 0);
    job.run_all();
    let report = report(&job);
    let arms: Vec<_> = report.arms.iter().map(|arm| (arm.arm, arm.rounds)).collect();
    assert_eq!(arms, [(Arm::Public, 0), (Arm::Open, 40), (Arm::Private, 40)]);
    let accuracy = |arm: usize| report.arms[arm].tests[0].accuracy;
    assert!(accuracy(0) < 0.6, "untrained, of four classes: {}", accuracy(0));
    assert!(accuracy(1) > 0.8 && accuracy(2) > 0.7, "open {}, private {}", accuracy(1), accuracy(2));
    for series in ["open", "private"] {
        let lead = job.parameters(0, series);
        assert!(job.parameters(1, series) == lead && job.parameters(2, series) == lead, "{series}");
        assert!(job.model(&format!("model-{series}.safetensors")).parameters() == lead);
    }
    assert!(job.file("model.safetensors") == job.file("model-private.safetensors"));
    assert_eq!(job.payments(0), 0, "public data are not charged");
    assert_eq!((job.payments(1), job.payments(2)), (80, 80), "one payment a round");
}

#[test]
fn lead_measures_at_the_start_at_intervals_and_at_the_end() {
    let job = TestTraining::new(|spec| {
        spec.open = None;
        spec.private.as_mut().unwrap().rounds = 5;
        spec.private.as_mut().unwrap().evaluate_every = 2;
    });
    job.run_all();
    assert_eq!(job.measurement_rounds("private"), [0, 2, 4, 5]);
    assert_eq!(job.measurement_rounds("public"), [0, 1, 2]);
}

#[test]
fn speakers_as_unit_learn() {
    let job = TestTraining::new(|spec| {
        spec.unit = PrivacyUnit::Speaker;
        spec.open = None;
    });
    job.run_all();
    assert!(report(&job).arms[1].tests[0].accuracy > 0.6);
}

#[test]
fn users_as_unit_learn_though_the_public_lead_has_none() {
    let job = TestTraining::new(|spec| {
        spec.unit = PrivacyUnit::User;
        spec.open = None;
    });
    job.run_all();
    assert!(report(&job).arms[1].tests[0].accuracy > 0.6);
    assert_eq!((job.payments(0), job.payments(1)), (0, 40));
}

#[test]
fn crash_after_payment_resends_the_vector_unpaid() {
    let job = TestTraining::new(|spec| spec.open = None);
    job.crash(1, CrashPoint::Stored, "private", 3);
    job.crash(1, CrashPoint::Accepted, "private", 7);
    job.crash(2, CrashPoint::Stored, "private", 40);
    job.crash(0, CrashPoint::Accepted, "private", 25);
    job.run_all();
    assert_eq!((job.payments(1), job.payments(2)), (40, 40));
    assert_eq!((job.processes(0), job.processes(1), job.processes(2)), (2, 3, 2));
    let lead = job.parameters(0, "private");
    assert!(job.parameters(1, "private") == lead && job.parameters(2, "private") == lead);
}

#[test]
fn crash_before_payment_costs_nothing() {
    let job = TestTraining::new(|spec| spec.open = None);
    job.crash(1, CrashPoint::Cleared, "private", 5);
    job.run_all();
    assert_eq!((job.payments(1), job.payments(2)), (40, 40));
    assert!(job.parameters(1, "private") == job.parameters(0, "private"));
}

#[test]
fn killed_warm_start_ends_with_the_same_bytes() {
    let only_public = |spec: &mut undertone_api::job::dp_sgd::Spec| {
        spec.open = None;
        spec.private = None;
        spec.warm_start.epochs = 4;
        spec.participants.truncate(1);
    };
    let straight = TestTraining::new(only_public);
    let killed = TestTraining::new(only_public);
    straight.run_all();
    for calls in [3, 9, 14] {
        killed.stop_after(0, calls);
        assert!(matches!(killed.run_process(0), Err(RunError::Stopped(_))));
    }
    killed.run_all();
    assert!(straight.file("warm_start.safetensors") == killed.file("warm_start.safetensors"));
    let accuracy = |job: &TestTraining| report(job).arms[0].tests[0].accuracy;
    assert!(accuracy(&straight) > 0.5 && (accuracy(&straight) - accuracy(&killed)).abs() < f64::EPSILON);
}

#[test]
fn full_disk_pauses_the_warm_start_and_changes_no_byte() {
    let only_public = |spec: &mut undertone_api::job::dp_sgd::Spec| {
        spec.open = None;
        spec.private = None;
        spec.warm_start.epochs = 4;
        spec.participants.truncate(1);
    };
    let straight = TestTraining::new(only_public);
    let paused = TestTraining::new(only_public);
    straight.run_all();
    let mut pauses = 0;
    for after in 1.. {
        fault::plan(Some(FailurePlan { accident: FailureKind::Disk, after }));
        let end = paused.run_process(0);
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
fn site_that_refuses_sends_nothing() {
    let job = TestTraining::new(|spec| spec.open = None);
    job.refuse(2);
    std::thread::scope(|scope| {
        scope.spawn(|| job.run_process(0));
        scope.spawn(|| job.run_process(1));
        let end = job.run_process(2);
        job.cancel();
        assert!(matches!(end, Err(RunError::Refused(_))), "{end:?}");
    });
    assert_eq!((job.payments(2), job.submissions(2)), (0, 0));
}

#[test]
fn model_with_too_few_classes_is_refused_by_name() {
    let job = TestTraining::new(|spec| spec.model.classes = Some(2));
    let end = job.run_process(0);
    assert!(matches!(&end, Err(RunError::Failed(problem)) if problem.to_string().contains("model.classes")), "{end:?}");
}

#[test]
fn manifest_without_classes_is_not_run() {
    let job = TestTraining::new(|spec| spec.model.classes = None);
    let end = job.run_process(0);
    assert!(
        matches!(&end, Err(RunError::Failed(problem)) if problem.to_string().contains("how many classes")),
        "{end:?}"
    );
}

#[test]
fn round_that_closed_in_an_absence_is_not_paid() {
    let job = TestTraining::new(|spec| spec.open = None);
    job.set_absent(2, 2);
    job.run_all();
    assert_eq!((job.payments(1), job.payments(2)), (40, 38));
    assert!(job.parameters(2, "private") == job.parameters(0, "private"));
}
