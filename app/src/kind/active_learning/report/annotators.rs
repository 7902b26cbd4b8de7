//! The annotators, by number, and their agreement.

use leptos::prelude::*;
use undertone_api::job::active_learning::Report;

use crate::answer::part::{KAPPA, format_kappa};
use crate::words;

/// Renders the agreement, and a row for each annotator; empty without answers.
pub(super) fn render_section(outcome: &Report) -> AnyView {
    if outcome.annotators.is_empty() {
        return ().into_any();
    }
    let percent = |part: Option<f64>| part.map_or_else(|| "–".to_owned(), words::percent);
    let rows = outcome.annotators.iter().map(|one| {
        view! {
            <tr>
                <th scope="row">{format!("Annotator {}", one.annotator)}</th>
                <td data-label="answers" class="number">{words::count(one.annotations)}</td>
                <td data-label="agrees" class="number">{percent(one.agreement)}</td>
                <td data-label="right" class="number">{percent(one.accuracy)}</td>
            </tr>
        }
    });
    let rows = rows.collect_view();
    let kappa = match outcome.agreement {
        Some(kappa) => {
            view! { <p class="headline-small"><abbr title=KAPPA>"Agreement κ"</abbr>" "{format_kappa(kappa)}</p> }
                .into_any()
        }
        None => view! { <p class="headline-small">"No question was answered by two people."</p> }.into_any(),
    };
    view! {
        <section class="panel"><h2>"Annotators and their agreement"</h2>
            {kappa}
            <table class="cards">
                <thead><tr>
                    <th scope="col">"Annotator"</th><th scope="col" class="number">"Answers"</th>
                    <th scope="col" class="number">"Agreed with the final label"</th><th scope="col" class="number">"Estimated accuracy"</th>
                </tr></thead>
                <tbody>{rows}</tbody>
            </table>
            <p class="hint">"Annotator numbers are specific to this job. Accuracy is estimated from agreement with \
                other annotators, per label (Dawid and Skene 1979); it needs at least two annotators per question."</p>
        </section>
    }
    .into_any()
}
