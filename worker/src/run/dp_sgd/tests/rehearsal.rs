//! Whole runs of rehearsal jobs: the lead alone, on its public data.
#![expect(clippy::float_cmp, reason = "equal runs have equal bits")]

use sha2::{Digest as _, Sha256};
use undertone_api::job::Report;
use undertone_api::job::dp_sgd::{Rehearsal, RehearsalReport, Spec, UnitAugmentation};

use super::initial::first_model;
use super::training::TestTraining;
use crate::run::RunError;

/// Makes a rehearsal of a job of a few rounds, with the plan's setting and one with twice the clip, in two repeats.
fn rehearsal(change: impl FnOnce(&mut Spec, &mut Rehearsal)) -> TestTraining {
    let job = TestTraining::new(|spec| {
        spec.open = None;
        spec.private.as_mut().unwrap().rounds = 4;
        let mut lead = spec.to_rehearsal(10).unwrap();
        let mut rehearsal = lead.rehearsal.take().unwrap();
        rehearsal.parties.iter_mut().for_each(|party| party.units = Some(20));
        rehearsal.clip_factors = vec![2.0];
        rehearsal.rate_factors.clear();
        rehearsal.repeats = 2;
        change(&mut lead, &mut rehearsal);
        *spec = Spec { rehearsal: Some(rehearsal), ..lead };
    });
    job.replace_lead_data();
    job
}

fn report(job: &TestTraining) -> RehearsalReport {
    let Some(Report::DpSgd(report)) = job.report() else { panic!("there is a report of the kind") };
    assert!(report.arms.is_empty() && report.contents.len() == 1 && report.parameters > 0);
    report.rehearsal.unwrap()
}

#[test]
fn rehearsal_reports_each_setting_and_releases_nothing() {
    let job = rehearsal(|_, _| ());
    job.run_process(0).unwrap();
    let first = report(&job);
    assert_eq!((first.units.len(), first.planned), (3, 2));
    let factors: Vec<f64> = first.settings.iter().map(|setting| setting.clip_factor).collect();
    assert_eq!(factors, [1.0, 2.0]);
    for setting in &first.settings {
        let repeats: Vec<u32> = setting.runs.iter().map(|run| run.repeat).collect();
        assert_eq!((repeats, setting.failed), (vec![1, 2], 0));
        assert!(setting.runs.iter().all(|run| run.private > 0.0 && run.public > 0.0 && run.loss.is_finite()));
    }
    let [own, doubled] = &first.settings[..] else { panic!("two settings") };
    assert!(own.runs[0].loss != own.runs[1].loss, "another seed");
    assert!(own.runs[0].loss != doubled.runs[0].loss, "the clip matters");
    assert_eq!((job.payments(0), job.submissions(0)), (0, 0));
    // A killed worker finds the finished settings in its folder.
    job.run_process(0).unwrap();
    let second = report(&job);
    assert_eq!(second, first, "also the seconds are those of the first process");
    let folder = job.work_folder(0);
    assert!(folder.join("rehearsal").exists());
    crate::run::forget(&folder).unwrap();
    assert!(!folder.join("rehearsal").exists());
}

#[test]
fn rehearsal_has_the_copies_of_the_plan() {
    let run = |noise: f64| {
        let job = rehearsal(|_, own| {
            let copies = UnitAugmentation { copies: 2, frame_masks: None, coefficient_masks: None, noise };
            own.rounds.augmentation = Some(copies);
            own.repeats = 1;
            own.clip_factors.clear();
        });
        job.run_process(0).unwrap();
        report(&job).own().unwrap().runs[0].loss
    };
    // The draws of both are those of a rehearsal with copies, so the alteration alone makes the difference.
    assert!(run(0.1) != run(1.0), "the copies are altered");
}

#[test]
fn rehearsal_of_data_that_are_not_public_is_refused() {
    let job = rehearsal(|_, _| ());
    job.make_private(0);
    assert!(matches!(job.run_process(0), Err(RunError::Refused(_))));
    assert!(job.read_work_file(0, "rehearsal").is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound));
}

#[test]
fn cancelled_rehearsal_stops_without_a_report() {
    let job = rehearsal(|_, _| ());
    job.cancel();
    assert!(matches!(job.run_process(0), Err(RunError::Stopped(_))));
    assert!(job.report().is_none());
}

#[test]
fn rehearsal_without_time_fails_with_the_remedy() {
    let job = rehearsal(|_, own| own.minutes = 0);
    let end = job.run_process(0).unwrap_err();
    assert!(end.to_string().contains("rehearsal.minutes"), "{end}");
}

#[test]
fn rehearsal_begins_with_the_registry_model() {
    let model = first_model();
    let digest = hex::encode(Sha256::digest(&model));
    let run = |epochs| {
        let job = rehearsal(|spec, own| {
            spec.initial_model = Some(digest.clone());
            spec.warm_start.epochs = epochs;
            own.repeats = 1;
        });
        job.serve_initial_model(model.clone());
        job.run_process(0).unwrap();
        report(&job).own().unwrap().runs[0].public
    };
    let other = rehearsal(|spec, own| {
        spec.initial_model = Some("0".repeat(64));
        own.repeats = 1;
    });
    other.serve_initial_model(model.clone());
    assert!(other.run_process(0).is_err(), "the file has another digest");
    assert!(run(0) > 0.25, "the model is better than chance without a warm start");
}
