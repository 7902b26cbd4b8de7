//! The planner: sliders for noise, sampling rate and rounds, and beside them what every party would have left, computed
//! where the sliders are. Without wasm it is a form that the server recalculates.

#![expect(unreachable_pub, reason = "the component macro makes what it generates public")]

mod cost;
mod curve;
mod field;
mod offer;
pub(super) mod tight;

use std::time::Duration;

use leptos::ev::SubmitEvent;
use leptos::html::{Form, Input};
use leptos::prelude::*;
use leptos::task::spawn_local;
use undertone_api::dataset::{Dataset, Visibility};
use undertone_api::id::{ConsortiumId, DatasetId};
use undertone_api::job::Kind;
use undertone_privacy::PrivacyUnit;

use super::plan::{Part, Plan, Step, account, least_noise};
use super::price::prices;
use crate::call::Fault;
use crate::call::ask::{self, Answered};
use crate::component::said::VisibilityMark;
use crate::standing::Standing;
use crate::{path, words};
use cost::Costs;
use field::{Choice, Number, Slider};

/// Where a plan is proposed.
const PROPOSE: &str = "/ui/propose-dp-sgd";
/// What is said when nobody answers.
const UNREACHED: &str =
    "<p class=\"notice bad\" role=\"alert\">The server could not be asked. Try again in a moment.</p>";

/// How long a plan is left alone before the server is asked about it.
const STILL: Duration = Duration::from_millis(600);

/// Proposes a plan; gives the new job's address. An island that asks is given a problem in words, as HTML, with its status.
///
/// # Errors
/// The backend's [`Problem`](undertone_api::problem::Problem), to a browser that posts the form itself.
#[server(prefix = "/ui", endpoint = "propose-dp-sgd")]
pub async fn propose(consortium: ConsortiumId, plan: Plan) -> Result<String, Fault> {
    use crate::call::native;
    use undertone_api::job::{NewJob, Spec};
    use undertone_api::problem::Problem;
    let backend = crate::backend::backend()?;
    let proposed = async {
        let datasets = backend.datasets(consortium).await?;
        let spec = plan.spec(&datasets).map_err(Problem::validation)?;
        backend.propose(consortium, NewJob { title: plan.title.clone(), spec: Spec::DpSgd(spec) }).await
    };
    let proposed = proposed.await.map(|job| path::job(consortium, job.summary.id));
    if native::wants_html() {
        native::land(
            proposed.clone(),
            Clone::clone,
            Some("The job is proposed to the owners of its data.".to_owned()),
        )?;
        return Ok(proposed.unwrap_or_default());
    }
    Ok(proposed.unwrap_or_else(native::told))
}

/// The planner of a `dp_sgd` job.
#[island]
pub fn Planner(
    /// Where the job is to be proposed.
    consortium: ConsortiumId,
    /// The datasets that may take part.
    datasets: Vec<Dataset>,
    /// The balances of their accounts.
    standings: Vec<(DatasetId, Vec<Standing>)>,
    /// What to begin with.
    plan: Plan,
    /// The tight numbers of that, as HTML.
    tight: String,
) -> impl IntoView {
    let shown = plan.clone();
    let plan = RwSignal::new(plan);
    let live = RwSignal::new(false);
    let problem = RwSignal::new(String::new());
    let busy = RwSignal::new(false);
    let (title, form) = (NodeRef::<Input>::new(), NodeRef::<Form>::new());
    Effect::new(move |_| {
        live.set(true);
        // What was typed before the script arrived.
        if let Some(title) = title.get() {
            plan.update(|plan| plan.title = title.value());
        }
    });

    let datasets = StoredValue::new(datasets);
    let standings = StoredValue::new(standings);
    let spec = Memo::new(move |_| plan.read().spec(&datasets.read_value()));
    let violations = Memo::new(move |_| match &*spec.read() {
        Ok(spec) => datasets.with_value(|datasets| spec.check(datasets)),
        Err(violations) => violations.clone(),
    });
    let prices = Memo::new(move |_| {
        let spec = spec.read();
        let price = |datasets: &Vec<Dataset>| {
            standings.with_value(|standings| Some(prices(spec.as_ref().ok()?, datasets, standings)))
        };
        datasets.with_value(price)
    });
    let (tight, stale) = (RwSignal::new(tight), RwSignal::new(false));
    Effect::new(move |before: Option<()>| {
        plan.track();
        if before.is_some() {
            stale.set(true);
            weigh_when_still(plan, form, tight, stale);
        }
    });
    let submit = move |event: SubmitEvent| {
        event.prevent_default();
        if busy.get_untracked() {
            return;
        }
        let Some(form) = form.get_untracked() else { return };
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
    let open_possible = datasets.with_value(|all| all.iter().any(|d| d.visibility == Visibility::Open));
    let leads = datasets.with_value(|all| {
        all.iter()
            .filter(|d| d.visibility == Visibility::Public)
            .map(|d| (d.id.to_string(), d.name.clone()))
            .collect::<Vec<_>>()
    });
    let rows = datasets.with_value(|all| {
        let row = |(index, dataset): (usize, &Dataset)| {
            let part = shown.part(dataset.id)?;
            Some(party(index, dataset, part, plan, standings))
        };
        all.iter().enumerate().map(row).collect::<Vec<_>>()
    });

    let curves = datasets.with_value(|all| {
        let charged = all.iter().filter(|dataset| dataset.visibility != Visibility::Public);
        charged.map(|dataset| curve::curve(dataset, prices)).collect_view()
    });

    view! {
        <form class="planner" class:live=move || live.get() node_ref=form method="post" action=PROPOSE autocomplete="off" on:submit=submit>
            <input type="hidden" name="consortium" value=consortium.to_string()/>
            <div class="planner-form">
                <fieldset>
                    <legend>"The job"</legend>
                    <label class="field"><span>"Title"</span>
                        <input type="text" node_ref=title name="plan[title]" required maxlength="100" autocomplete="off"
                            placeholder="What the consortium will know it by" value=shown.title.clone()
                            on:input=move |event| plan.update(|plan| plan.title = event_target_value(&event))/>
                    </label>
                    <Choice name="plan[unit]" label="Protect each" chosen=words::unit(shown.unit)
                        options=vec![("speaker".into(), "speaker: all that one person said".into()), ("record".into(), "record: one utterance by itself".into())]
                        set=Callback::new(move |value: String| plan.update(|plan| plan.unit = if value == "record" { PrivacyUnit::Record } else { PrivacyUnit::Speaker }))/>
                    <div class="field">
                        <span>"Arms of the comparison"</span>
                        <label class="check"><input type="checkbox" checked disabled/>"Public data only: the warm start"</label>
                        <label class="check" class:off=!open_possible>
                            <input type="checkbox" name="plan[open]" value="true" checked=shown.open disabled=!open_possible
                                on:change=move |event| plan.update(|plan| plan.open = event_target_checked(&event))/>
                            "Public and open private data, in the clear"
                            {(!open_possible).then(|| view! { <small>" · no owner has marked data open for it"</small> })}
                        </label>
                        <label class="check">
                            <input type="checkbox" name="plan[private]" value="true" checked=shown.private
                                on:change=move |event| plan.update(|plan| plan.private = event_target_checked(&event))/>
                            "Public and private data, by DP-SGD"
                        </label>
                        <label class="check">
                            <input type="checkbox" name="plan[audit]" value="true" checked=shown.audit
                                on:change=move |event| plan.update(|plan| plan.audit = event_target_checked(&event))/>
                            "Audit it: measure from below what it gives away, before anybody gets the model"
                        </label>
                    </div>
                </fieldset>
                <fieldset>
                    <legend>"Who takes part"</legend>
                    <Choice name="plan[lead]" label="Leads, trains the warm start and measures" chosen=shown.lead.to_string() options=leads
                        set=Callback::new(move |value: String| if let Ok(lead) = value.parse() { plan.update(|plan| plan.lead = lead) })/>
                    <div class="parties">{rows}</div>
                </fieldset>
                <fieldset>
                    <legend>"Rounds"</legend>
                    <Slider name="plan[rounds]" label="Rounds" help="Each pays one release at every private party" value=f64::from(shown.rounds) low=1.0 high=1000.0 whole=true
                        get=Signal::derive(move || f64::from(plan.read().rounds)) set=Callback::new(move |v: f64| plan.update(|p| p.rounds = v as u32))/>
                    <Number name="plan[may_miss]" label="Contributors a round may miss" value=f64::from(shown.may_miss) low=0.0 high=99.0 step="1"
                        set=Callback::new(move |v: f64| plan.update(|p| p.may_miss = v as u32))/>
                    <Number name="plan[deadline]" label="Seconds a round waits for all" value=f64::from(shown.deadline) low=1.0 high=86400.0 step="1"
                        set=Callback::new(move |v: f64| plan.update(|p| p.deadline = v as u32))/>
                    <Number name="plan[spare]" label="Releases in reserve, for rounds paid again after a crash" value=f64::from(shown.spare) low=0.0 high=1000.0 step="1"
                        set=Callback::new(move |v: f64| plan.update(|p| p.spare = v as u32))/>
                </fieldset>
                <details class="more">
                    <summary>"Model and training"</summary>
                    <Number name="plan[hidden]" label="Hidden units of the LSTM" value=f64::from(shown.hidden) low=1.0 high=2048.0 step="1"
                        set=Callback::new(move |v: f64| plan.update(|p| p.hidden = v as u32))/>
                    <Number name="plan[epochs]" label="Passes of the warm start" value=f64::from(shown.epochs) low=0.0 high=1000.0 step="1"
                        set=Callback::new(move |v: f64| plan.update(|p| p.epochs = v as u32))/>
                    <Number name="plan[batch]" label="Utterances in a warm-start batch" value=f64::from(shown.batch) low=1.0 high=1024.0 step="1"
                        set=Callback::new(move |v: f64| plan.update(|p| p.batch = v as u32))/>
                    <Number name="plan[warm_rate]" label="Learning rate of the warm start" value=shown.warm_rate low=0.0 high=1.0 step="any"
                        set=Callback::new(move |v: f64| plan.update(|p| p.warm_rate = v))/>
                    <Choice name="plan[step]" label="Step of the rounds" chosen=if shown.step == Step::Sgd { "sgd" } else { "adam" }
                        options=vec![("adam".into(), "Adam".into()), ("sgd".into(), "SGD".into())]
                        set=Callback::new(move |value: String| plan.update(|p| p.step = if value == "sgd" { Step::Sgd } else { Step::Adam }))/>
                    <Number name="plan[learning_rate]" label="Learning rate of the rounds" value=shown.learning_rate low=0.0 high=1000.0 step="any"
                        set=Callback::new(move |v: f64| plan.update(|p| p.learning_rate = v))/>
                    <Number name="plan[evaluate_every]" label="Measure every so many rounds" value=f64::from(shown.evaluate_every) low=1.0 high=10000.0 step="1"
                        set=Callback::new(move |v: f64| plan.update(|p| p.evaluate_every = v as u32))/>
                </details>
            </div>
            <section class="planner-cost" aria-labelledby="cost-title">
                <h2 id="cost-title">"What it would cost"</h2>
                <div aria-live="polite"><Costs prices violations datasets plan consortium/></div>
                <div inner_html=move || problem.get()></div>
                <div class="actions">
                    <button type="submit" class="primary" disabled=move || busy.get() || !violations.read().is_empty()>
                        {move || if busy.get() { "Proposing" } else { "Propose to the owners" }}
                    </button>
                    <button type="submit" class="plain-only" formmethod="get" formaction=path::plan(consortium) formnovalidate>"Recalculate"</button>
                </div>
                <p class="hint">"A budget adds up the worst of every job, and so moves by a little more than a job costs by itself."</p>
                <p class="hint">"Nothing runs and nothing is charged until every owner has approved and every ledger has reserved its worst case."</p>
            </section>
            <section class="planner-more" aria-labelledby="curves-title" hidden=move || prices.read().as_ref().is_none_or(|prices| prices.buys.is_none())>
                <h2 id="curves-title">"What rounds cost"</h2>
                <div class="tight" class:stale=move || stale.get() aria-busy=move || stale.get().to_string() inner_html=move || tight.get()></div>
                <div class="charts">{curves}</div>
            </section>
        </form>
    }
}

/// Asks for the tight numbers once the plan has been left alone for a moment.
fn weigh_when_still(plan: RwSignal<Plan>, form: NodeRef<Form>, tight: RwSignal<String>, stale: RwSignal<bool>) {
    let asked = plan.get_untracked();
    let still = move || plan.with_untracked(|plan| *plan == asked);
    let ask = move || {
        let Some(form) = form.get_untracked().filter(|_| still()) else { return };
        spawn_local(async move {
            let answer = ask::post(tight::WEIGH, &form).await;
            if still() {
                tight.set(answer.filter(|answer| answer.done).map(|answer| answer.text).unwrap_or_default());
                stale.set(false);
            }
        });
    };
    set_timeout(ask, STILL);
}

/// One dataset's row of the form.
fn party(
    index: usize,
    dataset: &Dataset,
    part: &Part,
    plan: RwSignal<Plan>,
    standings: StoredValue<Vec<(DatasetId, Vec<Standing>)>>,
) -> impl IntoView + use<> {
    let name = |field: &str| format!("plan[parts][{index}][{field}]");
    let change =
        move |change: &dyn Fn(&mut Part)| plan.update(|plan| plan.parts.get_mut(index).into_iter().for_each(change));
    let get = move |get: fn(&Part) -> f64| Signal::derive(move || plan.read().parts.get(index).map_or(0.0, get));
    let id = dataset.id;
    let public = dataset.visibility == Visibility::Public;
    let leads = move || plan.read().lead == id;
    let joins = move || leads() || plan.read().parts.get(index).is_some_and(|part| part.joins);
    let (records, speakers) = (dataset.records.0, dataset.speakers.0);
    let batch = move || {
        let plan = plan.read();
        let n = if plan.unit == PrivacyUnit::Record { records } else { speakers };
        let expected = plan.parts.get(index).map_or(0.0, |part| part.rate) * n as f64;
        format!(
            "about {} of {} in a round",
            words::number((expected * 10.0).round() / 10.0),
            words::plural(n, words::unit(plan.unit))
        )
    };
    let fit = move |_| {
        let (unit, rate, releases) = plan.with_untracked(|plan| {
            let rate = plan.parts.get(index).map_or(1.0, |part| part.rate);
            (plan.unit, rate, u64::from(plan.rounds) + u64::from(plan.spare))
        });
        let least = |all: &Vec<_>| least_noise(account(id, all, unit)?, rate, releases);
        if let Some(noise) = standings.with_value(least) {
            change(&|part| part.noise = noise);
        }
    };
    let fields = if public {
        view! {
            <input type="hidden" name=name("noise") value=part.noise.to_string()/>
            <input type="hidden" name=name("clip") value=part.clip.to_string()/>
        }
        .into_any()
    } else {
        view! {
            <Slider name=name("noise") label="Noise z" help="Standard deviation of the noise, in clips" value=part.noise low=0.1 high=100.0 whole=false
                get=get(|part| part.noise) set=Callback::new(move |v: f64| change(&|part| part.noise = v))/>
            <Slider name=name("clip") label="Clip C" help="Norm to which each gradient is cut; costs nothing" value=part.clip low=0.01 high=100.0 whole=false
                get=get(|part| part.clip) set=Callback::new(move |v: f64| change(&|part| part.clip = v))/>
            <button type="button" class="quiet live-only" on:click=fit>"Use the least noise that fits"</button>
        }
        .into_any()
    };
    view! {
        <div class="party" class:out=move || !joins()>
            <input type="hidden" name=name("dataset") value=id.to_string()/>
            <div class="party-head">
                <label class="check">
                    <input type="checkbox" name=name("joins") value="true" checked=part.joins disabled=leads
                        on:change=move |event| { let joins = event_target_checked(&event); change(&|part| part.joins = joins); }/>
                    <strong>{dataset.name.clone()}</strong>
                </label>
                <span class="party-owner">{dataset.organization_name.clone()}" "<VisibilityMark visibility=dataset.visibility/></span>
                {public.then(|| view! {
                    <label class="check">
                        <input type="checkbox" name=name("tests") value="true" checked=part.tests
                            on:change=move |event| { let tests = event_target_checked(&event); change(&|part| part.tests = tests); }/>
                        "Measure on it"
                    </label>
                })}
            </div>
            <div class="party-fields">
                <Slider name=name("rate") label="Sampling rate q" help="Chance of each unit to be in a round" value=part.rate low=0.001 high=1.0 whole=false
                    get=get(|part| part.rate) set=Callback::new(move |v: f64| change(&|part| part.rate = v))/>
                <p class="hint">{batch}</p>
                {fields}
            </div>
        </div>
    }
}
