//! A job's certificate for reading and printing: its verification, its cost to each party, and the basis.

mod check;
mod lineage;
mod party;

pub(super) use party::{describe_adjacency, render_promises};

use leptos::prelude::*;
use undertone_api::id::{ConsortiumId, JobId, OrganizationId};
use undertone_api::signed::certificate::CombinedFigure;
use undertone_api::signed::{Certificate, LogHead};
use undertone_server_core::service;

use super::overlap;
use crate::component::files::render_files;
use crate::component::said::StateMark;
use crate::page_context::{PageContent, PagePlace};
use crate::screen::render_page;
use crate::{path, words};

/// Renders the page.
pub(crate) fn certificate() -> AnyView {
    render_page(PagePlace::Models, async |context| {
        let consortium = context.consortium()?.id;
        let id: JobId = context.id("job")?;
        let certificate = service::certificate::get(context.ctx(), context.actor()?, id).await?;
        Ok(PageContent::new("Certificate", render_certificate(&certificate, consortium, id)))
    })
}

/// Renders the certificate of the page of the job `id`.
fn render_certificate(certificate: &Certificate, consortium: ConsortiumId, id: JobId) -> AnyView {
    let job = &certificate.job;
    let is_charged = certificate.parties.iter().any(|party| party.charged.is_some());
    let sums = certificate.together.iter().map(|together| render_total(certificate, together)).collect_view();
    let parties = certificate.parties.iter().map(party::render_section).collect_view();
    view! {
        <p class="lead"><a href=path::job(consortium, job.id)>{job.title.clone()}</a>", a job of "{certificate.consortium.name.clone()}". "
            <StateMark state=job.state/></p>
        <div class="certificate">
            <section class="panel answer"><h2>"Privacy cost"</h2>
                {if is_charged { sums.into_any() } else { render_uncharged(certificate) }}
                {is_charged.then(|| view! {
                    <p>{overlap::describe_rule(certificate.overlap.overlap)}" "{overlap::render_author(&certificate.overlap, None)}</p>
                })}
                <dl class="facts">
                    <div><dt>"Issued"</dt><dd>{words::exact(certificate.issued_at)}" by "{certificate.issuer.address.clone()}</dd></div>
                    <div><dt>"Proposed by"</dt><dd>{job.proposed_by.clone()}</dd></div>
                    {job.finished_at.map(|at| view! { <div><dt>"Ended"</dt><dd>{words::exact(at)}</dd></div> })}
                    <div><dt>"Rounds"</dt><dd>{format!("{} of {}", words::count(job.rounds_done.into()), words::count(job.rounds.into()))}</dd></div>
                </dl>
                <div class="actions"><a class="button primary" href=path::certificate_file(id) download=format!("certificate-{}.json", job.id)>"Download the certificate"</a></div>
            </section>
            {check::render_section(certificate, id)}
            {certificate.initial_model.as_ref().map(|model| lineage::render_section(model, consortium))}
            {parties}
            {render_files("Covered files", &certificate.artifacts)}
            {render_signatures(certificate)}
        </div>
    }
    .into_any()
}

/// Describes a job that charged nothing.
fn render_uncharged(certificate: &Certificate) -> AnyView {
    let text = if certificate.initial_model.is_some() {
        "This job used public data and its initial model: it spent no privacy budget itself."
    } else {
        "Only public data were used: no privacy budget was spent."
    };
    view! { <p class="headline">{text}</p> }.into_any()
}

/// Describes the consortium's number for one unit in a sentence.
fn render_total(certificate: &Certificate, together: &CombinedFigure) -> AnyView {
    let one = words::any_one(together.unit);
    let find_name = |id: &OrganizationId| {
        let party = certificate.parties.iter().find(|party| party.organization == *id);
        party.map_or_else(String::new, |party| party.organization_name.clone())
    };
    let names: Vec<String> = together.organizations.iter().map(find_name).collect();
    let headline = match together.figure {
        Some(figure) => match figure.epsilon {
            Some(epsilon) => view! {
                <p class="headline">"At most "<abbr title=words::EPSILON>"ε"</abbr>" "<strong>{words::epsilon(epsilon)}</strong>" at "
                    <abbr title=words::DELTA>"δ"</abbr>{format!(" {} for {one}", words::delta(figure.delta))}</p>
            }
            .into_any(),
            None => view! { <p class="headline bad-text">{format!("No finite ε bounds the loss for {one}")}</p> }.into_any(),
        },
        None => view! { <p class="headline">{format!("There is no guarantee for {one}: no budget was set")}</p> }.into_any(),
    };
    let method = match together.most {
        most if most as usize == names.len() && most > 1 => "the sum over".to_owned(),
        1 if names.len() > 1 => "the maximum over".to_owned(),
        1 => "for one person in the data of".to_owned(),
        most => format!("the sum of the {most} largest of"),
    };
    view! {
        {headline}
        <p class="hint">{format!("By this job alone, {method} {}.", list_names(&names))}</p>
        {(together.in_the_clear > 0).then(|| view! {
            <p class="in-the-clear">{format!(
                "Also {}, because an owner opened a dataset for a comparison. No ε covers them.",
                words::plural(together.in_the_clear, "exact release")
            )}</p>
        })}
    }
    .into_any()
}

fn render_signatures(certificate: &Certificate) -> AnyView {
    let head = certificate.head.as_ref().and_then(|head| serde_json::from_str::<LogHead>(&head.payload).ok());
    let sites = certificate.parties.iter().filter(|party| party.charged.is_some()).map(|party| {
        view! { <div><dt>{format!("{}, for {}", party.organization_name, party.dataset_name)}</dt><dd><code>{party.site_key.clone()}</code></dd></div> }
    });
    view! {
        <section class="panel"><h2>"Signatures"</h2>
            <dl class="facts">
                <div><dt>"Certificate, by the server"</dt><dd><code>{certificate.issuer.public_key.clone()}</code></dd></div>
                <div><dt>"Manifest, by the server"</dt><dd>"manifest "<code>{certificate.job.manifest.clone()}</code></dd></div>
                {sites.collect_view()}
                <div><dt>"Server log at that time"</dt><dd>{match head {
                    Some(head) => view! { {format!("{} entries, root ", words::count(head.size))}<code>{head.root}</code> }.into_any(),
                    None => view! { "none" }.into_any(),
                }}</dd></div>
            </dl>
            <p class="hint">"Each site signed a receipt for every release before it left. The file contains the receipts with their positions in the server's log."</p>
        </section>
    }
    .into_any()
}

/// Formats a list of names in words.
fn list_names(names: &[String]) -> String {
    match names {
        [] => "nobody".to_owned(),
        [one] => one.clone(),
        [head @ .., last] => format!("{} and {last}", head.join(", ")),
    }
}
