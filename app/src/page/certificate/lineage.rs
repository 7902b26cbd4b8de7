//! The lineage of the initial model: the chain of jobs, and the cost of all of them to each account.

use leptos::prelude::*;
use undertone_api::id::ConsortiumId;
use undertone_api::signed::certificate::{LineageJob, LineageSum, ModelLineage};

use crate::component::said::Digest;
use crate::{path, words};

/// Renders the lineage.
pub(super) fn render_section(model: &ModelLineage, consortium: ConsortiumId) -> AnyView {
    let jobs = model.jobs.iter().map(|job| render_job(job, consortium)).collect_view();
    let sums = model.sums.iter().map(render_sum).collect_view();
    view! {
        <section class="panel"><h2>"Initial model and total cost"</h2>
            <p>"The job began with a model of an earlier job, so its models also follow from the releases of that job. These were charged when they were made."</p>
            <table class="cards">
                <thead><tr><th scope="col">"Job"</th><th scope="col">"File"</th><th scope="col">"Made from"</th><th scope="col">"SHA-256"</th><th scope="col">"Certificate"</th></tr></thead>
                <tbody>{jobs}</tbody>
            </table>
            {(!model.sums.is_empty()).then(|| view! {
                <h3>"Cost of these jobs and this one together"</h3>
                <table class="cards">
                    <thead><tr><th scope="col">"Dataset"</th><th scope="col">"Owner"</th><th scope="col">"Protects"</th><th scope="col" class="number">"Jobs"</th><th scope="col" class="number">"ε"</th><th scope="col" class="number">"δ"</th></tr></thead>
                    <tbody>{sums}</tbody>
                </table>
                <p class="hint">"The sum of the Rényi curves of the counted releases, as budgets add up. Where the terms of a later job were chosen after the earlier model was seen, the lifetime limit of the account is the guarantee."</p>
            })}
        </section>
    }
    .into_any()
}

fn render_job(job: &LineageJob, consortium: ConsortiumId) -> AnyView {
    view! {
        <tr>
            <th scope="row"><a href=path::job(consortium, job.job)>{job.title.clone()}</a></th>
            <td data-label="file">{job.file.clone()}</td>
            <td data-label="made from">{job.source.label()}</td>
            <td data-label="SHA-256"><Digest digest=job.digest.clone()/></td>
            <td data-label="certificate"><a href=path::certificate(consortium, job.job)><Digest digest=job.certificate.clone()/></a></td>
        </tr>
    }
    .into_any()
}

fn render_sum(sum: &LineageSum) -> AnyView {
    let epsilon = match sum.figure {
        Some(figure) => figure.epsilon.map_or_else(|| "∞".to_owned(), words::epsilon),
        None => "no budget was set".to_owned(),
    };
    let delta = sum.figure.map(|figure| words::delta(figure.delta));
    view! {
        <tr>
            <th scope="row">{words::join_names(&sum.dataset_names.iter().map(String::as_str).collect::<Vec<_>>())}</th>
            <td data-label="owner">{sum.organization_name.clone()}</td>
            <td data-label="protects">{words::any_one(sum.unit)}</td>
            <td data-label="jobs" class="number">{words::count(sum.jobs)}</td>
            <td data-label="ε" class="number">{epsilon}</td>
            <td data-label="δ" class="number">{delta}</td>
        </tr>
    }
    .into_any()
}
