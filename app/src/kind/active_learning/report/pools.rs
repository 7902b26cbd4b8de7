//! The pools: the number of questions that each gate released, with ε and δ; and the frequencies of queries.

use leptos::prelude::*;
use undertone_api::job::active_learning::{FrequencyBin, PoolResult, Report};

use super::LearningReport;
use crate::component::drawing::{BarDrawing, shorten};
use crate::words;

/// The most gates that are marked in a drawing; the table above it has all.
const MARKS: usize = 4;

/// Renders every pool with its price, and the distribution of frequencies.
pub(super) fn render_section(report: &LearningReport<'_>, outcome: &Report) -> AnyView {
    if outcome.pools.is_empty() && outcome.frequency.is_empty() {
        return ().into_any();
    }
    let rows = outcome.pools.iter().map(|pool| render_pool(report, pool)).collect_view();
    let frequencies = plot_frequencies(report, outcome);
    view! {
        <section class="panel"><h2>"Questions by dataset, and their cost"</h2>
            <table class="cards">
                <thead><tr>
                    <th scope="col">"Dataset"</th><th scope="col" class="number">"Questions"</th>
                    <th scope="col" class="number">"β"</th><th scope="col" class="number">"k"</th>
                    <th scope="col">"Protects each"</th><th scope="col" class="number">"ε"</th><th scope="col" class="number">"δ"</th>
                </tr></thead>
                <tbody>{rows}</tbody>
            </table>
            <p class="hint">"Each row of a log was kept with probability β, in secret, and a text left only if at \
                least k kept rows contain it. This release was charged once, before it left; everything else in \
                this report derives from the release, the answers and public data, and costs nothing more."</p>
        </section>
        {frequencies.map(|bars| view! { <section class="charts few" aria-label="Frequency of queries">{bars.draw().show()}</section> })}
    }
    .into_any()
}

fn render_pool(report: &LearningReport<'_>, pool: &PoolResult) -> AnyView {
    let epsilon = pool.epsilon.map_or_else(|| "public".to_owned(), words::epsilon);
    let delta = pool.delta.map_or_else(|| "–".to_owned(), words::delta);
    let unit = if pool.epsilon.is_some() { words::unit(pool.unit) } else { "none: public data" };
    view! {
        <tr>
            <th scope="row">{report.name(pool.dataset)}</th>
            <td data-label="questions" class="number">{words::count(pool.queries)}</td>
            <td data-label="β" class="number">{words::number(pool.sampling_rate)}</td>
            <td data-label="k" class="number">{words::count(pool.threshold.into())}</td>
            <td data-label="protects each">{unit}</td>
            <td data-label="ε" class="number">{epsilon}</td>
            <td data-label="δ" class="number">{delta}</td>
        </tr>
    }
    .into_any()
}

/// Draws the number of queries by frequency, with the gates' thresholds.
fn plot_frequencies(report: &LearningReport<'_>, outcome: &Report) -> Option<BarDrawing> {
    if outcome.frequency.is_empty() {
        return None;
    }
    let shows_counts = report.spec.participants.iter().any(|party| party.gate.is_some_and(|gate| gate.shows_counts()));
    let (note, name) = if shows_counts {
        ("Released counts: kept rows of released questions.", "released questions")
    } else {
        ("The lead’s public log. A text needs about k/β rows to pass a gate.", "queries in the lead’s log")
    };
    let gates = report.used_gates();
    let marks = gates.iter().take(MARKS).map(|gate| {
        let least = if shows_counts { f64::from(gate.threshold) } else { f64::from(gate.threshold) / gate.rate };
        let name = shorten(&gate.name, 20);
        (least, format!("{name}: k {} at β {}", gate.threshold, words::number(gate.rate)))
    });
    let bar = |bin: &FrequencyBin| (bin.occurrences as f64, bin.occurrences.saturating_mul(2) as f64, bin.queries);
    Some(BarDrawing {
        title: "Frequency of queries".to_owned(),
        file: "frequencies".to_owned(),
        note: note.to_owned(),
        x: "occurrences".to_owned(),
        y: "distinct queries".to_owned(),
        name: name.to_owned(),
        counts: outcome.frequency.iter().map(bar).collect(),
        outline: None,
        is_logarithmic: true,
        marks: marks.collect(),
    })
}
