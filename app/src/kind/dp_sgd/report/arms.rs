//! The arms side by side on every test set, and a summary sentence.

use leptos::prelude::*;
use undertone_api::job::transcription::WordErrors;
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
    let wrong = private.words.and_then(WordErrors::rate);
    let wrong = wrong.map(|rate| format!(" Its word error rate is {}.", words::percent(rate))).unwrap_or_default();
    let others = report.comparison.iter().filter(|one| one.arm == "private" && one.test != test);
    let others: Vec<String> = others
        .filter_map(|one| Some(format!("{}: {} points from the public arm", one.test, words::points(one.difference?))))
        .collect();
    view! {
        <p class="headline">{text}{wrong}</p>
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
    let rows: Vec<_> = rows.collect();
    // Only models with CTC recognize words.
    let has_words = rows.iter().any(|one| one.words.is_some());
    let has_f1 = rows.iter().any(|one| one.macro_f1.is_some());
    let mut frames = 0;
    let mut lines = Vec::new();
    for one in rows {
        frames = one.frames;
        let rate = one.words.and_then(WordErrors::rate).map_or_else(|| "–".to_owned(), words::percent);
        lines.push(view! {
            <tr>
                <th scope="row">{arm_title(&one.arm)}</th>
                <td data-label="right" class="number"><strong>{format!("{:.2} %", one.accuracy * 100.0)}</strong></td>
                {has_words.then(|| view! { <td data-label="wrong words" class="number">{rate}</td> })}
                {has_f1.then(|| view! { <td data-label="macro-F1" class="number">{one.macro_f1.map_or_else(|| "–".to_owned(), words::percent)}</td> })}
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
                {has_words.then(|| view! { <th scope="col" class="number">"Word error rate"</th> })}
                {has_f1.then(|| view! { <th scope="col" class="number">"Macro-F1"</th> })}
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

#[cfg(test)]
mod tests {
    use undertone_api::job::transcription::WordErrors;
    use undertone_api::report::ArmComparison;

    use super::render_table;

    fn table(words: Option<WordErrors>, macro_f1: Option<f64>) -> String {
        use leptos::prelude::RenderHtml as _;

        let one = ArmComparison {
            test: "letters".to_owned(),
            arm: "public".to_owned(),
            rounds: 3,
            seconds: None,
            frames: 100,
            accuracy: 0.5,
            loss: 1.0,
            macro_f1,
            difference: None,
            recovered: None,
            words,
        };
        render_table("letters", std::iter::once(&one)).to_html()
    }

    #[test]
    fn word_error_rates_are_shown_where_words_were_recognized() {
        let errors = WordErrors { words: 8, substitutions: 1, insertions: 1, deletions: 0 };
        let html = table(Some(errors), None);
        assert!(html.contains("Word error rate") && html.contains("25.0"), "{html}");
        assert!(!table(None, None).contains("Word error rate"));
    }

    #[test]
    fn macro_f1_is_shown_where_it_was_measured() {
        let html = table(None, Some(0.312));
        assert!(html.contains("Macro-F1") && html.contains("31.2"), "{html}");
        assert!(!table(None, None).contains("Macro-F1"));
    }
}
