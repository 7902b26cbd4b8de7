//! The planning page: the form of a job kind, empty or with the values of an opened draft (`?draft=`).

use leptos::prelude::*;
use undertone_api::dataset::Visibility;
use undertone_api::problem::{Problem, Violation};
use undertone_server_core::service;

use super::render_empty;
use crate::kind::{OpenedDraft, PlannerData, can_begin, render_forms};
use crate::page_context::{PageContent, PageContext, PagePlace};
use crate::path;
use crate::screen::render_page;

/// Renders the planner.
pub(crate) fn plan() -> AnyView {
    render_page(PagePlace::Jobs, async |context| {
        let consortium = context.consortium()?.id;
        context.member()?;
        let draft = find_draft(&context).await?;
        let datasets = service::dataset::list(context.ctx(), context.actor()?, consortium).await?;
        if !can_begin(&datasets) {
            let link = view! { <p><a href=path::datasets(consortium)>"See the datasets"</a></p> };
            return Ok(PageContent::new(
                "Plan a job",
                render_empty(
                    "A job needs a public dataset as its lead, for warm start and evaluation, or recordings to transcribe. None is registered here.",
                    link,
                ),
            ));
        }
        let private = datasets.iter().filter(|dataset| dataset.visibility != Visibility::Public);
        let ids: Vec<_> = private.map(|dataset| dataset.id).collect();
        let standings = service::budget::standings(context.ctx(), context.actor()?, consortium, &ids).await?;
        let request = std::sync::Arc::clone(&context.request);
        let query = context.query.clone();
        let draft_page = draft.as_ref().map(|draft| path::draft(consortium, draft.draft.id));
        let ground = PlannerData { request, consortium, datasets, standings, query, opened: draft };
        let forms: Vec<_> = Box::pin(render_forms(ground))
            .await
            .into_iter()
            .map(|(title, form)| view! { <section><h2 class="kind">{title}</h2>{form}</section> })
            .collect();
        if let (Some(draft_page), true) = (draft_page, forms.is_empty()) {
            let link = view! { <p><a href=draft_page>"Back to the draft"</a></p> };
            let text = "The planner needs a public dataset of the draft’s kind, and none is registered here. You can edit the draft as JSON.";
            return Ok(PageContent::new("Plan a job", render_empty(text, link)));
        }
        Ok(PageContent::new(
            "Plan a job",
            view! {
                <p class="lead">"The planner computes the remaining budget of each party with the code that admits jobs."</p>
                {forms}
            },
        ))
    })
}

/// Returns the draft in the address, and the version that its reader has seen.
async fn find_draft(context: &PageContext) -> Result<Option<OpenedDraft>, Problem> {
    #[derive(Default, serde::Deserialize)]
    struct DraftQuery {
        draft: Option<String>,
        version: Option<String>,
    }
    let query = crate::query::parse::<DraftQuery>(&context.query).unwrap_or_default();
    let Some(id) = query.draft else { return Ok(None) };
    let wrong = |field: &str| Problem::validation(vec![Violation::new(field, "follow the link on the draft's page")]);
    let id = id.parse().map_err(|_| wrong("draft"))?;
    let version: Option<u64> =
        query.version.map(|version| version.parse()).transpose().map_err(|_| wrong("version"))?;
    let draft = service::job::draft_get(context.ctx(), context.actor()?, id).await?;
    Ok(Some(OpenedDraft { seen: version.unwrap_or(draft.version), draft }))
}

#[cfg(test)]
mod tests;
