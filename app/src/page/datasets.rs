//! The datasets of a consortium with their budgets.

use leptos::prelude::*;

use super::overview::render_budgets;
use super::render_empty;
use crate::screen::{Place, Sheet, screen};

/// Renders the list.
pub(crate) fn datasets() -> AnyView {
    screen(Place::Datasets, async |desk| {
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
        Ok(Sheet::new(
            "Datasets",
            view! {
                <p class="lead">"A budget is for life: it covers the dataset and all its later versions, across jobs and consortia."</p>
                {list}
            },
        ))
    })
}
