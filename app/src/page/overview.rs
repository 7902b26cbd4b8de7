//! Overview of a consortium: running jobs, the viewer's pending decisions, every budget.

use leptos::prelude::*;
use undertone_api::dataset::{Dataset, Visibility};
use undertone_api::id::ConsortiumId;
use undertone_api::job::{JobState, JobSummary};
use undertone_api::page::PageQuery;
use undertone_api::problem::Problem;
use undertone_server_core::service;

use super::dataset::history::render_burn_down;
use super::jobs::render_table;
use super::{overlap, render_empty};
use crate::component::gauge::{Gauge, GaugeReading};
use crate::component::said::VisibilityMark;
use crate::live::follow::Follow;
use crate::page_context::{PageContent, PageContext, PagePlace};
use crate::screen::render_page;
use crate::{path, standing, viewer, words};

/// The most datasets with drawings of their budgets over time.
const MULTIPLES: usize = 12;

/// Renders the overview.
pub(crate) fn overview() -> AnyView {
    render_page(PagePlace::Overview, async |context| {
        let consortium = context.consortium()?;
        let member = context.member()?;
        if viewer::only_annotates(member) {
            leptos_axum::redirect(&path::questions(consortium.id));
            return Ok(PageContent::new(consortium.name.clone(), ()));
        }
        let ctx = context.ctx();
        let actor = context.actor()?;
        let datasets = service::dataset::list(ctx, actor, consortium.id).await?;
        let jobs = service::job::list(ctx, actor, consortium.id, &PageQuery::default()).await?.items;
        let organizations = service::organization::in_consortium(ctx, actor, consortium.id).await?;
        let history = service::consortium::history(ctx, actor, consortium.id).await?;

        let mut waits = Vec::new();
        for waiting in service::approval::waiting(ctx, actor, consortium.id).await? {
            let ask = format!("Approve or refuse “{}”", waiting.title);
            waits.push((path::job(consortium.id, waiting.job), ask, format!(", for {}", waiting.dataset_name)));
        }
        for dataset in &datasets {
            let private = dataset.visibility != Visibility::Public;
            let without = !dataset.accounts.iter().any(standing::budgeted);
            if without && private && viewer::stewards(member, dataset.organization) {
                let ask = format!("Set a budget for {}", dataset.name);
                waits.push((
                    path::dataset(consortium.id, dataset.id),
                    ask,
                    "; until then no job can use it".to_owned(),
                ));
            }
        }
        let mut freezes = Vec::new();
        for (id, freeze) in service::freeze::standing(ctx, actor, consortium.id).await? {
            let name = datasets.iter().find(|dataset| dataset.id == id).map(|dataset| dataset.name.clone());
            freezes.push((path::dataset(consortium.id, id), name.unwrap_or_default(), freeze.reason));
        }
        let over_time = render_histories(&context, consortium.id, &datasets, &jobs).await?;
        let running = jobs.iter().filter(|job| matches!(job.state, JobState::Running | JobState::Queued)).count();
        let headline = match (running, waits.len()) {
            (0, 0) => "No running jobs, no pending actions".to_owned(),
            (0, n) => format!("{} pending", words::plural(n as u64, "decision")),
            (r, 0) => format!("{} running", words::plural(r as u64, "job")),
            (r, n) => {
                format!("{} running, {} pending", words::plural(r as u64, "job"), words::plural(n as u64, "decision"))
            }
        };
        let waits: Vec<_> =
            waits.into_iter().map(|(to, ask, rest)| view! { <li><a href=to>{ask}</a>{rest}</li> }).collect();
        let first = render_first_steps(
            consortium.id,
            organizations.len(),
            datasets.is_empty(),
            viewer::admits(member, consortium.id),
        );
        let recent: Vec<_> = jobs.into_iter().take(8).collect();
        let rule = overlap::render_section(
            consortium.id,
            &consortium.overlap,
            &history,
            viewer::attests(member, consortium.id),
            context.now,
        );
        Ok(PageContent::new(
            consortium.name.clone(),
            view! {
                <Follow events=format!("/ui/events?consortium={}", consortium.id)/>
                <div data-live="now">
                <p class="headline">{headline}</p>
                {(!freezes.is_empty()).then(|| view! {
                    <section class="panel" role="alert"><h2>"Frozen"</h2>
                        <ul>{freezes.into_iter().map(|(to, name, why)| view! { <li><a href=to>{name}</a>": "{why}</li> }).collect_view()}</ul>
                    </section>
                })}
                {(!waits.is_empty()).then(|| view! { <section class="panel waits"><h2>"Pending actions"</h2><ul>{waits}</ul></section> })}
                {first}
                </div>
                <section class="panel">
                    <h2>"Budgets"</h2>
                    <div data-live="budgets">
                    {if datasets.is_empty() {
                        render_empty("No dataset is registered. A worker registers a dataset after preparing it.", view! { <p><code>"undertone-worker data prepare"</code></p> })
                    } else {
                        render_budgets(&datasets, consortium.id)
                    }}
                    </div>
                </section>
                {over_time}
                <section class="panel">
                    <div class="panel-head"><h2>"Jobs"</h2>
                        {viewer::researches(member).then(|| view! { <a class="button" href=path::plan(consortium.id)>"Plan a job"</a> })}
                    </div>
                    <div data-live="jobs">
                    {if recent.is_empty() {
                        render_empty("No jobs yet.", ())
                    } else {
                        render_table(&recent, context.now)
                    }}
                    </div>
                </section>
                {rule}
            },
        ))
    })
}

/// Renders the budgets over time, side by side, for the datasets with rows that the viewer may read.
async fn render_histories(
    context: &PageContext,
    consortium: ConsortiumId,
    datasets: &[Dataset],
    jobs: &[JobSummary],
) -> Result<AnyView, Problem> {
    let title = |job| {
        let title = jobs.iter().find(|summary: &&JobSummary| summary.id == job).map(|summary| summary.title.clone());
        title.unwrap_or_else(|| format!("job {}", words::short(&job.to_string())))
    };
    let has_budget = |dataset: &&Dataset| {
        dataset.visibility != Visibility::Public && dataset.accounts.iter().any(standing::budgeted)
    };
    let first: Vec<_> = datasets.iter().filter(has_budget).take(MULTIPLES).collect();
    let ids: Vec<_> = first.iter().map(|dataset| dataset.id).collect();
    let histories = service::ledger::histories(context.ctx(), context.actor()?, consortium, &ids).await?;
    let mut charts = Vec::new();
    for (id, history) in &histories {
        let Some(dataset) = first.iter().find(|dataset| dataset.id == *id) else { continue };
        charts
            .extend(history.iter().filter_map(|account| render_burn_down(account, &dataset.name, &title, context.now)));
    }
    if charts.is_empty() {
        return Ok(().into_any());
    }
    Ok(view! { <section class="panel"><h2>"Budgets over time"</h2><div class="charts few">{charts}</div></section> }
        .into_any())
}

/// Renders every dataset with its gauges.
pub(super) fn render_budgets(datasets: &[Dataset], consortium: ConsortiumId) -> AnyView {
    let rows = datasets.iter().map(|dataset| {
        let gauges = if dataset.visibility == Visibility::Public {
            view! { <p class="gauge-text">"Public: no budget is needed."</p> }.into_any()
        } else if !dataset.accounts.iter().any(standing::budgeted) {
            view! { <p class="gauge-text">"No budget is set; no job can use it."</p> }.into_any()
        } else {
            dataset
                .accounts
                .iter()
                .filter(|account| standing::budgeted(account))
                .map(|account| view! { <Gauge reading=GaugeReading::from(account)/> })
                .collect_view()
                .into_any()
        };
        view! {
            <li class="budget">
                <div class="budget-name">
                    <a href=path::dataset(consortium, dataset.id)><strong>{dataset.name.clone()}</strong></a>
                    <span>{dataset.organization_name.clone()}" "<VisibilityMark visibility=dataset.visibility/></span>
                </div>
                <div class="budget-gauges">{gauges}</div>
            </li>
        }
    });
    view! { <ul class="budgets">{rows.collect_view()}</ul> }.into_any()
}

/// Renders the next steps of a new consortium.
fn render_first_steps(consortium: ConsortiumId, organizations: usize, no_data: bool, admits: bool) -> AnyView {
    if organizations > 1 && !no_data {
        return ().into_any();
    }
    view! {
        <section class="panel waits"><h2>"First steps"</h2>
            <ol>
                {(admits && organizations <= 1).then(|| view! { <li><a href=path::organizations(consortium)>"Invite the other organizations"</a>", each by a link"</li> })}
                {no_data.then(|| view! { <li><a href=path::organizations(consortium)>"Enrol a worker"</a>" at each site; it registers its prepared datasets"</li> })}
            </ol>
        </section>
    }
    .into_any()
}
