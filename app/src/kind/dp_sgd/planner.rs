//! The planner: sliders for noise, sampling rate and rounds, with every party's remaining budget beside them, computed
//! in the browser. Without wasm it is a form that the server recalculates.

#![expect(unreachable_pub, reason = "the component macro makes what it generates public")]

mod advanced;
mod bands;
mod cost;
mod curve;
mod field;
pub(super) mod initial;
mod offer;
mod party;
mod rehearse;
mod terms;
pub(super) mod tight;

use std::time::Duration;

use leptos::ev::SubmitEvent;
use leptos::html::{Form, Input};
use leptos::prelude::*;
use leptos::task::spawn_local;
use undertone_api::budget::AccountStanding;
use undertone_api::dataset::{Dataset, Visibility};
use undertone_api::id::{ConsortiumId, DatasetId, DraftId};
use undertone_api::job::JobKind;
use undertone_api::model::InitialModelChoice;
use undertone_privacy::PrivacyUnit;

use super::description;
use super::plan::TrainingPlan;
use super::price::price_plan;
use crate::fault::Fault;
use crate::fetch::{self, ServerReply};
use crate::{path, words};
use cost::Costs;
use field::{ChoiceTable, FormField, PlanViolations, Slider, find_word, make_setter, parse_word, table_options};
use party::render_party;
pub use rehearse::rehearse_training;

/// The address that proposes a plan.
const PROPOSE: &str = "/ui/propose-dp-sgd";
/// The address that saves a plan as a draft.
pub(super) const SAVE: &str = "/ui/draft-dp-sgd";
/// The form's id, to which fields outside it refer.
pub(super) const FORM: &str = "plan-dp-sgd";
/// The notice if the server is unreachable.
const UNREACHED: &str = "<p class=\"notice bad\" role=\"alert\">The server did not answer. Try again in a moment.</p>";

/// The protected units to choose from.
const UNITS: &ChoiceTable<PrivacyUnit> = &[
    (PrivacyUnit::Speaker, "speaker", "speaker: all recordings of one person"),
    (PrivacyUnit::Record, "record", "record: one utterance"),
    (PrivacyUnit::User, "user", "user: all records with one id in the owner's column"),
];

/// The delay after the last change of a plan before the server computes its tight numbers.
const STILL: Duration = Duration::from_millis(600);

/// Proposes a plan, and with it the draft from which it was opened; returns the new job's address. An island receives a
/// problem as HTML, with its status.
///
/// # Errors
/// The operation's problem, to a browser that posts the form itself.
#[server(prefix = "/ui", endpoint = "propose-dp-sgd")]
pub async fn propose_training(
    consortium: ConsortiumId,
    #[server(default)] draft: Option<DraftId>,
    #[server(default)] version: Option<u64>,
    plan: TrainingPlan,
) -> Result<String, Fault> {
    use crate::kind::submission::PlanSubmission;
    use undertone_api::job::Spec;
    let submission = PlanSubmission::new(consortium, (draft, version), &plan.title, "plan", &plan);
    submission.propose(|datasets| plan.spec(datasets).map(Spec::DpSgd)).await
}

/// Saves a plan as a draft, without a request for approval; it replaces the draft from which it was opened, if any.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "draft-dp-sgd")]
pub async fn save_training(
    consortium: ConsortiumId,
    #[server(default)] draft: Option<DraftId>,
    #[server(default)] version: Option<u64>,
    plan: TrainingPlan,
) -> Result<(), Fault> {
    use crate::kind::submission::PlanSubmission;
    use undertone_api::job::Spec;
    let submission = PlanSubmission::new(consortium, (draft, version), &plan.title, "plan", &plan);
    submission.save(|datasets| plan.spec(datasets).map(Spec::DpSgd)).await
}

/// Renders the planner of a `dp_sgd` job.
#[island]
pub fn Planner(
    /// The consortium of the future job.
    consortium: ConsortiumId,
    /// The datasets that may take part.
    datasets: Vec<Dataset>,
    /// The balances of their accounts.
    standings: Vec<(DatasetId, Vec<AccountStanding>)>,
    /// The registry models with which the job can begin.
    initials: Vec<InitialModelChoice>,
    /// The initial plan.
    plan: TrainingPlan,
    /// The tight numbers of that plan, as HTML.
    tight: String,
) -> impl IntoView {
    let initial = plan.clone();
    let plan = RwSignal::new(plan);
    let live = RwSignal::new(false);
    let problem = RwSignal::new(String::new());
    let busy = RwSignal::new(false);
    let title = NodeRef::<Input>::new();
    let form = NodeRef::<Form>::new();
    Effect::new(move |_| {
        live.set(true);
        // Take over text typed before the script loaded.
        if let Some(title) = title.get() {
            plan.update(|plan| plan.title = title.value());
        }
    });

    let datasets = StoredValue::new(datasets);
    let standings = StoredValue::new(standings);
    let choices = StoredValue::new(initials);
    let spec = Memo::new(move |_| plan.read().spec(&datasets.read_value()));
    let differences = Memo::new(move |_| match &*spec.read() {
        Ok(spec) => choices.with_value(|choices| initial::check_initial(spec, choices)),
        Err(_) => Vec::new(),
    });
    let violations = Memo::new(move |_| match &*spec.read() {
        Ok(spec) => {
            let mut violations = datasets.with_value(|datasets| spec.check(datasets));
            violations.extend(differences.get());
            violations
        }
        Err(violations) => violations.clone(),
    });
    provide_context(PlanViolations(violations));
    let prices = Memo::new(move |_| {
        let spec = spec.read();
        let price = |datasets: &Vec<Dataset>| {
            standings.with_value(|standings| Some(price_plan(spec.as_ref().ok()?, datasets, standings)))
        };
        datasets.with_value(price)
    });
    let tight = RwSignal::new(tight);
    let stale = RwSignal::new(false);
    Effect::new(move |before: Option<()>| {
        plan.track();
        if before.is_some() {
            stale.set(true);
            schedule_pricing(plan, form, tight, stale);
        }
    });
    let submit = move |event: SubmitEvent| {
        // A button with an address of its own posts there.
        if event.submitter().is_some_and(|button| button.has_attribute("formaction")) {
            return;
        }
        event.prevent_default();
        if busy.get_untracked() {
            return;
        }
        let Some(form) = form.get_untracked() else { return };
        busy.set(true);
        spawn_local(async move {
            match fetch::post(PROPOSE, &form).await {
                // Leaving fails only while the browser is already leaving.
                Some(ServerReply { done: true, text }) => return drop(window().location().assign(&text)),
                Some(refused) => problem.set(refused.text),
                None => problem.set(UNREACHED.to_owned()),
            }
            busy.set(false);
        });
    };
    let open_possible = datasets.with_value(|all| all.iter().any(|d| d.visibility == Visibility::Open));
    let leads = datasets.with_value(|all| {
        all.iter()
            .filter(|d| d.visibility == Visibility::Public)
            .map(|d| (d.id.to_string(), d.name.clone()))
            .collect::<Vec<_>>()
    });
    let rows = datasets.with_value(|all| {
        let row = |(index, dataset): (usize, &Dataset)| {
            let part = initial.part(dataset.id)?;
            Some(render_party(index, dataset, part, plan, prices))
        };
        all.iter().enumerate().map(row).collect::<Vec<_>>()
    });

    // The description of a round; the price beside it follows.
    let leaves = move || {
        let plan = plan.read();
        description::describe_releases(plan.steps.local, plan.trials.on && plan.private)
    };
    let curves = datasets.with_value(|all| {
        let private_datasets = all.iter().filter(|dataset| dataset.visibility != Visibility::Public);
        private_datasets.map(|dataset| curve::render_curve(dataset, prices)).collect_view()
    });

    let verdict = move || match &*prices.read() {
        Some(prices) => cost::summarize_prices(&prices.verdicts, prices.buys.as_ref()),
        None => format!("{} to correct.", words::plural(violations.read().len() as u64, "field")),
    };

    view! {
        <form id=FORM class="planner" class:live=move || live.get() node_ref=form method="post" action=PROPOSE autocomplete="off" on:submit=submit>
            <input type="hidden" name="consortium" value=consortium.to_string()/>
            <div class="planner-form">
                <fieldset>
                    <legend>"Job"</legend>
                    <label class="field"><span>"Title"</span>
                        <input type="text" node_ref=title name="plan[title]" required maxlength="100" autocomplete="off"
                            placeholder="Shown to the consortium" value=initial.title.clone()
                            on:input=move |event| plan.update(|plan| plan.title = event_target_value(&event))/>
                    </label>
                    {FormField { name: "plan[unit]", at: "unit", label: "Protect each" }
                        .choice(find_word(UNITS, &initial.unit), table_options(UNITS), make_setter(plan, |plan, text: String| plan.unit = parse_word(UNITS, &text).unwrap_or(plan.unit)))}
                    <div class="field">
                        <span>"Arms of the comparison"</span>
                        <label class="check"><input type="checkbox" checked disabled/>"Public data, after the initial model (warm start)"</label>
                        <label class="check" class:off=!open_possible>
                            <input type="checkbox" name="plan[open]" value="true" checked=initial.open disabled=!open_possible
                                on:change=move |event| plan.update(|plan| plan.open = event_target_checked(&event))/>
                            <span>
                                "Public and open private data, without protection"
                                {(!open_possible).then(|| view! { <small>" · no data are marked open for it"</small> })}
                            </span>
                        </label>
                        <label class="check">
                            <input type="checkbox" name="plan[private]" value="true" checked=initial.private
                                on:change=move |event| plan.update(|plan| plan.private = event_target_checked(&event))/>
                            "Public and private data, by DP-SGD"
                        </label>
                        <label class="check">
                            <input type="checkbox" name="plan[audit]" value="true" checked=initial.audit
                                on:change=move |event| plan.update(|plan| plan.audit = event_target_checked(&event))/>
                            "Audit: measure a lower bound on the privacy loss before the model is available"
                        </label>
                    </div>
                </fieldset>
                <fieldset>
                    <legend>"Participants"</legend>
                    {FormField { name: "plan[lead]", at: "participants.0.dataset", label: "Lead: trains the warm start and evaluates" }
                        .choice(&initial.lead.to_string(), leads, make_setter(plan, |plan, text: String| plan.lead = text.parse().unwrap_or(plan.lead)))}
                    <div class="parties">{rows}</div>
                    {terms::render_terms(plan, &initial)}
                    {bands::render_bands(plan, &initial, datasets)}
                </fieldset>
                <fieldset>
                    <legend>"Rounds"</legend>
                    <Slider name="plan[rounds]" at="rounds" label="Rounds" help="Each is charged once to every private party" value=f64::from(initial.rounds) low=1.0 high=1000.0 whole=true
                        get=Signal::derive(move || f64::from(plan.read().rounds)) set=make_setter(plan, |plan, value| plan.rounds = value as u32)/>
                    <Slider name="plan[steps][local]" at="local_steps" label="Local steps per round" help="Steps of each party between two averages" value=f64::from(initial.steps.local) low=1.0 high=10_000.0 whole=true
                        get=Signal::derive(move || f64::from(plan.read().steps.local)) set=make_setter(plan, |plan, value| plan.steps.local = value as u32)/>
                    <p class="hint">{leaves}</p>
                    {FormField { name: "plan[may_miss]", at: "quorum", label: "Most missing contributors per round" }
                        .number(f64::from(initial.may_miss), (0.0, 99.0), true, make_setter(plan, |plan, value| plan.may_miss = value as u32))}
                    {FormField { name: "plan[deadline]", at: "deadline_seconds", label: "Round deadline, seconds" }
                        .number(f64::from(initial.deadline), (1.0, 86_400.0), true, make_setter(plan, |plan, value| plan.deadline = value as u32))}
                    {FormField { name: "plan[spare]", at: "spare_releases", label: "Reserve rounds, to repeat after a crash" }
                        .number(f64::from(initial.spare), (0.0, 1000.0), true, make_setter(plan, |plan, value| plan.spare = value as u32))}
                </fieldset>
                {choices.with_value(|choices| initial::render_initial(plan, &initial, (choices, differences), consortium))}
                {advanced::render_advanced(plan, &initial)}
            </div>
            <section class="planner-cost" aria-labelledby="cost-title">
                <h2 id="cost-title">"Projected cost"</h2>
                <div aria-live="polite"><Costs prices violations datasets plan consortium/></div>
                <div class="actions">
                    <div class="planner-problem" role="alert" inner_html=move || problem.get()></div>
                    <p class="planner-verdict">{verdict}</p>
                    <button type="submit" class="primary" disabled=move || busy.get() || !violations.read().is_empty()>
                        {move || if busy.get() { "Proposing" } else { "Propose to the owners" }}
                    </button>
                    <button type="submit" formaction=SAVE formnovalidate>"Save as a draft"</button>
                    <button type="submit" class="plain-only" formmethod="get" formaction=path::plan(consortium) formnovalidate>"Recalculate"</button>
                </div>
                <p class="hint">"A budget adds up the worst case of every job, so its change slightly exceeds the job's own cost."</p>
                <p class="hint">"Nothing runs and nothing is charged before every owner has approved and every ledger has reserved its worst case."</p>
            </section>
            <section class="planner-more" aria-labelledby="curves-title" hidden=move || prices.read().as_ref().is_none_or(|prices| prices.buys.is_none())>
                <h2 id="curves-title">"Cost of rounds"</h2>
                <div class="tight" class:stale=move || stale.get() aria-busy=move || stale.get().to_string() inner_html=move || tight.get()></div>
                <div class="charts">{curves}</div>
            </section>
            {rehearse::render_request()}
        </form>
    }
}

/// Requests the tight numbers once the plan has been unchanged for a moment and every number of the form is valid.
fn schedule_pricing(plan: RwSignal<TrainingPlan>, form: NodeRef<Form>, tight: RwSignal<String>, stale: RwSignal<bool>) {
    let snapshot = plan.get_untracked();
    let still = move || plan.with_untracked(|plan| *plan == snapshot);
    let ask = move || {
        let Some(element) = form.get_untracked().filter(|_| still()) else { return };
        if !fetch::has_valid_numbers(&element) {
            return schedule_pricing(plan, form, tight, stale);
        }
        spawn_local(async move {
            let answer = fetch::post(tight::WEIGH, &element).await;
            if still() {
                tight.set(answer.filter(|answer| answer.done).map(|answer| answer.text).unwrap_or_default());
                stale.set(false);
            }
        });
    };
    set_timeout(ask, STILL);
}
