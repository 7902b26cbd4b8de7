//! A figure's numbers and its drawing.

use leptos::prelude::*;
use serde::{Deserialize, Serialize};

use super::scale::{LinearScale, spread};
use crate::component::download::csv_address;
use crate::words;

/// Width of the drawing in its own units.
pub(super) const WIDTH: f64 = 480.0;
/// Height of the drawing.
pub(super) const HEIGHT: f64 = 250.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 372.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 208.0;
const MIDDLE: f64 = 215.0;
const CENTRE: f64 = 110.0;

/// The stroke of a line, so that lines differ without colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LineStroke {
    /// Solid, in the accent.
    Solid,
    /// Dashed.
    Dashed,
    /// Dotted.
    Dotted,
}

impl LineStroke {
    const fn class(self) -> &'static str {
        match self {
            Self::Solid => "line solid",
            Self::Dashed => "line dashed",
            Self::Dotted => "line dotted",
        }
    }
}

/// One line of a figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChartLine {
    /// Its name, written at its end.
    pub label: String,
    /// Its stroke.
    pub stroke: LineStroke,
    /// The numbers, by x.
    pub points: Vec<(f64, f64)>,
    /// A constant value, drawn across the plot.
    pub level: Option<f64>,
}

/// The content of a chart; empty by default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ChartFigure {
    /// Its title.
    pub title: String,
    /// Name of the file for its numbers, without extension.
    pub file: String,
    /// The unit of x: `round`.
    pub x: String,
    /// The quantity y, with its unit.
    pub y: String,
    /// Whether y is a part of a whole, displayed in percent.
    pub percent: bool,
    /// Whether y is a spent ε: displayed rounded up.
    pub up: bool,
    /// The end of the x axis, also before there are numbers.
    pub x_most: f64,
    /// A marked x, with its label.
    pub mark: Option<(f64, String)>,
    /// Whether a line keeps each value up to the next x, as a step curve does.
    pub steps: bool,
    /// The lines.
    pub lines: Vec<ChartLine>,
}

impl ChartFigure {
    fn format_y(&self, y: f64) -> String {
        match (self.percent, self.up) {
            (true, _) => words::percent(y),
            (false, true) => words::epsilon(y),
            (false, false) => format!("{y:.3}"),
        }
    }

    fn xs(&self) -> Vec<f64> {
        let mut xs: Vec<f64> = self.lines.iter().flat_map(|line| line.points.iter().map(|point| point.0)).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        xs
    }

    fn line_value(line: &ChartLine, x: f64) -> Option<f64> {
        line.level.or_else(|| line.points.iter().find(|point| (point.0 - x).abs() < 1e-9).map(|point| point.1))
    }

    /// Returns every line's value at `x`, in words.
    pub(super) fn reading(&self, x: f64) -> String {
        let parts: Vec<String> = self
            .lines
            .iter()
            .filter_map(|line| Some(format!("{} {}", line.label, self.format_y(Self::line_value(line, x)?))))
            .collect();
        format!("{} {}: {}", self.x, words::number(x), parts.join(", "))
    }

    /// Returns the figure in one sentence: each line's last value.
    pub(super) fn sentence(&self) -> String {
        let latest = self.latest();
        if self.lines.iter().all(|line| line.level.is_none() && line.points.is_empty()) {
            return latest;
        }
        latest + " Use the arrow keys to read values."
    }

    /// Returns the same sentence for a static drawing.
    pub(super) fn latest(&self) -> String {
        let parts: Vec<String> = self
            .lines
            .iter()
            .filter_map(|line| {
                let last = line.level.or_else(|| line.points.last().map(|point| point.1))?;
                Some(format!("{} {}", line.label, self.format_y(last)))
            })
            .collect();
        if parts.is_empty() {
            format!("{}: no measurements yet", self.title)
        } else if let Some((x, what)) = &self.mark {
            format!("{}; {what}, {}.", self.title, self.reading(*x))
        } else {
            format!("{}, latest: {}.", self.title, parts.join(", "))
        }
    }

    /// Returns the numbers as CSV (RFC 4180).
    pub(super) fn csv(&self) -> String {
        let quote = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let mut rows = vec![
            std::iter::once(self.x.as_str())
                .chain(self.lines.iter().map(|l| l.label.as_str()))
                .map(quote)
                .collect::<Vec<_>>(),
        ];
        for x in self.xs() {
            let cell = |line: &ChartLine| Self::line_value(line, x).map_or_else(String::new, |y| y.to_string());
            rows.push(std::iter::once(x.to_string()).chain(self.lines.iter().map(cell)).collect());
        }
        rows.into_iter().map(|row| row.join(",") + "\r\n").collect()
    }

    /// Renders the numbers as a table, with the link to the file.
    pub(super) fn table(&self) -> AnyView {
        let href = csv_address(&self.csv());
        let rows = self.xs().into_iter().map(|x| {
            let cells = self
                .lines
                .iter()
                .map(|line| view! { <td>{Self::line_value(line, x).map_or_else(|| "–".to_owned(), |y| self.format_y(y))}</td> })
                .collect_view();
            view! { <tr><th scope="row">{words::number(x)}</th>{cells}</tr> }
        });
        view! {
            <p><a href=href download=format!("{}.csv", self.file)>"Save as CSV"</a></p>
            <div class="scroll" tabindex="0">
                <table class="dense">
                    <thead><tr>
                        <th scope="col">{self.x.clone()}</th>
                        {self.lines.iter().map(|line| view! { <th scope="col">{line.label.clone()}</th> }).collect_view()}
                    </tr></thead>
                    <tbody>{rows.collect_view()}</tbody>
                </table>
            </div>
        }
        .into_any()
    }
}

/// A figure's scales.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ChartPlot {
    x: LinearScale,
    y: LinearScale,
    xs: Vec<f64>,
    percent: bool,
    x_name: String,
    y_name: String,
}

impl ChartPlot {
    pub(super) fn new(figure: &ChartFigure) -> Self {
        let ys = || figure.lines.iter().flat_map(|line| line.points.iter().map(|point| point.1).chain(line.level));
        let (low, high) = ys().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), y| (low.min(y), high.max(y)));
        let (low, high) = match (low.is_finite(), figure.percent) {
            (false, _) => (0.0, 1.0),
            (true, true) => (0.0, high),
            (true, false) => (low, high),
        };
        let xs = figure.xs();
        let most = xs.last().copied().unwrap_or(1.0).max(figure.x_most).max(1.0);
        Self {
            x: LinearScale::up_to(most, 5, LEFT, RIGHT),
            y: LinearScale::new(low, high, 4, BOTTOM, TOP),
            xs,
            percent: figure.percent,
            x_name: figure.x.clone(),
            y_name: figure.y.clone(),
        }
    }

    /// Returns the data x that is nearest to a position.
    pub(super) fn nearest(&self, place: f64) -> Option<f64> {
        let x = self.x.value(place);
        self.xs.iter().copied().min_by(|a, b| (a - x).abs().total_cmp(&(b - x).abs()))
    }

    /// Returns the next data x in one direction; the last data x if there is no present one.
    pub(super) fn next_value(&self, now: Option<f64>, forward: bool) -> Option<f64> {
        let Some(now) = now else { return self.xs.last().copied() };
        let next = if forward {
            self.xs.iter().copied().find(|x| *x > now)
        } else {
            self.xs.iter().copied().rev().find(|x| *x < now)
        };
        next.or(Some(now))
    }

    pub(super) fn grid(&self) -> AnyView {
        let say = |y: f64| if self.percent { format!("{:.0}", y * 100.0) } else { words::number(y) };
        let rows = self.y.ticks.iter().map(|tick| {
            let place = self.y.position(*tick);
            view! {
                <line class="grid" x1=LEFT x2=RIGHT y1=place y2=place></line>
                <text class="tick" x=LEFT - 6.0 y=place + 4.0 text-anchor="end">{say(*tick)}</text>
            }
        });
        let columns = self.x.ticks.iter().filter(|tick| tick.fract() == 0.0).map(|tick| {
            view! { <text class="tick" x=self.x.position(*tick) y=BOTTOM + 18.0 text-anchor="middle">{words::number(*tick)}</text> }
        });
        view! {
            {rows.collect_view()}
            {columns.collect_view()}
            <text class="axis" x=MIDDLE y=HEIGHT - 6.0 text-anchor="middle">{self.x_name.clone()}</text>
            <text class="axis" x="12" y=CENTRE text-anchor="middle"
                transform=format!("rotate(-90 12 {})", CENTRE)>{self.y_name.clone()}</text>
        }
        .into_any()
    }

    pub(super) fn lines(&self, figure: &ChartFigure) -> AnyView {
        let visible: Vec<&ChartLine> =
            figure.lines.iter().filter(|line| line.level.is_some() || !line.points.is_empty()).collect();
        let ends: Vec<f64> = visible
            .iter()
            .map(|line| self.y.position(line.level.or_else(|| line.points.last().map(|p| p.1)).unwrap_or(0.0)))
            .collect();
        let labels = spread(&ends, 16.0, TOP, BOTTOM);
        visible
            .into_iter()
            .zip(labels)
            .map(|(line, label)| {
                let last = line.points.last().map_or(RIGHT, |point| self.x.position(point.0));
                let places = line.points.iter().map(|(x, y)| (self.x.position(*x), self.y.position(*y)));
                let path = match line.level {
                    Some(level) => format!("M{LEFT} {0}H{RIGHT}", self.y.position(level)),
                    None => build_path(places, figure.steps),
                };
                let dots = (line.points.len() <= 60 && line.level.is_none()).then(|| {
                    line.points
                        .iter()
                        .map(|(x, y)| {
                            view! {
                                <circle class=line.stroke.class() cx=self.x.position(*x) cy=self.y.position(*y) r="2.5">
                                    <title>{format!("{} {}: {} {}", figure.x, words::number(*x), line.label, figure.format_y(*y))}</title>
                                </circle>
                            }
                        })
                        .collect_view()
                });
                let end = line.level.or_else(|| line.points.last().map(|point| point.1)).unwrap_or(0.0);
                let x = if line.level.is_some() { RIGHT } else { last };
                view! {
                    <path class=line.stroke.class() d=path></path>
                    {dots}
                    <text class="label" x=x.max(LEFT) + 7.0 y=label + 4.0>
                        {format!("{} ", line.label)}<tspan class="label-number">{figure.format_y(end)}</tspan>
                    </text>
                }
            })
            .collect_view()
            .into_any()
    }

    /// Renders the marked x.
    pub(super) fn mark(&self, figure: &ChartFigure) -> AnyView {
        let Some((x, what)) = &figure.mark else { return ().into_any() };
        let place = self.x.position(*x);
        // The label is on the side with more room.
        let (anchor, shift) = if place > MIDDLE { ("end", -5.0) } else { ("start", 5.0) };
        view! {
            <line class="mark" x1=place x2=place y1=TOP y2=BOTTOM></line>
            <text class="tick" x=place + shift y=TOP + 10.0 text-anchor=anchor>{what.clone()}</text>
        }
        .into_any()
    }

    pub(super) fn cursor(&self, x: f64) -> AnyView {
        let place = self.x.position(x);
        view! { <line class="cursor" x1=place x2=place y1=TOP y2=BOTTOM></line> }.into_any()
    }
}

/// Returns an SVG path through positions, straight or in steps.
fn build_path(places: impl Iterator<Item = (f64, f64)>, steps: bool) -> String {
    let mut out = String::new();
    for (index, (x, y)) in places.enumerate() {
        let part = match (index, steps) {
            (0, _) => format!("M{x} {y}"),
            (_, true) => format!("H{x}V{y}"),
            (_, false) => format!("L{x} {y}"),
        };
        out.push_str(&part);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{ChartFigure, ChartLine, ChartPlot, LineStroke, build_path};

    fn figure() -> ChartFigure {
        let line = |label: &str, points: &[(f64, f64)]| ChartLine {
            label: label.to_owned(),
            stroke: LineStroke::Solid,
            points: points.to_vec(),
            level: None,
        };
        ChartFigure {
            title: "Accuracy".to_owned(),
            file: "accuracy".to_owned(),
            x: "round".to_owned(),
            y: "%".to_owned(),
            percent: true,
            x_most: 10.0,
            lines: vec![
                line("private", &[(0.0, 0.1), (5.0, 0.3)]),
                line("open, \"all\"", &[(5.0, 0.4)]),
                ChartLine { level: Some(0.2), ..line("public", &[]) },
            ],
            ..ChartFigure::default()
        }
    }

    #[test]
    fn csv_file_has_every_number() {
        assert_eq!(
            figure().csv(),
            "\"round\",\"private\",\"open, \"\"all\"\"\",\"public\"\r\n0,0.1,,0.2\r\n5,0.3,0.4,0.2\r\n"
        );
    }

    #[test]
    fn sentence_names_the_latest_value_of_each_line() {
        let sentence = figure().sentence();
        assert!(sentence.contains("private 30.0 %") && sentence.contains("public 20.0 %"), "{sentence}");
        let empty = ChartFigure { lines: Vec::new(), ..figure() };
        assert_eq!(empty.sentence(), "Accuracy: no measurements yet");
    }

    #[test]
    fn step_curve_keeps_its_value_up_to_the_next_x() {
        let places = || [(1.0, 2.0), (3.0, 4.5)].into_iter();
        assert_eq!(build_path(places(), true), "M1 2H3V4.5");
        assert_eq!(build_path(places(), false), "M1 2L3 4.5");
    }

    #[test]
    fn pointer_reads_the_nearest_round() {
        let plot = ChartPlot::new(&figure());
        assert_eq!(plot.nearest(0.0), Some(0.0));
        assert_eq!(plot.nearest(1000.0), Some(5.0));
        assert_eq!(plot.next_value(None, false), Some(5.0));
        assert_eq!(plot.next_value(Some(5.0), false), Some(0.0));
        assert_eq!(plot.next_value(Some(0.0), false), Some(0.0));
    }
}
