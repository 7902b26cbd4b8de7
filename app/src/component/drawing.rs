//! Drawings that nobody moves: heat maps, lines with their deviation, bars; for pages that are read, printed and kept.
//!
//! Each is made of what it is given, says itself in a sentence, and can be taken away: its numbers as a table and as CSV, its
//! picture as SVG that needs nothing else. Numbers, patterns and shapes carry what colour shows. To add one: a file that gives
//! a [`Drawing`].

mod axis;
mod bars;
mod burn_down;
mod forest;
mod heat;
mod levels;
mod lines;
mod rounds;
mod stack;
mod take;
mod time;

pub(crate) use bars::{Bars, Outline};
pub(crate) use burn_down::BurnDown;
pub(crate) use forest::{Estimate, Forest};
pub(crate) use heat::{Heat, Square};
pub(crate) use levels::{Level, Levels};
pub(crate) use lines::{Curve, Lines};
pub(crate) use rounds::Rounds;
pub(crate) use stack::{Part, Stack};

use leptos::prelude::*;

/// A finished drawing.
pub(crate) struct Drawing {
    /// Its title.
    pub(crate) title: String,
    /// Name of the files it is saved as, without ending.
    pub(crate) file: String,
    /// What it shows, for those who hear it.
    pub(crate) sentence: String,
    /// A line under the title; may be empty.
    pub(crate) note: String,
    /// Width and height in its own units.
    pub(crate) size: (f64, f64),
    /// The markup within the `svg` element: escaped, and well-formed as XML.
    pub(crate) picture: String,
    /// Its numbers.
    pub(crate) table: Table,
}

/// Numbers behind a drawing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Table {
    /// What the columns are.
    pub(crate) head: Vec<String>,
    /// The rows, each as long as the head; its first cell names it.
    pub(crate) rows: Vec<Vec<Cell>>,
}

/// A cell: as people read it, and as programs do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell {
    shown: String,
    raw: String,
}

impl Cell {
    /// The same for people and programs.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { shown: text.clone(), raw: text }
    }

    /// A number, in full for programs.
    pub(crate) fn number(shown: impl Into<String>, raw: f64) -> Self {
        Self { shown: shown.into(), raw: raw.to_string() }
    }

    /// A count.
    pub(crate) fn count(value: u64) -> Self {
        Self { shown: crate::words::count(value), raw: value.to_string() }
    }

    /// A number that may not be there.
    pub(crate) fn maybe(shown: impl FnOnce(f64) -> String, raw: Option<f64>) -> Self {
        raw.map_or_else(|| Self { shown: "–".to_owned(), raw: String::new() }, |raw| Self::number(shown(raw), raw))
    }
}

impl Drawing {
    /// The drawing with its numbers and files.
    pub(crate) fn show(self) -> AnyView {
        let (width, height) = self.size;
        let wide = width > axis::WIDTH;
        let links = take::links(&self);
        let rows = self.table.rows.into_iter().map(|row| {
            let mut cells = row.into_iter();
            let name = cells.next().map(|cell| cell.shown);
            view! {
                <tr><th scope="row">{name}</th>{cells.map(|cell| view! { <td>{cell.shown}</td> }).collect_view()}</tr>
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

/// Markup as a text that is also well-formed XML: leptos parts neighbouring texts by a mark that XML has not.
fn markup(view: impl IntoAny) -> String {
    view.into_any().to_html().replace("<!>", "")
}

/// As much of a name as has room beside a drawing; the table has all of it.
pub(crate) fn shortened(name: &str, most: usize) -> String {
    if name.chars().count() <= most { name.to_owned() } else { name.chars().take(most - 1).chain(['…']).collect() }
}

/// A number of places, without the noise of arithmetic.
fn place(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
