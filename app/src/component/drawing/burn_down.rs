//! A budget over time. A step line over a solid area is the remainder after each event. The hatched area above it is
//! the reserved part, up to the remainder if every reservation were returned. The limit is a line of its own.

use leptos::prelude::*;
use std::fmt::Write as _;
use time::OffsetDateTime;
use undertone_api::budget::EntryKind;
use undertone_api::id::JobId;
use undertone_api::ledger::HistoryPoint;

use super::axis::{BOTTOM, DrawingAxis, HEIGHT, LEFT, NumberFormat, RIGHT, TOP, WIDTH, render_rows};
use super::time::TimeAxis;
use super::{DrawingTable, StaticDrawing, TableCell, round_position, to_markup};
use crate::component::chart::{LinearScale, spread};
use crate::words;

/// Room for the labels at the right end.
const NAMES: f64 = 104.0;
/// Distance of the hatching's lines.
const HATCH: f64 = 4.0;

/// A drawing of a budget over time.
pub(crate) struct BurnDown {
    /// Its title.
    pub(crate) title: String,
    /// Name of its files, without extension.
    pub(crate) file: String,
    /// A line under the title.
    pub(crate) note: String,
    /// The events, oldest first; at least one point.
    pub(crate) points: Vec<HistoryPoint>,
    /// The end of the drawing.
    pub(crate) now: OffsetDateTime,
}

impl BurnDown {
    /// Draws the budget; `title` names jobs. `None` without a point.
    pub(crate) fn draw(self, title: &impl Fn(JobId) -> String) -> Option<StaticDrawing> {
        let (first, last) = (*self.points.first()?, *self.points.last()?);
        let right = RIGHT - NAMES;
        let most = self.points.iter().map(|point| point.limit).fold(0.0, f64::max);
        let x = TimeAxis::new(first.at, self.now.max(last.at), LEFT, right);
        let scale = LinearScale::new(0.0, if most > 0.0 { most } else { 1.0 }, 4, BOTTOM, TOP);
        let y = DrawingAxis::Linear(scale, NumberFormat::Plain);
        let back = |point: &HistoryPoint| (point.limit - point.spent).max(0.0);
        let (left, upper, limit) = (
            self.path(&x, |point| y.position(point.left)),
            self.path(&x, |point| y.position(back(point))),
            self.path(&x, |point| y.position(point.limit)),
        );
        let ground = format!("{left}V{BOTTOM}H{LEFT}Z");
        let hatching = self.hatching(&x, &y, back);
        let changes = self.changes().into_iter().map(|point| {
            let position = x.position(point.at);
            let anchor = if position > f64::midpoint(LEFT, right) { "end" } else { "start" };
            let shift = if anchor == "end" { -5.0 } else { 5.0 };
            view! {
                <line class="mark" x1=position x2=position y1=TOP y2=BOTTOM></line>
                <text class="label" x=position + shift y=BOTTOM - 6.0 text-anchor=anchor>{format!("limit {}", words::limit(point.limit))}</text>
            }
        });
        let ends = [last.left, back(&last), last.limit];
        let labels = [
            Some(format!("left {}", words::epsilon_left(last.left))),
            (last.committed > last.spent).then(|| format!("reserved {}", words::epsilon(last.committed - last.spent))),
            Some(format!("limit {}", words::limit(last.limit))),
        ];
        let entries: Vec<(f64, String)> =
            ends.into_iter().zip(labels).filter_map(|(value, name)| Some((y.position(value), name?))).collect();
        let places =
            spread(&entries.iter().map(|(position, _)| *position).collect::<Vec<_>>(), 16.0, TOP + 4.0, BOTTOM);
        let names = entries.iter().zip(places).map(|((_, name), position)| {
            view! { <text class="label" x=right + 8.0 y=round_position(position + 4.0)>{name.clone()}</text> }
        });
        let picture = to_markup(view! {
            {render_rows(&y, "ε left", right)}
            {x.axis(4, BOTTOM)}
            <path class="ground" d=ground></path>
            <path class="hatching" d=hatching></path>
            <path class="line" d=left></path>
            <path class="line dotted" d=upper></path>
            <path class="limit" d=limit></path>
            {changes.collect_view()}
            {names.collect_view()}
        });
        Some(StaticDrawing {
            sentence: self.sentence(&first, &last),
            table: self.table(title),
            title: self.title,
            file: self.file,
            note: self.note,
            size: (WIDTH, HEIGHT),
            picture,
        })
    }

    /// Returns a step line: each value holds until the next.
    fn path(&self, x: &TimeAxis, y: impl Fn(&HistoryPoint) -> f64) -> String {
        let mut path = String::new();
        for point in &self.points {
            let (across, down) = (x.position(point.at), y(point));
            let _ = if path.is_empty() { write!(path, "M{across} {down}") } else { write!(path, "H{across}V{down}") };
        }
        format!("{path}H{}", x.position(self.now))
    }

    /// Returns vertical lines over the reserved part: a hatching without a pattern definition.
    fn hatching(&self, x: &TimeAxis, y: &DrawingAxis, back: impl Fn(&HistoryPoint) -> f64) -> String {
        let ends = self.points.iter().skip(1).map(|point| point.at).chain([self.now]);
        let mut path = String::new();
        for (point, end) in self.points.iter().zip(ends) {
            let (top, bottom) = (y.position(back(point)), y.position(point.left));
            if bottom - top < 0.5 {
                continue;
            }
            let (from, to) = (x.position(point.at), x.position(end));
            let mut position = (from / HATCH).ceil() * HATCH;
            while position < to {
                let _ = write!(path, "M{} {top}V{bottom}", round_position(position));
                position += HATCH;
            }
        }
        path
    }

    /// Returns the points with a changed limit.
    fn changes(&self) -> Vec<HistoryPoint> {
        let other = |pair: &[HistoryPoint]| (pair[0].limit - pair[1].limit).abs() > f64::EPSILON;
        self.points.windows(2).filter(|pair| other(pair)).map(|pair| pair[1]).collect()
    }

    fn sentence(&self, first: &HistoryPoint, last: &HistoryPoint) -> String {
        let changes = match self.changes().len() {
            0 => String::new(),
            n => format!(" The limit was changed {}.", words::plural(n as u64, "time")),
        };
        format!(
            "{}: of ε {} at δ {}, {} is spent, {} is reserved and {} is left. On {} it began with {}.{changes}",
            self.title,
            words::limit(last.limit),
            words::delta(last.delta),
            words::epsilon(last.spent),
            words::epsilon(last.committed - last.spent),
            words::epsilon_left(last.left),
            words::exact(first.at),
            words::limit(first.limit),
        )
    }

    fn table(&self, title: &impl Fn(JobId) -> String) -> DrawingTable {
        let head = ["when", "what", "job", "limit ε", "spent ε", "reserved ε", "left ε"].map(str::to_owned).into();
        let rows = self.points.iter().map(|point| {
            let event = match point.kind {
                None => "limit set",
                Some(EntryKind::Reserve) => "reserved",
                Some(EntryKind::Commit) => "paid",
                Some(EntryKind::Settle) => "given back",
            };
            vec![
                TableCell::text(words::machine(point.at)),
                TableCell::text(event),
                TableCell::text(point.job.map(title).unwrap_or_default()),
                TableCell::number(words::limit(point.limit), point.limit),
                TableCell::number(words::epsilon(point.spent), point.spent),
                TableCell::number(words::epsilon(point.committed - point.spent), point.committed - point.spent),
                TableCell::number(words::epsilon_left(point.left), point.left),
            ]
        });
        DrawingTable { head, rows: rows.collect() }
    }
}

#[cfg(test)]
mod tests {
    use time::Duration;
    use time::macros::datetime;
    use undertone_api::budget::EntryKind;
    use undertone_api::ledger::HistoryPoint;

    use super::BurnDown;

    fn burn(points: Vec<HistoryPoint>) -> BurnDown {
        BurnDown {
            title: "ward-a".to_owned(),
            file: "budget".to_owned(),
            note: String::new(),
            points,
            now: datetime!(2026-11-20 18:00 UTC),
        }
    }

    fn point(days: i64, kind: Option<EntryKind>, limit: f64, spent: f64, committed: f64) -> HistoryPoint {
        let moment = datetime!(2026-11-10 18:00 UTC) + Duration::days(days);
        HistoryPoint { at: moment, kind, job: None, limit, delta: 1e-6, spent, committed, left: limit - committed }
    }

    #[test]
    fn burn_down_hatches_reservations_and_marks_limits() {
        let points = vec![
            point(0, None, 6.0, 0.0, 0.0),
            point(1, Some(EntryKind::Reserve), 6.0, 0.0, 3.0),
            point(5, None, 8.0, 0.0, 3.0),
        ];
        let drawing = burn(points).draw(&|job| job.to_string()).expect("points");
        assert!(drawing.picture.contains("d=\"M96 61V134.5M100 61"), "{}", drawing.picture);
        assert!(drawing.picture.contains("class=\"hatching\""), "{}", drawing.picture);
        assert!(drawing.picture.contains("limit 8.00") && drawing.picture.contains("left 5.00"), "{}", drawing.picture);
        assert!(drawing.sentence.contains("3.00 is reserved and 5.00 is left"), "{}", drawing.sentence);
        assert_eq!(drawing.table.rows.len(), 3);
        assert!(!drawing.picture.contains("NaN") && !drawing.picture.contains("url("));
    }

    #[test]
    fn burn_down_without_events_is_not_drawn() {
        assert!(burn(Vec::new()).draw(&|job| job.to_string()).is_none());
        let drawing = burn(vec![point(0, None, 0.0, 0.0, 0.0)]).draw(&|job| job.to_string()).expect("a point");
        assert!(!drawing.picture.contains("NaN") && !drawing.picture.contains("inf"), "{}", drawing.picture);
    }
}
