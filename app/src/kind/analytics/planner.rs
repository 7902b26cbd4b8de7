//! The planner: a plain form with the charge and the expected errors beside it. The server computes all of it, with the
//! code that decides. With a script the numbers follow the form automatically, without one a button recalculates it.

#![expect(unreachable_pub, reason = "the server macro makes what it generates public")]

pub(super) mod cost;

use leptos::prelude::*;
use undertone_api::budget::AccountStanding;
use undertone_api::dataset::{Dataset, Visibility};
use undertone_api::id::{ConsortiumId, DatasetId, DraftId};
use undertone_server_core::service;

use super::plan::AnalyticsPlan;
use super::template;
use crate::component::said::VisibilityMark;
use crate::fault::Fault;
use crate::kind::field::{render_line, render_number, render_text};
use crate::kind::priced_form::PricedForm;
use crate::kind::submission::PlanSubmission;
use crate::path;
use crate::request::DashboardRequest;
use crate::words;

/// The kind's word in addresses.
const WORD: &str = "analytics";
/// The address that saves a plan as a draft.
pub(super) const SAVE: &str = "/ui/draft-analytics";
/// The form's id, to which fields outside it refer.
pub(super) const FORM: &str = "plan-analytics";

/// Proposes a plan, and with it the draft from which it was opened; returns the new job's address.
///
/// # Errors
/// The operation's problem, to a browser that posts the form itself.
#[server(prefix = "/ui", endpoint = "propose-analytics")]
pub async fn propose_analytics(
    consortium: ConsortiumId,
    #[server(default)] draft: Option<DraftId>,
    #[server(default)] version: Option<u64>,
    analytics: AnalyticsPlan,
) -> Result<String, Fault> {
    use undertone_api::job::Spec;
    let submission = PlanSubmission::new(consortium, (draft, version), &analytics.title, WORD, &analytics);
    submission.propose(|datasets| analytics.spec(datasets).map(Spec::Analytics)).await
}

/// Saves a plan as a draft, without a request for approval; it replaces the draft from which it was opened, if any.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "draft-analytics")]
pub async fn save_analytics(
    consortium: ConsortiumId,
    #[server(default)] draft: Option<DraftId>,
    #[server(default)] version: Option<u64>,
    analytics: AnalyticsPlan,
) -> Result<(), Fault> {
    use undertone_api::job::Spec;
    let submission = PlanSubmission::new(consortium, (draft, version), &analytics.title, WORD, &analytics);
    submission.save(|datasets| analytics.spec(datasets).map(Spec::Analytics)).await
}

/// Returns the charge of a plan with its expected errors, or its violations, as HTML.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "weigh-analytics")]
pub async fn weigh_analytics(consortium: ConsortiumId, analytics: AnalyticsPlan) -> Result<String, Fault> {
    let request = DashboardRequest::from_context()?;
    let datasets = service::dataset::list(request.ctx(), request.actor()?, consortium).await?;
    let mut standings = Vec::new();
    for part in analytics.parts.iter().filter(|part| part.joins) {
        let charged = |dataset: &&Dataset| dataset.id == part.dataset && dataset.visibility != Visibility::Public;
        if let Some(dataset) = datasets.iter().find(charged) {
            let balances = service::budget::balances(request.ctx(), request.actor()?, dataset.id).await?;
            standings.push((dataset.id, balances));
        }
    }
    Ok(cost::render_cost(&analytics, &datasets, &standings, consortium))
}

/// Renders the whole planner for a plan.
pub(super) fn render_planner(
    plan: &AnalyticsPlan,
    datasets: &[Dataset],
    standings: &[(DatasetId, Vec<AccountStanding>)],
    consortium: ConsortiumId,
) -> AnyView {
    let cost = cost::render_cost(plan, datasets, standings, consortium);
    let fields = view! {
        {render_job(plan)}
        {render_sites(plan, datasets)}
        {render_queries(plan, datasets, consortium)}
    }
    .into_any();
    view! {
        <PricedForm word=WORD.to_owned() consortium=consortium.to_string() again=path::plan(consortium) cost>{fields}</PricedForm>
    }
    .into_any()
}

fn render_job(plan: &AnalyticsPlan) -> AnyView {
    view! {
        <fieldset>
            <legend>"Job"</legend>
            {render_line("analytics[title]".to_owned(), "Title", plan.title.clone(), "Shown to the consortium", true)}
        </fieldset>
    }
    .into_any()
}

fn render_sites(plan: &AnalyticsPlan, datasets: &[Dataset]) -> AnyView {
    let rows = plan.parts.iter().enumerate().filter_map(|(index, part)| {
        let dataset = datasets.iter().find(|dataset| dataset.id == part.dataset)?;
        let name = |field: &str| format!("analytics[parts][{index}][{field}]");
        let size = format!("about {} rows", words::count(dataset.records.0));
        Some(view! {
            <div class="party">
                <input type="hidden" name=name("dataset") value=dataset.id.to_string()/>
                <div class="party-head">
                    <label class="check">
                        <input type="checkbox" name=name("joins") value="true" checked=part.joins/>
                        <strong>{dataset.name.clone()}</strong>
                    </label>
                    <span class="party-owner">{dataset.organization_name.clone()}" "<VisibilityMark visibility=dataset.visibility/>" "{size}</span>
                </div>
            </div>
        })
    });
    view! {
        <fieldset>
            <legend>"Tables"</legend>
            <div class="parties">{rows.collect_view()}</div>
            {render_number("analytics[quorum]".to_owned(), "Least number of sites", f64::from(plan.quorum), (1.0, 100.0), true)}
            {render_number("analytics[hours]".to_owned(), "Deadline, hours", plan.hours, (0.001, 24.0), false)}
        </fieldset>
    }
    .into_any()
}

fn render_queries(plan: &AnalyticsPlan, datasets: &[Dataset], consortium: ConsortiumId) -> AnyView {
    let schema = plan.find_schema(datasets);
    let columns = schema.map(|schema| {
        let list = schema.columns.iter().map(|column| {
            let (name, kind) = (column.name.clone(), column.kind.label());
            view! { <li><code>{name}</code>" "{kind}</li> }
        });
        view! {
            <details>
                <summary>"Declared columns"</summary>
                <p>"Units: "<code>{schema.unit_column.clone()}</code></p>
                <ul>{list.collect_view()}</ul>
            </details>
        }
    });
    let templates = schema.map(|schema| {
        let link = |(title, sql): (&'static str, String)| {
            // Of a comparison of sites the vector of each is needed.
            let sites = plan.parts.iter().filter(|part| part.joins).count() as u32;
            let quorum = if sql.contains(template::SITE) { sites } else { plan.quorum };
            let link = AnalyticsPlan { sql, quorum, ..plan.clone() }.link(consortium);
            view! { <a class="button" href=link>{title}</a>" " }
        };
        view! { <p>"Templates: "{template::list_templates(schema).into_iter().map(link).collect_view()}</p> }
    });
    view! {
        <fieldset>
            <legend>"Queries"</legend>
            {templates}
            {render_text("analytics[sql]", "SQL", plan.sql.clone(), "SELECT count(*), avg(age) FROM rows WHERE age >= 18 GROUP BY sex", 8)}
            <p class="hint">"count, sum, avg, variance, histogram(column, edges…), median, quantiles(column, p…), survival(time, event, edges…), covariance(column, column…), linear_regression(target, feature…); WHERE; GROUP BY columns of categories, bucket(column, edges…), date_trunc('month', column), and site() for the numbers of each site on its own."</p>
            {columns}
            {render_number("analytics[rows]".to_owned(), "Rows of a unit in one group", f64::from(plan.rows), (1.0, 1000.0), true)}
            {render_number("analytics[groups]".to_owned(), "Groups of a unit", f64::from(plan.groups), (1.0, 1000.0), true)}
            {render_number("analytics[noise]".to_owned(), "Noise z", plan.noise, (0.001, 1024.0), false)}
            {render_text("analytics[goals]", "Errors and shares", plan.goals.clone(), "mean(age) ± 0.5", 3)}
            <p class="hint">"A line for an aggregate: \"mean(age) ± 0.5\" asks for half the width of its interval over the sites together, and the noise follows; \"query 2: count(*) share 2\" gives it a part of the noise budget. Aggregates without an error keep the one that z gives them."</p>
            <p class="hint">"The aggregates share the noise: the fewer, the narrower the intervals. The cost depends on z alone."</p>
        </fieldset>
    }
    .into_any()
}
