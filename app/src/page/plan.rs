//! Planning a job: the form of its kind.

use leptos::prelude::*;
use undertone_api::dataset::Visibility;

use super::nothing;
use crate::kind::{Ground, forms};
use crate::path;
use crate::screen::{Place, Sheet, screen};

/// The planner.
pub(crate) fn plan() -> AnyView {
    screen(Place::Jobs, async |desk| {
        let consortium = desk.consortium()?.id;
        desk.member()?;
        let datasets = desk.backend.datasets(consortium).await?;
        if !datasets.iter().any(|dataset| dataset.visibility == Visibility::Public) {
            let then = view! { <p><a href=path::datasets(consortium)>"See the datasets"</a></p> };
            return Ok(Sheet::new(
                "Plan a job",
                nothing(
                    "A job needs a public dataset: it leads, trains the warm start and measures. None is registered here.",
                    then,
                ),
            ));
        }
        let mut standings = Vec::new();
        for dataset in datasets.iter().filter(|dataset| dataset.visibility != Visibility::Public) {
            standings.push((dataset.id, desk.backend.standing(dataset.id).await?));
        }
        let (backend, query) = (std::sync::Arc::clone(&desk.backend), desk.query.clone());
        let ground = Ground { backend, consortium, datasets, standings, query };
        let forms: Vec<_> = forms(ground)
            .await
            .into_iter()
            .map(|(title, form)| view! { <section><h2 class="kind">{title}</h2>{form}</section> })
            .collect();
        Ok(Sheet::new(
            "Plan a job",
            view! {
                <p class="lead">"What each party would have left is computed here, by the code that will decide."</p>
                {forms}
            },
        ))
    })
}
