//! A line chart: rendered on the server, interactive in the browser. Axes with units, labels at the lines, a table and
//! a CSV file of the same numbers; the arrow keys move the reading like the pointer.

mod plot;
mod scale;
#[cfg(any(feature = "ssr", feature = "planner"))]
mod still;

use leptos::ev::{KeyboardEvent, PointerEvent};
use leptos::prelude::*;

pub use plot::{ChartFigure, ChartLine, LineStroke};
use plot::{ChartPlot, HEIGHT, WIDTH};
#[cfg(feature = "ssr")]
pub(crate) use scale::{LinearScale, spread};
#[cfg(any(feature = "ssr", feature = "planner"))]
pub(crate) use still::render_still;

/// Renders a chart of a figure that may change.
#[component]
pub fn Chart(
    /// The figure.
    figure: Memo<ChartFigure>,
) -> impl IntoView {
    let reading = RwSignal::new(None::<f64>);
    let plot = Memo::new(move |_| ChartPlot::new(&figure.read()));
    let point = move |event: PointerEvent| {
        let Some(svg) = event.current_target().and_then(as_element) else { return };
        let bounds = svg.get_bounding_client_rect();
        let x = (f64::from(event.client_x()) - bounds.left()) / bounds.width().max(1.0) * WIDTH;
        reading.set(plot.with_untracked(|plot| plot.nearest(x)));
    };
    let step = move |event: KeyboardEvent| {
        let forward = match event.key().as_str() {
            "ArrowRight" => true,
            "ArrowLeft" => false,
            "Escape" => return reading.set(None),
            _ => return,
        };
        event.prevent_default();
        reading.set(plot.with_untracked(|plot| plot.next_value(reading.get_untracked(), forward)));
    };
    view! {
        <figure class="chart">
            <figcaption>
                <span class="chart-title">{move || figure.read().title.clone()}</span>
                <span class="chart-reading" aria-live="polite">
                    {move || reading.get().map(|x| figure.read().reading(x))}
                </span>
            </figcaption>
            <svg class="chart-plot" viewBox=format!("0 0 {WIDTH} {HEIGHT}") role="img" tabindex="0"
                aria-label=move || figure.read().sentence()
                on:pointermove=point on:pointerleave=move |_| reading.set(None)
                on:keydown=step on:blur=move |_| reading.set(None)>
                {move || plot.read().grid()}
                {move || plot.read().mark(&figure.read())}
                {move || plot.read().lines(&figure.read())}
                {move || reading.get().map(|x| plot.read().cursor(x))}
            </svg>
            <details class="chart-data">
                <summary>"Table and file"</summary>
                {move || figure.read().table()}
            </details>
        </figure>
    }
}

fn as_element(target: leptos::web_sys::EventTarget) -> Option<leptos::web_sys::Element> {
    use leptos::wasm_bindgen::JsCast;
    target.dyn_into().ok()
}
