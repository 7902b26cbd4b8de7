//! The parts of a live job: its headline, each party's ε, and the received and late results of the open round. Rendered
//! on the server for the first page and for every poll; see [`Live`].

use leptos::prelude::*;
use time::OffsetDateTime;
use undertone_api::dataset::{Dataset, Visibility};
use undertone_api::id::DatasetId;
use undertone_api::job::diagnosis::Diagnosis;
use undertone_api::job::log::LogLine;
use undertone_api::job::{
    Approval, DatasetUse, Job, JobParticipant, JobProgress, JobState, ParticipantState, RoundView, SeriesProgress,
};
use undertone_api::signed::Consent;
use undertone_privacy::Event;

use super::Live;
use crate::component::gauge::{Gauge, GaugeReading};
use crate::component::log_lines::render_log_lines;
use crate::component::said::{Digest, RelativeTime, StateMark, VisibilityMark};
use crate::{kind, words};

/// The number of rounds that are displayed at once.
const NEWEST: usize = 5;

/// A file of a job with its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JobFile {
    /// Its name.
    pub(crate) name: String,
    /// Bytes.
    pub(crate) size: u64,
    /// SHA-256, hex.
    pub(crate) digest: String,
    /// Its address; `None` if it was deleted.
    pub(crate) href: Option<String>,
    /// The page of the model, if it is one of a finished job.
    pub(crate) page: Option<String>,
}

/// Renders a job at the moment `at`, part by part.
pub(crate) fn live(
    at: OffsetDateTime,
    job: &Job,
    progress: &JobProgress,
    in_the_clear: &[(DatasetId, u64)],
    files: Vec<JobFile>,
    log: &[LogLine],
) -> Live {
    let state = progress.state;
    let what = if state == JobState::Proposed { "Requested from each participant" } else { "Privacy spent" };
    let reason = job.reason.clone().map(|reason| view! { <p class="notice bad">{reason}</p> });
    let mut recent = progress.rounds.clone();
    let earlier = recent.split_off(recent.len().min(NEWEST));
    let rows =
        |rounds: Vec<RoundView>| if rounds.is_empty() { String::new() } else { table(progress, rounds, at).to_html() };
    let now = view! { <StateMark state/>" "<span class="job-now">{now(progress)}</span> };
    let timing = view! {
        {job.started_at.map(|began| view! { "Began "<RelativeTime at=began now=at/>". " })}
        {job.finished_at.map(|over| view! { "Ended "<RelativeTime at=over now=at/>". " })}
    };
    Live {
        at: words::exact(at),
        state: state.label().to_owned(),
        over: state.is_over(),
        chartless: matches!(state, JobState::Proposed | JobState::Refused),
        headline: headline(job, progress).to_html(),
        now: now.to_html(),
        reason: reason.to_html(),
        result: result(job, progress, files).to_html(),
        parties: view! { <h2>{what}</h2>{parties(progress, in_the_clear)} }.to_html(),
        figures: kind::figures(&job.spec, &progress.measurements),
        rounds: rows(recent),
        earlier: rows(earlier),
        timing: timing.to_html(),
        troubles: troubles(&job.diagnoses, at),
        log: log_panel(job, log, at),
    }
}

/// Renders the stalled parts, with start, cause and remedy; empty if there are none.
pub(crate) fn troubles(all: &[Diagnosis], now: OffsetDateTime) -> String {
    if all.is_empty() {
        return String::new();
    }
    let rows = all.iter().map(|one| {
        let since = one.since.map(|at| view! { " (since "<RelativeTime at now/>")" });
        view! {
            <li><p><strong>{one.party.clone()}</strong>": "{one.reason.clone()}{since}"."</p><p class="hint">{one.remedy.clone()}</p></li>
        }
    });
    view! { <h2>"Waiting for"</h2><ul class="plain-list">{rows.collect_view()}</ul> }.to_html()
}

/// Renders the newest lines of a job's log, with a link to the others.
fn log_panel(job: &Job, log: &[LogLine], now: OffsetDateTime) -> String {
    if log.is_empty() {
        return String::new();
    }
    let all = crate::path::job_log(job.summary.consortium, job.summary.id);
    view! {
        <div class="panel-head"><h2>"Log"</h2><a href=all>"Full log"</a></div>
        {render_log_lines(log, now)}
    }
    .to_html()
}

/// Counts the exact releases of each dataset that was opened for them; datasets without any are left out.
pub(crate) fn in_the_clear(job: &Job, datasets: &[Dataset]) -> Vec<(DatasetId, u64)> {
    let series = job.spec.allowed_measurements().series;
    let exact = |dataset: &Dataset| -> u64 {
        let clear = |name: &str| job.spec.release(dataset, name) == Some(Event::NonPrivate);
        series.iter().filter(|(name, _)| clear(name)).map(|(_, rounds)| u64::from(*rounds)).sum()
    };
    datasets.iter().map(|dataset| (dataset.id, exact(dataset))).filter(|(_, exact)| *exact > 0).collect()
}

/// Returns the current activity; empty if the state already describes it.
fn now(progress: &JobProgress) -> String {
    if progress.now == progress.state.label() { String::new() } else { progress.now.replace('`', "") }
}

/// Renders the result and the downloadable files.
fn result(job: &Job, progress: &JobProgress, files: Vec<JobFile>) -> AnyView {
    let report = job.report.as_ref().map(|report| {
        view! { <section class="panel"><h2>"Result"</h2>{kind::result(&job.spec, report, &progress.participants)}</section> }
    });
    let files = (!files.is_empty()).then(|| {
        let row = |file: JobFile| {
            let name = match file.href {
                Some(href) => {
                    view! { <a class="button" href=href download=file.name.clone()>{file.name.clone()}</a> }.into_any()
                }
                None => view! { <span>{file.name.clone()}" (deleted)"</span> }.into_any(),
            };
            let page = file.page.map(|href| view! { " "<a href=href>"Use this model"</a> });
            view! {
                <li>{name}
                    <span>{words::bytes(file.size)}", SHA-256 "<Digest digest=file.digest/>{page}</span></li>
            }
        };
        view! {
            <section class="panel"><h2>"Downloads"</h2>
                <ul class="files">{files.into_iter().map(row).collect_view()}</ul>
            </section>
        }
    });
    view! { {report}{files} }.into_any()
}

/// Returns the most important fact about the job at present.
fn headline(job: &Job, progress: &JobProgress) -> String {
    let unfinished = |series: &&SeriesProgress| series.done < series.rounds;
    match progress.state {
        JobState::Running => match progress.series.iter().find(unfinished) {
            Some(series) if series.done > 0 || progress.series.len() == 1 => {
                format!("Round {} of {}, {} arm", (series.done + 1).min(series.rounds), series.rounds, series.series)
            }
            _ => "Running".to_owned(),
        },
        JobState::Proposed => {
            let waiting = progress.participants.iter().filter(|party| party.approval == Approval::Pending).count();
            match waiting {
                0 => "Waiting for the reservations".to_owned(),
                1 => "One owner has not decided yet".to_owned(),
                n => format!("{n} owners have not decided yet"),
            }
        }
        JobState::Queued => "Approved and reserved, waiting for workers".to_owned(),
        JobState::Paused => "Paused; reservations are kept and deadlines are suspended".to_owned(),
        JobState::Finished => match (job.started_at, job.finished_at) {
            (Some(from), Some(to)) => format!("Finished in {}", words::duration((to - from).as_seconds_f64())),
            _ => "Finished".to_owned(),
        },
        JobState::Failed => "Failed; unused reservations were returned".to_owned(),
        JobState::Cancelled => "Cancelled; unused reservations were returned".to_owned(),
        JobState::Refused => "Refused; nothing was charged".to_owned(),
    }
}

/// Renders each party: the spent part of its reservation, and the state of its worker.
fn parties(progress: &JobProgress, in_the_clear: &[(DatasetId, u64)]) -> AnyView {
    let exact = |id| in_the_clear.iter().find(|(dataset, _)| *dataset == id).map_or(0, |(_, exact)| *exact);
    let row = |party: JobParticipant| {
        let exact = exact(party.dataset);
        view! { <li>{one(party, exact, progress.state)}</li> }
    };
    view! { <ul class="party-list">{progress.participants.iter().cloned().map(row).collect_view()}</ul> }.into_any()
}

fn one(party: JobParticipant, exact: u64, state: JobState) -> AnyView {
    let (over, proposed) = (state.is_over(), state == JobState::Proposed);
    let reserved = party.epsilon_reserved.unwrap_or_default();
    let reading = GaugeReading::from_participant(&party, over);
    let releases = party.charge.as_ref().map(|charge| {
        let of = words::releases(charge.releases, &charge.event);
        if proposed { of } else { format!("{} of {of} paid", words::count(party.releases)) }
    });
    let reserved = words::epsilon(reserved);
    let suffix = match (proposed, over) {
        (true, _) => format!(" of {reserved} to be reserved"),
        (_, true) => format!(" of {reserved} reserved before"),
        _ => format!(" of {reserved} reserved"),
    };
    let cost = match (reading, &party.charge) {
        (Some(reading), _) => view! {
            <Gauge reading bare=true/>
            <p class="gauge-text">
                <span class="gauge-number">
                    <abbr title=words::EPSILON>"ε"</abbr>" "<strong>{words::epsilon(reading.spent)}</strong>
                    {format!("{suffix} at δ {}, {}", words::delta(reading.delta), words::unit(reading.unit))}
                </span>
                <span>{releases}</span>
            </p>
        }
        .into_any(),
        (None, Some(_)) => view! { <p class="gauge-text">{releases}</p> }.into_any(),
        (None, None) => view! {
            <p class="gauge-text">{match (party.purpose, party.visibility) {
                (DatasetUse::Evaluate, _) => "Used for evaluation only; nothing is charged.",
                (_, Visibility::Public) => "Public; nothing is charged.",
                _ => "Nothing derived from it leaves the site.",
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
                        "Open: also {} in the open arm. No ε covers them.",
                        words::plural(exact, "exact release")
                    )}</p>
                })}
            </div>
            <div class="party-state">{approval(&party.approval, party.consent.as_ref())}{(!proposed).then(|| worker(party.state, over))}</div>
        </div>
    }
    .into_any()
}

fn approval(approval: &Approval, consent: Option<&Consent>) -> AnyView {
    let rests_on = consent.map(Consent::short).map(|words| format!(", {words}")).unwrap_or_default();
    match approval {
        Approval::NotNeeded => ().into_any(),
        Approval::Pending => view! { <span class="state waiting">"◌ not yet decided"</span> }.into_any(),
        Approval::Approved { by } => {
            view! { <span class="state done">{format!("✓ approved by {by}{rests_on}")}</span> }.into_any()
        }
        Approval::Refused { by, reason } => {
            view! { <span class="state bad">{format!("⊘ refused by {by}: {reason}")}</span> }.into_any()
        }
    }
}

fn worker(state: ParticipantState, over: bool) -> AnyView {
    let (class, text) = match state {
        ParticipantState::Waiting if over => return ().into_any(),
        ParticipantState::Waiting => ("state waiting", "◌ waiting for the worker"),
        ParticipantState::Running => ("state running", "● worker running"),
        ParticipantState::Silent => ("state bad", "◍ worker not responding"),
        ParticipantState::Done => ("state done", "✓ worker done"),
        ParticipantState::Failed => ("state bad", "✕ worker failed"),
        ParticipantState::Leaving => ("state waiting", "◌ left the job; its worker settles"),
        ParticipantState::Left => ("state over", "– left the job; its unused reservation is returned"),
    };
    view! { <span class=class>{text}</span> }.into_any()
}

/// Renders the rounds: received, awaited and late results.
fn table(progress: &JobProgress, rounds: Vec<RoundView>, now: OffsetDateTime) -> AnyView {
    let parties = &progress.participants;
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
                <td data-label="opened"><RelativeTime at=round.opened_at now=now/></td>
                <td data-label="state">{standing(&round, now)}</td>
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

fn standing(round: &RoundView, now: OffsetDateTime) -> String {
    match round.closed_at {
        Some(at) => format!("closed after {}", words::duration((at - round.opened_at).as_seconds_f64())),
        None if round.deadline < now => {
            format!("overdue for {}", words::duration((now - round.deadline).as_seconds_f64()))
        }
        None => format!("open, due {}", words::relative(round.deadline, now)),
    }
}
