//! Lines with their deviation: each point has a whisker of one standard deviation to both sides. Lines differ by stroke
//! and by the shape of their points, and have labels at their ends.

use leptos::prelude::*;

use super::axis::{BOTTOM, DrawingAxis, HEIGHT, LEFT, NumberFormat, RIGHT, TOP, WIDTH, render_grid, render_mark};
use super::{DrawingTable, StaticDrawing, TableCell, round_position, shorten, to_markup};
use crate::component::chart::{LinearScale, spread};
use crate::words;

/// Room for the names at the ends of the lines.
const NAMES: f64 = 144.0;
/// The most characters of a name with a number there, also in a phone's larger type.
const NAME: usize = 14;
/// The strokes of the lines, in turn.
const STROKES: [&str; 3] = ["solid", "dashed", "dashdot"];

/// A drawing of accuracies.
pub(crate) struct LineDrawing {
    /// Its title.
    pub(crate) title: String,
    /// Name of its files, without extension.
    pub(crate) file: String,
    /// A line under the title.
    pub(crate) note: String,
    /// The unit of x.
    pub(crate) x: String,
    /// The whole of the proportion y, in percent.
    pub(crate) y: String,
    /// The lines.
    pub(crate) curves: Vec<AccuracyCurve>,
    /// The lowest and highest y of the axis: drawings beside each other share it.
    pub(crate) span: (f64, f64),
    /// A marked x, with its label.
    pub(crate) mark: Option<(f64, String)>,
}

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AccuracyCurve {
    /// Its name.
    pub(crate) name: String,
    /// Whether the others are compared with it.
    pub(crate) is_baseline: bool,
    /// x, y in 0 to 1, and the standard deviation of y: 0 if there is none.
    pub(crate) points: Vec<(f64, f64, f64)>,
}

impl AccuracyCurve {
    /// Returns the lowest and highest end of its whiskers.
    pub(crate) fn span(&self) -> (f64, f64) {
        self.points.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), (_, y, deviation)| {
            (low.min((y - deviation).max(0.0)), high.max((y + deviation).min(1.0)))
        })
    }
}

impl LineDrawing {
    /// Draws the lines.
    pub(crate) fn draw(self) -> StaticDrawing {
        let right = RIGHT - NAMES;
        let most = self.curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.0)).fold(1.0, f64::max);
        let most = self.mark.as_ref().map_or(most, |(x, _)| most.max(*x));
        let (low, high) = if self.span.0.is_finite() { self.span } else { (0.0, 1.0) };
        let x = DrawingAxis::Linear(LinearScale::up_to(most, 4, LEFT, right), NumberFormat::Count);
        let y = DrawingAxis::Linear(LinearScale::new(low, high, 4, BOTTOM, TOP), NumberFormat::Percent);
        let visible: Vec<&AccuracyCurve> = self.curves.iter().filter(|curve| !curve.points.is_empty()).collect();
        let ends: Vec<f64> =
            visible.iter().map(|curve| y.position(curve.points.last().map_or(0.0, |point| point.1))).collect();
        let places = spread(&ends, 16.0, TOP + 4.0, BOTTOM);
        let count = visible.len();
        // All names are below each other, beside the line that reaches farthest.
        let far = visible
            .iter()
            .filter_map(|curve| curve.points.last())
            .map(|point| x.position(point.0))
            .fold(LEFT, f64::max);
        let names = far + 9.0 + 1.5 * count as f64;
        let curves = visible.iter().zip(places).enumerate().map(|(index, (curve, at))| {
            // Whiskers of different lines are shifted so that they do not overlap.
            let aside = (index as f64 - (count as f64 - 1.0) / 2.0) * 3.0;
            render_curve(curve, index, (&x, &y), aside, (names, at))
        });
        let mark = self.mark.as_ref().map(|(at, what)| render_mark(&x, *at, what, 0));
        let picture = to_markup(view! {
            {render_grid(&x, &y, (&self.x, &self.y), right)}
            {mark}
            {curves.collect_view()}
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

    fn sentence(&self) -> String {
        let ends: Vec<String> = self
            .curves
            .iter()
            .filter_map(|curve| {
                let (x, y, deviation) = curve.points.last()?;
                let spread =
                    if *deviation > 0.0 { format!(" ± {}", words::percent(*deviation)) } else { String::new() };
                Some(format!("{} {}{spread} at {}", curve.name, words::percent(*y), words::number(*x)))
            })
            .collect();
        if ends.is_empty() {
            return format!("{}: no measurements", self.title);
        }
        format!("{}, last point of each line: {}.", self.title, ends.join("; "))
    }

    fn table(&self) -> DrawingTable {
        let deviates = self.curves.iter().any(|curve| curve.points.iter().any(|point| point.2 > 0.0));
        let mut head = vec!["line".to_owned(), self.x.clone(), "accuracy".to_owned()];
        if deviates {
            head.push("standard deviation".to_owned());
        }
        let rows = self.curves.iter().flat_map(|curve| {
            curve.points.iter().map(move |(x, y, deviation)| {
                let mut row = vec![
                    TableCell::text(curve.name.clone()),
                    TableCell::number(words::number(*x), *x),
                    TableCell::number(words::percent(*y), *y),
                ];
                if deviates {
                    row.push(TableCell::number(words::percent(*deviation), *deviation));
                }
                row
            })
        });
        DrawingTable { head, rows: rows.collect() }
    }
}

fn render_curve(
    curve: &AccuracyCurve,
    index: usize,
    (x, y): (&DrawingAxis, &DrawingAxis),
    aside: f64,
    names: (f64, f64),
) -> AnyView {
    let stroke = if curve.is_baseline { "dotted" } else { STROKES[index % STROKES.len()] };
    let locate = |(a, b, _): &(f64, f64, f64)| (round_position(x.position(*a) + aside), y.position(*b));
    let places: Vec<String> = curve.points.iter().map(locate).map(|(a, b)| format!("{a} {b}")).collect();
    let path = if places.is_empty() { String::new() } else { format!("M{}", places.join("L")) };
    let whiskers = curve.points.iter().filter(|point| point.2 > 0.0).map(|point| {
        let (a, _) = locate(point);
        let (low, high) = (y.position((point.1 - point.2).max(0.0)), y.position((point.1 + point.2).min(1.0)));
        let class = format!("whisker {stroke}");
        view! {
            <line class=class.clone() x1=a x2=a y1=low y2=high></line>
            <line class=class.clone() x1=a - 3.0 x2=a + 3.0 y1=low y2=low></line>
            <line class=class x1=a - 3.0 x2=a + 3.0 y1=high y2=high></line>
        }
    });
    let dots = (curve.points.len() <= 60).then(|| {
        let dot = |point: &(f64, f64, f64)| {
            let (a, b) = locate(point);
            let label = format!("{}, {}: {}", curve.name, words::number(point.0), words::percent(point.1));
            view! { <path class=format!("dot {stroke}") d=point_shape(index, a, b)><title>{label}</title></path> }
        };
        curve.points.iter().map(dot).collect_view()
    });
    let end = curve.points.last().map_or(0.0, |point| point.1);
    view! {
        <path class=format!("line {stroke}") d=path></path>
        {whiskers.collect_view()}
        {dots}
        <text class="label" x=round_position(names.0) y=names.1 + 4.0>
            {format!("{} ", shorten(&curve.name, NAME))}<tspan class="label-number">{words::percent(end)}</tspan>
        </text>
    }
    .into_any()
}

/// Returns a circle, a square, a diamond or a triangle of about the same area, as a path around a position.
fn point_shape(index: usize, x: f64, y: f64) -> String {
    match index % 4 {
        0 => format!("M{} {y}a3.2 3.2 0 1 0 6.4 0a3.2 3.2 0 1 0 -6.4 0z", round_position(x - 3.2)),
        1 => format!("M{} {}h5.6v5.6h-5.6z", round_position(x - 2.8), round_position(y - 2.8)),
        2 => format!("M{x} {}l4 4l-4 4l-4 -4z", round_position(y - 4.0)),
        _ => format!("M{x} {}l4 7h-8z", round_position(y - 4.4)),
    }
}

#[cfg(test)]
mod tests {
    use super::{AccuracyCurve, LineDrawing};

    fn lines() -> LineDrawing {
        let curve = |name: &str, deviation: f64| AccuracyCurve {
            name: name.to_owned(),
            is_baseline: name == "baseline",
            points: vec![(0.0, 0.5, deviation), (100.0, 0.75, deviation)],
        };
        let curves = vec![curve("k 5", 0.02), curve("baseline", 0.0)];
        LineDrawing {
            title: "β 0.5".to_owned(),
            file: "budget".to_owned(),
            note: String::new(),
            x: "answers".to_owned(),
            y: "right, %".to_owned(),
            span: (0.4, 0.8),
            curves,
            mark: Some((120.0, "asked".to_owned())),
        }
    }

    #[test]
    fn deviation_has_whiskers() {
        let drawing = lines().draw();
        assert_eq!(drawing.picture.matches("whisker solid").count(), 6, "{}", drawing.picture);
        assert!(!drawing.picture.contains("whisker dotted"));
        assert!(drawing.sentence.contains("k 5 75.0 % ± 2.0 % at 100"), "{}", drawing.sentence);
        assert_eq!(drawing.table.head.len(), 4);
        assert_eq!(drawing.table.rows.len(), 4);
    }

    #[test]
    fn lines_differ_without_colour() {
        let picture = lines().draw().picture;
        assert!(picture.contains("line solid") && picture.contains("line dotted"));
        assert!(picture.contains("a3.2") && picture.contains("h5.6"), "points differ in shape: {picture}");
    }

    #[test]
    fn long_name_is_short_in_drawing_and_whole_in_table() {
        let mut lines = lines();
        lines.curves[0].name = "what callers of last winter wanted".to_owned();
        let drawing = lines.draw();
        assert!(
            drawing.picture.contains("what callers … ") && !drawing.picture.contains("winter wanted <"),
            "{}",
            drawing.picture
        );
        assert!(drawing.sentence.contains("last winter wanted"), "{}", drawing.sentence);
    }

    #[test]
    fn empty_lines_draw_axes_only() {
        let drawing =
            LineDrawing { curves: Vec::new(), span: (f64::INFINITY, f64::NEG_INFINITY), mark: None, ..lines() }.draw();
        assert!(
            drawing.sentence.ends_with("no measurements") && !drawing.picture.contains("NaN"),
            "{}",
            drawing.picture
        );
    }
}
