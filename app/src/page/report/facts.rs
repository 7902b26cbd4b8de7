//! All parameters, the data, the files, the signatures, and the missing parts.

use leptos::prelude::*;
use undertone_api::id::ConsortiumId;
use undertone_api::job::DatasetUse;
use undertone_api::report::ReportFile;
use undertone_api::signed::LogHead;

use crate::component::files::render_files;
use crate::{kind, path, words};

pub(super) fn render_sections(report: &ReportFile, consortium: Option<ConsortiumId>) -> AnyView {
    view! {
        {render_parameters(report)}
        {render_datasets(report)}
        {render_files("Files", &report.artifacts)}
        {render_versions(report, consortium)}
        {render_omissions(report)}
    }
    .into_any()
}

fn render_parameters(report: &ReportFile) -> AnyView {
    let facts = kind::facts(report.spec());
    let whole = serde_json::to_string_pretty(&report.proposal).unwrap_or_default();
    view! {
        <section class="panel"><h2>"All parameters"</h2>
            <dl class="facts">
                {facts.into_iter().map(|(term, what)| view! { <div><dt>{term}</dt><dd>{what}</dd></div> }).collect_view()}
            </dl>
            <details class="spec"><summary>"Full spec, as signed"</summary><pre><code>{whole}</code></pre></details>
        </section>
    }
    .into_any()
}

fn render_datasets(report: &ReportFile) -> AnyView {
    // A query log has no speakers, and those of recordings are not counted; nothing is divided by their number.
    let terms = kind::terms(report.spec());
    let rows = report.datasets.iter().map(|used| {
        let usage = match used.purpose {
            DatasetUse::Participate => terms.participation,
            DatasetUse::Evaluate => "evaluated on",
        };
        let content = used.digest.clone().map_or_else(
            || view! { <small>"not stated"</small> }.into_any(),
            |digest| view! { <code>{digest}</code> }.into_any(),
        );
        view! {
            <tr>
                <th scope="row">{used.name.clone()}<br/><small>{used.organization_name.clone()}</small></th>
                <td data-label="used">{format!("{}, {usage}", words::visibility(used.visibility))}</td>
                <td data-label="records" class="number">{format!("about {}", words::count(used.records.0))}</td>
                {terms.has_unit_counts.then(|| view! {
                    <td data-label="speakers" class="number">{format!("about {}", words::count(used.speakers.0))}</td>
                    <td data-label="n" class="number">{words::count(used.units)}</td>
                })}
                <td data-label="SHA-256">{content}</td>
            </tr>
        }
    });
    view! {
        <section class="panel"><h2>"Data"</h2>
            <table class="cards">
                <thead><tr>
                    <th scope="col">"Dataset"</th><th scope="col">"Used"</th><th scope="col" class="number">"Records"</th>
                    {terms.has_unit_counts.then(|| view! { <th scope="col" class="number">"Speakers"</th><th scope="col" class="number">"n in divisions"</th> })}
                    <th scope="col">"SHA-256 of the contents"</th>
                </tr></thead>
                <tbody>{rows.collect_view()}</tbody>
            </table>
        </section>
    }
    .into_any()
}

fn render_versions(report: &ReportFile, consortium: Option<ConsortiumId>) -> AnyView {
    let head = report.certificate.as_ref().and_then(|certificate| certificate.head.as_ref());
    let head = head.and_then(|head| serde_json::from_str::<LogHead>(&head.payload).ok());
    let certificate = report.certificate.as_ref().map(|certificate| {
        let digest = view! { <code>{certificate.digest.clone()}</code> };
        match consortium {
            Some(consortium) => {
                view! { <a href=path::certificate(consortium, report.job.id)>"Signed privacy cost"</a>", "{digest} }
                    .into_any()
            }
            None => digest.into_any(),
        }
    });
    let versions = &report.versions;
    view! {
        <section class="panel"><h2>"Versions and signatures"</h2>
            <dl class="facts">
                <div><dt>"Server"</dt><dd>{format!("version {}, formulas {}, at {}", versions.server, versions.evaluator, versions.address)}</dd></div>
                <div><dt>"Server key"</dt><dd><code>{versions.public_key.clone()}</code></dd></div>
                <div><dt>"Signed manifest"</dt><dd><code>{report.job.manifest.clone()}</code></dd></div>
                <div><dt>"Certificate"</dt><dd>{certificate.unwrap_or_else(|| "none yet".into_any())}</dd></div>
                {head.map(|head| view! {
                    <div><dt>"Server log at that time"</dt><dd>{format!("{} entries, root ", words::count(head.size))}<code>{head.root}</code></dd></div>
                })}
            </dl>
            <p class="hint">"This report is compiled from the job’s record and is not signed. The manifest, the \
                receipts and the audit statements are signed; the certificate contains them. Verify the certificate \
                offline with "<code>"undertone-server certificate verify"</code>". \
                To repeat the job, send the JSON form of this report to "<code>{format!("POST /api/v1/consortia/{}/jobs/again", report.consortium.id)}</code>"."</p>
        </section>
    }
    .into_any()
}

fn render_omissions(report: &ReportFile) -> AnyView {
    if report.absent.is_empty() {
        return ().into_any();
    }
    view! {
        <section class="panel"><h2>"Omitted data and reasons"</h2>
            <dl class="facts">
                {report.absent.iter().map(|one| view! { <div><dt>{one.what.clone()}</dt><dd>{format!("{}.", one.why)}</dd></div> }).collect_view()}
            </dl>
        </section>
    }
    .into_any()
}
