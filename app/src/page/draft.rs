//! A draft: the planned job, its violations, and the form to edit it.

use leptos::prelude::*;
use undertone_api::id::{ConsortiumId, DraftId};
use undertone_api::job::{JobDraft, NewJob};
use undertone_api::plan::{NewPlan, Plan};
use undertone_api::problem::Problem;
use undertone_server_core::service;

use crate::component::form::post;
use crate::component::said::{ProblemBox, RelativeTime};
use crate::page_context::{PageContent, PageContext, PagePlace};
use crate::screen::render_page;
use crate::{kind, path, words};

/// Renders the page.
pub(crate) fn draft() -> AnyView {
    render_page(PagePlace::Jobs, async |context| {
        let consortium = context.consortium()?.id;
        let id: DraftId = context.id("draft")?;
        let draft = service::job::draft_get(context.ctx(), context.actor()?, id).await?;
        let about = match draft.content.parsed() {
            Ok(spec) => {
                let job = NewJob { title: draft.content.title.clone(), spec };
                let facts = kind::facts(&job.spec);
                let plan = service::plan::plan(context.ctx(), context.actor()?, &NewPlan { consortium, job }).await?;
                view! { {render_costs(plan)}{render_facts(facts)} }.into_any()
            }
            Err(_) => ().into_any(),
        };
        let title = if draft.content.title.is_empty() { "Draft" } else { &draft.content.title }.to_owned();
        let standing = render_standing(&context, &draft);
        let actions = render_actions(consortium, &draft);
        let lacks = (!draft.violations.is_empty()).then(|| {
            let problem = Problem {
                title: "To fix before proposing".to_owned(),
                ..Problem::validation(draft.violations.clone())
            };
            view! { <ProblemBox problem/> }
        });
        Ok(PageContent::new(title, view! { {standing}{lacks}{actions}{about}{render_form(consortium, &draft)} }))
    })
}

fn render_standing(context: &PageContext, draft: &JobDraft) -> AnyView {
    let headline = if draft.violations.is_empty() { "Ready to propose" } else { "Not ready to propose" };
    let consortium = draft.consortium;
    let now = context.now;
    view! {
        <p class="headline">{headline}</p>
        <p>{format!("Created by {} ", draft.author)}<RelativeTime at=draft.created_at now/>", changed "<RelativeTime at=draft.updated_at now/>
            ". Only your organization's researchers see it; no owner was asked."</p>
        {draft.cloned_from.map(|job| view! { <p>"Copied from "<a href=path::job(consortium, job)>"another job"</a>"."</p> })}
    }
    .into_any()
}

fn hidden_fields(consortium: ConsortiumId, draft: &JobDraft) -> Vec<(&'static str, String)> {
    vec![("consortium", consortium.to_string()), ("draft", draft.id.to_string())]
}

fn render_actions(consortium: ConsortiumId, draft: &JobDraft) -> AnyView {
    let propose = draft.violations.is_empty().then(|| {
        post(
            "propose-draft",
            hidden_fields(consortium, draft),
            view! {
                <p class="hint">"The server signs a manifest and asks the owners. The draft becomes a job. Nothing runs and nothing is charged before all owners have approved and every ledger has reserved."</p>
                <button type="submit" class="primary">"Propose to the owners"</button>
            },
        )
    });
    let delete = post(
        "delete-draft",
        hidden_fields(consortium, draft),
        view! {
            <p class="hint">"No owner was asked about it, and nothing else is deleted. This cannot be undone."</p>
            <button type="submit" class="danger">"Delete the draft"</button>
        },
    );
    let planner = path::reopen(consortium, draft.id);
    view! { {propose}<p><a href=planner>"Open in the planner"</a></p><details class="more"><summary>"Delete this draft"</summary>{delete}</details> }.into_any()
}

/// Renders the remainder of each owner's budget.
fn render_costs(plan: Plan) -> AnyView {
    if plan.parties.is_empty() {
        return ().into_any();
    }
    let is_refused = !plan.refusals.is_empty();
    let rows = plan.parties.into_iter().map(|party| {
        let epsilon =
            party.epsilon.map_or_else(|| "no budget".to_owned(), |epsilon| format!("ε {}", words::epsilon(epsilon)));
        let balance = match (party.would_be, party.limit) {
            (Some(would_be), Some(limit)) => format!("ε {} of {}", words::epsilon(would_be), words::limit(limit)),
            _ => "does not fit".to_owned(),
        };
        view! {
            <tr><th scope="row">{party.dataset_name}</th>
                <td data-label="this job by itself">{epsilon}</td>
                <td data-label="budget after this job">{balance}</td>
                <td data-label="releases that fit">{words::count(party.releases_that_fit)}</td></tr>
        }
    });
    view! {
        <section class="panel"><h2>"Projected cost"</h2>
            <table class="cards">
                <thead><tr><th scope="col">"Dataset"</th><th scope="col">"This job by itself"</th><th scope="col">"Budget after this job"</th><th scope="col">"Releases that fit"</th></tr></thead>
                <tbody>{rows.collect_view()}</tbody>
            </table>
            {is_refused.then(|| view! { <p class="notice bad">"A budget does not admit the job: a proposal would be refused."</p> })}
        </section>
    }
    .into_any()
}

fn render_facts(facts: Vec<(&'static str, String)>) -> AnyView {
    let rows = facts.into_iter().map(|(term, what)| view! { <div><dt>{term}</dt><dd>{what}</dd></div> }).collect_view();
    view! { <section class="panel"><h2>"Job description"</h2><dl class="facts">{rows}</dl></section> }.into_any()
}

fn render_form(consortium: ConsortiumId, draft: &JobDraft) -> AnyView {
    let content = &draft.content;
    let spec = serde_json::to_string_pretty(&content.spec).unwrap_or_default();
    let mut hidden = hidden_fields(consortium, draft);
    hidden.push(("version", draft.version.to_string()));
    hidden.push(("kind", content.kind.clone()));
    let rows = spec.lines().count().clamp(8, 40).to_string();
    let inner = view! {
        <label class="field"><span>"Title"</span>
            <input type="text" name="title" maxlength="100" autocomplete="off" value=content.title.clone()/></label>
        <label class="field"><span>{format!("Spec of kind {}, as JSON", content.kind)}</span>
            <textarea name="spec" class="code" rows=rows spellcheck="false" required>{spec}</textarea></label>
        <p class="hint">"A draft may be incomplete. Saving it checks it like a proposal. The planner has fields for most values."</p>
        <button type="submit">"Save the draft"</button>
    };
    view! { <section class="panel"><h2>"Edit as JSON"</h2>{post("write-draft", hidden, inner)}</section> }.into_any()
}
