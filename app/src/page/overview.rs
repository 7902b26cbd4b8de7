//! Overview of a consortium: who takes part, the viewer's pending decisions, jobs, and every budget.

mod budgets;
mod stage;

use leptos::prelude::*;
use undertone_api::dataset::{Dataset, Visibility};
use undertone_api::id::ConsortiumId;
use undertone_api::job::JobState;
use undertone_api::member::Member;
use undertone_api::page::PageQuery;
use undertone_api::problem::Problem;
use undertone_server_core::service;

use super::jobs::render_table;
use super::{overlap, render_empty};
use crate::live::follow::Follow;
use crate::page_context::{PageContent, PageContext, PagePlace};
use crate::screen::render_page;
use crate::{path, standing, tour, viewer, words};

pub(super) use budgets::render_budgets;
use stage::{Stage, render_stage};

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

        let waits = list_decisions(&context, consortium.id, member, &datasets).await?;
        let mut freezes = Vec::new();
        for (id, freeze) in service::freeze::standing(ctx, actor, consortium.id).await? {
            let name = datasets.iter().find(|dataset| dataset.id == id).map(|dataset| dataset.name.clone());
            freezes.push((path::dataset(consortium.id, id), name.unwrap_or_default(), freeze.reason));
        }
        let released = service::job::count_releases(ctx, actor, consortium.id).await?;
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
        let tour = tour::render_tour(&context).await?;
        let stage = Stage {
            consortium: consortium.id,
            organizations: &organizations,
            datasets: &datasets,
            released: &released,
            is_running: running > 0,
        };
        let about = (!consortium.description.is_empty())
            .then(|| view! { <p class="lead">{consortium.description.clone()}</p> });
        Ok(PageContent::new(
            consortium.name.clone(),
            view! {
                {about}
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
                {tour}
                <div data-live="stage">{render_stage(&stage)}</div>
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
                {rule}
            },
        ))
    })
}

/// A decision that waits for the viewer: its address, its name, and a note.
type PendingDecision = (String, String, String);

/// Lists the decisions that wait for the viewer: approvals, and missing budgets.
async fn list_decisions(
    context: &PageContext,
    consortium: ConsortiumId,
    member: &Member,
    datasets: &[Dataset],
) -> Result<Vec<PendingDecision>, Problem> {
    let mut waits = Vec::new();
    for waiting in service::approval::waiting(context.ctx(), context.actor()?, consortium).await? {
        let ask = format!("Approve or refuse “{}”", waiting.title);
        waits.push((path::job(consortium, waiting.job), ask, format!(", for {}", waiting.dataset_name)));
    }
    for dataset in datasets {
        let is_private = dataset.visibility != Visibility::Public;
        let is_without = !dataset.accounts.iter().any(standing::budgeted);
        if is_without && is_private && viewer::stewards(member, dataset.organization) {
            let ask = format!("Set a budget for {}", dataset.name);
            waits.push((path::dataset(consortium, dataset.id), ask, "; until then no job can use it".to_owned()));
        }
    }
    Ok(waits)
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
