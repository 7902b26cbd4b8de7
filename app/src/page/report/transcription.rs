//! The report of a transcription: the promises, and, for public recordings, the outcome.

mod drawn;

use leptos::prelude::*;
use undertone_api::id::JobId;
use undertone_api::job::{Report, Spec};
use undertone_api::report::ReportFile;

use crate::{kind, words};

/// Renders the result of the job in a sentence.
pub(super) fn headline(report: &ReportFile) -> AnyView {
    let text = match (&report.outcome, report.spec()) {
        (Some(Report::Transcription(found)), _) => {
            let wrong = found.outcome.as_ref().and_then(|outcome| outcome.errors).and_then(|errors| errors.ours.rate());
            match wrong {
                Some(rate) => format!("{} of the words are wrong.", words::percent(rate)),
                None => "The transcript is at the site, and nowhere else.".to_owned(),
            }
        }
        (_, Spec::Transcription(spec)) => {
            format!("{} to hear a part each.", words::plural(spec.providers.len() as u64, "recognizer"))
        }
        _ => "Nothing came of it.".to_owned(),
    };
    view! { <p class="headline">{text}</p> }.into_any()
}

/// Renders promises, word errors, histograms and cost: in words and numbers, then drawn; and the location of the rest.
pub(super) fn section(report: &ReportFile) -> AnyView {
    let Some(found) = &report.outcome else { return ().into_any() };
    let (drawn, untold) = match found {
        Report::Transcription(found) => (drawn::section(found), found.outcome.is_none().then(|| untold(report.job.id))),
        Report::DpSgd(_) | Report::ActiveLearning(_) => (().into_any(), None),
    };
    view! {
        <section class="panel"><h2>"Heard and hidden"</h2>{kind::result(report.spec(), found, &[])}</section>
        {drawn}
        {untold}
    }
    .into_any()
}

/// Describes the figures from private recordings, and their location at the site.
fn untold(job: JobId) -> AnyView {
    view! {
        <section class="panel"><h2>"What is not here, and where it lies"</h2>
            <p>"In the folder "<code>{format!("transcripts/{job}/")}</code>" of the site, for its owner alone, until somebody there removes it:"</p>
            <dl class="facts">
                <div><dt><code>"recordings/"</code></dt><dd>"the transcript of each recording as text, SRT, VTT and JSON, with times and who heard each word"</dd></div>
                <div><dt><code>"histogram.tsv"</code></dt><dd>"how often each word was said, and how often each recognizer could count it"</dd></div>
                <div><dt><code>"report.json"</code></dt><dd>"words wrong where there are references, pieces, dummies, money, the attacks that were tried and those that were not, times"</dd></div>
            </dl>
            <p class="hint">"None of it ever came to this server. Whoever is told a number of it learns something of the recordings that no ε covers."</p>
        </section>
    }
    .into_any()
}

#[cfg(test)]
mod tests;
