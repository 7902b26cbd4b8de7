//! ε against rounds, for one party: the resulting ε of its account, its limit, and the plan's position.

use leptos::prelude::*;
use undertone_api::dataset::Dataset;

use crate::component::chart::{Chart, ChartFigure, ChartLine, LineStroke};
use crate::kind::dp_sgd::{PartyVerdict, PlanPrices};
use crate::words;

/// Renders the chart of a dataset; hidden while it pays nothing.
pub(super) fn render_curve(dataset: &Dataset, prices: Memo<Option<PlanPrices>>) -> AnyView {
    let id = dataset.id;
    let name = dataset.name.clone();
    let figure = Memo::new(move |_| {
        let prices = prices.read();
        let verdicts = prices.as_ref().map_or(&[][..], |prices| &prices.verdicts);
        let planned_rounds = prices.as_ref().and_then(|prices| prices.buys.as_ref()).map_or(0, |buys| buys.rounds);
        verdicts
            .iter()
            .find(|(dataset, _)| *dataset == id)
            .map_or_else(ChartFigure::default, |(_, verdict)| plot_curve(verdict, &name, planned_rounds))
    });
    view! { <div hidden=move || figure.read().lines.is_empty()><Chart figure/></div> }.into_any()
}

fn plot_curve(verdict: &PartyVerdict, name: &str, asked: u32) -> ChartFigure {
    let PartyVerdict::Pays { payment, curve, .. } = verdict else { return ChartFigure::default() };
    let reading = &payment.reading;
    let points: Vec<(f64, f64)> = curve
        .rounds
        .iter()
        .zip(&curve.epsilon)
        .filter_map(|(rounds, epsilon)| Some((f64::from(*rounds), (*epsilon)?)))
        .collect();
    let line = |label: &str, stroke, points, level| ChartLine { label: label.to_owned(), stroke, points, level };
    ChartFigure {
        title: format!("ε of {name} against rounds"),
        file: format!("epsilon-{}", name.replace(|c: char| !c.is_ascii_alphanumeric(), "-")),
        x: "rounds".to_owned(),
        y: format!("ε in nats, at δ {}", words::delta(reading.delta)),
        up: true,
        x_most: curve.rounds.last().map_or(1.0, |last| f64::from(*last)),
        mark: Some((f64::from(asked), "this plan".to_owned())),
        lines: vec![
            line("budget", LineStroke::Solid, points, None),
            line("limit", LineStroke::Dotted, Vec::new(), Some(reading.limit)),
        ],
        ..ChartFigure::default()
    }
}
