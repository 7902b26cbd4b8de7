//! A static chart, rendered once, for pages that are read and printed. It has the same axes, lines, table and file as
//! the interactive one.

use leptos::prelude::*;

use super::plot::{Figure, HEIGHT, Plot, WIDTH};

/// Renders a figure with its numbers beneath.
pub(crate) fn still(figure: &Figure) -> AnyView {
    let plot = Plot::of(figure);
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
