//! Export of questions and answers, import of labels from elsewhere, and invitation of annotators.

use leptos::prelude::*;
use undertone_api::id::{ConsortiumId, JobId};
use undertone_api::question::{ExportFormat, Label};

use crate::component::form::{Field, post};
use crate::path;

/// Renders the links to a job's questions with their answers, in every format.
pub(super) fn render_files(job: JobId, class: &'static str) -> AnyView {
    let files = [
        (ExportFormat::Jsonl, "JSON Lines", "jsonl"),
        (ExportFormat::Csv, "CSV", "csv"),
        (ExportFormat::LabelStudio, "Label Studio (JSON)", "json"),
    ];
    let links = files.map(|(format, name, ending)| {
        let href = path::question_file(job, format);
        view! { <a class=class href=href download=format!("questions-{job}.{ending}")>{name}</a>" " }
    });
    links.collect_view().into_any()
}

/// Renders the files of the questions, and the form to import labels if the viewer may.
pub(super) fn render_section(consortium: ConsortiumId, job: JobId, labels: &[Label], imports: bool) -> AnyView {
    let import = imports.then(|| render_import(consortium, job, labels));
    view! {
        <section class="panel"><h2>"Export and import"</h2>
            <p class="hint">"Every asked question with its answers, annotators by number."</p>
            <div class="actions">{render_files(job, "button")}</div>
            {import}
        </section>
    }
    .into_any()
}

fn render_import(consortium: ConsortiumId, job: JobId, labels: &[Label]) -> AnyView {
    let hidden = vec![("consortium", consortium.to_string()), ("job", job.to_string())];
    let example = labels.first().map_or("…", |label| label.name.as_str());
    let example = serde_json::json!({ "text": "the exact question", "label": example }).to_string();
    let form = post(
        "import-labels",
        hidden,
        view! {
            <label class="field"><span>"Labels, as JSON Lines or as Label Studio exports them"</span>
                <textarea name="labels" rows="6" required class="mono" spellcheck="false" placeholder=example></textarea>
                <small>"Labels are matched to questions of the open round by their exact text. Up to 1 MB here; larger files by "<code>{format!("POST /api/v1/jobs/{job}/questions/import")}</code>"."</small>
            </label>
            <Field name="name" label="Annotator" least=0 help="All labels under one name count as one person’s; leave it empty for your own."/>
            <button type="submit">"Import the labels"</button>
        },
    );
    view! { <details class="more"><summary>"Import labels from another tool"</summary>{form}</details> }.into_any()
}

/// Renders the form that makes a link for an annotator.
pub(super) fn render_invitation(consortium: ConsortiumId) -> AnyView {
    let form = post(
        "invite-annotator",
        vec![("consortium", consortium.to_string())],
        view! {
            <ul class="consequences">
                <li>"The first person who opens the link can answer the questions of every job of the consortium, and sees nothing else of it."</li>
                <li>"Each job identifies them only by a number. The link works once and is shown once."</li>
            </ul>
            <Field name="label" label="Recipient" help="A note for you."/>
            <button type="submit" class="primary">"Create a link"</button>
        },
    );
    view! { <details class="more"><summary>"Invite an annotator"</summary>{form}</details> }.into_any()
}
