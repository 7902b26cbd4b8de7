//! One number for each of several things: a bar from 0 with its number beside it. Estimates have their interval, and
//! compared numbers a mark at the other number.

use leptos::prelude::*;

use super::axis::{RIGHT, TOP, WIDTH};
use super::{DrawingTable, StaticDrawing, TableCell, round_position, shorten, to_markup};
use crate::component::chart::LinearScale;
use crate::words;

/// The left end of the bars; the names are before it.
const FROM: f64 = 172.0;
/// The most characters of a name there, also in a phone's larger type.
const NAME: usize = 21;
/// Distance of the bars.
const ROW: f64 = 34.0;
/// Height of a bar.
const THICK: f64 = 16.0;
/// Room at the right end for the number of the longest bar.
const SAID: f64 = 76.0;

/// A drawing of amounts.
pub(crate) struct LevelDrawing {
    /// Its title.
    pub(crate) title: String,
    /// Name of its files, without extension.
    pub(crate) file: String,
    /// A line under the title.
    pub(crate) note: String,
    /// The subject of the bars: the head of the table's first column.
    pub(crate) of: String,
    /// The quantity x, with its unit.
    pub(crate) x: String,
    /// The factor of x before its axis is written: 100 for proportions in percent.
    pub(crate) scale: f64,
    /// The bars, from the top.
    pub(crate) rows: Vec<LevelBar>,
    /// The name of the marks, if there are any: `by guessing`.
    pub(crate) mark: String,
}

/// One bar.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct LevelBar {
    /// Its name.
    pub(crate) name: String,
    /// The amount, 0 or more.
    pub(crate) value: f64,
    /// The amount as text, with its unit.
    pub(crate) label: String,
    /// The interval.
    pub(crate) interval: Option<(f64, f64)>,
    /// The amount for comparison.
    pub(crate) mark: Option<f64>,
    /// Whether it is the relevant bar: it is filled, the others are outlines.
    pub(crate) is_chosen: bool,
}

impl LevelDrawing {
    /// Draws the bars; `None` without a bar.
    pub(crate) fn draw(self) -> Option<StaticDrawing> {
        if self.rows.is_empty() {
            return None;
        }
        let reach =
            |row: &LevelBar| row.value.max(row.interval.map_or(0.0, |(_, high)| high)).max(row.mark.unwrap_or(0.0));
        let most = self.rows.iter().map(reach).filter(|value| value.is_finite()).fold(0.0, f64::max);
        let scale = LinearScale::up_to(if most > 0.0 { most } else { 1.0 }, 4, FROM, RIGHT - SAID);
        let bottom = TOP + ROW * self.rows.len() as f64;
        let ticks = scale.ticks.iter().map(|tick| {
            let position = scale.position(*tick);
            view! {
                <line class="grid" x1=position x2=position y1=TOP y2=bottom></line>
                <text class="tick" x=position y=bottom + 16.0 text-anchor="middle">{words::number(round_value(tick * self.scale))}</text>
            }
        });
        let rows = self.rows.iter().enumerate().map(|(index, row)| render_bar(row, TOP + ROW * index as f64, &scale));
        let picture = to_markup(view! {
            {ticks.collect_view()}
            {rows.collect_view()}
            <text class="axis" x=f64::midpoint(FROM, RIGHT - SAID) y=bottom + 36.0 text-anchor="middle">{self.x.clone()}</text>
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
        let say = |value: f64| words::number(round_value(value * self.scale));
        let rows = self.rows.iter().map(|row| {
            let spread =
                row.interval.map_or_else(String::new, |(low, high)| format!(", {} to {}", say(low), say(high)));
            let comparison = row.mark.map_or_else(String::new, |mark| format!(", {} {}", self.mark, say(mark)));
            format!("{} {}{spread}{comparison}", row.name, row.label)
        });
        format!("{}, {}: {}.", self.title, self.x, rows.collect::<Vec<_>>().join("; "))
    }

    fn table(&self) -> DrawingTable {
        let spread = self.rows.iter().any(|row| row.interval.is_some());
        let marked = self.rows.iter().any(|row| row.mark.is_some());
        let mut head = vec![self.of.clone(), self.x.clone()];
        if spread {
            head.extend(["from", "to"].map(str::to_owned));
        }
        if marked {
            head.push(self.mark.clone());
        }
        let scaled =
            |value: Option<f64>| TableCell::maybe(words::number, value.map(|value| round_value(value * self.scale)));
        let rows = self.rows.iter().map(|row| {
            let mut cells =
                vec![TableCell::text(row.name.clone()), TableCell::number(row.label.clone(), row.value * self.scale)];
            if spread {
                cells.extend([scaled(row.interval.map(|(low, _)| low)), scaled(row.interval.map(|(_, high)| high))]);
            }
            if marked {
                cells.push(scaled(row.mark));
            }
            cells
        });
        DrawingTable { head, rows: rows.collect() }
    }
}

/// Rounds a number to six decimals.
fn round_value(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

fn render_bar(row: &LevelBar, line: f64, scale: &LinearScale) -> AnyView {
    let (begin, end) = (scale.position(0.0), scale.position(row.value));
    let (top, middle) = (round_position(line + 9.0), round_position(line + 9.0 + THICK / 2.0));
    let class = if row.is_chosen { "bar" } else { "held" };
    let whisker = row.interval.map(|(low, high)| {
        let (from, to) = (scale.position(low), scale.position(high));
        let caps = format!("M{from} {}v8M{to} {}v8", middle - 4.0, middle - 4.0);
        view! {
            <line class="whisker" x1=from x2=to y1=middle y2=middle></line>
            <path class="line cap" d=caps></path>
        }
    });
    let mark = row.mark.map(|mark| {
        let position = scale.position(mark);
        view! { <line class="limit" x1=position x2=position y1=top - 5.0 y2=top + THICK + 5.0></line> }
    });
    let label_start = row.interval.map_or(end, |(_, high)| scale.position(high).max(end));
    let label_start = row.mark.map_or(label_start, |mark| scale.position(mark).max(label_start));
    view! {
        <text class="label" x=FROM - 8.0 y=middle + 4.0 text-anchor="end">{shorten(&row.name, NAME)}</text>
        <rect class=class x=begin y=top width=round_position((end - begin).max(0.0)) height=THICK></rect>
        {whisker}
        {mark}
        <text class="label" x=label_start + 6.0 y=middle + 4.0>{row.label.clone()}</text>
    }
    .into_any()
}

#[cfg(test)]
mod tests {
    use super::{LevelBar, LevelDrawing};

    fn levels() -> LevelDrawing {
        let rows = vec![
            LevelBar {
                name: "true or dummy".to_owned(),
                value: 0.6,
                label: "60.0 %".to_owned(),
                interval: Some((0.55, 0.65)),
                mark: Some(0.5),
                is_chosen: true,
            },
            LevelBar { name: "who speaks".to_owned(), value: 0.1, label: "10.0 %".to_owned(), ..LevelBar::default() },
        ];
        LevelDrawing {
            title: "Attacks".to_owned(),
            file: "attacks".to_owned(),
            note: String::new(),
            of: "attack".to_owned(),
            x: "correct, %".to_owned(),
            scale: 100.0,
            rows,
            mark: "by guessing".to_owned(),
        }
    }

    #[test]
    fn bars_have_numbers_and_estimates_intervals() {
        let drawing = levels().draw().expect("two bars");
        assert_eq!(drawing.picture.matches("class=\"bar\"").count(), 1, "{}", drawing.picture);
        assert_eq!(drawing.picture.matches("class=\"held\"").count(), 1, "which counts is seen without colour");
        assert_eq!(drawing.picture.matches("class=\"whisker").count(), 1);
        assert_eq!(drawing.picture.matches("class=\"limit\"").count(), 1);
        assert!(drawing.picture.contains("60.0 %") && drawing.picture.contains("10.0 %"), "{}", drawing.picture);
    }

    #[test]
    fn level_sentence_and_table_have_the_comparison() {
        let drawing = levels().draw().expect("two bars");
        let sentence = "Attacks, correct, %: true or dummy 60.0 %, 55 to 65, by guessing 50; who speaks 10.0 %.";
        assert_eq!(drawing.sentence, sentence);
        assert_eq!(drawing.table.head, ["attack", "correct, %", "from", "to", "by guessing"]);
        assert!(drawing.table.rows.iter().all(|row| row.len() == 5));
    }

    #[test]
    fn zero_amounts_are_bars_without_length() {
        let none = |name: &str| LevelBar { name: name.to_owned(), label: "0".to_owned(), ..LevelBar::default() };
        let drawing = LevelDrawing { rows: vec![none("a"), none("b")], ..levels() }.draw().expect("two bars");
        assert!(!drawing.picture.contains("NaN") && !drawing.picture.contains("inf"), "{}", drawing.picture);
        assert!(LevelDrawing { rows: Vec::new(), ..levels() }.draw().is_none(), "nothing is no drawing");
    }
}
