//! A static chart, rendered once, for pages that are read and printed. It has the same axes, lines, table and file as
//! the interactive one.

use leptos::prelude::*;

use super::plot::{ChartFigure, ChartPlot, HEIGHT, WIDTH};

/// Renders a figure with its numbers beneath.
pub(crate) fn render_still(figure: &ChartFigure) -> AnyView {
    let plot = ChartPlot::new(figure);
    view! {
        <figure class="chart still">
            <figcaption><span class="chart-title">{figure.title.clone()}</span></figcaption>
            <svg class="chart-plot" viewBox=format!("0 0 {WIDTH} {HEIGHT}") role="img" aria-label=figure.latest()>
                {plot.grid()}
                {plot.mark(figure)}
                {plot.lines(figure)}
            </svg>
            <details class="chart-data">
                <summary>"Table and file"</summary>
                {figure.table()}
            </details>
        </figure>
    }
    .into_any()
}
