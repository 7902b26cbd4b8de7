//! The result: the classifier's learning curves, the pools with their cost, and the table of test sets.

use leptos::prelude::*;
use undertone_api::job::active_learning::{CLASSIFIER, LearningPoint, PoolResult, Report, Spec};
use undertone_api::job::{JobParticipant, Measurement};

use crate::component::chart::{ChartFigure, ChartLine, LineStroke};
use crate::words;

use super::description;

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
    let heads =
        tests.iter().map(|test| view! { <th scope="col" class="number">{test.clone()}", %"</th> }).collect_view();
    let last = report.learning.last().map_or(0, |point| point.round);
    let is_shown = |point: &&LearningPoint| [0, last].contains(&point.round) || report.best == Some(point.round);
    let points = report.learning.iter().filter(is_shown);
    let rows = points.map(|point| render_row(point, &tests, report.best)).collect_view();
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
        {pools.into_iter().map(|pool| view! { <p class="quiet">{pool}</p> }).collect_view()}
        {agreement}
    }
    .into_any()
}

fn render_row(point: &LearningPoint, tests: &[String], best: Option<u32>) -> impl IntoView + use<> {
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
    view! {
        <tr>
            <th scope="row">{name}</th>
            <td class="number">{words::count(point.labelled)}</td>
            {cells}
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
