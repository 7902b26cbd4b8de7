//! The files of a job, by name, size and digest.

use leptos::prelude::*;
use undertone_api::model::Artifact;
use undertone_api::signed::certificate::ArtifactNamed;

use crate::words;

/// The file of a job's model.
const MODEL: &str = "model.safetensors";

/// Sorts a job's files, the model first.
pub(crate) fn sort_job_files(mut files: Vec<Artifact>) -> Vec<Artifact> {
    files.sort_by(|a, b| (a.name != MODEL, &a.name).cmp(&(b.name != MODEL, &b.name)));
    files
}

/// Renders a table of them under a title; empty without files.
pub(crate) fn render_files(title: &'static str, files: &[ArtifactNamed]) -> AnyView {
    if files.is_empty() {
        return ().into_any();
    }
    let rows = files.iter().map(|file| {
        view! {
            <tr>
                <th scope="row">{file.name.clone()}</th>
                <td data-label="size" class="number">{words::bytes(file.size)}</td>
                <td data-label="SHA-256"><code>{file.digest.clone()}</code></td>
            </tr>
        }
    });
    view! {
        <section class="panel"><h2>{title}</h2>
            <table class="cards">
                <thead><tr><th scope="col">"File"</th><th scope="col" class="number">"Size"</th><th scope="col">"SHA-256"</th></tr></thead>
                <tbody>{rows.collect_view()}</tbody>
            </table>
        </section>
    }
    .into_any()
}
