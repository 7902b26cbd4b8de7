//! The consortium's models: the files of its finished jobs.

use leptos::prelude::*;
use undertone_api::model::JobModel;
use undertone_api::page::PageQuery;

use super::render_empty;
use crate::call::native;
use crate::component::said::{Digest, RelativeTime};
use crate::screen::{PageContent, PagePlace, render_page};
use crate::{path, words};

/// Renders the list.
pub(crate) fn models() -> AnyView {
    render_page(PagePlace::Models, async |desk| {
        let consortium = desk.consortium()?.id;
        let page = PageQuery { cursor: None, limit: Some(PageQuery::MAX) };
        let mut rows = Vec::new();
        for JobModel { job, files } in desk.backend.models(consortium, page).await?.items {
            for file in native::ordered(files) {
                let href = desk.backend.download(&file);
                rows.push(view! {
                    <tr>
                        <th scope="row"><a href=href download=file.name.clone()>{file.name.clone()}</a></th>
                        <td data-label="job"><a href=path::job(consortium, job.id)>{job.title.clone()}</a></td>
                        <td data-label="size" class="number">{words::bytes(file.size)}</td>
                        <td data-label="SHA-256"><Digest digest=file.digest/></td>
                        <td data-label="made"><RelativeTime at=file.created_at now=desk.now/></td>
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
                    <thead><tr><th scope="col">"File"</th><th scope="col">"Job"</th><th scope="col" class="number">"Size"</th><th scope="col">"SHA-256"</th><th scope="col">"Created"</th><th scope="col">"Privacy cost"</th></tr></thead>
                    <tbody>{rows}</tbody>
                </table>
            }
            .into_any()
        };
        Ok(PageContent::new("Models", body))
    })
}
