//! A forest plot: for each of several things a line with the measured point and whiskers for its interval.

use leptos::prelude::*;

use super::axis::{RIGHT, TOP, WIDTH};
use super::{DrawingTable, StaticDrawing, TableCell, round_position, shorten, to_markup};
use crate::component::chart::LinearScale;
use crate::words;

/// The left end of the plot; the names are before it.
const FROM: f64 = 172.0;
/// The most characters of a name there.
const NAME: usize = 21;
/// Distance of the lines.
const ROW: f64 = 34.0;

/// A drawing of parts of a whole, with intervals.
pub(crate) struct ForestPlot {
    /// Its title.
    pub(crate) title: String,
    /// Name of its files, without extension.
    pub(crate) file: String,
    /// A line under the title.
    pub(crate) note: String,
    /// The quantity x, in percent.
    pub(crate) x: String,
    /// The lines.
    pub(crate) rows: Vec<IntervalEstimate>,
}

/// A figure with its interval.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct IntervalEstimate {
    /// Its name.
    pub(crate) name: String,
    /// The figure, 0 to 1.
    pub(crate) value: f64,
    /// The interval.
    pub(crate) interval: (f64, f64),
    /// The sample size.
    pub(crate) count: u64,
}

impl IntervalEstimate {
    /// Makes an estimate of a proportion of `count`, with Wilson's score interval at 95 % (Wilson 1927), which is valid
    /// for independent counts.
    pub(crate) fn with_wilson_interval(name: String, value: f64, count: u64) -> Self {
        const Z: f64 = 1.959_963_984_540_054;
        let n = count.max(1) as f64;
        let spread = Z * ((value * (1.0 - value)).max(0.0) / n + Z * Z / (4.0 * n * n)).sqrt();
        let (middle, whole) = (value + Z * Z / (2.0 * n), 1.0 + Z * Z / n);
        let interval = (((middle - spread) / whole).max(0.0), ((middle + spread) / whole).min(1.0));
        Self { name, value, interval, count }
    }
}

impl ForestPlot {
    /// Draws the plot; `None` without a line.
    pub(crate) fn draw(self) -> Option<StaticDrawing> {
        let ends = |span: (f64, f64), row: &IntervalEstimate| (span.0.min(row.interval.0), span.1.max(row.interval.1));
        let (low, high) = self.rows.iter().fold((f64::INFINITY, f64::NEG_INFINITY), ends);
        if !low.is_finite() {
            return None;
        }
        let bottom = TOP + ROW * self.rows.len() as f64;
        let scale = LinearScale::new(low, high, 4, FROM + 8.0, RIGHT - 12.0);
        let ticks = scale.ticks.iter().map(|tick| {
            let position = scale.position(*tick);
            view! {
                <line class="grid" x1=position x2=position y1=TOP y2=bottom></line>
                <text class="tick" x=position y=bottom + 16.0 text-anchor="middle">{words::number((tick * 1e6).round() / 1e4)}</text>
            }
        });
        let ticks = ticks.collect_view();
        let rows = self.rows.iter().enumerate().map(|(index, row)| {
            let middle = round_position(TOP + ROW * (index as f64 + 0.6));
            let (position, from, to) = (scale.position(row.value), scale.position(row.interval.0), scale.position(row.interval.1));
            let caps = format!("M{from} {}v8M{to} {}v8", middle - 4.0, middle - 4.0);
            view! {
                <text class="label" x=FROM - 8.0 y=middle + 4.0 text-anchor="end">{shorten(&row.name, NAME)}</text>
                <line class="whisker" x1=from x2=to y1=middle y2=middle></line>
                <path class="line cap" d=caps></path>
                <path class="dot" d=format!("M{} {middle}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", round_position(position - 4.0))></path>
                <text class="label" x=position y=middle - 8.0 text-anchor="middle">{format!("{:.2} %", row.value * 100.0)}</text>
            }
        });
        let rows = rows.collect_view();
        let picture = to_markup(view! {
            {ticks}
            {rows}
            <text class="axis" x=f64::midpoint(FROM, RIGHT) y=bottom + 36.0 text-anchor="middle">{self.x.clone()}</text>
        });
        Some(StaticDrawing {
            sentence: self.sentence(),
            table: self.table(),
            title: self.title,
            file: self.file,
            note: self.note,
            size: (WIDTH, bottom + 44.0),
            picture,
        })
    }

    fn sentence(&self) -> String {
        let rows = self.rows.iter().map(|row| {
            let (low, high) = row.interval;
            format!("{} {:.2} % ({:.2} to {:.2})", row.name, row.value * 100.0, low * 100.0, high * 100.0)
        });
        format!("{}: {}.", self.title, rows.collect::<Vec<_>>().join("; "))
    }

    fn table(&self) -> DrawingTable {
        let head = ["model", "%", "from", "to", "of"].map(str::to_owned).into();
        let percent = |value: f64| TableCell::number(format!("{:.2} %", value * 100.0), value * 100.0);
        let rows = self.rows.iter().map(|row| {
            let (low, high) = row.interval;
            vec![
                TableCell::text(row.name.clone()),
                percent(row.value),
                percent(low),
                percent(high),
                TableCell::count(row.count),
            ]
        });
        DrawingTable { head, rows: rows.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::{ForestPlot, IntervalEstimate};

    /// Wilson's interval for 8 of 10, as in textbooks: 0.4902 to 0.9433.
    #[test]
    fn interval_equals_wilson() {
        let IntervalEstimate { interval: (low, high), .. } =
            IntervalEstimate::with_wilson_interval(String::new(), 0.8, 10);
        assert!((low - 0.4902).abs() < 5e-5 && (high - 0.9433).abs() < 5e-5, "{low} {high}");
        let IntervalEstimate { interval, .. } = IntervalEstimate::with_wilson_interval(String::new(), 1.0, 1000);
        assert!(interval.0 > 0.99 && interval.1 <= 1.0);
    }

    #[test]
    fn forest_rows_have_value_and_interval() {
        let rows = vec![
            IntervalEstimate::with_wilson_interval("a".to_owned(), 0.41, 2000),
            IntervalEstimate::with_wilson_interval("b".to_owned(), 0.45, 2000),
        ];
        let forest = ForestPlot {
            title: "Frames correct".to_owned(),
            file: "models".to_owned(),
            note: String::new(),
            x: "frames correct, %".to_owned(),
            rows,
        };
        let drawing = forest.draw().expect("rows");
        assert_eq!(drawing.picture.matches("class=\"whisker\"").count(), 2);
        assert!(
            drawing.picture.contains("41.00 %") && drawing.sentence.contains("b 45.00 % ("),
            "{}",
            drawing.sentence
        );
    }

    #[test]
    fn forest_without_rows_is_not_drawn() {
        let forest = ForestPlot {
            title: String::new(),
            file: String::new(),
            note: String::new(),
            x: String::new(),
            rows: Vec::new(),
        };
        assert!(forest.draw().is_none());
    }
}
