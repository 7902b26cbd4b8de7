//! Whole runs of rehearsal jobs: the lead alone, on its public data.
#![expect(clippy::float_cmp, reason = "equal runs have equal bits")]

use sha2::{Digest as _, Sha256};
use undertone_api::job::Report;
use undertone_api::job::dp_sgd::{
    ParameterAdaptation, Rehearsal, RehearsalReport, RehearsedSetting, SettingMeasure, Spec, TrainingLoss,
    UnitAugmentation,
};
use undertone_privacy::PrivacyUnit;

use super::initial::first_model;
use super::training::TestTraining;
use crate::run::RunError;

/// Turns a job into its rehearsal: a few rounds, with the plan's setting and one with twice the clip, in two repeats.
fn rehearse(spec: &mut Spec, change: impl FnOnce(&mut Spec, &mut Rehearsal)) {
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
}

/// Makes a rehearsal of a job of speech.
fn rehearsal(change: impl FnOnce(&mut Spec, &mut Rehearsal)) -> TestTraining {
    let job = TestTraining::new(|spec| rehearse(spec, change));
    job.replace_lead_data();
    job
}

/// Makes a rehearsal of a job on tables.
fn table_rehearsal(change: impl FnOnce(&mut Spec, &mut Rehearsal)) -> TestTraining {
    TestTraining::with_tables(|spec| rehearse(spec, change))
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
fn table_is_rehearsed_by_its_units_and_releases_nothing() {
    let job = table_rehearsal(|_, _| ());
    job.run_process(0).unwrap();
    let first = report(&job);
    assert_eq!((first.units.len(), first.planned, first.settings.len()), (3, 2, 2));
    assert!(first.units.iter().all(|units| *units > 0) && first.units.iter().sum::<u64>() < 58, "{:?}", first.units);
    for setting in &first.settings {
        let repeats: Vec<u32> = setting.runs.iter().map(|run| run.repeat).collect();
        assert_eq!((repeats, setting.failed), (vec![1, 2], 0));
        assert!(setting.means(SettingMeasure::Accuracy).is_some_and(|(public, private)| public > 0.0 && private > 0.0));
    }
    assert!(first.settings[0].runs[0].loss != first.settings[0].runs[1].loss, "another seed");
    assert!(first.settings[0].runs[0].loss != first.settings[1].runs[0].loss, "the clip matters");
    assert_eq!((job.payments(0), job.submissions(0)), (0, 0));
    // A killed worker finds the finished settings, and the parts of the table, in its folder.
    job.run_process(0).unwrap();
    assert_eq!(report(&job), first);
}

#[test]
fn rehearsal_of_a_number_reports_the_errors_of_both_arms() {
    let job = table_rehearsal(|spec, own| {
        spec.model.rows.as_mut().unwrap().target = super::training::columns()[4].clone();
        (spec.model.loss, spec.model.classes) = (TrainingLoss::SquaredError, Some(1));
        spec.warm_start.epochs = 0;
        own.clip_factors.clear();
        own.rate_factors = vec![2.0];
        own.rounds.rounds = 10;
    });
    job.run_process(0).unwrap();
    let report = report(&job);
    let (public, private) = report.own().and_then(|own| own.means(SettingMeasure::Rmse)).unwrap();
    assert!(0.0 < private && private < public && public < 0.5, "shares of the declared range: {private} {public}");
    let best = report.best(SettingMeasure::Rmse).unwrap();
    let error = |one: &RehearsedSetting| one.means(SettingMeasure::Rmse).unwrap().1;
    assert!(report.settings.iter().all(|one| error(one) >= error(best)), "{report:?}");
}

#[test]
fn table_that_does_not_fit_is_not_rehearsed() {
    let message = |change: fn(&mut Spec)| {
        let job = table_rehearsal(|spec, _| change(spec));
        let end = job.run_process(0).unwrap_err();
        assert!(matches!(end, RunError::Failed(_)) && job.report().is_none());
        end.to_string()
    };
    assert!(message(|spec| spec.unit = PrivacyUnit::Speaker).contains("spec.unit"));
    let other: fn(&mut Spec) = |spec| {
        spec.model.rows.as_mut().unwrap().features[0].kind =
            undertone_api::table::ColumnKind::Integer { least: 0, most: 99 };
    };
    assert!(message(other).contains("`age`"));
    let speech: fn(&mut Spec) = |spec| spec.model.rows = None;
    assert!(message(speech).contains("public dataset of speech"));
    let job = table_rehearsal(|_, _| ());
    job.make_private(0);
    assert!(matches!(job.run_process(0), Err(RunError::Refused(_))));
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
fn rehearsal_trains_the_coordinates_of_the_plan() {
    let run = |adaptation: Option<ParameterAdaptation>| {
        let job = rehearsal(|_, own| {
            own.rounds.adaptation = adaptation;
            own.repeats = 1;
            own.clip_factors.clear();
        });
        job.run_process(0).unwrap();
        report(&job).own().unwrap().runs[0].loss
    };
    // The draws are the same in each rehearsal, so the trained coordinates alone make the difference.
    let losses = [None, Some(ParameterAdaptation::Biases), Some(ParameterAdaptation::LowRank { rank: 2 })].map(run);
    assert!(losses[0] != losses[1] && losses[1] != losses[2] && losses[2] != losses[0], "{losses:?}");
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
