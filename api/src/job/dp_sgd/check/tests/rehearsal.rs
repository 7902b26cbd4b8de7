//! Rehearsals: their limits, the rehearsed job, and the plan to which one belongs.

use super::{OURS, datasets, id, spec};
use crate::dataset::SizeClass;
use crate::job::JobKind;
use crate::job::dp_sgd::{Rehearsal, RehearsalReport, RehearsedRun, RehearsedSetting, Spec, UnitAugmentation};

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
    let other: [PlanChange; 5] = [
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
    let refused: [(&str, RehearsalChange); 15] = [
        ("spec.participants", |spec, own| spec.participants.push(own.parties[0].into())),
        ("spec.private", |spec, own| spec.private = Some(own.rounds)),
        ("spec.rehearsal.parties", |_, own| own.parties.clear()),
        ("spec.rehearsal.parties", |_, own| own.parties[0].noise = None),
        ("spec.rehearsal.parties.0.units", |_, own| own.parties[0].units = Some(0)),
        ("spec.rehearsal.parties.0.noise.clip", |_, own| own.parties[0].noise.as_mut().unwrap().clip = 0.0),
        ("spec.rehearsal.rounds.rounds", |_, own| own.rounds.rounds = 0),
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
fn best_setting_was_measured_as_often_as_the_plans_own() {
    let setting = |clip_factor, accuracies: &[f64], failed| RehearsedSetting {
        clip_factor,
        rate_factor: 1.0,
        failed,
        runs: (1..)
            .zip(accuracies)
            .map(|(repeat, private)| RehearsedRun { repeat, public: 0.3, private: *private, loss: 1.0, seconds: 1.0 })
            .collect(),
    };
    let settings = vec![
        setting(1.0, &[0.4, 0.6], 0),
        setting(0.5, &[0.9], 0),
        setting(2.0, &[0.6, 0.7], 0),
        setting(4.0, &[0.8, 0.8], 1),
    ];
    let report = RehearsalReport { units: vec![1, 1], planned: 4, settings };
    assert_eq!(report.best().map(|best| best.clip_factor), Some(2.0));
    assert_eq!(report.own().and_then(RehearsedSetting::private_range), Some((0.4, 0.6)));
    assert_eq!(report.own().and_then(RehearsedSetting::mean_accuracy), Some((0.3, 0.5)));
}
