//! The datasets of a consortium with their budgets.

use leptos::prelude::*;
use undertone_server_core::service;

use super::overview::render_budgets;
use super::render_empty;
use crate::page_context::{PageContent, PagePlace};
use crate::screen::render_page;

/// Renders the list.
pub(crate) fn datasets() -> AnyView {
    render_page(PagePlace::Datasets, async |context| {
        let consortium = context.consortium()?;
        let datasets = service::dataset::list(context.ctx(), context.actor()?, consortium.id).await?;
        let list = if datasets.is_empty() {
            render_empty(
                "No dataset is registered. A worker prepares a dataset at its site and registers its size class.",
                view! { <p><code>"undertone-worker data prepare"</code></p> },
            )
        } else {
            render_budgets(&datasets, consortium.id)
        };
        Ok(PageContent::new(
            "Datasets",
            view! {
                <p class="lead">"A budget is for life: it covers the dataset and all its later versions, across jobs and consortia."</p>
                {list}
            },
        ))
    })
}
