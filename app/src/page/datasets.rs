//! The datasets of a consortium with their budgets.

use leptos::prelude::*;

use super::overview::render_budgets;
use super::render_empty;
use crate::screen::{PageContent, PagePlace, render_page};

/// Renders the list.
pub(crate) fn datasets() -> AnyView {
    render_page(PagePlace::Datasets, async |desk| {
        let consortium = desk.consortium()?;
        let datasets = desk.backend.datasets(consortium.id).await?;
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
