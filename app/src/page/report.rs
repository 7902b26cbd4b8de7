//! A job's report for reading, printing and keeping: the same on the page and in a self-contained file.

mod costs;
mod facts;

use leptos::prelude::*;
use undertone_api::id::{ConsortiumId, JobId};
use undertone_api::report::ReportFile;
use undertone_server_core::service;

use super::audit;
use crate::component::form::post;
use crate::component::said::StateMark;
use crate::page_context::{PageContent, PagePlace};
use crate::screen::render_page;
use crate::{asset, kind, path, words};

/// Renders the page.
pub(crate) fn report() -> AnyView {
    render_page(PagePlace::Jobs, async |context| {
        let consortium = context.consortium()?.id;
        let id: JobId = context.id("job")?;
        let report = service::report::get(context.ctx(), context.actor()?, id).await?;
        let links = ReportLinks { consortium, file: path::report_file(id), document: crate::path::report_document(id) };
        Ok(PageContent::new("Report", render_report(&report, Some(&links))))
    })
}

/// Renders the report as a self-contained file: no script, no font, no external picture.
pub fn document(report: &ReportFile) -> String {
    let owner = Owner::new();
    let body = owner.with(|| render_report(report, None).to_html());
    let title = escape_html(&format!("Report · {}", report.job.title));
    let style = inline_style();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
         <meta name=\"color-scheme\" content=\"light dark\"/><title>{title}</title><style>{style}</style></head>\
         <body><main id=\"main\" class=\"document\"><h1>Report</h1>{body}</main></body></html>\n"
    )
}

/// Returns the style sheet without its external resources.
fn inline_style() -> String {
    let sheet = asset::assets().iter().find(|asset| asset.path == asset::STYLE).map_or(&[][..], |asset| asset.bytes);
    let text = String::from_utf8_lossy(sheet);
    text.split_inclusive('\n').filter(|line| !line.trim_start().starts_with("@font-face")).collect()
}

fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The links of the page; the file has none.
struct ReportLinks {
    consortium: ConsortiumId,
    file: String,
    document: String,
}

fn render_report(report: &ReportFile, links: Option<&ReportLinks>) -> AnyView {
    let job = &report.job;
    let title = match links {
        Some(links) => view! { <a href=path::job(links.consortium, job.id)>{job.title.clone()}</a> }.into_any(),
        None => job.title.clone().into_any(),
    };
    let audits = (!report.audits.is_empty()).then(|| {
        view! {
            <section class="panel"><h2>"One-run audit"</h2>
                {audit::render_table(&report.audits, false, report.made_at)}
                <p class="hint">"The audit guesses from every released vector which canaries were in the data. It can "<em>"disprove"</em>" \
                    a claim: a measured bound above the claim means that the releases exceed their charge. It can \
                    never prove a claim: below it a stronger attack may still be possible, and perfect guesses show \
                    at most about the logarithm of their number. The audit is inconclusive for larger claims."</p>
            </section>
        }
    });
    view! {
        <p class="lead">{title}", a job of "{report.consortium.name.clone()}". "<StateMark state=job.state/></p>
        <div class="report">
            <section class="panel answer"><h2>"Result"</h2>
                {kind::render_report_headline(report)}
                <dl class="facts">
                    <div><dt>"Proposed by"</dt><dd>{job.proposed_by.clone()}</dd></div>
                    {job.started_at.map(|at| view! { <div><dt>"Started"</dt><dd>{words::exact(at)}</dd></div> })}
                    {job.finished_at.map(|at| view! { <div><dt>"Ended"</dt><dd>{words::exact(at)}</dd></div> })}
                    {(job.rounds > 0).then(|| view! { <div><dt>"Rounds"</dt><dd>{format!("{} of {}", words::count(job.rounds_done.into()), words::count(job.rounds.into()))}</dd></div> })}
                    {report.reason.clone().map(|why| view! { <div><dt>"Reason for the end"</dt><dd>{why}</dd></div> })}
                    <div><dt>"This report"</dt><dd>{words::exact(report.made_at)}", "<code>{report.format.clone()}</code></dd></div>
                </dl>
                {links.map(|links| render_actions(report, links))}
            </section>
            {kind::render_report_sections(report)}
            {audits}
            {costs::render_section(report)}
            {facts::render_sections(report, links.map(|links| links.consortium))}
        </div>
    }
    .into_any()
}

fn render_actions(report: &ReportFile, links: &ReportLinks) -> AnyView {
    let id = report.job.id;
    let hidden = vec![("consortium", links.consortium.to_string()), ("job", id.to_string())];
    let again = post(
        "propose-again",
        hidden,
        view! {
            <p class="hint">"Proposes exactly this job again. The owners are asked again and the job is charged again; nothing runs before they approve. The new job can be cancelled."</p>
            <button type="submit">"Propose again"</button>
        },
    );
    view! {
        <div class="actions">
            <a class="button primary" href=links.document.clone() download=format!("report-{id}.html")>"Download to read"</a>
            <a class="button" href=links.file.clone() download=format!("report-{id}.json")>"Download to repeat (JSON)"</a>
        </div>
        <details class="more"><summary>"Repeat this job"</summary>{again}</details>
    }
    .into_any()
}

#[cfg(test)]
mod tests;
