//! The review of a job for a dataset: the disclosures, the cost, and the exact manifest.

mod terms;

use leptos::prelude::*;
use undertone_api::id::{DatasetId, JobId};
use undertone_api::job::{Disclosure, DisclosureForm, JobReview};
use undertone_api::problem::{Code, Problem};
use undertone_server_core::service;

use crate::component::said::{Day, Digest};
use crate::page_context::{PageContent, PagePlace};
use crate::screen::render_page;
use crate::{kind, path, words};

/// Renders the page.
pub(crate) fn review() -> AnyView {
    render_page(PagePlace::Jobs, async |context| {
        let consortium = context.consortium()?.id;
        let id: JobId = context.id("job")?;
        let dataset: DatasetId = context.id("dataset")?;
        let job = service::job::get(context.ctx(), context.actor()?, id).await?;
        let party = job.participants.iter().find(|party| party.dataset == dataset);
        let party = party.ok_or_else(|| Problem::new(Code::NotFound, "The job has no such dataset."))?;
        let answer = terms::parse_terms(&context.query);
        let review = service::approval::review_terms(context.ctx(), context.actor()?, id, dataset, &answer).await?;
        let terms = terms::render_terms(context.member()?, &job, party, &review, &answer);
        let rehearsals = service::plan::rehearsals(context.ctx(), context.actor()?, consortium, &job.spec).await?;
        let facts = kind::facts(&job.spec);
        let consent = kind::consent(&job.spec, dataset, party.charge.as_ref());
        let title = format!("Requested from {}", party.dataset_name);
        let back = path::job(consortium, id);
        Ok(PageContent::new(
            title,
            view! {
                <p class="lead"><a href=back>{job.summary.title.clone()}</a>", proposed by "{job.summary.proposed_by.clone()}</p>
                {render_times(&review)}
                {terms}
                {render_cost(&review)}
                {kind::render_rehearsals(consortium, &job.spec, &rehearsals)}
                {render_disclosures(&review.learned)}
                <section class="panel"><h2>{kind::title(&job.spec)}</h2>
                    <dl class="facts">{facts.into_iter().map(|(term, what)| view! { <div><dt>{term}</dt><dd>{what}</dd></div> }).collect_view()}</dl>
                    <ul class="consequences">{consent.into_iter().map(|line| view! { <li>{line}</li> }).collect_view()}</ul>
                </section>
                {render_manifest(&review)}
            },
        ))
    })
}

fn render_times(review: &JobReview) -> AnyView {
    let answer = review
        .answer_by
        .map(|at| view! { "A decision is due until "<Day at/>"; without a decision the job is refused. " });
    let end = review.not_after.map(|at| view! { "No site runs the job after "<Day at/>"." });
    view! { <p>{answer}{end}</p> }.into_any()
}

/// Renders the owner's account before and after.
fn render_cost(review: &JobReview) -> AnyView {
    let Some(cost) = &review.cost else { return ().into_any() };
    let own = cost
        .epsilon
        .map_or_else(|| "no ε covers it, or no budget is set".to_owned(), |own| format!("ε {}", words::epsilon(own)));
    let balance = match (cost.would_be, cost.limit, cost.delta) {
        (Some(balance), Some(limit), Some(delta)) => {
            format!("ε {} of {} at δ {}", words::epsilon(balance), words::limit(limit), words::delta(delta))
        }
        _ => "it exceeds the limit and would be refused".to_owned(),
    };
    let insider = cost.insider_epsilon.map(|epsilon| {
        let text = format!("ε {} for this job by itself: the noise of this site is left", words::epsilon(epsilon));
        view! { <div><dt>"If the server and the other sites collude"</dt><dd>{text}</dd></div> }
    });
    // Each limit bounds all jobs, so the job is charged to every limited unit.
    let accounts = cost.accounts.iter().map(|account| view! { <li>{words::account(account)}</li> }).collect_view();
    view! {
        <section class="panel"><h2>"Privacy cost"</h2>
            <dl class="facts">
                <div><dt>"Releases"</dt><dd>{words::releases(cost.charge.releases, &cost.charge.event)}</dd></div>
                <div><dt>"Protected"</dt><dd>{words::each(cost.charge.unit)}</dd></div>
                <div><dt>"This job by itself"</dt><dd>{own}</dd></div>
                {insider}
                <div><dt>"Account after this job"</dt><dd>{balance}</dd></div>
                {(cost.accounts.len() > 1).then(|| view! { <div><dt>"All charged accounts"</dt><dd><ul>{accounts}</ul></dd></div> })}
                {cost.left.map(|left| view! { <div><dt>"Left for all other jobs, for life"</dt><dd>{format!("ε {}", words::epsilon_left(left))}</dd></div> })}
            </dl>
        </section>
    }
    .into_any()
}

/// Renders the disclosures, a row for each observer and item.
fn render_disclosures(rows: &[Disclosure]) -> AnyView {
    let row = |row: &Disclosure| {
        let epsilon = match (row.form, row.epsilon) {
            (DisclosureForm::Fact, _) => "–".to_owned(),
            (DisclosureForm::Exact, _) => "none covers it".to_owned(),
            (_, Some(epsilon)) => format!("ε {} in all", words::epsilon(epsilon)),
            (_, None) => "as charged".to_owned(),
        };
        view! {
            <tr>
                <th scope="row">{row.observer.label()}</th>
                <td data-label="learns">{row.what.replace('`', "")}</td>
                <td data-label="form">{row.form.label()}</td>
                <td data-label="frequency">{words::plural(row.times, "time")}</td>
                <td data-label="bound">{epsilon}</td>
            </tr>
        }
    };
    view! {
        <section class="panel"><h2>"Disclosures"</h2>
            <table class="cards">
                <thead><tr><th scope="col">"Recipient"</th><th scope="col">"Information"</th><th scope="col">"Form"</th><th scope="col">"Frequency"</th><th scope="col">"Bound"</th></tr></thead>
                <tbody>{rows.iter().map(row).collect_view()}</tbody>
            </table>
            <p class="hint">"One charge covers every protected release and everything computed from it: the ε of the rows is the same ε, not a sum. Recordings and logs stay at the site, except for the disclosures in this table."</p>
        </section>
    }
    .into_any()
}

fn render_manifest(review: &JobReview) -> AnyView {
    let JobReview { manifest, digest, server_key, .. } = review;
    view! {
        <section class="panel"><h2>"The signed manifest"</h2>
            <p>"An approval covers exactly these bytes. A changed job has a different manifest and no approval."</p>
            <dl class="facts">
                <div><dt>"SHA-256"</dt><dd><code class="digest">{digest.clone()}</code></dd></div>
                <div><dt>"Signature"</dt><dd><Digest digest=manifest.signature.clone()/></dd></div>
                <div><dt>"The server's key"</dt><dd><Digest digest=server_key.clone()/></dd></div>
            </dl>
            <details><summary>"The manifest, byte for byte"</summary><pre class="manifest" tabindex="0"><code>{manifest.payload.clone()}</code></pre></details>
            <p class="hint">"At the site, "<code>"undertone-worker jobs"</code>" shows the manifest that the site verified, with the site's own ledger."</p>
        </section>
    }
    .into_any()
}
