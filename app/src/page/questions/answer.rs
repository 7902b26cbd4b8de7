//! The annotation page of a job: the question, the labels, and the guidelines beside them.

use leptos::prelude::*;
use serde::Deserialize;
use undertone_api::id::{JobId, QuestionId};
use undertone_api::question::{AnnotationQueue, Label};
use undertone_server_core::service;

use super::exchange;
use crate::answer::Answering;
use crate::answer::part::{AnnotatorPosition, buttons};
use crate::answer::turn::render_turn;
use crate::page_context::{PageContent, PagePlace};
use crate::screen::render_page;
use crate::{path, reply, viewer};

/// The state that a browser without a script keeps in the address.
#[derive(Debug, Default, Deserialize)]
struct AnswerState {
    #[serde(default)]
    trail: String,
    #[serde(default)]
    first: Option<QuestionId>,
}

/// Renders the page.
pub(crate) fn annotate() -> AnyView {
    render_page(PagePlace::Questions, async |context| {
        let consortium = context.consortium()?.id;
        let member = context.member()?;
        let job: JobId = context.id("job")?;
        let state = crate::query::parse::<AnswerState>(&context.query).unwrap_or_default();
        let position = AnnotatorPosition::new(consortium, job, &state.trail, state.first);
        let queue = service::question::next(context.ctx(), context.actor()?, job).await?;
        let turn = render_turn(&context.request, &queue, &position, "").await?;
        let first = reply::text(&turn)?;
        let buttons = buttons(&queue.labels);
        let others = viewer::reads_questions(member)
            .then(|| exchange::render_section(consortium, job, &queue.labels, viewer::imports(member)));
        let title = queue.title.clone();
        let body = view! {
            <p><a href=path::questions(consortium)>"All questions"</a></p>
            <div class="annotate">
                <div class="annotate-main"><Answering first>{buttons}</Answering></div>
                {render_guidelines(&queue)}
            </div>
            {others}
        };
        Ok(PageContent::new(title, body).with_keys(&[
            ("1 2 …", "choose the label with this key"),
            ("u", "unsure: no label can be chosen"),
            ("s", "skip: leave the question to others"),
            ("z", "undo the last answer"),
        ]))
    })
}

/// Renders the guidelines, and the meaning of the labels.
fn render_guidelines(queue: &AnnotationQueue) -> AnyView {
    let paragraphs = queue.guidelines.split("\n\n").map(str::trim).filter(|text| !text.is_empty());
    let paragraphs: Vec<_> = paragraphs.map(|text| view! { <p>{text.to_owned()}</p> }).collect();
    let explained = |label: &&Label| !label.hint.is_empty();
    let labels: Vec<_> = queue
        .labels
        .iter()
        .filter(explained)
        .map(|label| view! { <div><dt>{label.name.clone()}</dt><dd>{label.hint.clone()}</dd></div> })
        .collect();
    let none = paragraphs.is_empty() && labels.is_empty();
    view! {
        <aside class="annotate-beside" aria-label="Guidelines">
            <details open>
                <summary>"Guidelines"</summary>
                {none.then(|| view! { <p class="hint">"The job has no guidelines."</p> })}
                <div class="guidelines">{paragraphs}</div>
                {(!labels.is_empty()).then(|| view! { <dl class="label-hints">{labels}</dl> })}
                <p class="hint">"Unsure means that you read the text and no label can be chosen; it counts as an \
                    answer, a skip does not. Others see you only as a number of this job."</p>
            </details>
        </aside>
    }
    .into_any()
}
