//! The rehearsal on the lead's public log: accuracy and budget against (β, k), and accuracy against budget.

use leptos::prelude::*;
use undertone_api::job::active_learning::{Rehearsed, RehearsedPoint, Report as Found};

use super::{Chosen, Of, taught};
use crate::component::drawing::{Cell, Curve, Heat, Lines, Square, Table};
use crate::page::report::points;
use crate::words;

/// The most gates that are named under a title.
const NAMED: usize = 3;

/// The tried pairs, as a grid.
struct Grid<'a> {
    rates: Vec<f64>,
    thresholds: Vec<u32>,
    tried: Vec<&'a Rehearsed>,
    baseline: Option<&'a Rehearsed>,
    chosen: Vec<Chosen>,
}

/// Renders the drawings; empty without a rehearsal.
pub(super) fn section(of: &Of<'_>, found: &Found) -> AnyView {
    if found.rehearsal.is_empty() {
        return ().into_any();
    }
    let grid = Grid::of(&found.rehearsal, of.chosen());
    let how = of.spec.rehearsal.as_ref().map(|rehearsal| {
        format!(
            "On the lead’s public log, had it been private: {} asked in each trial, {} of each, of played annotators who are right {} of the time.",
            words::plural(rehearsal.questions.into(), "question"),
            words::plural(rehearsal.repeats.into(), "trial"),
            words::percent(rehearsal.annotator_accuracy)
        )
    });
    // The promise is that of the budgets: a gate that costs more δ than they have fits none of them.
    let promised = of.report.privacy.iter().filter_map(|cost| cost.delta).reduce(f64::min);
    let headline = grid.headline(promised);
    let violations: u64 = found.rehearsal.iter().map(|one| one.violations).sum();
    let kept = if violations == 0 {
        "No text was shown that fewer than k kept rows ask, by an exact count.".to_owned()
    } else {
        format!("{} shown that fewer than k kept rows ask: the gate is broken.", words::plural(violations, "text"))
    };
    view! {
        <section class="panel"><h2>"What other gates would have taught"</h2>
            {headline.into_iter().map(|said| view! { <p class="headline-small">{said}</p> }).collect_view()}
            <p class="hint">{how}</p>
            <p class:bad-text={violations > 0} class="hint">{kept}</p>
        </section>
        <section class="charts" aria-label="What other gates would have taught, drawn">
            {grid.accuracy().draw().show()}
            {grid.budget().draw().show()}
            {grid.learning().into_iter().map(|lines| lines.draw().show()).collect_view()}
        </section>
    }
    .into_any()
}

fn last(one: &Rehearsed) -> Option<&RehearsedPoint> {
    one.points.last()
}

impl<'a> Grid<'a> {
    fn of(all: &'a [Rehearsed], chosen: Vec<Chosen>) -> Self {
        let tried: Vec<&Rehearsed> = all.iter().filter(|one| !one.baseline).collect();
        let mut rates: Vec<f64> = tried.iter().map(|one| one.sampling_rate).collect();
        rates.sort_by(f64::total_cmp);
        rates.dedup();
        let mut thresholds: Vec<u32> = tried.iter().map(|one| one.threshold).collect();
        thresholds.sort_unstable();
        thresholds.dedup();
        Self { rates, thresholds, tried, baseline: all.iter().find(|one| one.baseline), chosen }
    }

    fn is_chosen(&self, one: &Rehearsed) -> bool {
        self.chosen.iter().any(|gate| gate.threshold == one.threshold && (gate.rate - one.sampling_rate).abs() < 1e-9)
    }

    /// Describes the loss of the chosen gates against the comparison, and the gate with the least loss among those that
    /// keep the promise.
    fn headline(&self, promised: Option<f64>) -> Vec<String> {
        let chosen =
            self.tried.iter().filter(|one| self.is_chosen(one)).filter_map(|one| self.against("As chosen", one));
        let accuracy = |one: &Rehearsed| last(one).map_or(f64::NEG_INFINITY, |point| point.accuracy);
        let best = promised.and_then(|promised| {
            let keep = self.tried.iter().filter(|one| one.delta.is_some_and(|delta| delta <= promised));
            let best = keep.max_by(|a, b| accuracy(a).total_cmp(&accuracy(b)))?;
            let kept = format!("whose δ is at most {}", words::delta(promised));
            if self.is_chosen(best) {
                return Some(format!("Of those tried {kept}, none comes to more."));
            }
            self.against(&format!("Best of those tried {kept}"), best)
        });
        chosen.chain(best).collect()
    }

    fn against(&self, what: &str, one: &Rehearsed) -> Option<String> {
        let accuracy = last(one)?.accuracy;
        let name = format!("β {} and k {}", words::number(one.sampling_rate), words::count(one.threshold.into()));
        let from = self.baseline.and_then(last).map_or_else(String::new, |baseline| {
            format!(", {} points from asking without a gate", points(accuracy - baseline.accuracy))
        });
        Some(format!("{what}, {name}: {}{from}.", words::percent(accuracy)))
    }

    /// Describes the chosen squares with their participants, and the chosen pairs outside the grid.
    fn note(&self) -> String {
        let gates = self.chosen.iter().map(|gate| {
            let drawn = self
                .tried
                .iter()
                .any(|one| one.threshold == gate.threshold && (one.sampling_rate - gate.rate).abs() < 1e-9);
            let where_ = if drawn { "" } else { " (not among those tried)" };
            format!("{}: β {}, k {}{where_}", gate.name, words::number(gate.rate), words::count(gate.threshold.into()))
        });
        let gates: Vec<String> = gates.collect();
        match gates.len() {
            0 => String::new(),
            1..=NAMED => format!("Chosen for {}.", gates.join("; ")),
            more => format!("Chosen for {}; and {} more.", gates[..NAMED].join("; "), more - NAMED),
        }
    }

    fn at(&self, one: &Rehearsed) -> Option<(usize, usize)> {
        let column = self.rates.iter().position(|rate| (rate - one.sampling_rate).abs() < 1e-12)?;
        Some((column, self.thresholds.iter().position(|threshold| *threshold == one.threshold)?))
    }

    fn squares(&self, square: impl Fn(&Rehearsed) -> Option<(f64, String, String)>) -> Vec<Square> {
        let one = |one: &&Rehearsed| {
            let (value, said, more) = square(one)?;
            Some(Square { at: self.at(one)?, value, said, more, chosen: self.is_chosen(one) })
        };
        self.tried.iter().filter_map(one).collect()
    }

    fn beside(&self, square: impl Fn(&Rehearsed) -> Option<(f64, String, String)>) -> Option<(String, Square)> {
        let (value, said, more) = square(self.baseline?)?;
        Some(("β 1, k 1".to_owned(), Square { at: (0, 0), value, said, more, chosen: false }))
    }

    fn heat(&self, title: &str, file: &str, square: impl Fn(&Rehearsed) -> Option<(f64, String, String)>) -> Heat {
        Heat {
            title: title.to_owned(),
            file: file.to_owned(),
            note: self.note(),
            columns: ("β, rate of sampling".to_owned(), self.rates.iter().map(|rate| words::number(*rate)).collect()),
            rows: ("k, threshold".to_owned(), self.thresholds.iter().map(|k| words::count((*k).into())).collect()),
            squares: self.squares(&square),
            beside: self.beside(&square),
            table: self.table(),
        }
    }

    fn accuracy(&self) -> Heat {
        let baseline = self.baseline.and_then(last).map(|point| point.accuracy);
        self.heat("Accuracy against β and k", "accuracy-by-gate", |one| {
            let accuracy = last(one)?.accuracy;
            let more = match (one.baseline, baseline) {
                (true, _) => "no gate".to_owned(),
                (false, Some(baseline)) => points(accuracy - baseline),
                (false, None) => String::new(),
            };
            Some((accuracy, format!("{:.1}", accuracy * 100.0), more))
        })
    }

    fn budget(&self) -> Heat {
        let heat = self.heat("Questions that pass, and δ, against β and k", "budget-by-gate", |one| {
            let more = match (one.baseline, one.delta) {
                (true, _) => "no gate".to_owned(),
                (false, Some(delta)) => format!("δ ≤ {}", power_above(delta)),
                (false, None) => "no ε, δ".to_owned(),
            };
            // The shade follows the magnitude: pools differ by powers of ten.
            Some(((one.pool as f64 + 1.0).ln(), compact(one.pool), more))
        });
        Heat { note: format!("δ at the ε of the job’s gates. {}", heat.note), ..heat }
    }

    /// Draws accuracy against budget, a drawing for each rate with a line for each threshold, all on one scale.
    fn learning(&self) -> Vec<Lines> {
        let curve = |one: &Rehearsed, name: String| Curve {
            name,
            baseline: one.baseline,
            points: one.points.iter().map(|at| (at.labelled as f64, at.accuracy, at.deviation)).collect(),
        };
        let baseline = self.baseline.map(|one| curve(one, "no gate".to_owned()));
        let all: Vec<Curve> =
            self.tried.iter().map(|one| curve(one, String::new())).chain(baseline.iter().cloned()).collect();
        let span = taught::span(&all);
        self.rates
            .iter()
            .map(|rate| {
                let of_rate = self.tried.iter().filter(|one| (one.sampling_rate - rate).abs() < 1e-12);
                let name = |one: &Rehearsed| {
                    let k = words::count(one.threshold.into());
                    if self.is_chosen(one) { format!("k {k}, chosen") } else { format!("k {k}") }
                };
                let curves = of_rate.map(|one| curve(one, name(one))).chain(baseline.iter().cloned()).collect();
                let rate = words::number(*rate);
                Lines {
                    title: format!("Accuracy against budget, β {rate}"),
                    file: format!("accuracy-against-budget-beta-{rate}"),
                    note: "Rehearsed; whiskers are one standard deviation over the trials.".to_owned(),
                    x: "labels".to_owned(),
                    y: "examples right, %".to_owned(),
                    curves,
                    span,
                    mark: None,
                }
            })
            .collect()
    }

    /// Returns all figures of every pair, the comparison last.
    fn table(&self) -> Table {
        let head = ["β", "k", "accuracy", "standard deviation", "labels", "from no gate", "questions", "below k", "δ"];
        let baseline = self.baseline.and_then(last).map(|point| point.accuracy);
        let rows = self.tried.iter().copied().chain(self.baseline).map(|one| {
            let point = last(one);
            let from = point.filter(|_| !one.baseline).zip(baseline).map(|(point, baseline)| point.accuracy - baseline);
            vec![
                Cell::number(words::number(one.sampling_rate), one.sampling_rate),
                Cell::count(one.threshold.into()),
                Cell::maybe(words::percent, point.map(|point| point.accuracy)),
                Cell::maybe(words::percent, point.map(|point| point.deviation)),
                point.map_or_else(|| Cell::text("–"), |point| Cell::count(point.labelled)),
                Cell::maybe(points, from),
                Cell::count(one.pool),
                Cell::count(one.violations),
                Cell::maybe(words::delta, one.delta),
            ]
        });
        Table { head: head.map(str::to_owned).into(), rows: rows.collect() }
    }
}

/// Formats the least power of ten that is not below a δ.
fn power_above(delta: f64) -> String {
    if delta <= 0.0 {
        return "0".to_owned();
    }
    match (delta.log10() - 1e-9).ceil() as i32 {
        0.. => "1".to_owned(),
        -1 => "0.1".to_owned(),
        power => words::delta(10_f64.powi(power)),
    }
}

/// Formats a count in few characters: `9,999`, `12.3 k`, `1.2 M`.
fn compact(value: u64) -> String {
    match value {
        0..10_000 => words::count(value),
        10_000..1_000_000 => format!("{:.1} k", value as f64 / 1e3),
        _ => format!("{:.1} M", value as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::{compact, power_above};

    #[test]
    fn a_delta_is_never_said_smaller_than_it_is() {
        assert_eq!([1e-6, 1.1e-6, 9.9e-9].map(power_above), ["10⁻⁶", "10⁻⁵", "10⁻⁸"]);
        assert_eq!([0.0, 0.05, 0.7].map(power_above), ["0", "0.1", "1"]);
    }

    #[test]
    fn counts_fit_a_square() {
        assert_eq!([0, 9999, 12_345, 1_200_000].map(compact), ["0", "9,999", "12.3 k", "1.2 M"]);
    }
}
