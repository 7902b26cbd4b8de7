//! A time axis: the position of a moment, and the moments with ticks.

use leptos::prelude::*;
use time::{Duration, OffsetDateTime, UtcOffset};

use super::round_position;

/// Distances of ticks, in seconds: from a second to a year.
const STEPS: [i64; 19] = [
    1, 5, 15, 60, 300, 900, 3600, 10_800, 21_600, 43_200, 86_400, 172_800, 259_200, 604_800, 1_209_600, 2_592_000,
    7_776_000, 15_552_000, 31_536_000,
];
const DAY: i64 = 86_400;
/// The months in tick labels.
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A span of time along a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TimeAxis {
    begin: OffsetDateTime,
    seconds: f64,
    from: f64,
    to: f64,
}

impl TimeAxis {
    /// Makes an axis from one moment to another, at least a second, onto `from..to`.
    pub(super) fn new(begin: OffsetDateTime, end: OffsetDateTime, from: f64, to: f64) -> Self {
        Self { begin: begin.to_offset(UtcOffset::UTC), seconds: (end - begin).as_seconds_f64().max(1.0), from, to }
    }

    /// Returns the position of a moment, clamped to the ends.
    pub(super) fn position(&self, moment: OffsetDateTime) -> f64 {
        let part = ((moment - self.begin).as_seconds_f64() / self.seconds).clamp(0.0, 1.0);
        round_position(self.from + part * (self.to - self.from))
    }

    /// Returns at most `most` moments at round distances, with their labels.
    pub(super) fn ticks(&self, most: usize) -> Vec<(f64, String)> {
        let enough = |step: &&i64| self.seconds / **step as f64 <= most as f64;
        let step = STEPS.iter().find(enough).copied().unwrap_or_else(|| {
            let years = (self.seconds / (31_536_000.0 * most.max(1) as f64)).ceil();
            years as i64 * 31_536_000
        });
        let begin = self.begin.unix_timestamp();
        let first = begin.div_euclid(step) * step + if begin % step == 0 { 0 } else { step };
        let mut ticks = Vec::new();
        let mut moment = self.begin + Duration::seconds(first - begin);
        while (moment - self.begin).as_seconds_f64() <= self.seconds {
            ticks.push((self.position(moment), format_tick(moment, step, self.seconds)));
            moment += Duration::seconds(step);
        }
        ticks
    }

    /// Renders the ticks and their labels below a plot that ends at `bottom`, with the axis's name.
    pub(super) fn axis(&self, most: usize, bottom: f64) -> AnyView {
        let ticks = self.ticks(most).into_iter().map(|(at, label)| {
            view! {
                <line class="grid" x1=at x2=at y1=bottom y2=bottom + 4.0></line>
                <text class="tick" x=at y=bottom + 18.0 text-anchor="middle">{label}</text>
            }
        });
        let middle = f64::midpoint(self.from, self.to);
        view! {
            {ticks.collect_view()}
            <text class="axis" x=middle y=bottom + 36.0 text-anchor="middle">{self.name()}</text>
        }
        .into_any()
    }

    /// Returns the axis's name, with the year or day that its labels leave out.
    fn name(&self) -> String {
        let (day, year) = (self.begin.day(), self.begin.year());
        let month = MONTHS[usize::from(u8::from(self.begin.month())) - 1];
        if self.seconds <= DAY as f64 { format!("{day} {month} {year}, UTC") } else { format!("{year}, UTC") }
    }
}

/// Formats a tick in as few words as distinguish it from its neighbours.
fn format_tick(moment: OffsetDateTime, step: i64, span: f64) -> String {
    let moment = moment.to_offset(UtcOffset::UTC);
    let month = MONTHS[usize::from(u8::from(moment.month())) - 1];
    if step >= 15_552_000 {
        return format!("{month} {}", moment.year());
    }
    if step >= DAY {
        return format!("{} {month}", moment.day());
    }
    let (hour, minute) = (moment.hour(), moment.minute());
    if span > DAY as f64 {
        return format!("{} {month} {hour:02}:{minute:02}", moment.day());
    }
    if step < 60 { format!("{hour:02}:{minute:02}:{:02}", moment.second()) } else { format!("{hour:02}:{minute:02}") }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::TimeAxis;

    #[test]
    fn ticks_name_days_and_clock_times() {
        let days = TimeAxis::new(datetime!(2026-11-11 18:00 UTC), datetime!(2026-11-20 18:00 UTC), 0.0, 900.0);
        let labels: Vec<_> = days.ticks(5).into_iter().map(|(_, label)| label).collect();
        assert_eq!(labels, ["13 Nov", "15 Nov", "17 Nov", "19 Nov"]);
        let minutes = TimeAxis::new(datetime!(2026-11-20 18:00 UTC), datetime!(2026-11-20 18:20 UTC), 0.0, 400.0);
        let ticks = minutes.ticks(5);
        assert_eq!(ticks[1], (100.0, "18:05".to_owned()));
    }

    #[test]
    fn any_span_has_ticks() {
        let moment = datetime!(2026-11-20 18:00 UTC);
        assert!(TimeAxis::new(moment, moment, 0.0, 100.0).position(moment).is_finite());
        let years = TimeAxis::new(datetime!(1990-01-01 0:00 UTC), datetime!(2090-01-01 0:00 UTC), 0.0, 100.0);
        assert!((1..=6).contains(&years.ticks(5).len()));
    }
}
