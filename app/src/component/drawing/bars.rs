//! Bars of counts, on linear or logarithmic axes, with one distribution behind as an outline.

use leptos::prelude::*;

use super::axis::{
    BOTTOM, DrawingAxis, HEIGHT, LEFT, LogScale, NumberFormat, RIGHT, TOP, WIDTH, render_grid, render_mark,
};
use super::{DrawingTable, StaticDrawing, TableCell, round_position, to_markup};
use crate::component::chart::LinearScale;
use crate::words;

/// A drawing of counts.
pub(crate) struct BarDrawing {
    /// Its title.
    pub(crate) title: String,
    /// Name of its files, without extension.
    pub(crate) file: String,
    /// A line under the title.
    pub(crate) note: String,
    /// The quantity x.
    pub(crate) x: String,
    /// The counted quantity.
    pub(crate) y: String,
    /// The name of the bars.
    pub(crate) name: String,
    /// Lower end, upper end and count of each bar, in order.
    pub(crate) counts: Vec<(f64, f64, u64)>,
    /// Another distribution over the same bars.
    pub(crate) outline: Option<BarOutline>,
    /// Whether both axes are logarithmic.
    pub(crate) is_logarithmic: bool,
    /// Marked numbers on x, with their labels.
    pub(crate) marks: Vec<(f64, String)>,
}

/// A distribution drawn as an outline over the bars.
pub(crate) struct BarOutline {
    /// Its name.
    pub(crate) name: String,
    /// As many counts as there are bars.
    pub(crate) counts: Vec<u64>,
}

/// The lower end of a logarithmic axis, below a bar of one.
const FLOOR: f64 = 0.5;
/// The factor by which a logarithmic axis with marks extends beyond the highest bar.
const ABOVE: f64 = 6.0;

impl BarDrawing {
    /// Draws the bars.
    pub(crate) fn draw(self) -> StaticDrawing {
        let others = self.outline.iter().flat_map(|outline| outline.counts.iter().copied());
        let most = self.counts.iter().map(|bar| bar.2).chain(others).max().unwrap_or(0).max(1) as f64;
        let ends = (self.counts.first().map_or(0.0, |bar| bar.0), self.counts.last().map_or(1.0, |bar| bar.1));
        let (x, y) = if self.is_logarithmic {
            // Room above the bars for the labels of the marks.
            let most = if self.marks.is_empty() { most } else { most * ABOVE };
            (
                DrawingAxis::Log(LogScale::new(ends.0.max(FLOOR), ends.1, LEFT, RIGHT)),
                DrawingAxis::Log(LogScale::new(FLOOR, most, BOTTOM, TOP)),
            )
        } else {
            let across = LinearScale::up_to(ends.1, 5, LEFT, RIGHT);
            (
                DrawingAxis::Linear(across, NumberFormat::Plain),
                DrawingAxis::Linear(LinearScale::new(0.0, most, 4, BOTTOM, TOP), NumberFormat::Count),
            )
        };
        let bars = self.counts.iter().filter(|bar| bar.2 > 0).map(|(from, to, count)| {
            let (left, right, top) = (x.position(*from) + 1.0, x.position(*to) - 1.0, y.position(*count as f64));
            let label = format!("{}: {}", self.format_range(*from, *to), words::count(*count));
            view! {
                <rect class="bar" x=round_position(left) y=top width=round_position((right - left).max(1.0)) height=round_position(BOTTOM - top)><title>{label}</title></rect>
            }
        });
        let outline = self.outline.as_ref().map(|outline| {
            let steps = self.counts.iter().zip(&outline.counts).map(|((from, to, _), count)| {
                format!("{} {}H{}", x.position(*from), y.position(*count as f64), x.position(*to))
            });
            let path = format!("M{}", steps.collect::<Vec<_>>().join("L"));
            view! { <path class="step" d=path></path> }
        });
        let marks = self.marks.iter().enumerate().map(|(line, (value, what))| render_mark(&x, *value, what, line));
        let picture = to_markup(view! {
            {render_grid(&x, &y, (&self.x, &self.y), RIGHT)}
            {bars.collect_view()}
            {outline}
            {marks.collect_view()}
        });
        StaticDrawing {
            sentence: self.sentence(),
            table: self.table(),
            title: self.title,
            file: self.file,
            note: self.note,
            size: (WIDTH, HEIGHT),
            picture,
        }
    }

    fn format_range(&self, from: f64, to: f64) -> String {
        if self.is_logarithmic {
            // Whole numbers from one edge to just below the next.
            let last = (to - 1.0).max(from);
            if last > from {
                format!("{} to {}", words::count(from as u64), words::count(last as u64))
            } else {
                words::count(from as u64)
            }
        } else {
            format!("{} to {}", words::number(from), words::number(to))
        }
    }

    fn sentence(&self) -> String {
        let all: u64 = self.counts.iter().map(|bar| bar.2).sum();
        let Some(most) = self.counts.iter().max_by_key(|bar| bar.2).filter(|_| all > 0) else {
            return format!("{}: no counts", self.title);
        };
        format!(
            "{}: {} of {} {} have {} {}.",
            self.title,
            words::count(most.2),
            words::count(all),
            self.y,
            self.x,
            self.format_range(most.0, most.1)
        )
    }

    fn table(&self) -> DrawingTable {
        let mut head = vec![self.x.clone(), "from".to_owned(), "below".to_owned(), self.name.clone()];
        head.extend(self.outline.iter().map(|outline| outline.name.clone()));
        let rows = self.counts.iter().enumerate().map(|(index, (from, to, count))| {
            let mut row = vec![
                TableCell::text(self.format_range(*from, *to)),
                TableCell::number(words::number(*from), *from),
                TableCell::number(words::number(*to), *to),
                TableCell::count(*count),
            ];
            row.extend(
                self.outline.iter().map(|outline| TableCell::count(outline.counts.get(index).copied().unwrap_or(0))),
            );
            row
        });
        DrawingTable { head, rows: rows.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::{BarDrawing, BarOutline};

    fn bars(is_logarithmic: bool) -> BarDrawing {
        BarDrawing {
            title: "Frequencies".to_owned(),
            file: "frequencies".to_owned(),
            note: String::new(),
            x: "occurrences".to_owned(),
            y: "queries".to_owned(),
            name: "released".to_owned(),
            counts: vec![(1.0, 2.0, 1), (2.0, 4.0, 0), (4.0, 8.0, 300)],
            outline: None,
            is_logarithmic,
            marks: vec![(5.0, "k 5".to_owned())],
        }
    }

    #[test]
    fn bar_of_one_is_visible_on_log_axes() {
        let drawing = bars(true).draw();
        assert_eq!(drawing.picture.matches("class=\"bar\"").count(), 2, "{}", drawing.picture);
        assert!(!drawing.picture.contains("height=\"0\""), "{}", drawing.picture);
        assert!(drawing.sentence.contains("300 of 301 queries have occurrences 4 to 7"), "{}", drawing.sentence);
        assert!(drawing.picture.contains("k 5"));
    }

    #[test]
    fn outline_has_a_table_column() {
        let outline = BarOutline { name: "before".to_owned(), counts: vec![5, 6, 7] };
        let drawing = BarDrawing { outline: Some(outline), ..bars(false) }.draw();
        assert_eq!(drawing.table.head.last().map(String::as_str), Some("before"));
        assert!(drawing.picture.contains("class=\"step\""));
    }

    #[test]
    fn empty_bars_report_nothing_counted() {
        let drawing = BarDrawing { counts: Vec::new(), ..bars(true) }.draw();
        assert!(drawing.sentence.ends_with("no counts") && !drawing.picture.contains("NaN"));
    }
}
