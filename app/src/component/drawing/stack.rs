//! A whole and its parts: bars below each other, each starting at the end of the previous one. Every part has its name
//! beside it, and the last bar ends at the sum.

use leptos::prelude::*;
use std::fmt::Write as _;

use super::axis::{RIGHT, TOP, WIDTH};
use super::{DrawingTable, StaticDrawing, TableCell, round_position, shorten, to_markup};
use crate::component::chart::LinearScale;
use crate::words;

/// The left end of the bars; the names are before it.
const FROM: f64 = 172.0;
/// The most characters of a name there, also in a phone's larger type.
const NAME: usize = 21;
/// Distance of the bars.
const ROW: f64 = 30.0;
/// Height of a bar.
const THICK: f64 = 16.0;
/// The most parts with a bar of their own; the smaller ones share one.
const MOST: usize = 10;
/// Distance of the hatching's lines.
const HATCH: f64 = 4.0;

/// A drawing of a whole.
pub(crate) struct StackedBar {
    /// Its title.
    pub(crate) title: String,
    /// Name of its files, without extension.
    pub(crate) file: String,
    /// A line under the title.
    pub(crate) note: String,
    /// The parts, the largest first.
    pub(crate) parts: Vec<StackPart>,
}

/// A part of a whole.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StackPart {
    /// Its name.
    pub(crate) name: String,
    /// The spent part, 0 to 1.
    pub(crate) solid: f64,
    /// The reserved part, 0 to 1.
    pub(crate) hatched: f64,
    /// ε of it alone, if there is one.
    pub(crate) alone: Option<f64>,
    /// The number of releases.
    pub(crate) count: u64,
}

impl StackedBar {
    /// Draws the whole.
    pub(crate) fn draw(self) -> StaticDrawing {
        let parts = self.visible_parts();
        let bottom = TOP + ROW * (parts.len() as f64 + 1.0);
        let scale = LinearScale::up_to(1.0, 5, FROM, RIGHT - 14.0);
        let ticks = scale.ticks.iter().map(|tick| {
            let (position, label) = (scale.position(*tick), words::number((tick * 1e4).round() / 100.0));
            view! {
                <line class="grid" x1=position x2=position y1=TOP y2=bottom></line>
                <text class="tick" x=position y=bottom + 16.0 text-anchor="middle">{label}</text>
            }
        });
        let mut used = 0.0;
        let mut bars: Vec<AnyView> = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            let (begin, middle) = (scale.position(used), scale.position((used + part.solid).min(1.0)));
            used = (used + part.solid + part.hatched).min(1.0);
            let line = TOP + ROW * index as f64;
            bars.push(render_bar(part, line, (begin, middle, scale.position(used))));
        }
        let rest = StackPart { name: "left".to_owned(), solid: 0.0, hatched: 0.0, alone: None, count: 0 };
        let line = TOP + ROW * parts.len() as f64;
        let (begin, end) = (scale.position(used), scale.position(1.0));
        let free = view! {
            <text class="label" x=FROM - 8.0 y=line + 20.0 text-anchor="end">{rest.name}</text>
            <rect class="free" x=begin y=line + 7.0 width=round_position((end - begin).max(0.0)) height=THICK></rect>
            <text class="label" x=begin + 5.0 y=line + 20.0>{words::percent((1.0 - used).max(0.0))}</text>
        };
        let middle = f64::midpoint(FROM, RIGHT);
        let picture = to_markup(view! {
            {ticks.collect_view()}
            {bars}
            {free}
            <text class="axis" x=middle y=bottom + 36.0 text-anchor="middle">"% of the limit, at the order with the most left"</text>
        });
        StaticDrawing {
            sentence: self.sentence(used),
            table: self.table(),
            title: self.title,
            file: self.file,
            note: self.note,
            size: (WIDTH, bottom + 44.0),
            picture,
        }
    }

    /// Returns the parts with bars.
    fn visible_parts(&self) -> Vec<StackPart> {
        if self.parts.len() <= MOST {
            return self.parts.clone();
        }
        let (large, small) = self.parts.split_at(MOST - 1);
        let rest = small.iter().fold(
            StackPart { name: format!("{} others", small.len()), solid: 0.0, hatched: 0.0, alone: None, count: 0 },
            |sum, part| StackPart {
                solid: sum.solid + part.solid,
                hatched: sum.hatched + part.hatched,
                count: sum.count + part.count,
                ..sum
            },
        );
        large.iter().cloned().chain([rest]).collect()
    }

    fn sentence(&self, used: f64) -> String {
        let parts: Vec<String> = self
            .parts
            .iter()
            .take(3)
            .map(|part| format!("{} {}", part.name, words::percent(part.solid + part.hatched)))
            .collect();
        if parts.is_empty() {
            return format!("{}: nothing used", self.title);
        }
        let rest = self.parts.len().saturating_sub(3);
        let more = if rest > 0 { format!(", and {rest} more") } else { String::new() };
        format!(
            "{}: {} of the limit is used, by {}{more}; {} is left.",
            self.title,
            words::percent(used),
            parts.join(", "),
            words::percent((1.0 - used).max(0.0))
        )
    }

    fn table(&self) -> DrawingTable {
        let head = ["job", "spent, % of the limit", "reserved, % of the limit", "releases paid", "ε by itself"];
        let rows = self.parts.iter().map(|part| {
            vec![
                TableCell::text(part.name.clone()),
                TableCell::number(words::percent(part.solid), part.solid * 100.0),
                TableCell::number(words::percent(part.hatched), part.hatched * 100.0),
                TableCell::count(part.count),
                TableCell::maybe(words::epsilon, part.alone),
            ]
        });
        DrawingTable { head: head.map(str::to_owned).into(), rows: rows.collect() }
    }
}

/// Renders a bar from its begin over the end of its solid part to its end.
fn render_bar(part: &StackPart, line: f64, (begin, middle, end): (f64, f64, f64)) -> AnyView {
    let (top, under) = (line + 7.0, line + 7.0 + THICK);
    let mut hatching = String::new();
    let mut position = middle + HATCH / 2.0;
    while position < end {
        let _ = write!(hatching, "M{} {top}V{under}", round_position(position));
        position += HATCH;
    }
    let outline = (end > middle).then(|| {
        view! { <rect class="held" x=middle y=top width=round_position(end - middle) height=THICK></rect> }
    });
    // The number is on the side with room.
    let (x, anchor) = if end > 400.0 { (begin - 5.0, "end") } else { (end + 5.0, "start") };
    let (x, anchor) = if x < FROM { (end + 5.0, "start") } else { (x, anchor) };
    view! {
        <text class="label" x=FROM - 8.0 y=line + 20.0 text-anchor="end">{shorten(&part.name, NAME)}</text>
        <rect class="bar" x=begin y=top width=round_position((middle - begin).max(0.0)) height=THICK></rect>
        {outline}
        <path class="hatching" d=hatching></path>
        <text class="label" x=x y=line + 20.0 text-anchor=anchor>{words::percent(part.solid + part.hatched)}</text>
    }
    .into_any()
}

#[cfg(test)]
mod tests {
    use super::{MOST, StackPart, StackedBar};

    fn stack(parts: usize) -> StackedBar {
        let part = |index: usize| StackPart {
            name: format!("job {index}"),
            solid: 0.03,
            hatched: if index == 0 { 0.02 } else { 0.0 },
            alone: Some(1.0),
            count: 5,
        };
        StackedBar {
            title: "Use".to_owned(),
            file: "use".to_owned(),
            note: String::new(),
            parts: (0..parts).map(part).collect(),
        }
    }

    #[test]
    fn stack_hatches_reservations_and_states_the_rest() {
        let drawing = stack(2).draw();
        assert_eq!(drawing.picture.matches("class=\"bar\"").count(), 2);
        assert!(
            drawing.picture.contains("class=\"held\"") && drawing.picture.contains("92.0 %"),
            "{}",
            drawing.picture
        );
        assert!(drawing.sentence.contains("8.0 % of the limit is used"), "{}", drawing.sentence);
    }

    #[test]
    fn small_parts_share_a_bar_and_have_table_rows() {
        let drawing = stack(MOST + 5).draw();
        assert_eq!(drawing.picture.matches("class=\"bar\"").count(), MOST);
        assert!(drawing.picture.contains("6 others"), "{}", drawing.picture);
        assert_eq!(drawing.table.rows.len(), MOST + 5);
    }

    #[test]
    fn unused_budget_is_all_left() {
        let drawing = stack(0).draw();
        assert!(drawing.picture.contains("100.0 %") && !drawing.picture.contains("NaN"));
    }
}
