//! The planning page: a card for each kind of job, or the form of one kind (`?kind=`). The form is empty, or has the
//! values of a saved plan in the address or of an opened draft (`?draft=`), which also decide the kind.

use leptos::prelude::*;
use undertone_api::dataset::{Dataset, Visibility};
use undertone_api::id::ConsortiumId;
use undertone_api::problem::{Problem, Violation};
use undertone_server_core::service;

use crate::kind::{OpenedDraft, PlannerData, PlannerKind};
use crate::page_context::{PageContent, PageContext, PagePlace};
use crate::request::Answer;
use crate::screen::render_page;
use crate::{path, query};

/// The title of the page.
const TITLE: &str = "Plan a job";

/// Renders the planner.
pub(crate) fn plan() -> AnyView {
    render_page(PagePlace::Jobs, async |context| {
        let consortium = context.consortium()?.id;
        context.member()?;
        let draft = find_draft(&context).await?;
        let datasets = service::dataset::list(context.ctx(), context.actor()?, consortium).await?;
        let body = match draft {
            Some(draft) => match PlannerKind::from_draft(&draft.draft.content, &datasets) {
                Some(kind) if kind.is_possible(&datasets) => {
                    render_kind(&context, consortium, datasets, kind, Some(draft)).await?
                }
                kind => render_impossible_draft(&draft, kind),
            },
            None => match choose_kind(&context.query, &datasets) {
                Ok(Some(kind)) => render_kind(&context, consortium, datasets, kind, None).await?,
                Ok(None) => render_cards(consortium, &datasets, None),
                Err(notice) => render_cards(consortium, &datasets, Some(notice)),
            },
        };
        Ok(PageContent::new(TITLE, body))
    })
}

/// Returns the possible kind that a query asks for, by its word or by a saved plan; without either, the single possible
/// kind, or `None` for a choice.
///
/// # Errors
/// The reason why the kind of the query has no form.
fn choose_kind(query: &str, datasets: &[Dataset]) -> Result<Option<PlannerKind>, String> {
    let kind = match query::find_value(query, "kind").filter(|word| !word.is_empty()) {
        Some(word) => {
            let unknown = || format!("The planner has no kind of job “{word}”. Choose one of these.");
            Some(PlannerKind::from_word(&word).ok_or_else(unknown)?)
        }
        None => PlannerKind::from_query(query, datasets),
    };
    match kind {
        Some(kind) if kind.is_possible(datasets) => Ok(Some(kind)),
        Some(kind) => Err(explain_impossible(kind)),
        None => {
            let possible = list_possible(datasets);
            Ok(possible.first().copied().filter(|_| possible.len() == 1))
        }
    }
}

fn explain_impossible(kind: PlannerKind) -> String {
    format!("“{}” is not possible in this consortium. {}", kind.title(), kind.requirement())
}

fn list_possible(datasets: &[Dataset]) -> Vec<PlannerKind> {
    PlannerKind::ALL.into_iter().filter(|kind| kind.is_possible(datasets)).collect()
}

/// Renders the form of a kind below the links to the other possible kinds.
async fn render_kind(
    context: &PageContext,
    consortium: ConsortiumId,
    datasets: Vec<Dataset>,
    kind: PlannerKind,
    opened: Option<OpenedDraft>,
) -> Answer<AnyView> {
    let tabs = render_tabs(consortium, &datasets, kind);
    // A saved plan of another kind has no place in this form.
    let is_own = PlannerKind::from_query(&context.query, &datasets) == Some(kind);
    let query = if is_own { context.query.clone() } else { String::new() };
    let datasets: Vec<_> = datasets.into_iter().filter(|dataset| kind.uses(dataset.content)).collect();
    let private = datasets.iter().filter(|dataset| dataset.visibility != Visibility::Public);
    let ids: Vec<_> = private.map(|dataset| dataset.id).collect();
    let standings = service::budget::standings(context.ctx(), context.actor()?, consortium, &ids).await?;
    let request = std::sync::Arc::clone(&context.request);
    let data = PlannerData { request, consortium, datasets, standings, query, opened };
    let form = Box::pin(kind.render_form(data)).await;
    Ok(view! {
        {tabs}
        <p class="lead">"The planner computes the remaining budget of each party with the code that admits jobs."</p>
        <section><h2 class="kind">{kind.title()}</h2>{form}</section>
    }
    .into_any())
}

/// Renders the links to the cards and to each possible kind, the present one marked; empty for a single possible kind.
fn render_tabs(consortium: ConsortiumId, datasets: &[Dataset], present: PlannerKind) -> AnyView {
    let possible = list_possible(datasets);
    if possible.len() < 2 {
        return ().into_any();
    }
    let links = possible.into_iter().map(|kind| {
        let is_present = kind == present;
        let link = path::plan_of(consortium, kind.word());
        view! {
            <li class:other=!is_present><a href=link aria-current=is_present.then_some("page")>{kind.title()}</a></li>
        }
    });
    view! {
        <nav aria-label="Kinds of jobs">
            <ul class="tabs kind-tabs"><li><a href=path::plan(consortium)>"Kinds of jobs"</a></li>{links.collect_view()}</ul>
        </nav>
    }
    .into_any()
}

/// Renders a card for each kind, below the reason why the kind of the address has no form.
fn render_cards(consortium: ConsortiumId, datasets: &[Dataset], notice: Option<String>) -> AnyView {
    let possible = list_possible(datasets);
    let lead = if possible.is_empty() {
        "No kind of job is possible with the datasets that are registered here. Each card states what its kind needs."
    } else {
        "Choose the kind of job."
    };
    let cards = PlannerKind::ALL.map(|kind| {
        let is_possible = possible.contains(&kind);
        let title = if is_possible {
            let link = path::plan_of(consortium, kind.word());
            view! { <a href=link>{kind.title()}</a> }.into_any()
        } else {
            kind.title().into_any()
        };
        let requirement = (!is_possible).then(|| view! { <p class="hint">{kind.requirement()}</p> });
        view! {
            <li class="panel kind-card" class:impossible=!is_possible>
                <h2>{title}</h2>
                <p>{kind.purpose()}</p>
                {requirement}
            </li>
        }
    });
    let see = (possible.len() < cards.len())
        .then(|| view! { <p><a href=path::datasets(consortium)>"See the datasets"</a></p> });
    view! {
        {notice.map(|notice| view! { <p class="notice bad" role="alert">{notice}</p> })}
        <p class="lead">{lead}</p>
        <ul class="kind-cards">{cards}</ul>
        {see}
    }
    .into_any()
}

/// Renders the reason why a draft has no form in the planner, and the way back to it.
fn render_impossible_draft(opened: &OpenedDraft, kind: Option<PlannerKind>) -> AnyView {
    let draft = &opened.draft;
    let reason = kind.map_or_else(
        || format!("The planner has no form for drafts of the kind “{}”.", draft.content.kind),
        explain_impossible,
    );
    view! {
        <div class="empty">
            <p>{reason}" You can edit the draft as JSON."</p>
            <p><a href=path::draft(draft.consortium, draft.id)>"Back to the draft"</a></p>
        </div>
    }
    .into_any()
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
