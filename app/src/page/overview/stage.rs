//! Who takes part, what each organization keeps, and what crosses to the server.

use std::collections::BTreeMap;

use leptos::prelude::*;
use undertone_api::dataset::{Dataset, DatasetContent, Visibility};
use undertone_api::id::{ConsortiumId, DatasetId};
use undertone_api::organization::Organization;

use crate::component::said::VisibilityMark;
use crate::{path, words};

/// The facts of the drawing.
pub(super) struct Stage<'a> {
    pub(super) consortium: ConsortiumId,
    pub(super) organizations: &'a [Organization],
    pub(super) datasets: &'a [Dataset],
    /// The number of releases of each dataset.
    pub(super) released: &'a BTreeMap<DatasetId, u64>,
    /// Whether a job runs.
    pub(super) is_running: bool,
}

/// Renders the consortium: a line for each organization with data, and the server to which each line leads.
pub(super) fn render_stage(stage: &Stage<'_>) -> AnyView {
    let sites: Vec<AnyView> =
        stage.organizations.iter().filter_map(|organization| render_site(stage, organization)).collect();
    if sites.is_empty() {
        return ().into_any();
    }
    let total: u64 = stage.released.values().sum();
    view! {
        <section class="panel stage" class:running=stage.is_running>
            <h2>"Organizations and releases"</h2>
            <div class="stage-map">
                <ul class="stage-sites">{sites}</ul>
                <div class="stage-server">
                    <strong>"Server"</strong>
                    <p>{words::plural(total, "paid release")}</p>
                    <p><a href=path::ledger(stage.consortium)>"Ledger"</a>" · "<a href=path::models(stage.consortium)>"Models"</a></p>
                </div>
            </div>
            <p class="hint">"A release of private data is a noisy sum, noisy counts, or a text that many people typed. Its site pays for it from the dataset's \
                budget before it leaves; the other data stay at the site."</p>
        </section>
    }
    .into_any()
}

fn render_site(stage: &Stage<'_>, organization: &Organization) -> Option<AnyView> {
    let own: Vec<&Dataset> = stage.datasets.iter().filter(|dataset| dataset.organization == organization.id).collect();
    if own.is_empty() {
        return None;
    }
    let is_private = |dataset: &&&Dataset| dataset.visibility != Visibility::Public;
    let released: u64 = own.iter().filter_map(|dataset| stage.released.get(&dataset.id)).sum();
    let kept: Vec<AnyView> =
        own.iter().filter(is_private).map(|dataset| render_kept(stage.consortium, dataset)).collect();
    let has_private = !kept.is_empty();
    let public = own.len() - kept.len();
    let shared = (public > 0).then(|| view! { <li>{words::plural(public as u64, "public dataset")}</li> });
    let online = organization.workers.iter().filter(|worker| worker.online).count();
    let state = match (organization.workers.len(), online) {
        (workers, online) if workers == online => ().into_any(),
        (workers, online) => {
            view! { <span class="state bad">{format!("◍ {online} of {workers} workers online")}</span> }.into_any()
        }
    };
    let crosses = if released > 0 {
        let href = own.iter().find(|dataset| stage.released.contains_key(&dataset.id));
        let href = href.map(|dataset| format!("{}?dataset={}", path::ledger(stage.consortium), dataset.id));
        let text = words::plural(released, "release");
        view! { <a href=href>{text}</a> }.into_any()
    } else if has_private {
        view! { <span>"no release yet"</span> }.into_any()
    } else {
        view! { <span>"public data"</span> }.into_any()
    };
    Some(
        view! {
            <li>
                <div class="stage-site">
                    <a href=path::organization(stage.consortium, organization.id)><strong>{organization.name.clone()}</strong></a>
                    {state}
                    <ul>{kept}{shared}</ul>
                </div>
                <div class="stage-edge" class:private=has_private class:sends=(released > 0)>{crosses}</div>
            </li>
        }
        .into_any(),
    )
}

fn render_kept(consortium: ConsortiumId, dataset: &Dataset) -> AnyView {
    view! {
        <li>
            <a href=path::dataset(consortium, dataset.id)>{dataset.name.clone()}</a>{format!(": {} ", describe_size(dataset))}
            <VisibilityMark visibility=dataset.visibility/>
        </li>
    }
    .into_any()
}

/// Describes the size class of a dataset in the unit that people think of.
fn describe_size(dataset: &Dataset) -> String {
    let (size, one, many) = match (dataset.content, dataset.users) {
        (_, Some(users)) => (users, "person", "people"),
        (DatasetContent::Speech, None) => (dataset.speakers, "speaker", "speakers"),
        (DatasetContent::Queries, None) => (dataset.records, "query", "queries"),
        (DatasetContent::Recordings, None) => (dataset.records, "recording", "recordings"),
        (DatasetContent::Table, None) => (dataset.records, "row", "rows"),
    };
    format!("about {} {}", words::count(size.0), if size.0 == 1 { one } else { many })
}
