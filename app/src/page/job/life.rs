//! Actions on a job other than decisions: pause, hold, resume, cancel, propose again, copy.

use leptos::prelude::*;
use time::OffsetDateTime;
use undertone_api::id::ConsortiumId;
use undertone_api::job::{DatasetUse, Hold, Holder, Job, JobParticipant, JobState, ParticipantState};
use undertone_api::member::Member;

use crate::component::form::post;
use crate::component::said::RelativeTime;
use crate::{viewer, words};

/// Renders all actions that the viewer may take on the job now.
pub(super) fn render_actions(member: &Member, consortium: ConsortiumId, job: &Job, now: OffsetDateTime) -> AnyView {
    let state = job.summary.state;
    let steers = viewer::researches(member) || viewer::admits(member, consortium);
    let own: Vec<&JobParticipant> =
        job.participants.iter().filter(|party| viewer::stewards(member, party.organization)).collect();
    let holds = (state == JobState::Paused).then(|| render_holds(consortium, job, steers, &own, now));
    let pausable = state.is_under_way() || state == JobState::Paused;
    let is_held = |holder| job.holds.iter().any(|hold| hold.holder == holder);
    let pause = (pausable && steers && !is_held(Holder::Job)).then(|| render_pause(consortium, job));
    let holdable = own.iter().filter(|party| {
        let by_us = |hold: &Hold| hold.holder == Holder::Steward && hold.dataset == Some(party.dataset);
        pausable && party.purpose == DatasetUse::Participate && !job.holds.iter().any(by_us)
    });
    let hold = holdable.map(|party| render_hold(consortium, job, party)).collect_view();
    let is_open = |party: &&&JobParticipant| {
        pausable && party.purpose == DatasetUse::Participate && party.departure.is_none() && !has_ended(party.state)
    };
    let leave = own.iter().filter(is_open).map(|party| render_leave(consortium, job, party)).collect_view();
    let cancel = (!state.is_over() && steers).then(|| render_cancel(consortium, job));
    let retried =
        matches!(state, JobState::Failed | JobState::Cancelled | JobState::Refused) && viewer::researches(member);
    let retry = retried.then(|| render_retry(consortium, job));
    let copy = viewer::researches(member).then(|| render_copy(consortium, job));
    view! { {holds}{pause}{hold}{leave}{cancel}{retry}{copy} }.into_any()
}

/// Returns whether a part contributes nothing more.
const fn has_ended(state: ParticipantState) -> bool {
    matches!(
        state,
        ParticipantState::Done | ParticipantState::Failed | ParticipantState::Leaving | ParticipantState::Left
    )
}

fn hidden_fields(consortium: ConsortiumId, job: &Job) -> Vec<(&'static str, String)> {
    vec![("consortium", consortium.to_string()), ("job", job.summary.id.to_string())]
}

/// Renders the holds of a paused job, and the way to end each.
fn render_holds(
    consortium: ConsortiumId,
    job: &Job,
    steers: bool,
    own: &[&JobParticipant],
    now: OffsetDateTime,
) -> AnyView {
    let rows = job.holds.iter().map(|hold| {
        let ours = own.iter().any(|party| Some(party.dataset) == hold.dataset);
        let subject = if hold.dataset_name.is_empty() { "Entire job".to_owned() } else { hold.dataset_name.clone() };
        let owner = job.participants.iter().find(|party| Some(party.dataset) == hold.dataset);
        let end = match hold.holder {
            Holder::Job if steers => post(
                "resume",
                hidden_fields(consortium, job),
                view! { <button type="submit" class="primary">"Resume"</button> },
            ),
            Holder::Steward if ours => {
                let mut hidden = hidden_fields(consortium, job);
                hidden.extend(hold.dataset.map(|dataset| ("dataset", dataset.to_string())));
                post("release", hidden, view! { <button type="submit" class="primary">"Resume"</button> })
            }
            Holder::Site => render_site_hint(job, ours, owner.map(|owner| owner.organization_name.as_str())),
            Holder::Job => view! { <p class="hint">"The proposer or a consortium admin can resume it."</p> }.into_any(),
            Holder::Steward => {
                let name = owner.map_or("the owner", |owner| owner.organization_name.as_str());
                view! { <p class="hint">{format!("Only a steward of {name} can resume it.")}</p> }.into_any()
            }
        };
        view! {
            <li>
                <p><strong>{subject}</strong>{format!(", by {}, ", hold.by)}<RelativeTime at=hold.since now/></p>
                <p>{hold.reason.clone()}</p>
                {end}
            </li>
        }
    });
    view! {
        <section class="panel decide" aria-label="Reason for the pause">
            <h2>"Reason for the pause"</h2>
            <ul class="holds">{rows.collect_view()}</ul>
            <p class="hint">"No worker runs it, no round opens or closes, and deadlines are suspended. Reservations are kept, and nothing is charged."</p>
        </section>
    }
    .into_any()
}

/// Renders the hint for a site's own hold, which ends at the site.
fn render_site_hint(job: &Job, ours: bool, owner: Option<&str>) -> AnyView {
    if !ours {
        let owner = owner.unwrap_or("the owner").to_owned();
        return view! { <p class="hint">{format!("It can be ended at the terminal of {owner}'s site.")}</p> }
            .into_any();
    }
    let short = job.summary.id.to_string();
    view! {
        <p class="hint">"End it at your site's terminal: "<code>{format!("undertone-worker jobs {short}")}</code>
            " shows the request; then "<code>"approve"</code>", "<code>"refuse"</code>" or "<code>"release"</code>"."</p>
    }
    .into_any()
}

fn render_reason() -> AnyView {
    view! {
        <label class="field"><span>"Reason, shown to the other participants"</span><textarea name="reason" rows="2" required maxlength="500"></textarea></label>
    }
    .into_any()
}

fn render_pause(consortium: ConsortiumId, job: &Job) -> AnyView {
    let form = post(
        "pause",
        hidden_fields(consortium, job),
        view! {
            <p class="hint">"Workers stop their work and poll again. Deadlines are suspended and reservations are kept. The job can be resumed at any time until the manifest ends, with its ε unchanged."</p>
            {render_reason()}
            <button type="submit">"Pause the job"</button>
        },
    );
    view! { <details class="more"><summary>"Pause this job"</summary>{form}</details> }.into_any()
}

fn render_hold(consortium: ConsortiumId, job: &Job, party: &JobParticipant) -> AnyView {
    let mut hidden = hidden_fields(consortium, job);
    hidden.push(("dataset", party.dataset.to_string()));
    let form = post(
        "hold",
        hidden,
        view! {
            <p class="hint">"The entire job is paused until a steward of your organization resumes it, because a round without you would differ from the approved round. Only your stewards can end your hold."</p>
            {render_reason()}
            <button type="submit">"Hold the job"</button>
        },
    );
    view! { <details class="more"><summary>{format!("Hold the job for {}", party.dataset_name)}</summary>{form}</details> }
        .into_any()
}

/// Renders the form to leave a job, with the charge that stays and the part that returns.
fn render_leave(consortium: ConsortiumId, job: &Job, party: &JobParticipant) -> AnyView {
    let mut hidden = hidden_fields(consortium, job);
    hidden.push(("dataset", party.dataset.to_string()));
    let effect = match (party.epsilon_spent, party.epsilon_reserved, &party.charge) {
        (Some(spent), Some(reserved), Some(charge)) => format!(
            "{} of {} releases are paid: ε {} of ε {} stays spent, and the rest of the reservation returns to your accounts.",
            party.releases,
            charge.releases,
            words::epsilon(spent),
            words::epsilon(reserved)
        ),
        _ => "The releases that were made stay spent, and the rest of the reservation returns to your accounts."
            .to_owned(),
    };
    let form = post(
        "leave",
        hidden,
        view! {
            <p class="hint">{effect}</p>
            <p class="hint">"The job continues without you while its quorum allows; otherwise it fails. This cannot be undone."</p>
            {render_reason()}
            <button type="submit" class="danger">"Leave the job"</button>
        },
    );
    view! { <details class="more"><summary>{format!("Leave the job with {}", party.dataset_name)}</summary>{form}</details> }
        .into_any()
}

fn render_cancel(consortium: ConsortiumId, job: &Job) -> AnyView {
    let effect = match job.summary.state {
        JobState::Proposed => "Nothing was reserved yet, and nothing will be charged.",
        _ => "Workers stop after their current step. Releases stay spent; the unused reservation is returned.",
    };
    let form = post(
        "cancel",
        hidden_fields(consortium, job),
        view! {
            <p class="hint">{effect}" This cannot be undone."</p>
            <button type="submit" class="danger">"Cancel the job"</button>
        },
    );
    view! { <details class="more"><summary>"Cancel this job"</summary>{form}</details> }.into_any()
}

/// Renders the form to propose it again, with the repeated charge.
fn render_retry(consortium: ConsortiumId, job: &Job) -> AnyView {
    let charges: Vec<String> = job
        .participants
        .iter()
        .filter_map(|party| {
            let again = party.epsilon_reserved?;
            let spent = party.epsilon_spent.unwrap_or_default();
            let name = &party.dataset_name;
            let again = words::epsilon(again);
            let spent = words::epsilon(spent);
            Some(format!("{name}: up to ε {again} in addition to the ε {spent} that stays spent"))
        })
        .collect();
    let costs = if charges.is_empty() {
        view! { <p class="hint">"The job charged no account, and its retry charges none."</p> }.into_any()
    } else {
        let rows = charges.into_iter().map(|line| view! { <li>{line}</li> }).collect_view();
        view! { <p class="hint">"The retry is a new job and is charged again:"</p><ul class="consequences">{rows}</ul> }
            .into_any()
    };
    let form = post(
        "retry",
        hidden_fields(consortium, job),
        view! {
            {costs}
            <p class="hint">"The spec is identical. Every owner is asked again, and nothing runs before they approve."</p>
            <button type="submit">"Propose it again"</button>
        },
    );
    view! { <details class="more"><summary>"Retry this job"</summary>{form}</details> }.into_any()
}

fn render_copy(consortium: ConsortiumId, job: &Job) -> AnyView {
    let form = post(
        "clone",
        hidden_fields(consortium, job),
        view! {
            <p class="hint">"Title and spec are copied to a new draft of your organization. No owner is asked before the draft is proposed."</p>
            <button type="submit">"Clone into a draft"</button>
        },
    );
    view! { <details class="more"><summary>"Clone this job"</summary>{form}</details> }.into_any()
}

#[cfg(test)]
mod tests;
