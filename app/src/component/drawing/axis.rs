//! Axes: the position of a number, linear or logarithmic, and the grid and labels.

use leptos::prelude::*;

use super::round_position;
use crate::component::chart::LinearScale;
use crate::words;

/// Width of a drawing in its own units.
pub(super) const WIDTH: f64 = 480.0;
/// Height of a drawing with axes.
pub(super) const HEIGHT: f64 = 250.0;
/// The left end of the plot.
pub(super) const LEFT: f64 = 62.0;
/// The right end of a plot without labels beside it.
pub(super) const RIGHT: f64 = 468.0;
/// Its upper edge.
pub(super) const TOP: f64 = 12.0;
/// Its lower edge.
pub(super) const BOTTOM: f64 = 208.0;

/// A scale with the labels of its ticks.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum DrawingAxis {
    /// Equal steps for equal differences.
    Linear(LinearScale, NumberFormat),
    /// Equal steps for equal ratios.
    Log(LogScale),
}

/// The format of an axis's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NumberFormat {
    /// Plain numbers.
    Plain,
    /// In percent.
    Percent,
    /// Counts: only whole numbers.
    Count,
}

/// A logarithmic scale between powers of ten.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LogScale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl LogScale {
    /// Makes a scale from `low` to `high`, both above 0, onto `from..to`.
    pub(super) fn new(low: f64, high: f64, from: f64, to: f64) -> Self {
        let low = low.max(f64::MIN_POSITIVE).log10();
        Self { low, high: high.log10().max(low + 1.0), from, to }
    }

    fn position(&self, value: f64) -> f64 {
        let part = (value.max(f64::MIN_POSITIVE).log10() - self.low) / (self.high - self.low);
        round_position(self.from + part.clamp(0.0, 1.0) * (self.to - self.from))
    }

    /// Returns every power of ten, or every second or third if there are many.
    fn ticks(&self) -> Vec<f64> {
        let (first, last) = ((self.low - 1e-9).ceil() as i32, (self.high + 1e-9).floor() as i32);
        let step = ((last - first) / 6 + 1).max(1) as usize;
        (first..=last).step_by(step).map(|power| 10_f64.powi(power)).collect()
    }
}

impl DrawingAxis {
    /// Returns the position of `value`.
    pub(super) fn position(&self, value: f64) -> f64 {
        match self {
            Self::Linear(scale, _) => scale.position(value),
            Self::Log(log) => log.position(value),
        }
    }

    /// Returns the positions of the ticks, with their labels.
    fn ticks(&self) -> Vec<(f64, String)> {
        match self {
            Self::Linear(scale, said) => {
                let whole = |tick: &&f64| *said != NumberFormat::Count || tick.fract() == 0.0;
                let say = |tick: f64| match said {
                    NumberFormat::Plain => words::number(tick),
                    NumberFormat::Percent => words::number((tick * 1e6).round() / 1e4),
                    NumberFormat::Count => words::count(tick.max(0.0) as u64),
                };
                scale.ticks.iter().filter(whole).map(|tick| (scale.position(*tick), say(*tick))).collect()
            }
            Self::Log(log) => log.ticks().into_iter().map(|tick| (log.position(tick), format_power(tick))).collect(),
        }
    }
}

/// Formats a power of ten: in digits up to 10,000.
fn format_power(tick: f64) -> String {
    if (1.0..=10_000.0).contains(&tick) { words::count(tick as u64) } else { words::delta(tick) }
}

/// Renders the grid and the labels of both axes, with their names.
pub(super) fn render_grid(x: &DrawingAxis, y: &DrawingAxis, (x_name, y_name): (&str, &str), right: f64) -> AnyView {
    let columns = x.ticks().into_iter().map(|(at, label)| {
        view! {
            <line class="grid" x1=at x2=at y1=BOTTOM y2=BOTTOM + 4.0></line>
            <text class="tick" x=at y=BOTTOM + 18.0 text-anchor="middle">{label}</text>
        }
    });
    view! {
        {render_rows(y, y_name, right)}
        {columns.collect_view()}
        <text class="axis" x=f64::midpoint(LEFT, right) y=HEIGHT - 6.0 text-anchor="middle">{x_name.to_owned()}</text>
    }
    .into_any()
}

/// Renders the grid and the labels of the y axis alone, with its name.
pub(super) fn render_rows(y: &DrawingAxis, name: &str, right: f64) -> AnyView {
    let rows = y.ticks().into_iter().map(|(at, label)| {
        view! {
            <line class="grid" x1=LEFT x2=right y1=at y2=at></line>
            <text class="tick" x=LEFT - 6.0 y=at + 4.0 text-anchor="end">{label}</text>
        }
    });
    let middle = f64::midpoint(TOP, BOTTOM);
    view! {
        {rows.collect_view()}
        <text class="axis" x="12" y=middle text-anchor="middle" transform=format!("rotate(-90 12 {middle})")>{name.to_owned()}</text>
    }
    .into_any()
}

/// Renders a marked number on the x axis, with its label on the side with more room.
pub(super) fn render_mark(x: &DrawingAxis, value: f64, what: &str, line: usize) -> AnyView {
    let position = x.position(value);
    let (anchor, shift) = if position > f64::midpoint(LEFT, RIGHT) { ("end", -5.0) } else { ("start", 5.0) };
    view! {
        <line class="mark" x1=position x2=position y1=TOP y2=BOTTOM></line>
        <text class="label" x=position + shift y=TOP + 10.0 + 15.0 * line as f64 text-anchor=anchor>{what.to_owned()}</text>
    }
    .into_any()
}

#[cfg(test)]
mod tests {
    use super::{DrawingAxis, LogScale, NumberFormat, format_power};
    use crate::component::chart::LinearScale;

    #[test]
    fn log_axis_spaces_powers_equally() {
        let log = LogScale::new(1.0, 1000.0, 0.0, 300.0);
        let places: Vec<_> = [1.0, 10.0, 100.0, 1000.0].map(|value| log.position(value).to_string()).into();
        assert_eq!(places, ["0", "100", "200", "300"]);
        assert_eq!(log.ticks().iter().map(ToString::to_string).collect::<Vec<_>>(), ["1", "10", "100", "1000"]);
        assert!(log.position(0.0) >= 0.0, "nothing lies outside");
    }

    #[test]
    fn log_axis_of_one_number_has_ticks() {
        let log = LogScale::new(1.0, 1.0, 0.0, 100.0);
        assert!(log.position(1.0).is_finite() && !log.ticks().is_empty());
    }

    #[test]
    fn log_axis_skips_powers_of_a_wide_range() {
        assert!(LogScale::new(1.0, 1e15, 0.0, 100.0).ticks().len() <= 8);
        assert_eq!((format_power(1000.0), format_power(1e7)), ("1,000".to_owned(), "10⁷".to_owned()));
    }

    #[test]
    fn count_axis_has_whole_ticks() {
        let axis = DrawingAxis::Linear(LinearScale::new(0.0, 2.0, 4, 0.0, 100.0), NumberFormat::Count);
        let labels: Vec<_> = axis.ticks().into_iter().map(|(_, label)| label).collect();
        assert_eq!(labels, ["0", "1", "2"]);
    }
}
