//! The results of a rehearsal in words and in the table.

use leptos::prelude::*;
use undertone_api::id::{ConsortiumId, JobId};
use undertone_api::job::JobState;
use undertone_api::job::dp_sgd::{
    AcousticModel, RehearsalReport, RehearsedRun, RehearsedSetting, RowColumns, SettingMeasure,
};
use undertone_api::plan::PlanRehearsal;
use undertone_api::table::{ColumnKind, TableColumn};
use uuid::Uuid;

use super::{WARNING, describe_own, render_outcome, render_rehearsals};

const fn speech() -> AcousticModel {
    AcousticModel::lstm(8, None)
}

/// Returns a linear model of a column of this kind.
fn rows(kind: ColumnKind) -> AcousticModel {
    let column = |name: &str, kind| TableColumn { name: name.to_owned(), kind };
    let features = vec![column("age", ColumnKind::Integer { least: 0, most: 100 })];
    AcousticModel::from_rows(
        RowColumns { target: column("target", kind), features, rows_per_unit: 1, text: None },
        0,
        0,
    )
}

/// Returns a setting whose errors are the accuracies over 5.
fn setting(clip_factor: f64, private: &[f64], failed: u32) -> RehearsedSetting {
    let loss = |share: f64| (2.0 * share / 5.0) * (2.0 * share / 5.0);
    let run = |(repeat, private): (u32, &f64)| RehearsedRun {
        repeat,
        public: 0.25,
        private: *private,
        loss: loss(*private),
        public_loss: Some(loss(0.25)),
        seconds: 2.0,
    };
    RehearsedSetting { clip_factor, rate_factor: 1.0, failed, runs: (1..).zip(private).map(run).collect() }
}

fn report() -> RehearsalReport {
    let settings = vec![setting(1.0, &[0.4, 0.5], 0), setting(0.5, &[0.6, 0.8], 0), setting(2.0, &[], 2)];
    RehearsalReport { units: vec![1200, 40, 60], planned: 4, settings }
}

#[test]
fn outcome_shows_each_setting_and_the_warning() {
    let html = render_outcome(&speech(), &report()).to_html();
    for text in [
        "as planned",
        "clip × 0.5, learning rate × 1",
        "40.0 % to 50.0 %",
        "+20.00",
        "0, 2 failed",
        "1 setting had no time.",
    ] {
        assert!(html.contains(text), "{text}: {html}");
    }
    assert!(html.contains("the lead first: 1 200, 40, 60") || html.contains("the lead first: 1,200, 40, 60"), "{html}");
    assert!(html.contains(WARNING) && html.contains("Best tried setting, for the same price: clip × 0.5"), "{html}");
    let own = describe_own(&speech(), &report());
    assert!(
        own.contains("45.0 % of the frames") && own.contains("+20.00 points from the public arm at 25.0 %"),
        "{own}"
    );
    assert_eq!(describe_own(&speech(), &RehearsalReport::default()), "The plan’s own setting was not measured.");
}

#[test]
fn outcome_of_a_table_names_rows_and_the_error_of_a_number() {
    let classes = render_outcome(&rows(ColumnKind::Boolean), &report()).to_html();
    assert!(classes.contains("predicts 45.0 % of the rows correctly") && !classes.contains("frames"), "{classes}");
    assert!(classes.contains("Best tried setting, for the same price: clip × 0.5"), "{classes}");
    let number = rows(ColumnKind::Real { least: 0.0, most: 1.0, step: 0.1 });
    let html = render_outcome(&number, &report()).to_html();
    for text in [
        "a root mean squared error of 9.0 % of the target’s declared range (8.0 % to 10.0 % in 2 runs)",
        "+4.00 points from the public arm at 5.0 %",
        "less is better",
        "12.0 % to 16.0 %",
    ] {
        assert!(html.contains(text), "{text}: {html}");
    }
    assert!(!html.contains("Best tried setting"), "the plan's own has the least error: {html}");
    let mut diverged = report();
    diverged.settings[0].runs[0].loss = f64::MAX;
    let html = render_outcome(&number, &diverged).to_html();
    assert!(html.contains("over 1000.0 %") && !html.contains("00000000"), "{html}");
}

#[test]
fn rehearsals_beside_a_plan_link_to_their_jobs() {
    let consortium = ConsortiumId(Uuid::from_u128(1));
    let waiting = PlanRehearsal {
        job: JobId(Uuid::from_u128(2)),
        title: "Rehearsal: digits".to_owned(),
        state: JobState::Queued,
        finished_at: None,
        units: Vec::new(),
        own: None,
        best: None,
    };
    let finished = PlanRehearsal {
        state: JobState::Finished,
        finished_at: Some(crate::testing::example::NOW),
        ..waiting.clone().with_report(&report(), (0.5, 1.0), SettingMeasure::Accuracy)
    };
    assert!(!render_rehearsals(consortium, &speech(), &[]).to_html().contains("<section"));
    let html = render_rehearsals(consortium, &speech(), &[waiting, finished]).to_html();
    assert!(html.contains("the rehearsal is queued.") && html.contains(WARNING), "{html}");
    assert!(html.contains("70.0 % of the frames"), "the plan is the setting with half the clip: {html}");
    assert!(!html.contains("Best tried setting"), "it is the best one itself: {html}");
    assert!(html.contains(&crate::path::job(consortium, JobId(Uuid::from_u128(2)))), "{html}");
}
