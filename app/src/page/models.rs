//! The consortium's models: the files of its finished jobs.

use leptos::prelude::*;
use undertone_api::model::{JobModel, ModelSource};
use undertone_api::page::PageQuery;
use undertone_server_core::service;
use undertone_server_core::service::job::JobFilter;

use super::render_empty;
use crate::component::files::sort_job_files;
use crate::component::said::{Digest, RelativeTime};
use crate::page_context::{PageContent, PagePlace};
use crate::screen::render_page;
use crate::{path, words};

/// Renders the list.
pub(crate) fn models() -> AnyView {
    render_page(PagePlace::Models, async |context| {
        let consortium = context.consortium()?.id;
        let page = PageQuery { cursor: None, limit: Some(PageQuery::MAX) };
        let mut rows = Vec::new();
        let filter = JobFilter::default();
        let models = service::model::in_consortium(context.ctx(), context.actor()?, consortium, &filter, &page).await?;
        for JobModel { job, files } in models.items {
            for file in sort_job_files(files) {
                let name = match (&file.deletion, file.source) {
                    (Some(_), None) => view! { {file.name.clone()} }.into_any(),
                    (None, None) => {
                        let href = path::artifact_file(file.id);
                        view! { <a href=href download=file.name.clone()>{file.name.clone()}</a> }.into_any()
                    }
                    (_, Some(_)) => {
                        view! { <a href=path::model(consortium, file.id)>{file.name.clone()}</a> }.into_any()
                    }
                };
                let deleted = file.deletion.as_ref().map(|deletion| format!(" (deleted: {})", deletion.reason));
                rows.push(view! {
                    <tr>
                        <th scope="row">{name}{deleted}</th>
                        <td data-label="job"><a href=path::job(consortium, job.id)>{job.title.clone()}</a></td>
                        <td data-label="size" class="number">{words::bytes(file.size)}</td>
                        <td data-label="made from">{file.source.map(ModelSource::label)}</td>
                        <td data-label="SHA-256"><Digest digest=file.digest/></td>
                        <td data-label="made"><RelativeTime at=file.created_at now=context.now/></td>
                        <td data-label="cost"><a href=path::certificate(consortium, job.id)>"Certificate"</a></td>
                    </tr>
                });
            }
        }
        let body = if rows.is_empty() {
            render_empty(
                "Models appear here when a job has finished.",
                view! { <p><a href=path::jobs(consortium)>"See the jobs"</a></p> },
            )
        } else {
            view! {
                <p><a href=path::compare(consortium)>"Compare models"</a></p>
                <table class="cards">
                    <thead><tr><th scope="col">"File"</th><th scope="col">"Job"</th><th scope="col" class="number">"Size"</th><th scope="col">"Made from"</th><th scope="col">"SHA-256"</th><th scope="col">"Created"</th><th scope="col">"Privacy cost"</th></tr></thead>
                    <tbody>{rows}</tbody>
                </table>
            }
            .into_any()
        };
        Ok(PageContent::new("Models", body))
    })
}
