//! Static drawings: heat maps, lines with their deviation, bars; for pages that are read, printed and kept.
//!
//! Each is made of its arguments alone and has a describing sentence. It can be exported: its numbers as a table and as
//! CSV, its picture as self-contained SVG. Numbers, patterns and shapes repeat the information of colour. To add one: a
//! file that makes a [`StaticDrawing`].

mod axis;
mod bars;
mod burn_down;
mod export;
mod forest;
mod heat;
mod levels;
mod lines;
mod rounds;
mod stack;
mod time;

pub(crate) use bars::{BarDrawing, BarOutline};
pub(crate) use burn_down::BurnDown;
pub(crate) use forest::{ForestPlot, IntervalEstimate};
pub(crate) use heat::{HeatMap, HeatSquare};
pub(crate) use levels::{LevelBar, LevelDrawing};
pub(crate) use lines::{AccuracyCurve, LineDrawing};
pub(crate) use rounds::RoundTimeline;
pub(crate) use stack::{StackPart, StackedBar};

use leptos::prelude::*;

/// A finished drawing.
pub(crate) struct StaticDrawing {
    /// Its title.
    pub(crate) title: String,
    /// Name of its files, without extension.
    pub(crate) file: String,
    /// Its description for screen readers.
    pub(crate) sentence: String,
    /// A line under the title; may be empty.
    pub(crate) note: String,
    /// Width and height in its own units.
    pub(crate) size: (f64, f64),
    /// The markup within the `svg` element: escaped, and well-formed as XML.
    pub(crate) picture: String,
    /// Its numbers.
    pub(crate) table: DrawingTable,
}

/// The numbers of a drawing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DrawingTable {
    /// The names of the columns.
    pub(crate) head: Vec<String>,
    /// The rows, each as long as the head; its first cell names it.
    pub(crate) rows: Vec<Vec<TableCell>>,
}

/// A cell: the text for display, and the raw value for programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableCell {
    display: String,
    raw: String,
}

impl TableCell {
    /// Makes a cell with the same text for display and programs.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { display: text.clone(), raw: text }
    }

    /// Makes a cell for a number, in full for programs.
    pub(crate) fn number(display: impl Into<String>, raw: f64) -> Self {
        Self { display: display.into(), raw: raw.to_string() }
    }

    /// Makes a cell for a count.
    pub(crate) fn count(value: u64) -> Self {
        Self { display: crate::words::count(value), raw: value.to_string() }
    }

    /// Makes a cell for an optional number.
    pub(crate) fn maybe(format: impl FnOnce(f64) -> String, raw: Option<f64>) -> Self {
        raw.map_or_else(|| Self { display: "–".to_owned(), raw: String::new() }, |raw| Self::number(format(raw), raw))
    }
}

impl StaticDrawing {
    /// Renders the drawing with its numbers and files.
    pub(crate) fn show(self) -> AnyView {
        let (width, height) = self.size;
        let wide = width > axis::WIDTH;
        let links = export::render_links(&self);
        let rows = self.table.rows.into_iter().map(|row| {
            let mut cells = row.into_iter();
            let name = cells.next().map(|cell| cell.display);
            view! {
                <tr><th scope="row">{name}</th>{cells.map(|cell| view! { <td>{cell.display}</td> }).collect_view()}</tr>
            }
        });
        let rows = rows.collect_view();
        let head = self.table.head.into_iter().map(|name| view! { <th scope="col">{name}</th> }).collect_view();
        view! {
            <figure class="chart still" class:wide=wide>
                <figcaption>
                    <span class="chart-title">{self.title}</span>
                    {(!self.note.is_empty()).then(|| view! { <span class="chart-reading">{self.note}</span> })}
                </figcaption>
                <div class="scroll" tabindex=wide.then_some("0")><svg class="chart-plot" viewBox=format!("0 0 {width} {height}") role="img"
                    aria-label=self.sentence inner_html=self.picture></svg></div>
                <details class="chart-data">
                    <summary>"Table and files"</summary>
                    {links}
                    <div class="scroll" tabindex="0" role="group" aria-label="Table">
                        <table class="dense">
                            <thead><tr>{head}</tr></thead>
                            <tbody>{rows}</tbody>
                        </table>
                    </div>
                </details>
            </figure>
        }
        .into_any()
    }
}

/// Renders markup as text that is also well-formed XML: leptos separates neighbouring texts by a marker that XML does
/// not have.
fn to_markup(view: impl IntoAny) -> String {
    view.into_any().to_html().replace("<!>", "")
}

/// Shortens a name to the room beside a drawing; the table has the whole name.
pub(crate) fn shorten(name: &str, most: usize) -> String {
    if name.chars().count() <= most { name.to_owned() } else { name.chars().take(most - 1).chain(['…']).collect() }
}

/// Rounds a position to two decimals.
fn round_position(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
