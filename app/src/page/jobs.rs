//! The jobs of a consortium.

use leptos::prelude::*;
use time::OffsetDateTime;
use undertone_api::job::JobSummary;
use undertone_api::page::PageQuery;
use undertone_server_core::service;

use super::render_empty;
use crate::component::said::{RelativeTime, StateMark};
use crate::live::follow::Follow;
use crate::page_context::{PageContent, PagePlace};
use crate::screen::render_page;
use crate::{path, viewer};

/// Renders the list.
pub(crate) fn jobs() -> AnyView {
    render_page(PagePlace::Jobs, async |context| {
        let consortium = context.consortium()?;
        let member = context.member()?;
        let query = crate::query::parse::<PageQuery>(&context.query).unwrap_or_default();
        let page = service::job::list(context.ctx(), context.actor()?, consortium.id, &query).await?;
        let plan = viewer::researches(member)
            .then(|| view! { <p><a class="button primary" href=path::plan(consortium.id)>"Plan a job"</a></p> });
        let next = page.next.map(|next| view! { <p><a rel="next" href=format!("{}?cursor={next}", path::jobs(consortium.id))>"Older jobs"</a></p> });
        let list = if page.items.is_empty() {
            render_empty("Plan a job within the remaining budgets, then propose it to the owners of its data.", ())
        } else {
            render_table(&page.items, context.now)
        };
        let drafts = if viewer::researches(member) {
            super::drafts::render_section(
                consortium.id,
                &service::job::draft_list(context.ctx(), context.actor()?, consortium.id).await?,
                context.now,
            )
        } else {
            ().into_any()
        };
        Ok(PageContent::new(
            "Jobs",
            view! {
                <Follow events=format!("/ui/events?consortium={}", consortium.id)/>
                {plan}
                <div data-live="jobs">{list}</div>
                {next}
                {drafts}
            },
        ))
    })
}

/// Renders jobs as a table.
pub(super) fn render_table(jobs: &[JobSummary], now: OffsetDateTime) -> AnyView {
    let rows = jobs.iter().map(|job| {
        let progress = if job.rounds == 0 { 0.0 } else { f64::from(job.rounds_done) / f64::from(job.rounds) * 100.0 };
        view! {
            <tr>
                <th scope="row"><a href=path::job(job.consortium, job.id)>{job.title.clone()}</a></th>
                <td data-label="state"><StateMark state=job.state/></td>
                <td data-label="rounds" class="rounds">
                    <svg class="rounds-bar" width="96" height="6" aria-hidden="true">
                        <rect class="gauge-track" width="100%" height="6" rx="3"></rect>
                        <rect class="gauge-spent" width=format!("{progress:.1}%") height="6" rx="3"></rect>
                    </svg>
                    <span>{if job.rounds == 0 { "none".to_owned() } else { format!("{} of {}", job.rounds_done, job.rounds) }}</span>
                </td>
                <td data-label="proposed by">{job.proposed_by.clone()}</td>
                <td data-label="proposed"><RelativeTime at=job.created_at now/></td>
            </tr>
        }
    });
    view! {
        <table class="cards">
            <thead><tr>
                <th scope="col">"Job"</th><th scope="col">"State"</th><th scope="col">"Rounds"</th><th scope="col">"Proposed by"</th><th scope="col">"Proposed"</th>
            </tr></thead>
            <tbody>{rows.collect_view()}</tbody>
        </table>
    }
    .into_any()
}
