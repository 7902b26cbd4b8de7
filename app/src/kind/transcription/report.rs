//! The report of a transcription: the promises, and, for public recordings, the outcome.

mod drawings;

use leptos::prelude::*;
use undertone_api::id::JobId;
use undertone_api::job::Report as AnyReport;
use undertone_api::job::transcription::{Report, Spec};
use undertone_api::report::ReportFile;

use super::result;
use crate::words;

/// Renders the result of the job in a sentence.
pub(super) fn render_headline(spec: &Spec, file: &ReportFile) -> AnyView {
    let text = match find_outcome(file) {
        Some(report) => {
            let errors = report.outcome.as_ref().and_then(|outcome| outcome.errors);
            match errors.and_then(|errors| errors.ours.rate()) {
                Some(rate) => format!("{} of the words are wrong.", words::percent(rate)),
                None => "The transcript stays at the site.".to_owned(),
            }
        }
        None => format!("{}, each for one part.", words::plural(spec.providers.len() as u64, "recognizer")),
    };
    view! { <p class="headline">{text}</p> }.into_any()
}

/// Renders promises, word errors, histograms and cost: in words and numbers, then drawn; and the location of the rest.
/// Empty before there is a result.
pub(super) fn render_sections(file: &ReportFile) -> AnyView {
    let Some(report) = find_outcome(file) else { return ().into_any() };
    let local_files = report.outcome.is_none().then(|| render_local_files(file.job.id));
    view! {
        <section class="panel"><h2>"Recognition and protection"</h2>{result::render_result(report, &[])}</section>
        {drawings::render_section(report)}
        {local_files}
    }
    .into_any()
}

/// Returns the result in a job's report, if there is one.
fn find_outcome(file: &ReportFile) -> Option<&Report> {
    match &file.outcome {
        Some(AnyReport::Transcription(report)) => Some(report),
        _ => None,
    }
}

/// Renders the list of the files at the site with the figures from private recordings.
fn render_local_files(job: JobId) -> AnyView {
    view! {
        <section class="panel"><h2>"Omitted data and their location"</h2>
            <p>"In the folder "<code>{format!("transcripts/{job}/")}</code>" of the site, readable by its owner, until it is deleted there:"</p>
            <dl class="facts">
                <div><dt><code>"recordings/"</code></dt><dd>"the transcript of each recording as text, SRT, VTT and JSON, with times and the recognizer of each word"</dd></div>
                <div><dt><code>"histogram.tsv"</code></dt><dd>"the count of each word, as said and as heard by each recognizer"</dd></div>
                <div><dt><code>"sounds/"</code></dt><dd>"up to five true pieces and five dummies of each recognizer, as it received them; "<code>{format!("undertone-worker received {job}")}</code>" plays them at the site"</dd></div>
                <div><dt><code>"report.json"</code></dt><dd>"word error rates for recordings with references, pieces, dummies, money, tried and untried attacks, times"</dd></div>
            </dl>
            <p class="hint">"None of it was ever sent to this server. Every number of it reveals something of the recordings that no ε covers."</p>
        </section>
    }
    .into_any()
}

#[cfg(test)]
mod tests;
