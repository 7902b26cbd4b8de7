//! A job's live page: it listens to the server, marks late parties, reports a lost connection, and recovers by itself.
//! The server renders it with the same words, so that it is correct before hydration.
//!
//! The server renders every part of the page as finished HTML (`part`, the same for the first page and for every
//! answer), so the browser needs no knowledge of jobs. It inserts the parts, and draws the charts, which can be read
//! with pointer and keys. `listen` holds the subscription; `follow` is the same for pages that are replaced part by
//! part.

#![expect(missing_docs, reason = "the island macro makes a struct without words beside the documented function")]
#![expect(clippy::needless_pass_by_value, reason = "an island owns what it is given")]

pub mod follow;
mod listen;
#[cfg(feature = "ssr")]
pub(crate) mod part;
#[cfg(feature = "ssr")]
pub(crate) mod state;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use leptos::prelude::*;
use leptos::task::spawn_local;
use serde::{Deserialize, Serialize};
use undertone_api::id::JobId;

use crate::component::chart::{Chart, ChartFigure};
use crate::fetch;

/// A job at one moment, as displayed: every part in HTML that the server rendered and escaped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Live {
    /// The server's time of the answer, as text.
    pub at: String,
    /// The job's state, in a word.
    pub state: String,
    /// Whether the state is final.
    pub over: bool,
    /// Whether the charts are hidden, because the job has not started or was refused.
    pub chartless: bool,
    /// The most important fact at present.
    pub headline: String,
    /// The state, and the current activity.
    pub now: String,
    /// The reason for a refusal or failure.
    pub reason: String,
    /// The result and the downloadable files.
    pub result: String,
    /// The stalled parts, with remedies.
    pub troubles: String,
    /// The charge of each party.
    pub parties: String,
    /// The charts.
    pub figures: Vec<ChartFigure>,
    /// The newest rounds.
    pub rounds: String,
    /// The rounds before them.
    pub earlier: String,
    /// The times of its start and end.
    pub timing: String,
    /// The newest lines of its log.
    pub log: String,
}

/// Renders a job that keeps itself up to date. The children are the viewer's decisions and actions in the job's state:
/// when the state changes, they are hidden until the page's parts for the new state have arrived.
#[island]
pub fn LiveJob(
    /// The job.
    job: JobId,
    /// The job's state when the page was rendered: a [`Live`] as JSON.
    first: String,
    /// Decisions, rendered on the server.
    children: Children,
) -> impl IntoView {
    // The server wrote it; if it does not parse, the page stays as it was rendered.
    serde_json::from_str(&first).ok().map(|first| alive(job, first, children))
}

fn alive(job: JobId, first: Live, children: Children) -> impl IntoView {
    // The state of the displayed decisions.
    let decided = RwSignal::new(first.state.clone());
    let live = RwSignal::new(first);
    let order = Rc::new(AnswerOrder::default());
    // Consecutive failures: the connection is lost while it is not zero.
    let failed = RwSignal::new(0_u32);
    Effect::new(move |_| {
        if !live.with_untracked(|live| live.over) {
            let order = Rc::clone(&order);
            let look = Rc::new(move || -> listen::Looking { Box::pin(look(job, live, Rc::clone(&order))) });
            listen::follow(format!("/ui/events?job={job}"), Duration::ZERO, failed, look);
        }
    });

    Effect::new(move |_| {
        let state = live.read().state.clone();
        if state != decided.get_untracked() {
            spawn_local(async move {
                if follow::refresh().await.is_some() {
                    decided.set(state);
                }
            });
        }
    });

    // Unchanged parts are not written again, so that readers keep their position in them.
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
                    0 if live.read().over => "Job ended: no more updates".to_owned(),
                    0 => "Live updates".to_owned(),
                    _ => format!("Connection lost. These numbers are from {}; updates resume when the server answers.",
                        live.read().at),
                }}
            </p>
            <div inner_html=part(|live| &live.reason)></div>
        </section>
        <div class="decisions" hidden=move || live.read().state != decided.get()>{children()}</div>
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

/// The order of requests for the present state: an answer that arrives after a newer request's answer is old.
#[derive(Default)]
struct AnswerOrder {
    /// The number of requests.
    asked: Cell<u64>,
    /// The newest request that was answered.
    shown: Cell<u64>,
}

impl AnswerOrder {
    /// Numbers a request.
    fn ask(&self) -> u64 {
        self.asked.set(self.asked.get() + 1);
        self.asked.get()
    }

    /// Returns whether the answer to a request is newer than every answer before it.
    fn is_newest(&self, request: u64) -> bool {
        let newest = request > self.shown.get();
        if newest {
            self.shown.set(request);
        }
        newest
    }
}

/// Fetches the job's state; returns whether it is final, `None` without an answer.
async fn look(job: JobId, live: RwSignal<Live>, order: Rc<AnswerOrder>) -> Option<bool> {
    let request = order.ask();
    let text = fetch::get(&format!("/ui/watch?job={job}")).await?;
    // The answer is a JSON string that contains the JSON of a [`Live`].
    let now: Live = serde_json::from_str(&serde_json::from_str::<String>(&text).ok()?).ok()?;
    let over = now.over;
    if order.is_newest(request) {
        live.set(now);
    }
    Some(over)
}

#[cfg(test)]
mod tests {
    use super::AnswerOrder;

    #[test]
    fn an_old_answer_never_replaces_a_newer_one() {
        let order = AnswerOrder::default();
        let requests = [order.ask(), order.ask(), order.ask()];
        let newest = [1, 0, 2].map(|index: usize| order.is_newest(requests[index]));
        assert_eq!(newest, [true, false, true]);
    }
}
