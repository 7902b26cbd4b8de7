//! The parts of a live job: its headline, each party's ε, who has answered in the open round and who is late.

#![expect(unreachable_pub, reason = "the component macro makes what it generates public")]

use leptos::prelude::*;
use undertone_api::dataset::Visibility;
use undertone_api::id::DatasetId;
use undertone_api::job::{Approval, Participant, ParticipantState, Purpose, RoundView, State};

use crate::call::Live;
use crate::component::gauge::{Gauge, Reading};
use crate::component::said::{VisibilityMark, When};
use crate::words;

/// How many rounds are shown at once.
const NEWEST: usize = 5;

/// The one thing to know about the job now.
pub(super) fn headline(live: &Live) -> String {
    let progress = &live.progress;
    match progress.state {
        State::Running => match progress.series.iter().find(|series| series.done < series.rounds) {
            Some(series) if series.done > 0 || progress.series.len() == 1 => {
                format!("Round {} of {}, {} arm", (series.done + 1).min(series.rounds), series.rounds, series.series)
            }
            _ => "Running".to_owned(),
        },
        State::Proposed => {
            let waiting = progress.participants.iter().filter(|party| party.approval == Approval::Pending).count();
            match waiting {
                0 => "Waiting for the reservations".to_owned(),
                1 => "One owner has still to decide".to_owned(),
                n => format!("{n} owners have still to decide"),
            }
        }
        State::Queued => "Approved and reserved, waiting for its workers".to_owned(),
        State::Finished => match (live.started_at, live.finished_at) {
            (Some(from), Some(to)) => format!("Finished in {}", words::duration((to - from).as_seconds_f64())),
            _ => "Finished".to_owned(),
        },
        State::Failed => "Failed; what was not released was given back".to_owned(),
        State::Cancelled => "Cancelled; what was not released was given back".to_owned(),
        State::Refused => "Refused; nothing was charged".to_owned(),
    }
}

/// Each party: what it has spent of what it reserved, and how its worker stands.
#[component]
pub(super) fn Parties(live: RwSignal<Live>, in_the_clear: Vec<(DatasetId, u64)>) -> impl IntoView {
    let parties = Memo::new(move |_| (live.read().progress.participants.clone(), live.read().progress.state));
    move || {
        let (parties, state) = parties.get();
        let exact = |id| in_the_clear.iter().find(|(dataset, _)| *dataset == id).map_or(0, |(_, exact)| *exact);
        view! {
            <ul class="party-list">
                {parties.into_iter().map(|party| { let exact = exact(party.dataset); view! { <li>{one(party, exact, state)}</li> } }).collect_view()}
            </ul>
        }
        .into_any()
    }
}

fn one(party: Participant, exact: u64, state: State) -> AnyView {
    let (over, proposed) = (state.is_over(), state == State::Proposed);
    let reserved = party.epsilon_reserved.unwrap_or_default();
    let reading = Reading::of_participant(&party, over);
    let releases = party.charge.as_ref().map(|charge| {
        let of = words::plural(charge.releases, "release");
        if proposed { of } else { format!("{} of {of} paid", words::count(party.releases)) }
    });
    let reserved = words::epsilon(reserved);
    let said = match (proposed, over) {
        (true, _) => format!(" of {reserved} to be reserved"),
        (_, true) => format!(" of {reserved} that was reserved"),
        _ => format!(" of {reserved} reserved"),
    };
    let cost = match (reading, &party.charge) {
        (Some(reading), _) => view! {
            <Gauge reading bare=true/>
            <p class="gauge-text">
                <span class="gauge-number">
                    <abbr title=words::EPSILON>"ε"</abbr>" "<strong>{words::epsilon(reading.spent)}</strong>
                    {format!("{said} at δ {}, {}", words::delta(reading.delta), words::unit(reading.unit))}
                </span>
                <span>{releases}</span>
            </p>
        }
        .into_any(),
        (None, Some(_)) => view! { <p class="gauge-text">{releases}</p> }.into_any(),
        (None, None) => view! {
            <p class="gauge-text">{match (party.purpose, party.visibility) {
                (Purpose::Evaluate, _) => "Only measured on; nothing is charged.",
                (_, Visibility::Public) => "Public; nothing is charged.",
                _ => "Nothing of it leaves the site.",
            }}</p>
        }
        .into_any(),
    };
    view! {
        <div class="party-line">
            <div class="party-name"><strong>{party.dataset_name}</strong>" "<span>{party.organization_name}</span>" "<VisibilityMark visibility=party.visibility/></div>
            <div class="party-cost">
                {cost}
                {(exact > 0).then(|| view! {
                    <p class="gauge-text in-the-clear">{format!(
                        "Open: {} in the open arm besides. No ε covers them.",
                        words::plural(exact, "exact release")
                    )}</p>
                })}
            </div>
            <div class="party-state">{approval(&party.approval)}{(!proposed).then(|| worker(party.state, over))}</div>
        </div>
    }
    .into_any()
}

fn approval(approval: &Approval) -> AnyView {
    match approval {
        Approval::NotNeeded => ().into_any(),
        Approval::Pending => view! { <span class="state waiting">"◌ not yet decided"</span> }.into_any(),
        Approval::Approved { by } => {
            view! { <span class="state done">{format!("✓ approved by {by}")}</span> }.into_any()
        }
        Approval::Refused { by, reason } => {
            view! { <span class="state bad">{format!("⊘ refused by {by}: {reason}")}</span> }.into_any()
        }
    }
}

fn worker(state: ParticipantState, over: bool) -> AnyView {
    let (class, text) = match state {
        ParticipantState::Waiting if over => return ().into_any(),
        ParticipantState::Waiting => ("state waiting", "◌ worker not there yet"),
        ParticipantState::Running => ("state running", "● worker at it"),
        ParticipantState::Silent => ("state bad", "◍ worker silent"),
        ParticipantState::Done => ("state done", "✓ worker done"),
        ParticipantState::Failed => ("state bad", "✕ worker gave up"),
    };
    view! { <span class=class>{text}</span> }.into_any()
}

/// The rounds: who has sent, who is awaited, who is late.
#[component]
pub(super) fn Rounds(live: RwSignal<Live>) -> impl IntoView {
    let rounds = Memo::new(move |_| live.read().progress.rounds.clone());
    let none = move || rounds.read().is_empty();
    let few = move || rounds.read().len() <= NEWEST;
    view! {
        <section class="panel" hidden=none>
            <h2>"Rounds"</h2>
            {move || table(&live.read(), rounds.get().into_iter().take(NEWEST).collect())}
            <details hidden=few>
                <summary>"Earlier rounds"</summary>
                {move || table(&live.read(), rounds.get().into_iter().skip(NEWEST).collect())}
            </details>
        </section>
    }
    .into_any()
}

fn table(live: &Live, rounds: Vec<RoundView>) -> AnyView {
    let parties = &live.progress.participants;
    let name = |dataset| {
        parties
            .iter()
            .find(|party| party.dataset == dataset)
            .map_or_else(String::new, |party| party.dataset_name.clone())
    };
    let rows = rounds.into_iter().map(|round| {
        let parts: Vec<_> =
            round.submissions.iter().map(|sent| (name(sent.dataset), sent.accepted_at.is_some(), sent.late)).collect();
        let late = parts.iter().any(|(_, sent, late)| *late && !sent);
        view! {
            <tr class:late=late>
                <th scope="row">{format!("{} {}", round.series, round.round)}</th>
                <td data-label="opened"><When at=round.opened_at now=live.at/></td>
                <td data-label="state">{standing(&round, live.at)}</td>
                <td data-label="submissions"><ul class="marks">{parts.into_iter().map(mark).collect_view()}</ul></td>
            </tr>
        }
    });
    view! {
        <table class="cards dense">
            <thead><tr><th scope="col">"Round"</th><th scope="col">"Opened"</th><th scope="col">"State"</th><th scope="col">"Submissions"</th></tr></thead>
            <tbody>{rows.collect_view()}</tbody>
        </table>
    }
    .into_any()
}

fn mark((name, sent, late): (String, bool, bool)) -> AnyView {
    let (class, sign, what) = match (sent, late) {
        (true, _) => ("state done", "✓", "sent"),
        (false, true) => ("state bad", "✕", "late"),
        (false, false) => ("state waiting", "◌", "awaited"),
    };
    view! { <li class=class>{format!("{sign} {name}")}<span class="visually-hidden">{format!(", {what}")}</span></li> }
        .into_any()
}

fn standing(round: &RoundView, now: time::OffsetDateTime) -> String {
    match round.closed_at {
        Some(at) => format!("closed after {}", words::duration((at - round.opened_at).as_seconds_f64())),
        None if round.deadline < now => {
            format!("overdue for {}", words::duration((now - round.deadline).as_seconds_f64()))
        }
        None => format!("open, due {}", words::relative(round.deadline, now)),
    }
}
