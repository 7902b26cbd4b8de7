//! The results of a rehearsal in words and in the table.

use leptos::prelude::*;
use undertone_api::id::{ConsortiumId, JobId};
use undertone_api::job::JobState;
use undertone_api::job::dp_sgd::{RehearsalReport, RehearsedRun, RehearsedSetting};
use undertone_api::plan::PlanRehearsal;
use uuid::Uuid;

use super::{WARNING, describe_own, render_outcome, render_rehearsals};

fn setting(clip_factor: f64, private: &[f64], failed: u32) -> RehearsedSetting {
    let run = |(repeat, private): (u32, &f64)| RehearsedRun {
        repeat,
        public: 0.25,
        private: *private,
        loss: 1.0,
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
    let html = render_outcome(&report()).to_html();
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
    let own = describe_own(&report());
    assert!(
        own.contains("45.0 % of the frames") && own.contains("+20.00 points from the public arm at 25.0 %"),
        "{own}"
    );
    assert_eq!(describe_own(&RehearsalReport::default()), "The plan’s own setting was not measured.");
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
        ..waiting.clone().with_report(&report(), (0.5, 1.0))
    };
    assert!(!render_rehearsals(consortium, &[]).to_html().contains("<section"));
    let html = render_rehearsals(consortium, &[waiting, finished]).to_html();
    assert!(html.contains("the rehearsal is queued.") && html.contains(WARNING), "{html}");
    assert!(html.contains("70.0 % of the frames"), "the plan is the setting with half the clip: {html}");
    assert!(!html.contains("Best tried setting"), "it is the best one itself: {html}");
    assert!(html.contains(&crate::path::job(consortium, JobId(Uuid::from_u128(2)))), "{html}");
}
