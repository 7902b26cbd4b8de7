//! The newest rounds of a job, party by party.

use leptos::prelude::*;
use time::OffsetDateTime;
use undertone_api::job::{DatasetUse, Job, JobProgress};

use crate::component::drawing::RoundTimeline;
use crate::words;

/// Renders the drawing; empty before the first round.
pub(super) fn render_section(job: &Job, progress: JobProgress, now: OffsetDateTime) -> AnyView {
    let taking = |party: &&undertone_api::job::JobParticipant| party.purpose == DatasetUse::Participate;
    let parties = job
        .participants
        .iter()
        .filter(taking)
        .map(|party| (party.dataset, format!("{}, {}", party.organization_name, party.dataset_name)));
    let rounds = progress.rounds.len() as u64;
    let timeline = RoundTimeline {
        title: "Rounds by participant".to_owned(),
        file: format!("rounds-{}", job.summary.id),
        note: format!(
            "The newest {}, from opening to acceptance of each party’s result",
            words::plural(rounds, "round")
        ),
        rounds: progress.rounds,
        parties: parties.collect(),
        now,
    };
    let Some(drawing) = timeline.draw() else { return ().into_any() };
    view! {
        <section class="panel" aria-label="Rounds by participant">{drawing.show()}
            <p class="hint">"A private release waits for a tick of the site’s release clock. Unless it misses the \
            first tick, its time does not depend on the sampled units."</p>
        </section>
    }
    .into_any()
}
