//! The effect of the answers: accuracy after every round, on every test set, and the classifier's certainty.

use leptos::prelude::*;
use undertone_api::job::active_learning::{LearningPoint, Report, TestResult, UncertaintyHistogram};

use super::LearningReport;
use crate::component::drawing::{AccuracyCurve, BarDrawing, BarOutline, LineDrawing};
use crate::kind::active_learning::result::render_private_test;
use crate::kind::evaluation::result::format_estimate;
use crate::words;

/// Renders the result on the first test set in words.
pub(in crate::kind::active_learning) fn render_headline(report: &LearningReport<'_>) -> AnyView {
    let learning = report.outcome.map_or(&[][..], |outcome| &outcome.learning);
    let (Some(first), Some(last)) = (learning.first(), learning.last()) else {
        return view! { <p class="headline">"No report yet."</p> }.into_any();
    };
    let gain = |name: &str| {
        let accuracy = |point: &LearningPoint| Some(find_result(point, name)?.accuracy);
        Some((accuracy(first)?, accuracy(last)?))
    };
    let mut gains = report.spec.tests.iter().filter_map(|test| Some((test.name.clone(), gain(&test.name)?)));
    let text = match gains.next() {
        Some((test, (before, after))) if last.round > 0 => format!(
            "On {test}, {} of the examples are classified correctly after {}; with the golden set alone it was {}.",
            words::percent(after),
            words::plural(last.labelled, "label"),
            words::percent(before)
        ),
        Some((test, (before, _))) => {
            format!(
                "On {test}, {} of the examples are classified correctly with the golden set alone.",
                words::percent(before)
            )
        }
        None => describe_private_test(learning).unwrap_or_else(|| "No measurements.".to_owned()),
    };
    let others: Vec<String> = gains
        .map(|(test, (before, after))| format!("{test}: {}, from {}", words::percent(after), words::percent(before)))
        .collect();
    let choice = report.outcome.and_then(describe_choice);
    view! {
        <p class="headline">{text}</p>
        {choice.map(|choice| view! { <p class="headline-small">{choice}</p> })}
        {(!others.is_empty()).then(|| view! { <p>{others.join("; ")}"."</p> })}
    }
    .into_any()
}

/// Describes the released accuracy of the last measured classifier, if one was measured on a private test set.
fn describe_private_test(learning: &[LearningPoint]) -> Option<String> {
    let point = learning.iter().rev().find(|point| point.private_test.is_some())?;
    let Some(accuracy) = point.released_accuracy() else {
        return Some("The private test set is too small for the noise.".to_owned());
    };
    Some(format!(
        "On the private test set, {} of the units are classified correctly after {} (95 % interval {} to {}, with the noise).",
        words::percent(accuracy.value),
        words::plural(point.labelled, "label"),
        words::percent(accuracy.low),
        words::percent(accuracy.high)
    ))
}

/// The accuracies by which a classifier was kept, on one test set.
struct KeptAccuracy<'a> {
    test: &'a str,
    best: f64,
    last: f64,
    /// One standard error of the difference, or of the last accuracy where both are on the same examples.
    error: f64,
}

impl<'a> KeptAccuracy<'a> {
    /// Returns the accuracies on the first test set, or on the private one without public test sets.
    fn new(best: &'a LearningPoint, last: &'a LearningPoint) -> Option<Self> {
        if let (Some(best), Some(last)) = (best.tests.first(), last.tests.first()) {
            let error = compute_standard_error(last);
            return Some(Self { test: &best.name, best: best.accuracy, last: last.accuracy, error });
        }
        let [best, last] = [best.released_accuracy()?, last.released_accuracy()?];
        let error = last.sampling.hypot(best.noise).hypot(last.noise);
        Some(Self { test: "the private test set", best: best.value, last: last.value, error })
    }
}

/// Describes the kept classifier, if later answers made it worse on the test set that decides. A difference of less than
/// one standard error of it is stated as such: both measurements are on the same examples.
fn describe_choice(outcome: &Report) -> Option<String> {
    let last = outcome.learning.last()?;
    let best = outcome.learning.iter().find(|point| Some(point.round) == outcome.best)?;
    let kept = KeptAccuracy::new(best, last)?;
    if kept.best <= kept.last {
        return None;
    }
    let difference = kept.best - kept.last;
    let remark = if difference < kept.error { ", which is less than one standard error of the test set" } else { "" };
    let (since, name) = match best.round {
        0 => (String::new(), "of the golden set alone".to_owned()),
        round => (format!(" after round {round}"), "of that round".to_owned()),
    };
    Some(format!(
        "The answers{since} made the classifier worse: the one {name} is kept, with {} on {}; the last is {} points lower{remark}.",
        words::percent(kept.best),
        kept.test,
        words::points(difference).trim_start_matches('+'),
    ))
}

/// Names a point of the learning curve.
fn name_point(point: &LearningPoint) -> String {
    if point.round == 0 { "golden set alone".to_owned() } else { format!("round {}", point.round) }
}

fn find_result<'a>(point: &'a LearningPoint, name: &str) -> Option<&'a TestResult> {
    point.tests.iter().find(|test| test.name == name)
}

/// Renders the learning curve and the classifier's uncertainty.
pub(super) fn render_section(report: &LearningReport<'_>, outcome: &Report) -> AnyView {
    if outcome.learning.is_empty() {
        return ().into_any();
    }
    let is_measured =
        !report.spec.tests.is_empty() || outcome.learning.iter().any(|point| point.released_accuracy().is_some());
    view! {
        <section class="panel"><h2>"Learning from the answers"</h2>{render_table(report, outcome)}{render_private_test(report.spec, outcome)}</section>
        <section class="charts" aria-label="Charts of learning from the answers">
            {is_measured.then(|| plot_accuracy(report, outcome).draw().show())}
            {plot_uncertainty(&outcome.uncertainty).map(|bars| bars.draw().show())}
            {plot_confidence(&outcome.uncertainty).map(|bars| bars.draw().show())}
        </section>
    }
    .into_any()
}

fn render_table(report: &LearningReport<'_>, outcome: &Report) -> AnyView {
    let tests: Vec<&str> = report.spec.tests.iter().map(|test| test.name.as_str()).collect();
    let rows = outcome.learning.iter().map(|point| {
        let cells = tests.iter().map(|test| {
            let accuracy =
                find_result(point, test).map_or_else(|| "–".to_owned(), |test| words::percent(test.accuracy));
            let more = find_result(point, test).map(|test| {
                format!("{}, cross-entropy {:.4} nats", words::plural(test.examples, "example"), test.loss)
            });
            view! { <td data-label=(*test).to_owned() class="number" title=more>{accuracy}</td> }
        });
        let released = report.spec.private_test.map(|_| {
            let text = point.released_accuracy().map_or_else(|| "–".to_owned(), |accuracy| format_estimate(&accuracy));
            view! { <td data-label="private test" class="number">{text}</td> }
        });
        let is_kept = outcome.best == Some(point.round);
        let name = if is_kept { format!("{}, kept", name_point(point)) } else { name_point(point) };
        view! {
            <tr>
                <th scope="row">{name}</th>
                <td data-label="asked" class="number">{words::count(point.asked)}</td>
                <td data-label="labelled" class="number">{words::count(point.labelled)}</td>
                {cells.collect_view()}
                {released}
            </tr>
        }
    });
    let rows: Vec<_> = rows.collect();
    let is_long = rows.len() > 12;
    let heads =
        tests.iter().map(|test| view! { <th scope="col" class="number">{(*test).to_owned()}</th> }).collect_view();
    let released_head = report.spec.private_test.map(|_| {
        view! { <th scope="col" class="number">"Private test, with 95 % interval"</th> }
    });
    let table = view! {
        <table class="cards">
            <caption>"Examples classified correctly, by test set"</caption>
            <thead><tr>
                <th scope="col">"After"</th><th scope="col" class="number">"Asked"</th><th scope="col" class="number">"Labelled"</th>
                {heads}{released_head}
            </tr></thead>
            <tbody>{rows}</tbody>
        </table>
    };
    if is_long {
        view! { <details class="more" open><summary>"Round by round"</summary>{table}</details> }.into_any()
    } else {
        table.into_any()
    }
}

/// Draws accuracy against labels, with one standard error of each measurement.
fn plot_accuracy(report: &LearningReport<'_>, outcome: &Report) -> LineDrawing {
    let mut curves: Vec<AccuracyCurve> = report
        .spec
        .tests
        .iter()
        .map(|test| AccuracyCurve {
            name: test.name.clone(),
            is_baseline: false,
            points: outcome
                .learning
                .iter()
                .filter_map(|point| {
                    let of_test = find_result(point, &test.name)?;
                    Some((point.labelled as f64, of_test.accuracy, compute_standard_error(of_test)))
                })
                .collect(),
        })
        .collect();
    let released = |point: &LearningPoint| {
        let accuracy = point.released_accuracy()?;
        Some((point.labelled as f64, accuracy.value, accuracy.sampling.hypot(accuracy.noise)))
    };
    let points: Vec<_> = outcome.learning.iter().filter_map(released).collect();
    let mut note = "This job, one run; whiskers are one standard error of the test set".to_owned();
    if points.is_empty() {
        note.push('.');
    } else {
        curves.push(AccuracyCurve { name: "private test".to_owned(), is_baseline: false, points });
        note.push_str(", of the private one with that of its noise.");
    }
    LineDrawing {
        title: "Accuracy against labels".to_owned(),
        file: "accuracy-against-labels".to_owned(),
        note,
        x: "labels".to_owned(),
        y: "examples correct, %".to_owned(),
        span: measure_span(&curves),
        curves,
        mark: None,
    }
}

/// Returns √(p(1 − p)/n), the standard error of a proportion p of n examples.
fn compute_standard_error(test: &TestResult) -> f64 {
    if test.examples == 0 { 0.0 } else { (test.accuracy * (1.0 - test.accuracy) / test.examples as f64).sqrt() }
}

/// Returns the lowest and highest end of any whisker.
pub(super) fn measure_span(curves: &[AccuracyCurve]) -> (f64, f64) {
    curves
        .iter()
        .map(AccuracyCurve::span)
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), (a, b)| (low.min(a), high.max(b)))
}

/// Draws the classifier's uncertainty before the first round and before the last.
fn plot_uncertainty(all: &[UncertaintyHistogram]) -> Option<BarDrawing> {
    plot_bins(
        all,
        |before| &before.bins,
        "Uncertainty of the remaining questions",
        "uncertainty",
        "entropy, share of its maximum",
    )
}

/// Draws the classifier's confidence before the first round and before the last; `None` for reports of earlier versions.
fn plot_confidence(all: &[UncertaintyHistogram]) -> Option<BarDrawing> {
    let drawing = plot_bins(
        all,
        |before| &before.confidence,
        "Confidence in the remaining questions",
        "confidence",
        "probability of the most probable label",
    )?;
    (!drawing.counts.is_empty()).then_some(drawing)
}

/// Draws one of the histograms before the last round, filled, and before the first, as an outline.
fn plot_bins(
    all: &[UncertaintyHistogram],
    bins: fn(&UncertaintyHistogram) -> &[u64],
    title: &str,
    file: &str,
    x: &str,
) -> Option<BarDrawing> {
    let first = all.first()?;
    let last = all.last()?;
    let width = 1.0 / bins(last).len().max(1) as f64;
    let edge = |index: usize| index as f64 * width;
    let counts = bins(last).iter().enumerate().map(|(index, count)| (edge(index), edge(index + 1), *count)).collect();
    let outline = (first.round != last.round)
        .then(|| BarOutline { name: format!("before round {}", first.round), counts: bins(first).to_vec() });
    let note = match &outline {
        Some(_) => format!("Filled: before round {}. Dashed outline: before round {}.", last.round, first.round),
        None => format!("Before round {}.", last.round),
    };
    Some(BarDrawing {
        title: title.to_owned(),
        file: file.to_owned(),
        note,
        x: x.to_owned(),
        y: "questions".to_owned(),
        name: format!("before round {}", last.round),
        counts,
        outline,
        is_logarithmic: false,
        marks: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use undertone_api::job::active_learning::{LearningPoint, Report, TestResult, UncertaintyHistogram};

    use super::{compute_standard_error, describe_choice, plot_confidence, plot_uncertainty};

    #[test]
    fn standard_error_falls_with_examples() {
        let result = |examples| TestResult { name: "t".to_owned(), accuracy: 0.5, loss: 1.0, examples };
        assert!((compute_standard_error(&result(100)) - 0.05).abs() < 1e-12);
        assert!(compute_standard_error(&result(10_000)) < compute_standard_error(&result(100)));
        assert!(compute_standard_error(&result(0)) < 1e-12, "nothing is divided by nobody");
    }

    #[test]
    fn histograms_cover_zero_to_one() {
        let before = UncertaintyHistogram { round: 1, bins: vec![1; 20], confidence: vec![2; 20] };
        let bars = plot_uncertainty(std::slice::from_ref(&before)).expect("a round");
        assert_eq!(bars.counts.len(), 20);
        assert!((bars.counts[19].1 - 1.0).abs() < 1e-12 && bars.outline.is_none());
        assert!(plot_uncertainty(&[]).is_none());
        let bars = plot_confidence(std::slice::from_ref(&before)).expect("a round");
        assert_eq!((bars.counts.len(), bars.counts[19].2), (20, 2));
        assert!(plot_confidence(&[UncertaintyHistogram { confidence: Vec::new(), ..before }]).is_none());
    }

    #[test]
    fn worse_answers_are_stated() {
        let point = |round, accuracy| {
            let tests = vec![TestResult { name: "calls".to_owned(), accuracy, loss: 1.0, examples: 1000 }];
            LearningPoint { round, asked: 0, labelled: 0, tests, private_test: None }
        };
        let outcome = |best, accuracies: [f64; 3]| Report {
            best,
            learning: (0..).zip(accuracies).map(|(round, accuracy)| point(round, accuracy)).collect(),
            ..Report::default()
        };
        let text = describe_choice(&outcome(Some(1), [0.5, 0.75, 0.625])).expect("the end is worse");
        assert!(text.contains("after round 1 made") && text.contains("on calls; the last is 12.50 points"), "{text}");
        let text = describe_choice(&outcome(Some(0), [0.75, 0.5, 0.745])).expect("the end is worse");
        assert!(text.contains("golden set alone is kept") && text.contains("standard error"), "{text}");
        assert_eq!(describe_choice(&outcome(Some(2), [0.5, 0.6, 0.7])), None);
        assert_eq!(describe_choice(&outcome(None, [0.7, 0.6, 0.5])), None, "an earlier version keeps the last");
    }
}
