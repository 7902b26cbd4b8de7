//! A heat map: a number for each pair of two settings, written into its square; the shade only repeats it. The chosen
//! point has a frame and the word. Beside the map is the one number for comparison.

use leptos::prelude::*;

use super::axis::{LEFT, WIDTH};
use super::{DrawingTable, StaticDrawing, round_position, to_markup};

/// A heat map.
pub(crate) struct HeatMap {
    /// Its title.
    pub(crate) title: String,
    /// Name of its files, without extension.
    pub(crate) file: String,
    /// A line under the title.
    pub(crate) note: String,
    /// The name of the columns, and each column.
    pub(crate) columns: (String, Vec<String>),
    /// The name of the rows, and each row from the top.
    pub(crate) rows: (String, Vec<String>),
    /// The existing squares.
    pub(crate) squares: Vec<HeatSquare>,
    /// The square beside the map, with its name.
    pub(crate) beside: Option<(String, HeatSquare)>,
    /// The numbers.
    pub(crate) table: DrawingTable,
}

/// One number of a heat map.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HeatSquare {
    /// Column and row, from 0.
    pub(crate) at: (usize, usize),
    /// The number that the shade repeats.
    pub(crate) value: f64,
    /// The number as text.
    pub(crate) label: String,
    /// The text below it; may be empty.
    pub(crate) more: String,
    /// Whether it was chosen.
    pub(crate) is_chosen: bool,
}

/// Height of a row.
const ROW: f64 = 54.0;
const TOP: f64 = 8.0;
/// The least width of a column: it has room for four digits and a sign.
const COLUMN: f64 = 66.0;
/// Room at the right end.
const END: f64 = 12.0;
/// Width of the square beside the map, with the gap before it.
const BESIDE: f64 = 96.0;
/// The strongest shade: text keeps a contrast of 4.5 to 1 on it, light and dark.
const STRONGEST: f64 = 0.42;
const FAINTEST: f64 = 0.04;

impl HeatMap {
    /// Draws the map.
    pub(crate) fn draw(self) -> StaticDrawing {
        let columns = self.columns.1.len().max(1) as f64;
        let aside = END + if self.beside.is_some() { BESIDE } else { 0.0 };
        // Many columns make the drawing wider instead of the numbers smaller.
        let whole = WIDTH.max(LEFT + COLUMN * columns + aside);
        let right = whole - aside;
        let width = (right - LEFT) / columns;
        let bottom = TOP + ROW * self.rows.1.len().max(1) as f64;
        let others = self.beside.iter().map(|(_, square)| square.value);
        let values = self.squares.iter().map(|square| square.value).chain(others).filter(|value| value.is_finite());
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
        let shade = move |value: f64| {
            let part = if high > low { (value - low) / (high - low) } else { 0.5 };
            round_position(FAINTEST + part.clamp(0.0, 1.0) * (STRONGEST - FAINTEST))
        };
        let squares = self.squares.iter().filter(|square| square.value.is_finite()).map(|square| {
            let (x, y) = (LEFT + width * square.at.0 as f64, TOP + ROW * square.at.1 as f64);
            render_square(square, (x, y), width, shade(square.value))
        });
        let names = self.columns.1.iter().enumerate().map(|(index, name)| {
            let x = round_position(LEFT + width * (index as f64 + 0.5));
            view! { <text class="tick" x=x y=bottom + 18.0 text-anchor="middle">{name.clone()}</text> }
        });
        let sides = self.rows.1.iter().enumerate().map(|(index, name)| {
            let y = TOP + ROW * (index as f64 + 0.5) + 4.0;
            view! { <text class="tick" x=LEFT - 8.0 y=y text-anchor="end">{name.clone()}</text> }
        });
        let side_square = self.beside.as_ref().map(|(what, square)| {
            let x = right + 14.0;
            let wide = BESIDE - 14.0;
            let y = f64::midpoint(TOP, bottom) - ROW / 2.0;
            view! {
                {render_square(square, (x, y), wide, shade(square.value))}
                <text class="tick" x=round_position(x + wide / 2.0) y=y - 8.0 text-anchor="middle">{what.clone()}</text>
            }
        });
        let middle = f64::midpoint(TOP, bottom);
        let picture = to_markup(view! {
            {squares.collect_view()}
            {names.collect_view()}
            {sides.collect_view()}
            {side_square}
            <text class="axis" x=f64::midpoint(LEFT, right) y=bottom + 38.0 text-anchor="middle">{self.columns.0.clone()}</text>
            <text class="axis" x="12" y=middle text-anchor="middle" transform=format!("rotate(-90 12 {middle})")>{self.rows.0.clone()}</text>
        });
        StaticDrawing {
            sentence: self.sentence(),
            title: self.title,
            file: self.file,
            note: self.note,
            size: (whole, bottom + 46.0),
            picture,
            table: self.table,
        }
    }

    /// Describes the best, the worst and the chosen square, and the one beside the map.
    fn sentence(&self) -> String {
        let name = |square: &HeatSquare| {
            let describe_setting = |names: &(String, Vec<String>), index: usize| {
                let name = names.1.get(index).map_or("", String::as_str);
                format!("{} {name}", names.0)
            };
            format!(
                "{} at {}, {}",
                square.label,
                describe_setting(&self.columns, square.at.0),
                describe_setting(&self.rows, square.at.1)
            )
        };
        let measured = || self.squares.iter().filter(|square| square.value.is_finite());
        let Some(best) = measured().max_by(|a, b| a.value.total_cmp(&b.value)) else {
            return format!("{}: no measurements", self.title);
        };
        let least = measured().min_by(|a, b| a.value.total_cmp(&b.value)).unwrap_or(best);
        let mut parts = vec![format!("most {}", name(best)), format!("least {}", name(least))];
        parts.extend(measured().filter(|square| square.is_chosen).map(|square| format!("chosen {}", name(square))));
        parts.extend(self.beside.iter().map(|(what, square)| format!("{what} {}", square.label)));
        format!("{}: {}.", self.title, parts.join("; "))
    }
}

fn render_square(square: &HeatSquare, (x, y): (f64, f64), width: f64, shade: f64) -> AnyView {
    let (x, width, tall) = (round_position(x), round_position(width - 3.0), ROW - 3.0);
    let middle = round_position(x + width / 2.0);
    let lines = 1 + usize::from(!square.more.is_empty()) + usize::from(square.is_chosen);
    // Lines of 15 units about the middle of the square.
    let line = |index: usize| round_position(y + tall / 2.0 + 4.0 + (index as f64 - (lines as f64 - 1.0) / 2.0) * 15.0);
    let more = (!square.more.is_empty()).then(|| {
        view! { <text class="cell-more" x=middle y=line(1) text-anchor="middle">{square.more.clone()}</text> }
    });
    let marker = square.is_chosen.then(|| {
        view! {
            <rect class="chosen" x=x + 1.0 y=y + 1.0 width=width - 2.0 height=tall - 2.0 rx="3"></rect>
            <text class="cell-more" x=middle y=line(lines - 1) text-anchor="middle">"chosen"</text>
        }
    });
    view! {
        <rect class="heat" x=x y=y width=width height=tall rx="3" fill-opacity=shade></rect>
        <rect class="heat-edge" x=x y=y width=width height=tall rx="3"></rect>
        <text class="cell" x=middle y=line(0) text-anchor="middle">{square.label.clone()}</text>
        {more}
        {marker}
    }
    .into_any()
}

#[cfg(test)]
mod tests {
    use super::{HeatMap, HeatSquare};
    use crate::component::drawing::DrawingTable;

    fn square(at: (usize, usize), value: f64, is_chosen: bool) -> HeatSquare {
        HeatSquare { at, value, label: format!("{:.0} %", value * 100.0), more: String::new(), is_chosen }
    }

    fn heat(squares: Vec<HeatSquare>) -> HeatMap {
        HeatMap {
            title: "Accuracy".to_owned(),
            file: "accuracy".to_owned(),
            note: String::new(),
            columns: ("β".to_owned(), vec!["0.1".to_owned(), "0.5".to_owned()]),
            rows: ("k".to_owned(), vec!["5".to_owned(), "20".to_owned()]),
            squares,
            beside: Some(("baseline".to_owned(), square((0, 0), 0.9, false))),
            table: DrawingTable::default(),
        }
    }

    #[test]
    fn heat_map_writes_numbers_and_marks_the_choice() {
        let drawing = heat(vec![square((0, 0), 0.6, false), square((1, 1), 0.8, true)]).draw();
        for said in ["60 %", "80 %", "90 %", "chosen", "baseline"] {
            assert!(drawing.picture.contains(said), "{said}: {}", drawing.picture);
        }
        assert_eq!(
            drawing.sentence,
            "Accuracy: most 80 % at β 0.5, k 20; least 60 % at β 0.1, k 5; chosen 80 % at β 0.5, k 20; baseline 90 %."
        );
    }

    #[test]
    fn heat_map_omits_unmeasured_squares() {
        let drawing = heat(vec![square((0, 0), f64::NAN, false)]).draw();
        assert!(!drawing.picture.contains("NaN"), "{}", drawing.picture);
        assert!(heat(Vec::new()).draw().sentence.contains("no measurements"));
    }
}
