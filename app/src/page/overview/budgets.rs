//! The budgets of datasets: a row with gauges for each dataset that needs one, and one line for all public datasets.

use leptos::prelude::*;
use undertone_api::dataset::{Dataset, Visibility};
use undertone_api::id::ConsortiumId;

use crate::component::gauge::{Gauge, GaugeReading};
use crate::component::said::VisibilityMark;
use crate::{path, standing, words};

/// Renders the datasets with their gauges. Public datasets need no budget and share a line.
pub(in crate::page) fn render_budgets(datasets: &[Dataset], consortium: ConsortiumId) -> AnyView {
    let (public, charged): (Vec<&Dataset>, Vec<&Dataset>) =
        datasets.iter().partition(|dataset| dataset.visibility == Visibility::Public);
    let rows = charged.into_iter().map(|dataset| render_row(dataset, consortium)).collect_view();
    view! { <ul class="budgets">{rows}{render_public(&public, consortium)}</ul> }.into_any()
}

fn render_row(dataset: &Dataset, consortium: ConsortiumId) -> AnyView {
    let gauges = if dataset.accounts.iter().any(standing::budgeted) {
        dataset
            .accounts
            .iter()
            .filter(|account| standing::budgeted(account))
            .map(|account| view! { <Gauge reading=GaugeReading::from(account)/> })
            .collect_view()
            .into_any()
    } else {
        view! { <p class="gauge-text">"No budget is set; no job can use it."</p> }.into_any()
    };
    view! {
        <li class="budget">
            <div class="budget-name">
                <a href=path::dataset(consortium, dataset.id)><strong>{dataset.name.clone()}</strong></a>
                <span>{dataset.organization_name.clone()}" "<VisibilityMark visibility=dataset.visibility/></span>
            </div>
            <div class="budget-gauges">{gauges}</div>
        </li>
    }
    .into_any()
}

fn render_public(public: &[&Dataset], consortium: ConsortiumId) -> Option<AnyView> {
    let links = public.iter().map(|dataset| {
        let owner = format!(" of {}", dataset.organization_name);
        view! { <li><a href=path::dataset(consortium, dataset.id)>{dataset.name.clone()}</a>{owner}</li> }
    });
    let count = words::plural(public.len() as u64, "public dataset");
    (!public.is_empty()).then(|| {
        view! {
            <li class="budget">
                <div class="budget-name"><strong>{count}</strong><span>"Public data need no budget."</span></div>
                <ul class="names">{links.collect_view()}</ul>
            </li>
        }
        .into_any()
    })
}
