//! The report of a transcription: what was promised, and of public recordings what came of it.

use leptos::prelude::*;
use undertone_api::job::{Report, Spec};
use undertone_api::report::ReportFile;

use crate::{kind, words};

/// What the job did, in a sentence.
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

/// Promises, words wrong, histograms, money.
pub(super) fn section(report: &ReportFile) -> AnyView {
    let Some(found) = &report.outcome else { return ().into_any() };
    view! { <section class="panel"><h2>"Heard and hidden"</h2>{kind::result(report.spec(), found, &[])}</section> }
        .into_any()
}
