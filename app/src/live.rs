//! A job's page, alive: it listens to the server, marks what is late, says when the connection is lost, and goes on by
//! itself. It is rendered in the server with the same words, so it is right before it is alive.
//!
//! The server says every part of the page in finished HTML (`part`, the same for the first page and for every answer), so
//! the browser needs to know nothing of jobs: it puts the parts in their places, and draws the charts, which can be read
//! with pointer and keys. How it listens is in `listen`; `follow` is the same for pages that are swapped part by part.

#![expect(missing_docs, reason = "the island macro makes a struct without words beside the documented function")]
#![expect(clippy::needless_pass_by_value, reason = "an island owns what it is given")]

pub mod follow;
mod listen;
#[cfg(feature = "ssr")]
pub(crate) mod part;

use std::rc::Rc;
use std::time::Duration;

use leptos::prelude::*;
use serde::{Deserialize, Serialize};
use undertone_api::id::JobId;

use crate::call::ask;
use crate::component::chart::{Chart, Figure};

/// A job at one moment, as its page shows it: every part in HTML that the server rendered and escaped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Live {
    /// The server's clock when it answered, in words.
    pub at: String,
    /// The job's state, in a word.
    pub state: String,
    /// Whether nothing changes any more.
    pub over: bool,
    /// Whether there is nothing to draw in charts yet, nor will be.
    pub chartless: bool,
    /// The one thing to know now.
    pub headline: String,
    /// The state, and what is going on.
    pub now: String,
    /// Why it was refused or failed.
    pub reason: String,
    /// The result and what can be taken away.
    pub result: String,
    /// What does not go on, and what can be done about it.
    pub troubles: String,
    /// What each party pays.
    pub parties: String,
    /// The charts.
    pub figures: Vec<Figure>,
    /// The newest rounds.
    pub rounds: String,
    /// The rounds before them.
    pub earlier: String,
    /// When it began and ended.
    pub timing: String,
    /// The newest lines of its log.
    pub log: String,
}

/// A job that keeps itself up to date. The children are what waits for a decision in the state in which the page was
/// rendered; they go when the job moves on.
#[island]
pub fn LiveJob(
    /// The job.
    job: JobId,
    /// How it stood when the page was rendered: a [`Live`] as JSON.
    first: String,
    /// Decisions, rendered in the server.
    children: Children,
) -> impl IntoView {
    // The server wrote it a moment ago; a page without it stays as it was rendered.
    serde_json::from_str(&first).ok().map(|first| alive(job, first, children))
}

fn alive(job: JobId, first: Live, children: Children) -> impl IntoView {
    let began = first.state.clone();
    let live = RwSignal::new(first);
    // Failures in a row: the connection is lost while it is not zero.
    let failed = RwSignal::new(0_u32);
    Effect::new(move |_| {
        if !live.with_untracked(|live| live.over) {
            let look = Rc::new(move || -> listen::Looking { Box::pin(look(job, live)) });
            listen::follow(format!("/ui/events?job={job}"), Duration::ZERO, failed, look);
        }
    });

    // A part that stays as it was is not written again, so that nobody loses their place in it.
    let part = move |part: fn(&Live) -> &String| {
        let html = Memo::new(move |_| part(&live.read()).clone());
        move || html.get()
    };
    let charts = (0..live.with_untracked(|live| live.figures.len()))
        .map(|index| {
            let figure = Memo::new(move |_| live.read().figures.get(index).cloned().unwrap_or_default());
            view! { <Chart figure/> }
        })
        .collect_view();
    view! {
        <section class="job-head">
            <p class="headline" aria-live="polite" inner_html=part(|live| &live.headline)></p>
            <p class="job-state" inner_html=part(|live| &live.now)></p>
            <p class="connection" class:lost=move || failed.get() != 0 role="status">
                {move || match failed.get() {
                    0 if live.read().over => "Over: nothing changes any more.".to_owned(),
                    0 => "Live: what changes appears by itself.".to_owned(),
                    _ => format!("The connection is lost. These numbers are from {}; the page goes on by itself when the server answers.",
                        live.read().at),
                }}
            </p>
            <div inner_html=part(|live| &live.reason)></div>
        </section>
        <div class="decisions" hidden=move || live.read().state != began>{children()}</div>
        <section class="panel troubles" hidden=move || live.read().troubles.is_empty() inner_html=part(|live| &live.troubles)></section>
        <div class="results" inner_html=part(|live| &live.result)></div>
        <section class="panel" inner_html=part(|live| &live.parties)></section>
        <section class="charts" hidden=move || live.read().chartless>{charts}</section>
        <section class="panel" hidden=move || live.read().rounds.is_empty()>
            <h2>"Rounds"</h2>
            <div inner_html=part(|live| &live.rounds)></div>
            <details hidden=move || live.read().earlier.is_empty()>
                <summary>"Earlier rounds"</summary>
                <div inner_html=part(|live| &live.earlier)></div>
            </details>
        </section>
        <p class="hint timing" inner_html=part(|live| &live.timing)></p>
        <section class="panel" hidden=move || live.read().log.is_empty() inner_html=part(|live| &live.log)></section>
    }
}

/// Asks how the job stands; whether it is over, nothing when nobody answered.
async fn look(job: JobId, live: RwSignal<Live>) -> Option<bool> {
    let text = ask::get(&format!("/ui/watch?job={job}")).await?;
    // What the call gives is a text, and that text is the moment.
    let now: Live = serde_json::from_str(&serde_json::from_str::<String>(&text).ok()?).ok()?;
    let over = now.over;
    live.set(now);
    Some(over)
}
