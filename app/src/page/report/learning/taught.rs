//! The effect of the answers: accuracy after every round, on every test set, and the classifier's certainty.

use leptos::prelude::*;
use undertone_api::job::active_learning::{LearningPoint, Report as Found, TestResult, Uncertainty};

use super::Of;
use crate::component::drawing::{Bars, Curve, Lines, Outline};
use crate::words;

/// Renders the result on the first test set in words.
pub(super) fn headline(of: &Of<'_>) -> AnyView {
    let learning = of.found.map_or(&[][..], |found| &found.learning);
    let (Some(first), Some(last)) = (learning.first(), learning.last()) else {
        return view! { <p class="headline">"Nothing is reported yet."</p> }.into_any();
    };
    let gained = |name: &str| {
        let at = |point: &LearningPoint| Some(result(point, name)?.accuracy);
        Some((at(first)?, at(last)?))
    };
    let mut said = of.spec.tests.iter().filter_map(|test| Some((test.name.clone(), gained(&test.name)?)));
    let text = match said.next() {
        Some((test, (before, after))) if last.round > 0 => format!(
            "On {test}, {} of the examples are classified right after {}; with the golden set alone it was {}.",
            words::percent(after),
            words::plural(last.labelled, "label"),
            words::percent(before)
        ),
        Some((test, (before, _))) => {
            format!(
                "On {test}, {} of the examples are classified right with the golden set alone.",
                words::percent(before)
            )
        }
        None => "Nothing was measured.".to_owned(),
    };
    let others: Vec<String> = said
        .map(|(test, (before, after))| format!("{test}: {}, from {}", words::percent(after), words::percent(before)))
        .collect();
    view! {
        <p class="headline">{text}</p>
        {(!others.is_empty()).then(|| view! { <p>{others.join("; ")}"."</p> })}
    }
    .into_any()
}

fn result<'a>(point: &'a LearningPoint, name: &str) -> Option<&'a TestResult> {
    point.tests.iter().find(|test| test.name == name)
}

/// Renders the learning curve and the classifier's uncertainty.
pub(super) fn section(of: &Of<'_>, found: &Found) -> AnyView {
    if found.learning.is_empty() {
        return ().into_any();
    }
    view! {
        <section class="panel"><h2>"What the answers taught"</h2>{table(of, found)}</section>
        <section class="charts" aria-label="What the answers taught, drawn">
            {curve(of, found).draw().show()}
            {certainty(&found.uncertainty).map(|bars| bars.draw().show())}
        </section>
    }
    .into_any()
}

fn table(of: &Of<'_>, found: &Found) -> AnyView {
    let tests: Vec<&str> = of.spec.tests.iter().map(|test| test.name.as_str()).collect();
    let rows = found.learning.iter().map(|point| {
        let cells = tests.iter().map(|test| {
            let said = result(point, test).map_or_else(|| "–".to_owned(), |test| words::percent(test.accuracy));
            let more = result(point, test).map(|test| {
                format!("{}, cross-entropy {:.4} nats", words::plural(test.examples, "example"), test.loss)
            });
            view! { <td data-label=(*test).to_owned() class="number" title=more>{said}</td> }
        });
        let name = if point.round == 0 { "golden set alone".to_owned() } else { format!("round {}", point.round) };
        view! {
            <tr>
                <th scope="row">{name}</th>
                <td data-label="asked" class="number">{words::count(point.asked)}</td>
                <td data-label="labelled" class="number">{words::count(point.labelled)}</td>
                {cells.collect_view()}
            </tr>
        }
    });
    let rows: Vec<_> = rows.collect();
    let long = rows.len() > 12;
    let heads =
        tests.iter().map(|test| view! { <th scope="col" class="number">{(*test).to_owned()}</th> }).collect_view();
    let table = view! {
        <table class="cards">
            <caption>"Examples classified right, by test set"</caption>
            <thead><tr>
                <th scope="col">"After"</th><th scope="col" class="number">"Asked"</th><th scope="col" class="number">"Labelled"</th>
                {heads}
            </tr></thead>
            <tbody>{rows}</tbody>
        </table>
    };
    if long {
        view! { <details class="more" open><summary>"Round by round"</summary>{table}</details> }.into_any()
    } else {
        table.into_any()
    }
}

/// Draws accuracy against labels, with one standard error of each measurement.
fn curve(of: &Of<'_>, found: &Found) -> Lines {
    let curves: Vec<Curve> = of
        .spec
        .tests
        .iter()
        .map(|test| Curve {
            name: test.name.clone(),
            baseline: false,
            points: found
                .learning
                .iter()
                .filter_map(|point| {
                    let of_test = result(point, &test.name)?;
                    Some((point.labelled as f64, of_test.accuracy, standard_error(of_test)))
                })
                .collect(),
        })
        .collect();
    Lines {
        title: "Accuracy against labels".to_owned(),
        file: "accuracy-against-labels".to_owned(),
        note: "The job itself, one run; whiskers are one standard error of the test set.".to_owned(),
        x: "labels".to_owned(),
        y: "examples right, %".to_owned(),
        span: span(&curves),
        curves,
        mark: None,
    }
}

/// Returns √(p(1 − p)/n), the standard error of a proportion p of n examples.
fn standard_error(test: &TestResult) -> f64 {
    if test.examples == 0 { 0.0 } else { (test.accuracy * (1.0 - test.accuracy) / test.examples as f64).sqrt() }
}

/// Returns the lowest and highest end of any whisker.
pub(super) fn span(curves: &[Curve]) -> (f64, f64) {
    curves
        .iter()
        .map(Curve::span)
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), (a, b)| (low.min(a), high.max(b)))
}

/// Draws the classifier's uncertainty before the first round and before the last.
fn certainty(all: &[Uncertainty]) -> Option<Bars> {
    let (first, last) = (all.first()?, all.last()?);
    let width = 1.0 / last.bins.len().max(1) as f64;
    let edge = |index: usize| index as f64 * width;
    let counts = last.bins.iter().enumerate().map(|(index, count)| (edge(index), edge(index + 1), *count)).collect();
    let outline = (first.round != last.round)
        .then(|| Outline { name: format!("before round {}", first.round), counts: first.bins.clone() });
    let note = match &outline {
        Some(_) => format!("Filled: before round {}. Dashed outline: before round {}.", last.round, first.round),
        None => format!("Before round {}.", last.round),
    };
    Some(Bars {
        title: "Uncertainty of the questions not yet asked".to_owned(),
        file: "uncertainty".to_owned(),
        note,
        x: "entropy, of its maximum".to_owned(),
        y: "questions".to_owned(),
        name: format!("before round {}", last.round),
        counts,
        outline,
        log: false,
        marks: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use undertone_api::job::active_learning::{TestResult, Uncertainty};

    use super::{certainty, standard_error};

    #[test]
    fn a_measurement_on_more_examples_is_surer() {
        let of = |examples| TestResult { name: "t".to_owned(), accuracy: 0.5, loss: 1.0, examples };
        assert!((standard_error(&of(100)) - 0.05).abs() < 1e-12);
        assert!(standard_error(&of(10_000)) < standard_error(&of(100)));
        assert!(standard_error(&of(0)) < 1e-12, "nothing is divided by nobody");
    }

    #[test]
    fn the_histogram_reaches_from_certain_to_clueless() {
        let bars = certainty(&[Uncertainty { round: 1, bins: vec![1; 20] }]).expect("a round");
        assert_eq!(bars.counts.len(), 20);
        assert!((bars.counts[19].1 - 1.0).abs() < 1e-12 && bars.outline.is_none());
        assert!(certainty(&[]).is_none());
    }
}
