//! The planner: a plain form, and beside it what every owner would have left and which thresholds would do. The server makes all of
//! it, with the code that decides; with a script the numbers follow the form by themselves, without one it is recalculated.

#![expect(unreachable_pub, reason = "the component macro makes what it generates public")]

#[cfg(feature = "ssr")]
pub(super) mod cost;
#[cfg(feature = "ssr")]
mod form;

use std::time::Duration;

use leptos::ev::SubmitEvent;
use leptos::html::Form;
use leptos::prelude::*;
use leptos::task::spawn_local;
use undertone_api::id::{ConsortiumId, DraftId};

use super::plan::Plan;
use crate::call::Fault;
use crate::call::ask::{self, Answered};

#[cfg(feature = "ssr")]
pub(super) use form::planner;

/// Where a plan is proposed.
const PROPOSE: &str = "/ui/propose-active-learning";
/// Where a plan is saved as a draft.
pub(super) const SAVE: &str = "/ui/draft-active-learning";
/// The form's id, by which fields outside it are of it.
pub(super) const FORM: &str = "plan-active-learning";
/// Where its numbers are asked.
const WEIGH: &str = "/ui/weigh-active-learning";
/// What is said when nobody answers.
const UNREACHED: &str =
    "<p class=\"notice bad\" role=\"alert\">The server could not be asked. Try again in a moment.</p>";
/// How long a plan is left alone before the server is asked about it.
const STILL: Duration = Duration::from_millis(400);

/// Proposes a plan, and with it the draft from which it was opened; gives the new job's address. An island that asks is
/// given a problem in words, as HTML, with its status.
///
/// # Errors
/// The backend's [`Problem`](undertone_api::problem::Problem), to a browser that posts the form itself.
#[server(prefix = "/ui", endpoint = "propose-active-learning")]
pub async fn propose_questions(
    consortium: ConsortiumId,
    #[server(default)] draft: Option<DraftId>,
    #[server(default)] version: Option<u64>,
    ask: Plan,
) -> Result<String, Fault> {
    use crate::kind::posted::Posted;
    use undertone_api::job::Spec;
    let posted = Posted::new(consortium, (draft, version), &ask.title, "ask", &ask);
    posted.propose(|datasets| ask.spec(datasets).map(Spec::ActiveLearning)).await
}

/// Saves a plan as a draft, which nobody is asked about; in the draft from which it was opened, if it was.
///
/// # Errors
/// The backend's [`Problem`](undertone_api::problem::Problem).
#[server(prefix = "/ui", endpoint = "draft-active-learning")]
pub async fn save_questions(
    consortium: ConsortiumId,
    #[server(default)] draft: Option<DraftId>,
    #[server(default)] version: Option<u64>,
    ask: Plan,
) -> Result<(), Fault> {
    use crate::kind::posted::Posted;
    use undertone_api::job::Spec;
    let posted = Posted::new(consortium, (draft, version), &ask.title, "ask", &ask);
    posted.save(|datasets| ask.spec(datasets).map(Spec::ActiveLearning)).await
}

/// What a plan would cost, as HTML; or what is wrong with it.
///
/// # Errors
/// The backend's [`Problem`](undertone_api::problem::Problem).
#[server(prefix = "/ui", endpoint = "weigh-active-learning")]
pub async fn weigh_questions(consortium: ConsortiumId, ask: Plan) -> Result<String, Fault> {
    let backend = crate::backend::backend()?;
    let datasets = backend.datasets(consortium).await?;
    let mut standings = Vec::new();
    for part in ask.joining() {
        let private = |dataset: &&undertone_api::dataset::Dataset| {
            dataset.id == part.dataset && dataset.visibility != undertone_api::dataset::Visibility::Public
        };
        if let Some(dataset) = datasets.iter().find(private) {
            standings.push((dataset.id, backend.standing(dataset.id).await?));
        }
    }
    Ok(cost::told(&ask, &datasets, &standings, consortium))
}

/// The form with its numbers. The children are its fields, rendered in the server.
#[island]
pub fn Weighed(
    /// Where the job is to be proposed.
    consortium: String,
    /// Where the page is asked again with other numbers, without a script.
    again: String,
    /// What the plan would cost, as HTML.
    cost: String,
    /// The fields.
    children: Children,
) -> impl IntoView {
    let form = NodeRef::<Form>::new();
    let (live, busy, stale) = (RwSignal::new(false), RwSignal::new(false), RwSignal::new(false));
    let (cost, problem) = (RwSignal::new(cost), RwSignal::new(String::new()));
    let changes = StoredValue::new(0_u32);
    Effect::new(move |_| live.set(true));
    let changed = move |_| {
        changes.update_value(|count| *count = count.wrapping_add(1));
        let seen = changes.get_value();
        let still = move || changes.get_value() == seen;
        stale.set(true);
        let weigh = move || {
            let Some(form) = form.get_untracked().filter(|_| still()) else { return };
            spawn_local(async move {
                let answer = ask::post(WEIGH, &form).await.filter(|answer| answer.done);
                if still() {
                    cost.set(answer.map_or_else(|| UNREACHED.to_owned(), |answer| answer.text));
                    stale.set(false);
                }
            });
        };
        set_timeout(weigh, STILL);
    };
    let submit = move |event: SubmitEvent| {
        // A button with an address of its own goes there.
        if event.submitter().is_some_and(|button| button.has_attribute("formaction")) {
            return;
        }
        event.prevent_default();
        let (Some(form), false) = (form.get_untracked(), busy.get_untracked()) else { return };
        busy.set(true);
        spawn_local(async move {
            match ask::post(PROPOSE, &form).await {
                // Leaving fails only while the browser is already leaving.
                Some(Answered { done: true, text }) => return drop(window().location().assign(&text)),
                Some(refused) => problem.set(refused.text),
                None => problem.set(UNREACHED.to_owned()),
            }
            busy.set(false);
        });
    };
    view! {
        <form id=FORM class="planner" class:live=move || live.get() node_ref=form method="post" action=PROPOSE autocomplete="off"
            on:submit=submit on:input=changed>
            <input type="hidden" name="consortium" value=consortium/>
            <div class="planner-form">{children()}</div>
            <section class="planner-cost" aria-label="What it would cost" aria-busy=move || stale.get().to_string()>
                <div aria-live="polite" class="tight" class:stale=move || stale.get() inner_html=move || cost.get()></div>
                <div inner_html=move || problem.get()></div>
                <div class="actions">
                    <button type="submit" class="primary" disabled=move || busy.get()>"Propose to the owners"</button>
                    <button type="submit" formaction=SAVE formnovalidate>"Save as a draft"</button>
                    <button type="submit" class="plain-only" formmethod="get" formaction=again formnovalidate>"Recalculate"</button>
                </div>
            </section>
        </form>
    }
}
