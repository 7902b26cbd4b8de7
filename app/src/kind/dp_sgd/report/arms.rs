//! The arms side by side on every test set, and a summary sentence.

use leptos::prelude::*;
use undertone_api::report::{ArmComparison, ReportFile};

use super::arm_title;
use crate::words;

/// Renders the job's result on its first test set in words.
pub(in crate::kind::dp_sgd) fn render_headline(report: &ReportFile) -> AnyView {
    let Some(private) = report.comparison.iter().find(|one| one.arm == "private") else {
        let text = match report.comparison.first() {
            Some(one) => {
                format!("{} of the frames of {} are classified correctly.", words::percent(one.accuracy), one.test)
            }
            None => "No measurements.".to_owned(),
        };
        return view! { <p class="headline">{text}</p> }.into_any();
    };
    let test = private.test.clone();
    let text = match (private.recovered, private.difference) {
        (Some(share), _) => format!(
            "On {test} the private arm gains {} of what open pooling gains: {} points beyond the public arm.",
            format_share(share),
            words::points(private.difference.unwrap_or_default())
        ),
        (None, Some(difference)) => format!(
            "On {test} the private arm is {} points from the public arm, at {}.",
            words::points(difference),
            words::percent(private.accuracy)
        ),
        (None, None) => {
            format!(
                "On {test} the private arm classifies {} of the frames correctly.",
                words::percent(private.accuracy)
            )
        }
    };
    let others = report.comparison.iter().filter(|one| one.arm == "private" && one.test != test);
    let others: Vec<String> = others
        .filter_map(|one| Some(format!("{}: {} points from the public arm", one.test, words::points(one.difference?))))
        .collect();
    view! {
        <p class="headline">{text}</p>
        {(!others.is_empty()).then(|| view! { <p>{others.join("; ")}"."</p> })}
    }
    .into_any()
}

/// Renders one table for every test set, and one of the time.
pub(super) fn render_tables(report: &ReportFile) -> AnyView {
    let mut tests: Vec<&str> = Vec::new();
    for one in &report.comparison {
        if !tests.contains(&one.test.as_str()) {
            tests.push(&one.test);
        }
    }
    if tests.is_empty() {
        return ().into_any();
    }
    let tables = tests.iter().map(|test| render_table(test, report.comparison.iter().filter(|one| one.test == *test)));
    view! {
        <section class="panel"><h2>"Comparison of the arms"</h2>
            {tables.collect_view()}
            {render_times(report)}
            <p class="hint">"Every arm starts from the public one. The gain of open pooling is its accuracy minus \
                that of the public arm; the share is another arm's part of that gain. Differences are in \
                percentage points of the frames."</p>
        </section>
    }
    .into_any()
}

fn render_table<'a>(test: &str, rows: impl Iterator<Item = &'a ArmComparison>) -> AnyView {
    let mut frames = 0;
    let mut lines = Vec::new();
    for one in rows {
        frames = one.frames;
        lines.push(view! {
            <tr>
                <th scope="row">{arm_title(&one.arm)}</th>
                <td data-label="right" class="number"><strong>{format!("{:.2} %", one.accuracy * 100.0)}</strong></td>
                <td data-label="loss" class="number">{format!("{:.3}", one.loss)}</td>
                <td data-label="difference" class="number">{one.difference.map_or_else(|| "–".to_owned(), words::points)}</td>
                <td data-label="of the gain" class="number">{one.recovered.map_or_else(|| "–".to_owned(), format_share)}</td>
            </tr>
        });
    }
    view! {
        <table class="cards result">
            <caption>{format!("{test}, {} frames", words::count(frames))}</caption>
            <thead><tr>
                <th scope="col">"Trained on"</th>
                <th scope="col" class="number">"Frames correct"</th>
                <th scope="col" class="number">"Loss, nats"</th>
                <th scope="col" class="number">"Difference from public only"</th>
                <th scope="col" class="number">"Share of open pooling’s gain"</th>
            </tr></thead>
            <tbody>{lines.collect_view()}</tbody>
        </table>
    }
    .into_any()
}

/// Renders the time of each arm, if the lead reported it.
fn render_times(report: &ReportFile) -> AnyView {
    let first = report.comparison.first().map(|one| one.test.clone());
    let arms = report.comparison.iter().filter(|one| Some(&one.test) == first.as_ref());
    let rows: Vec<_> = arms
        .filter_map(|one| {
            let seconds = one.seconds?;
            let noun = if one.arm == "public" { "epoch" } else { "round" };
            let count = f64::from(one.rounds.max(1));
            Some(view! {
                <tr>
                    <th scope="row">{arm_title(&one.arm)}</th>
                    <td data-label="Duration" class="number">{words::duration(seconds)}</td>
                    <td data-label="in" class="number">{words::plural(one.rounds.into(), noun)}</td>
                    <td data-label="each" class="number">{format!("{:.2} s", seconds / count)}</td>
                </tr>
            })
        })
        .collect();
    if rows.is_empty() {
        return ().into_any();
    }
    view! {
        <table class="cards">
            <caption>"Time at the lead, including waiting for the others"</caption>
            <thead><tr><th scope="col">"Arm"</th><th scope="col" class="number">"Duration"</th><th scope="col" class="number">"Rounds"</th><th scope="col" class="number">"Per round"</th></tr></thead>
            <tbody>{rows.collect_view()}</tbody>
        </table>
    }
    .into_any()
}

/// Formats a share of a gain. A loss is not a share of one.
fn format_share(share: f64) -> String {
    if share < 0.0 { "none (a loss)".to_owned() } else { format!("{:.0} %", share * 100.0) }
}
