//! A planner's form with its numbers beside it, for every kind. With a script it queries the server after every change,
//! without one a button recalculates the form. The server renders fields and numbers; this module is independent of the
//! kind. A kind that uses it is proposed at `/ui/propose-<word>`, saved at `/ui/draft-<word>` and weighed at
//! `/ui/weigh-<word>`, and its form is `plan-<word>`.

#![expect(missing_docs, reason = "the island macro makes a struct without words beside the documented function")]

use std::time::Duration;

use leptos::ev::SubmitEvent;
use leptos::html::Form;
use leptos::prelude::*;
use leptos::task::spawn_local;

use crate::fetch::{self, ServerReply};

/// The notice if the server is unreachable.
const UNREACHED: &str = "<p class=\"notice bad\" role=\"alert\">The server did not answer. Try again in a moment.</p>";
/// The notice while the form cannot be priced.
const INCOMPLETE: &str =
    "<p class=\"notice\">A number is empty or out of range. The cost appears when each number is valid.</p>";
/// The delay after the last change of a plan before the server computes its numbers.
const STILL: Duration = Duration::from_millis(400);

/// Renders the form with its numbers. The children are its fields, rendered on the server.
#[island]
pub fn PricedForm(
    /// The kind's word in addresses.
    word: String,
    /// The consortium of the future job.
    consortium: String,
    /// The address that recalculates the page, without a script.
    again: String,
    /// The cost of the plan, as HTML.
    cost: String,
    /// The fields.
    children: Children,
) -> impl IntoView {
    let form = NodeRef::<Form>::new();
    let live = RwSignal::new(false);
    let busy = RwSignal::new(false);
    let stale = RwSignal::new(false);
    let cost = RwSignal::new(cost);
    let problem = RwSignal::new(String::new());
    let changes = StoredValue::new(0_u32);
    let id = format!("plan-{word}");
    let kind = StoredValue::new(word);
    let endpoint = move |what: &str| format!("/ui/{what}-{}", kind.get_value());
    Effect::new(move |_| live.set(true));
    let changed = move |_| {
        changes.update_value(|count| *count = count.wrapping_add(1));
        let version = changes.get_value();
        let still = move || changes.get_value() == version;
        stale.set(true);
        let weigh = move || {
            let Some(form) = form.get_untracked().filter(|_| still()) else { return };
            if !fetch::has_valid_numbers(&form) {
                // The next change schedules the request again.
                cost.set(INCOMPLETE.to_owned());
                stale.set(false);
                return;
            }
            spawn_local(async move {
                let answer = fetch::post(&endpoint("weigh"), &form).await.filter(|answer| answer.done);
                if still() {
                    cost.set(answer.map_or_else(|| UNREACHED.to_owned(), |answer| answer.text));
                    stale.set(false);
                }
            });
        };
        set_timeout(weigh, STILL);
    };
    let submit = move |event: SubmitEvent| {
        // A button with an address of its own posts there.
        if event.submitter().is_some_and(|button| button.has_attribute("formaction")) {
            return;
        }
        event.prevent_default();
        let (Some(form), false) = (form.get_untracked(), busy.get_untracked()) else { return };
        busy.set(true);
        spawn_local(async move {
            match fetch::post(&endpoint("propose"), &form).await {
                // Leaving fails only while the browser is already leaving.
                Some(ServerReply { done: true, text }) => return drop(window().location().assign(&text)),
                Some(refused) => problem.set(refused.text),
                None => problem.set(UNREACHED.to_owned()),
            }
            busy.set(false);
        });
    };
    view! {
        <form id=id class="planner" class:live=move || live.get() node_ref=form method="post" action=endpoint("propose") autocomplete="off"
            on:submit=submit on:input=changed>
            <input type="hidden" name="consortium" value=consortium/>
            <div class="planner-form">{children()}</div>
            <section class="planner-cost" aria-label="Projected cost" aria-busy=move || stale.get().to_string()>
                <div aria-live="polite" class="tight" class:stale=move || stale.get() inner_html=move || cost.get()></div>
                <div inner_html=move || problem.get()></div>
                <div class="actions">
                    <button type="submit" class="primary" disabled=move || busy.get()>"Propose to the owners"</button>
                    <button type="submit" formaction=endpoint("draft") formnovalidate>"Save as a draft"</button>
                    <button type="submit" class="plain-only" formmethod="get" formaction=again formnovalidate>"Recalculate"</button>
                </div>
            </section>
        </form>
    }
}
