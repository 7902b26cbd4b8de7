//! Rehearsals: their limits, the rehearsed job, and the plan to which one belongs.

use super::{OURS, change_of_rows, datasets, id, spec};
use crate::dataset::SizeClass;
use crate::job::JobKind;
use crate::job::dp_sgd::{
    AcousticModel, ParameterAdaptation, Rehearsal, RehearsalReport, RehearsedRun, RehearsedSetting, SettingMeasure,
    Spec, TrainingLoss, UnitAugmentation,
};
use crate::table::ColumnKind;

type PlanChange = fn(&mut Spec);

fn rehearsal() -> Spec {
    Spec { open: None, ..spec() }.to_rehearsal(30).unwrap()
}

/// Returns the fields reported after a change of a rehearsal.
fn fields(change: impl FnOnce(&mut Spec, &mut Rehearsal)) -> Vec<String> {
    let mut spec = rehearsal();
    let mut own = spec.rehearsal.take().unwrap();
    change(&mut spec, &mut own);
    let spec = Spec { rehearsal: Some(own), ..spec };
    spec.check(&datasets()).into_iter().map(|violation| violation.field).collect()
}

#[test]
fn rehearsal_of_a_plan_needs_the_lead_alone_and_charges_nothing() {
    let spec = rehearsal();
    let datasets = datasets();
    assert_eq!(spec.check(&datasets), []);
    assert!(spec.datasets().iter().all(|(used, _)| *used != id(OURS)), "{:?}", spec.datasets());
    assert!(datasets.iter().all(|dataset| spec.cost(dataset).is_none()));
    assert!(spec.series(&datasets).is_empty());
    assert_eq!(spec.rehearsal.as_ref().unwrap().factors().count(), 9);
}

#[test]
fn rehearsed_job_settles_as_the_plan_and_belongs_to_it() {
    let plan = Spec { open: None, ..spec() };
    let mut datasets = datasets();
    datasets[OURS].classes = 50;
    let settled = plan.settle(&datasets);
    let rehearsal = rehearsal().settle(&datasets);
    assert_eq!(
        (rehearsal.model.classes, settled.model.classes),
        (Some(50), Some(50)),
        "of the planned participants too"
    );
    assert_eq!(rehearsal.rehearsal.as_ref().unwrap().parties[0].units, Some(500));
    assert_eq!(settled.rehearsal_factors(&settled), None, "it is no rehearsal");
    let same: [PlanChange; 3] = [
        |plan| plan.spare_releases = 9,
        |plan| plan.tests[0].name = "other".to_owned(),
        |plan| plan.private.as_mut().unwrap().deadline_seconds = 7,
    ];
    let other: [PlanChange; 6] = [
        |plan| plan.private.as_mut().unwrap().adaptation = Some(ParameterAdaptation::Biases),
        |plan| plan.private.as_mut().unwrap().augmentation = Some(UnitAugmentation::with_usual_alterations(2)),
        |plan| plan.private.as_mut().unwrap().rounds += 1,
        |plan| plan.participants[1].noise.as_mut().unwrap().clip = 3.0,
        |plan| plan.warm_start.epochs += 1,
        |plan| plan.participants[1].rounds = Some(3),
    ];
    let halved: PlanChange = |plan| plan.participants[1].noise.as_mut().unwrap().clip = 0.5;
    let changes = same.map(|change| (change, Some((1.0, 1.0))));
    let changes = changes.into_iter().chain([(halved, Some((0.5, 1.0)))]).chain(other.map(|change| (change, None)));
    for (change, factors) in changes {
        let mut plan = settled.clone();
        change(&mut plan);
        assert_eq!(rehearsal.rehearsal_factors(&plan), factors, "{plan:?}");
    }
}

#[test]
fn plan_without_a_private_arm_or_with_an_early_end_is_not_rehearsed() {
    let refused = Spec { private: None, ..spec() }.to_rehearsal(30).unwrap_err();
    assert_eq!(refused[0].field, "spec.private");
    let mut plan = spec();
    plan.participants[1].rounds = Some(3);
    assert_eq!(plan.to_rehearsal(30).unwrap_err()[0].field, "spec.participants.1.rounds");
}

#[test]
fn limit_of_a_rehearsal_is_reported_at_its_field() {
    type RehearsalChange = fn(&mut Spec, &mut Rehearsal);
    let refused: [(&str, RehearsalChange); 16] = [
        ("spec.participants", |spec, own| spec.participants.push(own.parties[0].into())),
        ("spec.private", |spec, own| spec.private = Some(own.rounds)),
        ("spec.rehearsal.parties", |_, own| own.parties.clear()),
        ("spec.rehearsal.parties", |_, own| own.parties[0].noise = None),
        ("spec.rehearsal.parties.0.units", |_, own| own.parties[0].units = Some(0)),
        ("spec.rehearsal.parties.0.noise.clip", |_, own| own.parties[0].noise.as_mut().unwrap().clip = 0.0),
        ("spec.rehearsal.rounds.rounds", |_, own| own.rounds.rounds = 0),
        ("spec.rehearsal.rounds.adaptation.rank", |_, own| {
            own.rounds.adaptation = Some(ParameterAdaptation::LowRank { rank: 0 });
        }),
        ("spec.rehearsal.rounds.augmentation.copies", |_, own| {
            own.rounds.augmentation = Some(UnitAugmentation::with_usual_alterations(17));
        }),
        ("spec.rehearsal.repeats", |_, own| own.repeats = 11),
        ("spec.rehearsal.minutes", |_, own| own.minutes = 1441),
        ("spec.rehearsal.clip_factors", |_, own| own.clip_factors = vec![1.0]),
        ("spec.rehearsal.clip_factors", |_, own| own.clip_factors = vec![0.5, 0.5]),
        ("spec.rehearsal.rate_factors", |_, own| own.rate_factors = vec![f64::NAN]),
        ("spec.rehearsal.rate_factors", |_, own| own.rate_factors = vec![2.0, 3.0, 4.0, 5.0, 6.0]),
        ("spec.warm_start.epochs", |spec, _| spec.warm_start.epochs = 1001),
    ];
    for (field, change) in refused {
        assert!(fields(change).iter().any(|other| other == field), "{field}");
    }
    let admitted: [RehearsalChange; 3] = [
        |_, own| (own.repeats, own.minutes) = (10, 1440),
        |_, own| own.rate_factors = vec![0.01, 100.0],
        |_, own| own.parties[0].units = Some(1_000_000_000),
    ];
    for change in admitted {
        assert_eq!(fields(change), Vec::<String>::new());
    }
    let mut empty = datasets();
    empty[OURS].records = SizeClass(0);
    assert!(rehearsal().check(&empty).iter().any(|violation| violation.field == "spec.rehearsal.parties.0.units"));
}

#[test]
fn plan_over_tables_is_rehearsed_with_their_declared_units() {
    let (plan, tables) = change_of_rows(|spec, _| spec.open = None);
    let rehearsal = plan.to_rehearsal(30).unwrap();
    assert_eq!(rehearsal.check(&tables), []);
    let settled = rehearsal.settle(&tables);
    assert_eq!((settled.model.classes, settled.check(&tables)), (Some(2), Vec::new()));
    assert_eq!(settled.rehearsal.as_ref().unwrap().parties[0].units, Some(50), "the users of the planned table");
    assert_eq!(settled.rehearsal_factors(&plan.settle(&tables)), Some((1.0, 1.0)));
    let refused = |change: fn(&mut Spec)| {
        let mut rehearsal = settled.clone();
        change(&mut rehearsal);
        rehearsal.check(&tables).into_iter().map(|violation| violation.field).collect::<Vec<_>>()
    };
    let copies: fn(&mut Spec) = |spec| {
        let rounds = &mut spec.rehearsal.as_mut().unwrap().rounds;
        rounds.augmentation = Some(UnitAugmentation::with_usual_alterations(2));
    };
    assert_eq!(refused(copies), ["spec.rehearsal.rounds.augmentation"]);
    let other: fn(&mut Spec) = |spec| {
        spec.model.rows.as_mut().unwrap().features[0].kind = ColumnKind::Integer { least: 0, most: 99 };
    };
    assert_eq!(refused(other), ["spec.model.rows.features.0"]);
    let speech: fn(&mut Spec) = |spec| spec.model = AcousticModel::lstm(8, None);
    let content = "spec.rehearsal.parties.0.dataset".to_owned();
    assert!(refused(speech).contains(&content), "an acoustic model reads no table");
}

/// Returns a setting with one run for each measured accuracy and loss.
fn measured(clip_factor: f64, figures: &[(f64, f64)], failed: u32) -> RehearsedSetting {
    let run = |(repeat, (private, loss)): (u32, &(f64, f64))| RehearsedRun {
        repeat,
        public: 0.3,
        private: *private,
        loss: *loss,
        public_loss: Some(0.16),
        seconds: 1.0,
    };
    RehearsedSetting { clip_factor, rate_factor: 1.0, failed, runs: (1..).zip(figures).map(run).collect() }
}

#[test]
fn setting_of_a_number_is_ranked_by_its_error() {
    assert_eq!(SettingMeasure::from_loss(TrainingLoss::Ctc), SettingMeasure::Accuracy);
    let measure = SettingMeasure::from_loss(TrainingLoss::SquaredError);
    let own = measured(1.0, &[(0.9, 0.04), (0.9, 0.16)], 0);
    assert_eq!(own.means(measure).map(|(public, _)| public), Some(0.2), "a fifth of the declared range");
    let private = own.means(measure).map_or(f64::NAN, |(_, private)| private);
    assert!((private - 0.15).abs() < 1e-12, "the mean of 0.1 and 0.2: {private}");
    assert_eq!(own.private_range(measure), Some((0.1, 0.2)));
    let settings = vec![own, measured(0.5, &[(0.1, 0.01), (0.1, 0.01)], 0), measured(2.0, &[(0.2, 0.04); 2], 0)];
    let report = RehearsalReport { units: vec![1, 1], planned: 3, settings };
    let clip = |measure| report.best(measure).map(|best| best.clip_factor);
    assert_eq!((clip(measure), clip(SettingMeasure::Accuracy)), (Some(0.5), Some(1.0)));
    // Reports of earlier workers, which have no loss of the public arm, are of speech.
    let mut earlier = report.settings[0].clone();
    earlier.runs[0].public_loss = None;
    assert_eq!((earlier.means(measure), earlier.means(SettingMeasure::Accuracy)), (None, Some((0.3, 0.9))));
    let text = serde_json::to_string(&earlier.runs[0]).unwrap();
    assert!(!text.contains("public_loss") && serde_json::from_str::<RehearsedRun>(&text).is_ok(), "{text}");
}

#[test]
fn best_setting_was_measured_as_often_as_the_plans_own() {
    let setting = |clip_factor, accuracies: &[f64], failed| {
        let figures: Vec<_> = accuracies.iter().map(|accuracy| (*accuracy, 1.0)).collect();
        measured(clip_factor, &figures, failed)
    };
    let settings = vec![
        setting(1.0, &[0.4, 0.6], 0),
        setting(0.5, &[0.9], 0),
        setting(2.0, &[0.6, 0.7], 0),
        setting(4.0, &[0.8, 0.8], 1),
    ];
    let report = RehearsalReport { units: vec![1, 1], planned: 4, settings };
    let measure = SettingMeasure::Accuracy;
    assert_eq!(report.best(measure).map(|best| best.clip_factor), Some(2.0));
    assert_eq!(report.own().and_then(|own| own.private_range(measure)), Some((0.4, 0.6)));
    assert_eq!(report.own().and_then(|own| own.means(measure)), Some((0.3, 0.5)));
}
