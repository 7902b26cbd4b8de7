//! A job's page, alive: it asks the server every two seconds, marks what is late, says when the connection is lost, and goes
//! on by itself. It is rendered in the server with the same numbers, so it is right before it is alive.

#![expect(missing_docs, reason = "the island macro makes a struct without words beside the documented function")]
#![expect(clippy::needless_pass_by_value, reason = "an island owns what it is given")]

mod part;

use std::time::Duration;

use leptos::prelude::*;
use leptos::task::spawn_local;
use undertone_api::id::{DatasetId, JobId};
use undertone_api::job::{Spec, State};

use crate::call::{Live, watch};
use crate::component::chart::Chart;
use crate::component::said::{Digest, StateMark, When};
use crate::{kind, words};
use part::{Parties, Rounds, headline};

/// Milliseconds between two questions while all is well.
const EVERY: u64 = 2000;
/// Most milliseconds between two questions while the server does not answer.
const AT_MOST: u64 = 30_000;

/// A job that keeps itself up to date. The children are what waits for a decision in the state in which the page was
/// rendered; they go when the job moves on.
#[island]
pub fn LiveJob(
    /// The job.
    job: JobId,
    /// What it does.
    spec: Spec,
    /// How many exact releases it makes of each dataset that was opened for them.
    in_the_clear: Vec<(DatasetId, u64)>,
    /// How it stood when the page was rendered: a [`Live`] as JSON.
    first: String,
    /// Decisions, rendered in the server.
    children: Children,
) -> impl IntoView {
    // The server wrote it a moment ago; a page without it stays as it was rendered.
    serde_json::from_str(&first).ok().map(|first| alive(job, spec, in_the_clear, first, children))
}

fn alive(
    job: JobId,
    spec: Spec,
    in_the_clear: Vec<(DatasetId, u64)>,
    first: Live,
    children: Children,
) -> impl IntoView {
    let began = first.progress.state;
    let live = RwSignal::new(first);
    // Questions that failed in a row: the connection is lost while it is not zero.
    let failed = RwSignal::new(0_u32);
    let state = Memo::new(move |_| live.read().progress.state);
    Effect::new(move |_| {
        if !state.get_untracked().is_over() {
            keep_asking(job, live, failed);
        }
    });

    let spec = StoredValue::new(spec);
    let figures = Memo::new(move |_| spec.with_value(|spec| kind::figures(spec, &live.read().progress.measurements)));
    let charts = (0..figures.with_untracked(Vec::len))
        .map(|index| {
            let figure = Memo::new(move |_| figures.with(|all| all.get(index).cloned()).unwrap_or_else(empty));
            view! { <Chart figure/> }
        })
        .collect_view();
    let report = Memo::new(move |_| live.read().report.clone());
    let files = Memo::new(move |_| live.read().files.clone());
    view! {
        <section class="job-head">
            <p class="headline" aria-live="polite">{move || headline(&live.read())}</p>
            <p class="job-state">
                {move || view! { <StateMark state=state.get()/> }}
                <span class="job-now">{move || now(&live.read())}</span>
            </p>
            <p class="connection" class:lost=move || failed.get() != 0 role="status">
                {move || match failed.get() {
                    0 if state.get().is_over() => "Over: nothing changes any more.".to_owned(),
                    0 => "Live: asks the server every two seconds.".to_owned(),
                    _ => format!("The connection is lost. These numbers are from {}; the page goes on by itself when the server answers.",
                        words::exact(live.read().at)),
                }}
            </p>
            {move || live.read().reason.clone().map(|reason| view! { <p class="notice bad">{reason}</p> })}
        </section>
        <div class="decisions" hidden=move || state.get() != began>{children()}</div>
        {move || report.get().map(|report| view! {
            <section class="panel"><h2>"Result"</h2>
                {spec.with_value(|spec| kind::result(spec, &report, &live.read_untracked().progress.participants))}
            </section>
        })}
        {move || (!files.read().is_empty()).then(|| view! {
            <section class="panel"><h2>"Take away"</h2>
                <ul class="files">
                    {files.get().into_iter().map(|file| view! {
                        <li><a class="button" href=file.href download=file.name.clone()>{file.name.clone()}</a>
                            <span>{words::bytes(file.size)}", SHA-256 "<Digest digest=file.digest/></span></li>
                    }).collect_view()}
                </ul>
            </section>
        })}
        <section class="panel">
            <h2>{move || if state.get() == State::Proposed { "What it asks of each" } else { "Privacy spent" }}</h2>
            <Parties live in_the_clear/>
        </section>
        <section class="charts" hidden=move || matches!(state.get(), State::Proposed | State::Refused)>{charts}</section>
        <Rounds live/>
        <p class="hint timing">
            {move || live.read().started_at.map(|at| view! { "Began "<When at now=live.read_untracked().at/>". " })}
            {move || live.read().finished_at.map(|at| view! { "Over since "<When at now=live.read_untracked().at/>". " })}
        </p>
    }
}

/// What is going on; nothing when the state says it all.
fn now(live: &Live) -> String {
    if live.progress.now == live.progress.state.label() { String::new() } else { live.progress.now.replace('`', "") }
}

/// A figure that shows nothing; stands in for one that is no longer there.
fn empty() -> kind::Figure {
    kind::Figure {
        title: String::new(),
        file: String::new(),
        x: String::new(),
        y: String::new(),
        percent: false,
        x_most: 1.0,
        lines: Vec::new(),
    }
}

/// Asks, waits, asks again, until the job is over; waits longer while nobody answers.
fn keep_asking(job: JobId, live: RwSignal<Live>, failed: RwSignal<u32>) {
    let wait = pause(failed.get_untracked());
    let next = move || {
        spawn_local(async move {
            let answer = watch(job).await.ok();
            match answer.and_then(|text| serde_json::from_str::<Live>(&text).ok()) {
                Some(now) => {
                    let over = now.progress.state.is_over();
                    failed.set(0);
                    live.set(now);
                    if over {
                        return;
                    }
                }
                None => failed.update(|times| *times = times.saturating_add(1)),
            }
            keep_asking(job, live, failed);
        });
    };
    set_timeout(next, wait);
}

/// How long to wait after so many failures in a row.
fn pause(failed: u32) -> Duration {
    Duration::from_millis((EVERY << failed.min(4)).min(AT_MOST))
}

#[cfg(test)]
mod tests {
    use super::pause;

    #[test]
    fn a_page_waits_longer_while_nobody_answers_but_never_gives_up() {
        let waits: Vec<_> = [0, 1, 2, 3, 4, 100].map(|failed| pause(failed).as_millis()).into();
        assert_eq!(waits, [2000, 4000, 8000, 16_000, 30_000, 30_000]);
    }
}
