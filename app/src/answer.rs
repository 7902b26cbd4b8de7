//! Interactive annotation: an answer is sent and the next question arrives without a new page, so that no keystroke is
//! lost. The keys press the page's own buttons (see `component::keys`); without a script the same buttons post the same
//! form.
//!
//! The server renders every part as finished HTML (`part`, the same for the page and for every answer), so the browser
//! needs no knowledge of questions. An unrecorded answer is never shown as recorded: the question stays, with the
//! reason.

#![expect(missing_docs, reason = "the island macro makes a struct without words beside the documented function")]
#![expect(clippy::needless_pass_by_value, reason = "an island owns what it is given")]

#[cfg(feature = "ssr")]
pub(crate) mod part;
#[cfg(feature = "ssr")]
pub(crate) mod turn;

use std::time::Duration;

use leptos::ev::SubmitEvent;
use leptos::html::Form;
use leptos::prelude::*;
use leptos::task::spawn_local;
use leptos::web_sys::HtmlFormElement;
use serde::{Deserialize, Serialize};

use crate::fetch::{self, ServerReply};

/// The address to which answers are posted.
const ANNOTATE: &str = "/ui/annotate";
/// The polling interval of a page without a question.
const LOOK: Duration = Duration::from_secs(5);
/// The notice while the server is unreachable.
const LOST: &str = "<p class=\"notice bad\">The connection is lost, and the last answer was not kept. Give it again when the server answers.</p>";

/// One question and its surroundings, in HTML that the server rendered and escaped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// The question with the form's hidden fields, or the reason why there is none.
    pub question: String,
    /// The caller's progress, and the agreement between annotators.
    pub standing: String,
    /// The result of the last answer.
    pub said: String,
    /// Whether there is a question to answer.
    pub open: bool,
    /// Whether there is an answer to undo.
    pub undo: bool,
    /// The address to poll for a question; empty while there is one, and when there will be none.
    pub again: String,
}

/// Renders the annotation area. The children are the buttons, which are the same for every question.
#[island]
pub fn Answering(
    /// The first question: a [`Turn`] as JSON.
    first: String,
    /// The labels' buttons, rendered on the server.
    children: Children,
) -> impl IntoView {
    // The server wrote it; if it does not parse, the page stays as it was rendered.
    serde_json::from_str(&first).ok().map(|first| alive(first, children))
}

fn alive(first: Turn, children: Children) -> impl IntoView {
    let turn = RwSignal::new(first);
    let busy = RwSignal::new(false);
    let form = NodeRef::<Form>::new();
    Effect::new(move |_| keep_looking(turn));
    let send = move |event: SubmitEvent| {
        event.prevent_default();
        let pressed = event.submitter().and_then(|button| button.get_attribute("value"));
        let (Some(form), Some(pressed), false) = (form.get_untracked(), pressed, busy.get_untracked()) else { return };
        busy.set(true);
        spawn_local(async move {
            take(turn, fetch::post_pressed(ANNOTATE, &form, Some(("answer", &pressed))).await, &form);
            busy.set(false);
        });
    };
    let part = move |part: fn(&Turn) -> &String| {
        let html = Memo::new(move |_| part(&turn.read()).clone());
        move || html.get()
    };
    view! {
        <form class="answering" node_ref=form method="post" action=ANNOTATE autocomplete="off" on:submit=send
            aria-busy=move || busy.get().to_string()>
            <div class="asked" aria-live="polite" inner_html=part(|turn| &turn.question)></div>
            <div class="answers" hidden=move || !turn.read().open>{children()}</div>
            <div class="taken">
                <button type="submit" class="quiet" name="answer" value="undo" aria-keyshortcuts="z" hidden=move || !turn.read().undo>
                    <kbd>"z"</kbd>" Take the last answer back"
                </button>
                <div role="status" inner_html=part(|turn| &turn.said)></div>
            </div>
        </form>
        <section class="standing" aria-label="How far it is" inner_html=part(|turn| &turn.standing)></section>
    }
}

/// Applies the reply to an answer: the next question, or the reason why it was rejected.
fn take(turn: RwSignal<Turn>, came: Option<ServerReply>, form: &HtmlFormElement) {
    match came {
        Some(ServerReply { done: true, text }) => {
            if let Ok(next) = serde_json::from_str(&text) {
                turn.set(next);
                form.reset();
            }
        }
        Some(refused) => turn.update(|turn| turn.said = refused.text),
        None => turn.update(|turn| LOST.clone_into(&mut turn.said)),
    }
}

/// Polls for a question every few seconds while there is none.
fn keep_looking(turn: RwSignal<Turn>) {
    let look = move || {
        let address = turn.with_untracked(|turn| turn.again.clone());
        spawn_local(async move {
            if !address.is_empty() {
                let text = fetch::get(&address).await.and_then(|text| serde_json::from_str::<String>(&text).ok());
                let next = text.and_then(|text| serde_json::from_str::<Turn>(&text).ok());
                // Ignore the reply if an answer was undone meanwhile.
                if let Some(next) = next.filter(|_| turn.with_untracked(|turn| turn.again == address)) {
                    turn.set(next);
                }
            }
            keep_looking(turn);
        });
    };
    set_timeout(look, LOOK);
}
