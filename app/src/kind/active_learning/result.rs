//! The result: the classifier's learning curves, the pools with their cost, and the table of test sets.

use leptos::prelude::*;
use undertone_api::job::active_learning::{CLASSIFIER, LearningPoint, PoolResult, Report, Spec};
use undertone_api::job::{JobParticipant, Measurement};

use crate::component::chart::{ChartFigure, ChartLine, LineStroke};
use crate::words;

use super::description;
use crate::kind::evaluation::result::{format_estimate, render_classes};

/// Returns for every test set one figure of accuracy and one of loss, after each round of questions.
pub(super) fn list_figures(spec: &Spec, measurements: &[Measurement]) -> Vec<ChartFigure> {
    let mut figures = Vec::new();
    for test in &spec.tests {
        for accuracy in [true, false] {
            let mut points: Vec<(f64, f64)> = measurements
                .iter()
                .filter(|figure| figure.series == CLASSIFIER && figure.test == test.name)
                .map(|figure| (f64::from(figure.round), if accuracy { figure.accuracy } else { figure.loss }))
                .collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            let line = ChartLine { label: CLASSIFIER.to_owned(), stroke: LineStroke::Solid, points, level: None };
            let (title, measure, y) = if accuracy {
                ("Accuracy", "accuracy", "examples correct, %")
            } else {
                ("Loss", "loss", "cross-entropy, nats")
            };
            figures.push(ChartFigure {
                title: format!("{title}, {}", test.name),
                file: format!("{measure}-{}", test.name.replace(|c: char| !c.is_ascii_alphanumeric(), "-")),
                x: "round of questions".to_owned(),
                y: y.to_owned(),
                percent: accuracy,
                x_most: f64::from(spec.rounds),
                lines: if line.points.is_empty() { Vec::new() } else { vec![line] },
                ..ChartFigure::default()
            });
        }
    }
    figures
}

/// Renders the comparison table: before any question, at the best round and after the last, on every test set; and the
/// cost of each pool.
pub(super) fn render_result(spec: &Spec, report: &Report, participants: &[JobParticipant]) -> AnyView {
    let tests = spec.tests.iter().map(|test| test.name.clone()).collect::<Vec<_>>();
    let mut heads: Vec<String> = tests.iter().map(|test| format!("{test}, %")).collect();
    let has_private_test = spec.private_test.is_some();
    heads.extend(has_private_test.then(|| "private test, with 95 % interval".to_owned()));
    let heads = heads.into_iter().map(|head| view! { <th scope="col" class="number">{head}</th> }).collect_view();
    let last = report.learning.last().map_or(0, |point| point.round);
    let is_shown = |point: &&LearningPoint| {
        [0, last].contains(&point.round) || report.best == Some(point.round) || point.private_test.is_some()
    };
    let points = report.learning.iter().filter(is_shown);
    let rows = points.map(|point| render_row(point, &tests, has_private_test, report.best)).collect_view();
    let measured = render_private_test(spec, report);
    let pools = report.pools.iter().map(|pool| describe_pool(pool, participants)).collect::<Vec<_>>();
    let agreement = report.agreement.map(|kappa| {
        view! { <p class="quiet">"Agreement of the annotators: Fleiss’ κ "{format!("{kappa:.2}")}"."</p> }
    });
    view! {
        <table>
            <caption class="hidden">"Accuracy before and after the questions"</caption>
            <thead>
                <tr>
                    <th scope="col">"Classifier"</th>
                    <th scope="col" class="number">"Labels"</th>
                    {heads}
                </tr>
            </thead>
            <tbody>{rows}</tbody>
        </table>
        {measured}
        {pools.into_iter().map(|pool| view! { <p class="quiet">{pool}</p> }).collect_view()}
        {agreement}
    }
    .into_any()
}

/// Renders the noisy result of the kept classifier on the private test set, or of the last measured one.
pub(super) fn render_private_test(spec: &Spec, report: &Report) -> Option<AnyView> {
    let is_kept = |point: &&LearningPoint| report.best == Some(point.round) && point.private_test.is_some();
    let kept = report.learning.iter().find(is_kept);
    let point = kept.or_else(|| report.learning.iter().rev().find(|point| point.private_test.is_some()))?;
    let test = point.private_test.as_ref()?;
    let when = match point.round {
        0 => "before the questions".to_owned(),
        round => format!("after round {round}"),
    };
    let accuracy = match &test.accuracy {
        Some(accuracy) => format!("{} of the units are classified correctly", format_estimate(accuracy)),
        None => "the test set is too small for the noise".to_owned(),
    };
    let label =
        |class: u32| spec.labels.get(class as usize).map_or_else(|| class.to_string(), |label| label.name.clone());
    let note = format!(
        "The classifier {when} on the private test set: {accuracy}. Computed from noisy histograms, with noise of deviation {} \
         in each number. Intervals hold for 95 % of repetitions with other test data and other noise.",
        words::number(test.deviation)
    );
    Some(view! { <p>{note}</p>{render_classes(&test.classes, ("Label", "label"), &label)} }.into_any())
}

fn render_row(
    point: &LearningPoint,
    tests: &[String],
    has_private_test: bool,
    best: Option<u32>,
) -> impl IntoView + use<> {
    let name = match point.round {
        0 => "golden set only".to_owned(),
        n => format!("after {}", words::plural(n.into(), "round")),
    };
    let name = if best == Some(point.round) { format!("{name}, kept") } else { name };
    let cells = tests
        .iter()
        .map(|test| {
            let result = point.tests.iter().find(|result| result.name == *test);
            let text = result.map_or_else(|| "–".to_owned(), |result| format!("{:.1}", 100.0 * result.accuracy));
            view! { <td class="number">{text}</td> }
        })
        .collect_view();
    let released = has_private_test.then(|| {
        let text = point.released_accuracy().map_or_else(|| "–".to_owned(), |accuracy| format_estimate(&accuracy));
        view! { <td class="number">{text}</td> }
    });
    view! {
        <tr>
            <th scope="row">{name}</th>
            <td class="number">{words::count(point.labelled)}</td>
            {cells}
            {released}
        </tr>
    }
}

/// Describes a pool and its price in a sentence.
fn describe_pool(pool: &PoolResult, participants: &[JobParticipant]) -> String {
    let name = participants
        .iter()
        .find(|party| party.dataset == pool.dataset)
        .map_or_else(|| "a dataset".to_owned(), |party| party.dataset_name.clone());
    let questions = words::plural(pool.queries, "question");
    match pool.epsilon.zip(pool.delta) {
        None => format!("{name}: {questions} from public data."),
        Some((epsilon, delta)) => format!(
            "{name}: {questions} with at least {} rows, kept with probability {}; for each {} ε {} at δ {}, charged once.",
            pool.threshold,
            words::number(pool.sampling_rate),
            description::unit_noun(pool.unit),
            words::epsilon(epsilon),
            words::delta(delta)
        ),
    }
}
