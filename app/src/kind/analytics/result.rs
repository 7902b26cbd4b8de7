//! The result: every number with its interval, and bars for counts.

use std::collections::BTreeMap;

use leptos::prelude::*;
use undertone_api::id::DatasetId;
use undertone_api::job::analytics::{AggregateResult, CellResult, LEAST_SHARE, NumberEstimate, QueryResult, Report};

use crate::component::chart::{ChartFigure, ChartLine, LineStroke, render_still};
use crate::component::download::{csv_address, json_address};
use crate::words;

/// The most cells of a query on the page; the downloads have all.
const MOST_CELLS: usize = 200;
/// The most survival curves of a query on the page.
const MOST_CURVES: usize = 12;

/// The names of the participants' tables.
pub(super) type SiteNames = BTreeMap<DatasetId, String>;

/// Returns the result in a sentence.
#[cfg(feature = "ssr")]
pub(super) fn summarize(report: &Report) -> String {
    let numbers: usize = report.queries.iter().map(count_numbers).sum();
    let sites = words::plural(report.sites.into(), "site");
    format!("{} over {sites} together.", words::plural(numbers as u64, "number"))
}

#[cfg(feature = "ssr")]
fn count_numbers(query: &QueryResult) -> usize {
    query.cells.iter().flat_map(|cell| &cell.aggregates).map(|aggregate| aggregate.numbers.len()).sum()
}

/// Renders the numbers of all queries.
pub(super) fn render_result(report: &Report, names: &SiteNames) -> AnyView {
    let queries = report.queries.iter().map(|query| render_query(query, names)).collect_view();
    let csv = csv_address(&report.to_csv());
    let json = json_address(&serde_json::to_string_pretty(report).unwrap_or_default());
    let note = format!(
        "The sum over {}. Intervals hold for 95 % of releases, from the noise alone; the deviation from sampling is beside \
         them. A dash is a number that the noise hides.",
        words::plural(report.sites.into(), "site")
    );
    view! {
        {queries}
        <p class="hint">{note}</p>
        <p>
            <a class="button" download="result.csv" href=csv>"CSV"</a>
            " "
            <a class="button" download="result.json" href=json>"JSON"</a>
        </p>
    }
    .into_any()
}

fn render_query(query: &QueryResult, names: &SiteNames) -> AnyView {
    let greatest = query
        .cells
        .iter()
        .flat_map(|cell| &cell.aggregates)
        .filter(|aggregate| is_count(aggregate))
        .flat_map(|aggregate| &aggregate.numbers)
        .map(|number| number.high)
        .fold(0.0, f64::max);
    let rows = query.cells.iter().take(MOST_CELLS).flat_map(|cell| render_cell(cell, greatest, names)).collect_view();
    let rest = query.cells.len().saturating_sub(MOST_CELLS);
    let rest = (rest > 0).then(|| {
        let text = format!("{} more in the downloads.", words::plural(rest as u64, "group"));
        view! { <p class="hint">{text}</p> }
    });
    let is_by_site = query.cells.iter().any(|cell| cell.site.is_some());
    let site = is_by_site.then_some("Site");
    let keys: Vec<&str> = site.into_iter().chain(query.keys.iter().map(String::as_str)).collect();
    let keys = if keys.is_empty() { "Group".to_owned() } else { keys.join(", ") };
    view! {
        <table class="cards result">
            <caption>{query.name.clone()}</caption>
            <thead>
                <tr>
                    <th scope="col">{keys.clone()}</th>
                    <th scope="col">"Number"</th>
                    <th scope="col" class="number">"Value"</th>
                    <th scope="col" class="number">"95 % interval"</th>
                    <th scope="col" class="number">"Sampling"</th>
                    <th scope="col">"Bar"</th>
                </tr>
            </thead>
            <tbody>{rows}</tbody>
        </table>
        {rest}
        {render_drifts(query, &keys, names)}
        {list_curves(query, names).iter().map(render_still).collect_view()}
    }
    .into_any()
}

/// Renders the distances of the histograms of each site from those of the others together.
fn render_drifts(query: &QueryResult, keys: &str, names: &SiteNames) -> AnyView {
    if query.drifts.is_empty() {
        return ().into_any();
    }
    let rows = query.drifts.iter().take(MOST_CELLS).flat_map(|cell| {
        let group = name_group(cell, names);
        let aggregates = cell.aggregates.iter();
        let rows = aggregates.flat_map(move |aggregate| {
            let group = group.clone();
            aggregate.numbers.iter().map(move |number| {
                let half = (number.high - number.low) / 2.0;
                let format = |value: f64| words::to_error(value, half);
                let value = number.value.map_or_else(|| "–".to_owned(), format);
                let interval = format!("{} to {}", format(number.low), format(number.high));
                view! {
                    <tr>
                        <th scope="row">{group.clone()}</th>
                        <td data-label="Histogram">{aggregate.label.clone()}</td>
                        <td data-label="Distance">{number.label.clone()}</td>
                        <td data-label="Value" class="number">{value}</td>
                        <td data-label="95 % interval" class="number">{interval}</td>
                    </tr>
                }
            })
        });
        rows.collect::<Vec<_>>()
    });
    let note = format!(
        "Each site against the others together. Total variation is the share of rows that would have to move. The stability \
         index adds up (p − q)·ln(p/q), with shares of at least {}. A dash is a distance that the noise hides.",
        words::percent(LEAST_SHARE)
    );
    view! {
        <table class="cards result">
            <caption>{format!("{}: drift between sites", query.name)}</caption>
            <thead>
                <tr>
                    <th scope="col">{keys.to_owned()}</th>
                    <th scope="col">"Histogram"</th>
                    <th scope="col">"Distance"</th>
                    <th scope="col" class="number">"Value"</th>
                    <th scope="col" class="number">"95 % interval"</th>
                </tr>
            </thead>
            <tbody>{rows.collect_view()}</tbody>
        </table>
        <p class="hint">{note}</p>
    }
    .into_any()
}

/// Returns the survival curves of a query, each with the ends of its intervals.
fn list_curves(query: &QueryResult, names: &SiteNames) -> Vec<ChartFigure> {
    let curves = query.cells.iter().flat_map(|cell| cell.aggregates.iter().map(move |aggregate| (cell, aggregate)));
    let curves = curves.filter(|(_, aggregate)| !aggregate.times.is_empty());
    curves.take(MOST_CURVES).map(|(cell, aggregate)| plot_curve(query, &name_group(cell, names), aggregate)).collect()
}

fn plot_curve(query: &QueryResult, group: &str, aggregate: &AggregateResult) -> ChartFigure {
    let line = |label: &str, stroke, find: &dyn Fn(&NumberEstimate) -> Option<f64>| {
        let later = aggregate.times.iter().skip(1).zip(&aggregate.numbers);
        let later = later.filter_map(|(time, number)| Some((*time, find(number)?)));
        let points = aggregate.times.first().map(|first| (*first, 1.0)).into_iter().chain(later).collect();
        ChartLine { label: label.to_owned(), stroke, points, level: None }
    };
    ChartFigure {
        title: format!("{}: {}, {group}", query.name, aggregate.label),
        file: "survival".to_owned(),
        x: "time".to_owned(),
        y: "survival, %".to_owned(),
        percent: true,
        x_most: aggregate.times.last().copied().unwrap_or_default(),
        steps: true,
        lines: vec![
            line("estimate", LineStroke::Solid, &|number| number.value),
            line("low", LineStroke::Dotted, &|number| Some(number.low)),
            line("high", LineStroke::Dashed, &|number| Some(number.high)),
        ],
        ..ChartFigure::default()
    }
}

fn name_group(cell: &CellResult, names: &SiteNames) -> String {
    let site = cell.site.map(|site| names.get(&site).cloned().unwrap_or_else(|| site.to_string()));
    let parts: Vec<String> = site.into_iter().chain(cell.groups.iter().cloned()).collect();
    if parts.is_empty() { "whole table".to_owned() } else { parts.join(", ") }
}

fn is_count(aggregate: &AggregateResult) -> bool {
    aggregate.label.starts_with("count") || aggregate.label.starts_with("histogram")
}

fn render_cell(cell: &CellResult, greatest: f64, names: &SiteNames) -> Vec<AnyView> {
    let group = name_group(cell, names);
    let rows = cell.aggregates.iter().flat_map(|aggregate| {
        let has_bar = is_count(aggregate) && greatest > 0.0;
        let group = &group;
        aggregate.numbers.iter().map(move |number| render_number(group, aggregate, number, has_bar.then_some(greatest)))
    });
    rows.collect()
}

fn render_number(group: &str, aggregate: &AggregateResult, number: &NumberEstimate, greatest: Option<f64>) -> AnyView {
    let label = if number.label.is_empty() {
        aggregate.label.clone()
    } else {
        format!("{}: {}", aggregate.label, number.label)
    };
    let half = (number.high - number.low) / 2.0;
    let format = |value: f64| match aggregate.find_date(value) {
        Some(date) => date.to_string(),
        None => words::to_error(value, half),
    };
    let value = number.value.map_or_else(|| "–".to_owned(), format);
    let interval = format!("{} to {}", format(number.low), format(number.high));
    let days = if aggregate.is_date { " days" } else { "" };
    let sampling = number.sampling.map_or_else(|| "–".to_owned(), |one| format!("{}{days}", words::to_error(one, one)));
    let bar = greatest.map(|greatest| {
        let shown = number.value.unwrap_or(f64::midpoint(number.low, number.high)).max(0.0);
        view! { <meter min="0" max=greatest.to_string() value=shown.to_string() aria-label=interval.clone()></meter> }
    });
    view! {
        <tr>
            <th scope="row">{group.to_owned()}</th>
            <td data-label="Number">{label}</td>
            <td data-label="Value" class="number">{value}</td>
            <td data-label="95 % interval" class="number">{interval}</td>
            <td data-label="Sampling" class="number">{sampling}</td>
            <td>{bar}</td>
        </tr>
    }
    .into_any()
}
