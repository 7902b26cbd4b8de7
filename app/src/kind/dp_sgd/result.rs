//! The result: learning curves by arm and test set, and the table of arms against test sets.

use leptos::prelude::*;
use undertone_api::job::dp_sgd::{Arm, Report, Spec, TrainingLoss};
use undertone_api::job::{JobParticipant, Measurement};

use crate::component::chart::{ChartFigure, ChartLine, LineStroke};
use crate::words;

/// Returns the training data of an arm.
pub(super) const fn arm_title(arm: Arm) -> &'static str {
    match arm {
        Arm::Public => "public only",
        Arm::Open => "public + open private",
        Arm::Private => "public + private by DP-SGD",
    }
}

const fn arm_stroke(arm: Arm) -> LineStroke {
    match arm {
        Arm::Public => LineStroke::Dotted,
        Arm::Open => LineStroke::Dashed,
        Arm::Private => LineStroke::Solid,
    }
}

/// The words for what is measured.
struct MeasureWords {
    /// `frames` or `rows`.
    measured: &'static str,
    /// The meaning of the accuracy, as a caption.
    caption: &'static str,
    /// The loss with its unit.
    loss: &'static str,
}

impl MeasureWords {
    const fn from_spec(spec: &Spec) -> Self {
        match (&spec.model.rows, spec.model.loss) {
            (None, _) => Self {
                measured: "frames",
                caption: "Frames classified correctly, by arm and test set",
                loss: "cross-entropy, nats",
            },
            (Some(_), TrainingLoss::SquaredError) => Self {
                measured: "rows",
                caption: "Rows predicted within a twentieth of the target’s range, by arm and test set",
                loss: "squared error, range -1 to 1",
            },
            (Some(_), _) => Self {
                measured: "rows",
                caption: "Rows predicted correctly, by arm and test set",
                loss: "cross-entropy, nats",
            },
        }
    }
}

/// Returns for every test set one figure of accuracy and one of loss. The public arm, once there is another, is a
/// level: the rounds start from it and must exceed it.
pub(super) fn list_figures(spec: &Spec, measurements: &[Measurement]) -> Vec<ChartFigure> {
    let rounds = [Arm::Open, Arm::Private].into_iter().filter_map(|arm| spec.rounds(arm)).map(|r| r.rounds).max();
    let in_rounds = measurements.iter().any(|m| m.series != Arm::Public.series());
    let words = MeasureWords::from_spec(spec);
    let mut figures = Vec::new();
    for test in &spec.tests {
        for accuracy in [true, false] {
            let list_points = |arm: Arm| -> Vec<(f64, f64)> {
                let mut points: Vec<_> = measurements
                    .iter()
                    .filter(|m| m.series == arm.series() && m.test == test.name)
                    .map(|m| (f64::from(m.round), if accuracy { m.accuracy } else { m.loss }))
                    .collect();
                points.sort_by(|a, b| a.0.total_cmp(&b.0));
                points
            };
            let lines = spec
                .arms()
                .into_iter()
                .filter_map(|arm| {
                    let points = list_points(arm);
                    let last = points.last()?.1;
                    let level = (arm == Arm::Public && in_rounds).then_some(last);
                    let points = if level.is_some() { Vec::new() } else { points };
                    Some(ChartLine { label: arm.series().to_owned(), stroke: arm_stroke(arm), points, level })
                })
                .collect();
            let measure = if accuracy { "accuracy" } else { "loss" };
            figures.push(ChartFigure {
                title: format!("{}, {}", if accuracy { "Accuracy" } else { "Loss" }, test.name),
                file: format!("{measure}-{}", test.name.replace(|c: char| !c.is_ascii_alphanumeric(), "-")),
                x: if in_rounds { "round" } else { "epoch" }.to_owned(),
                y: if accuracy { format!("{} correct, %", words.measured) } else { words.loss.to_owned() },
                percent: accuracy,
                x_most: f64::from(if in_rounds { rounds.unwrap_or(1) } else { spec.warm_start.epochs.max(1) }),
                lines,
                ..ChartFigure::default()
            });
        }
    }
    figures
}

/// Renders the comparison table: arms against test sets. The price of the private arm is that of all planned releases.
pub(super) fn render_result(spec: &Spec, report: &Report, participants: &[JobParticipant]) -> AnyView {
    let costs: Vec<String> = participants
        .iter()
        .filter_map(|party| Some((party, party.epsilon_reserved?, party.delta?)))
        .map(|(party, epsilon, delta)| {
            format!("{}: ε {} at δ {}", party.dataset_name, words::epsilon(epsilon), words::delta(delta))
        })
        .collect();
    let cost = |arm: Arm| match arm {
        Arm::Public => "nothing".to_owned(),
        Arm::Open => "exact gradients".to_owned(),
        Arm::Private if costs.is_empty() => "–".to_owned(),
        Arm::Private => costs.join("; "),
    };
    let measure = MeasureWords::from_spec(spec);
    let (measured, loss) = (measure.measured, measure.loss.split(',').next().unwrap_or_default());
    let unit = if measure.loss.ends_with("nats") { " nats" } else { "" };
    let rows = report.arms.iter().map(|row| {
        let cells = spec.tests.iter().map(|test| {
            let cell = row.tests.iter().find(|cell| cell.test == test.name);
            let (main, detail) = cell.map_or_else(
                || ("–".to_owned(), String::new()),
                |cell| {
                    (
                        words::percent(cell.accuracy),
                        format!("{} {measured}, {loss} {:.4}{unit}", words::count(cell.frames), cell.loss),
                    )
                },
            );
            view! { <td data-label=test.name.clone() class="number" title=detail>{main}</td> }
        });
        let count = if row.arm == Arm::Public { "epoch" } else { "round" };
        view! {
            <tr>
                <th scope="row">{arm_title(row.arm)}</th>
                {cells.collect_view()}
                <td data-label="Duration" class="number">
                    {words::duration(row.seconds)}", "{words::plural(row.rounds.into(), count)}
                </td>
                <td data-label="cost of privacy">{cost(row.arm)}</td>
            </tr>
        }
    });
    view! {
        <table class="cards result">
            <caption>{measure.caption}</caption>
            <thead><tr>
                <th scope="col">"Trained on"</th>
                {spec.tests.iter().map(|test| view! { <th scope="col" class="number">{test.name.clone()}</th> }).collect_view()}
                <th scope="col" class="number">"Duration"</th>
                <th scope="col">"Cost of privacy"</th>
            </tr></thead>
            <tbody>{rows.collect_view()}</tbody>
        </table>
        <p class="hint">{format!("{} parameters.", words::count(report.parameters))}</p>
    }
    .into_any()
}
