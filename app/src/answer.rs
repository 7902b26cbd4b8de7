//! Answering questions, alive: an answer is sent and the next question comes without a new page, so that no key is lost on the
//! way. The keys themselves press the page's own buttons (see `component::keys`); without a script the same buttons post the
//! same form.
//!
//! The server says every part in finished HTML (`part`, the same for the page and for every answer), so the browser needs to
//! know nothing of questions. An answer that was not recorded is never shown as one: the question stays, with the reason.

#![expect(missing_docs, reason = "the island macro makes a struct without words beside the documented function")]
#![expect(clippy::needless_pass_by_value, reason = "an island owns what it is given")]

#[cfg(feature = "ssr")]
pub(crate) mod part;

use std::time::Duration;

use leptos::ev::SubmitEvent;
use leptos::html::Form;
use leptos::prelude::*;
use leptos::task::spawn_local;
use leptos::web_sys::HtmlFormElement;
use serde::{Deserialize, Serialize};

use crate::call::ask::{self, Answered};

/// Where answers are posted to.
const ANNOTATE: &str = "/ui/annotate";
/// How long a page without a question waits before it looks again.
const LOOK: Duration = Duration::from_secs(5);
/// What is said when the server cannot be reached.
const LOST: &str = "<p class=\"notice bad\">The connection is lost, and the last answer was not kept. Give it again when the server answers.</p>";

/// One question and what is around it, in HTML that the server rendered and escaped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// The question with what the form must carry; or why there is none.
    pub question: String,
    /// How far the caller is, and how people agree.
    pub standing: String,
    /// What became of the last answer.
    pub said: String,
    /// Whether there is a question to answer.
    pub open: bool,
    /// Whether there is an answer to take back.
    pub undo: bool,
    /// Where to look again for a question; empty while there is one, and when there will be none.
    pub again: String,
}

/// The place where questions are answered. The children are the buttons, which are the same for every question.
#[island]
pub fn Answering(
    /// The first question: a [`Turn`] as JSON.
    first: String,
    /// The labels' buttons, rendered in the server.
    children: Children,
) -> impl IntoView {
    // The server wrote it a moment ago; a page without it stays as it was rendered.
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
            take(turn, ask::post_pressed(ANNOTATE, &form, Some(("answer", &pressed))).await, &form);
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

/// What came of an answer: the next question, or why it was not taken.
fn take(turn: RwSignal<Turn>, came: Option<Answered>, form: &HtmlFormElement) {
    match came {
        Some(Answered { done: true, text }) => {
            if let Ok(next) = serde_json::from_str(&text) {
                turn.set(next);
                form.reset();
            }
        }
        Some(refused) => turn.update(|turn| turn.said = refused.text),
        None => turn.update(|turn| LOST.clone_into(&mut turn.said)),
    }
}

/// Looks every few seconds whether there is a question, while there is none.
fn keep_looking(turn: RwSignal<Turn>) {
    let look = move || {
        let address = turn.with_untracked(|turn| turn.again.clone());
        spawn_local(async move {
            if !address.is_empty() {
                let text = ask::get(&address).await.and_then(|text| serde_json::from_str::<String>(&text).ok());
                let next = text.and_then(|text| serde_json::from_str::<Turn>(&text).ok());
                // Unless an answer was taken back meanwhile.
                if let Some(next) = next.filter(|_| turn.with_untracked(|turn| turn.again == address)) {
                    turn.set(next);
                }
            }
            keep_looking(turn);
        });
    };
    set_timeout(look, LOOK);
}
