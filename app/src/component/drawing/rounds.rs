//! Rounds by participant: a line for each party, and in each round a bar from its opening to the acceptance of the
//! party's result. Late and missing results differ by pattern and mark, not by colour alone.

use leptos::prelude::*;
use time::OffsetDateTime;
use undertone_api::id::DatasetId;
use undertone_api::job::{RoundSubmission, RoundView};

use super::axis::TOP;
use super::time::TimeAxis;
use super::{DrawingTable, StaticDrawing, TableCell, round_position, shorten, to_markup};
use crate::words;

/// The left end of the plot; the names are before it.
const FROM: f64 = 150.0;
/// Width of the drawing.
const WIDE: f64 = 760.0;
/// The most characters of a name.
const NAME: usize = 18;
/// Distance of the lines.
const ROW: f64 = 32.0;

/// A drawing of rounds.
pub(crate) struct RoundTimeline {
    /// Its title.
    pub(crate) title: String,
    /// Name of its files, without extension.
    pub(crate) file: String,
    /// A line under the title.
    pub(crate) note: String,
    /// The rounds.
    pub(crate) rounds: Vec<RoundView>,
    /// The parties, in their order, with their names.
    pub(crate) parties: Vec<(DatasetId, String)>,
    /// The end of open rounds in the drawing.
    pub(crate) now: OffsetDateTime,
}

/// The result of a party in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RoundDelivery {
    InTime,
    Late,
    Awaited,
    Missing,
}

impl RoundDelivery {
    fn classify(round: &RoundView, submission: &RoundSubmission) -> Self {
        match (submission.accepted_at, submission.late, round.closed_at) {
            (Some(_), false, _) => Self::InTime,
            (Some(_), true, _) => Self::Late,
            (None, _, Some(_)) => Self::Missing,
            (None, _, None) => Self::Awaited,
        }
    }

    const fn label(self) -> &'static str {
        match self {
            Self::InTime => "in time",
            Self::Late => "late",
            Self::Awaited => "awaited",
            Self::Missing => "missing",
        }
    }
}

impl RoundTimeline {
    /// Draws the rounds; `None` if no round has opened.
    pub(crate) fn draw(mut self) -> Option<StaticDrawing> {
        self.rounds.sort_by_key(|round| round.opened_at);
        let begin = self.rounds.first()?.opened_at;
        let end = self.rounds.iter().map(|round| self.end(round)).max()?;
        let x = TimeAxis::new(begin, end, FROM, WIDE - 16.0);
        let top = TOP + 14.0;
        let bottom = top + ROW * self.parties.len() as f64;
        let mut last = f64::NEG_INFINITY;
        let openings = self.rounds.iter().map(|round| {
            let position = x.position(round.opened_at);
            // Overlapping numbers are only in the table.
            let is_numbered = position - last > 26.0;
            if is_numbered {
                last = position;
            }
            view! {
                <line class="grid" x1=position x2=position y1=top y2=bottom></line>
                {is_numbered.then(|| view! { <text class="tick" x=position y=TOP + 6.0 text-anchor="start">{format!("{}", round.round)}</text> })}
            }
        });
        let openings = openings.collect_view();
        let lines = self.parties.iter().enumerate().map(|(index, (dataset, name))| {
            let middle = round_position(top + ROW * (index as f64 + 0.5));
            let bars = self.rounds.iter().filter_map(|round| {
                let submission = round.submissions.iter().find(|submission| submission.dataset == *dataset)?;
                Some(self.bar(round, submission, &x, middle))
            });
            let bars = bars.collect_view();
            view! {
                <text class="label" x=FROM - 10.0 y=middle + 4.0 text-anchor="end">{shorten(name, NAME)}</text>
                {bars}
            }
        });
        let lines = lines.collect_view();
        let picture = to_markup(view! {
            <text class="axis" x=FROM - 10.0 y=TOP + 6.0 text-anchor="end">"round"</text>
            {openings}
            {lines}
            {x.axis(7, bottom)}
        });
        Some(StaticDrawing {
            sentence: self.sentence(),
            table: self.table(),
            title: self.title,
            file: self.file,
            note: self.note,
            size: (WIDE, bottom + 44.0),
            picture,
        })
    }

    fn end(&self, round: &RoundView) -> OffsetDateTime {
        let latest = round.submissions.iter().filter_map(|submission| submission.accepted_at).max();
        round.closed_at.unwrap_or(self.now).max(latest.unwrap_or(round.opened_at))
    }

    fn bar(&self, round: &RoundView, submission: &RoundSubmission, x: &TimeAxis, middle: f64) -> AnyView {
        let delivery = RoundDelivery::classify(round, submission);
        let from = x.position(round.opened_at);
        let to = x.position(submission.accepted_at.unwrap_or_else(|| self.end(round)));
        let width = round_position((to - from - 1.0).max(1.5));
        let label = format!("round {}: {}", round.round, delivery.label());
        match delivery {
            RoundDelivery::InTime => {
                view! { <rect class="bar" x=from y=middle - 6.0 width=width height="12"><title>{label}</title></rect> }
                    .into_any()
            }
            RoundDelivery::Late => view! {
                <rect class="late" x=from y=middle - 6.0 width=width height="12"><title>{label}</title></rect>
                <text class="label" x=to y=middle - 8.0 text-anchor="middle">"late"</text>
            }
            .into_any(),
            RoundDelivery::Awaited => {
                view! { <rect class="held" x=from y=middle - 6.0 width=width height="12"><title>{label}</title></rect> }
                    .into_any()
            }
            RoundDelivery::Missing => {
                let cross = format!("M{} {}l8 8m0 -8l-8 8", round_position(to - 8.0), middle - 4.0);
                view! {
                    <line class="mark" x1=from x2=to y1=middle y2=middle><title>{label}</title></line>
                    <path class="cross" d=cross></path>
                }
                .into_any()
            }
        }
    }

    fn sentence(&self) -> String {
        let parties = self.parties.iter().map(|(dataset, name)| {
            let all = self.rounds.iter().filter_map(|round| {
                let own = round.submissions.iter().find(|submission| submission.dataset == *dataset)?;
                Some(RoundDelivery::classify(round, own))
            });
            let all: Vec<RoundDelivery> = all.collect();
            let count = |outcome: RoundDelivery| all.iter().filter(|done| **done == outcome).count();
            let mut counts = vec![format!("{} in time", count(RoundDelivery::InTime))];
            for done in [RoundDelivery::Late, RoundDelivery::Missing, RoundDelivery::Awaited] {
                if count(done) > 0 {
                    counts.push(format!("{} {}", count(done), done.label()));
                }
            }
            format!("{name} {}", counts.join(", "))
        });
        let parties: Vec<String> = parties.collect();
        format!("{}, {}: {}.", self.title, words::plural(self.rounds.len() as u64, "round"), parties.join("; "))
    }

    fn table(&self) -> DrawingTable {
        let head = ["series", "round", "party", "opened", "taken", "seconds", "how"].map(str::to_owned).into();
        let mut rows = Vec::new();
        for round in &self.rounds {
            for (dataset, name) in &self.parties {
                let Some(own) = round.submissions.iter().find(|submission| submission.dataset == *dataset) else {
                    continue;
                };
                let seconds = own.accepted_at.map(|at| (at - round.opened_at).as_seconds_f64());
                rows.push(vec![
                    TableCell::text(round.series.clone()),
                    TableCell::count(round.round.into()),
                    TableCell::text(name.clone()),
                    TableCell::text(words::machine(round.opened_at)),
                    TableCell::text(own.accepted_at.map(words::machine).unwrap_or_default()),
                    TableCell::maybe(|seconds| format!("{seconds:.1}"), seconds),
                    TableCell::text(RoundDelivery::classify(round, own).label()),
                ]);
            }
        }
        DrawingTable { head, rows }
    }
}

#[cfg(test)]
mod tests {
    use time::Duration;
    use time::macros::datetime;
    use undertone_api::id::DatasetId;
    use undertone_api::job::{RoundSubmission, RoundView};
    use uuid::Uuid;

    use super::RoundTimeline;

    #[test]
    fn deliveries_differ_without_colour() {
        let opened_at = datetime!(2026-11-20 18:00 UTC);
        let id = |index| DatasetId(Uuid::from_u128(index));
        let submission = |index, seconds: Option<i64>, late| RoundSubmission {
            dataset: id(index),
            accepted_at: seconds.map(|seconds| opened_at + Duration::seconds(seconds)),
            late,
        };
        let round = RoundView {
            series: "private".to_owned(),
            round: 3,
            opened_at,
            deadline: opened_at + Duration::seconds(60),
            closed_at: Some(opened_at + Duration::seconds(90)),
            submissions: vec![submission(1, Some(20), false), submission(2, Some(80), true), submission(3, None, true)],
        };
        let rounds = RoundTimeline {
            title: "Rounds".to_owned(),
            file: "rounds".to_owned(),
            note: String::new(),
            rounds: vec![round],
            parties: ["a", "b", "c"].into_iter().zip(1..).map(|(name, index)| (id(index), name.to_owned())).collect(),
            now: opened_at,
        };
        let drawing = rounds.draw().expect("a round");
        for class in ["class=\"bar\"", "class=\"late\"", "class=\"cross\""] {
            assert_eq!(drawing.picture.matches(class).count(), 1, "{class} in {}", drawing.picture);
        }
        assert_eq!(drawing.sentence, "Rounds, 1 round: a 1 in time; b 0 in time, 1 late; c 0 in time, 1 missing.");
        assert_eq!(drawing.table.rows.len(), 3);
    }

    #[test]
    fn timeline_without_rounds_is_not_drawn() {
        let rounds = RoundTimeline {
            title: String::new(),
            file: String::new(),
            note: String::new(),
            rounds: Vec::new(),
            parties: Vec::new(),
            now: datetime!(2026-11-20 18:00 UTC),
        };
        assert!(rounds.draw().is_none());
    }
}
