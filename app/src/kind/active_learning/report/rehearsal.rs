//! The rehearsal on the lead's public log: accuracy and budget against (β, k), and accuracy against budget.

use leptos::prelude::*;
use undertone_api::job::active_learning::{RehearsalResult, RehearsedPoint, Report};

use super::super::description::describe_simulated;
use super::{LearningReport, UsedGate, learning};
use crate::component::drawing::{AccuracyCurve, DrawingTable, HeatMap, HeatSquare, LineDrawing, TableCell};
use crate::words;

/// The most gates that are named under a title.
const NAMED: usize = 3;

/// The tried pairs, as a grid.
struct TrialGrid<'a> {
    rates: Vec<f64>,
    thresholds: Vec<u32>,
    trials: Vec<&'a RehearsalResult>,
    baseline: Option<&'a RehearsalResult>,
    gates: Vec<UsedGate>,
}

/// Renders the drawings; empty without a rehearsal.
pub(super) fn render_section(report: &LearningReport<'_>, outcome: &Report) -> AnyView {
    if outcome.rehearsal.is_empty() {
        return ().into_any();
    }
    let grid = TrialGrid::new(&outcome.rehearsal, report.used_gates());
    let method = report.spec.rehearsal.as_ref().map(|rehearsal| {
        format!(
            "On the lead’s public log, treated as private: {} in each trial, {} of each, with {}.",
            words::plural(rehearsal.questions.into(), "question"),
            words::plural(rehearsal.repeats.into(), "trial"),
            describe_simulated(rehearsal)
        )
    });
    // The promise is that of the budgets: a gate that costs more δ than they have fits none of them.
    let delta_limit = report.file.privacy.iter().filter_map(|cost| cost.delta).reduce(f64::min);
    let headline = grid.describe_best(delta_limit);
    let violations: u64 = outcome.rehearsal.iter().map(|one| one.violations).sum();
    let verdict = if violations == 0 {
        "By an exact count, no released text has fewer than k kept rows.".to_owned()
    } else {
        format!("{} released with fewer than k kept rows: the gate is defective.", words::plural(violations, "text"))
    };
    view! {
        <section class="panel"><h2>"Learning with other gates"</h2>
            {headline.into_iter().map(|line| view! { <p class="headline-small">{line}</p> }).collect_view()}
            <p class="hint">{method}</p>
            <p class:bad-text={violations > 0} class="hint">{verdict}</p>
        </section>
        <section class="charts" aria-label="Charts of learning with other gates">
            {grid.plot_accuracy().draw().show()}
            {grid.plot_budget().draw().show()}
            {grid.plot_learning().into_iter().map(|lines| lines.draw().show()).collect_view()}
        </section>
    }
    .into_any()
}

fn last_point(one: &RehearsalResult) -> Option<&RehearsedPoint> {
    one.points.last()
}

impl<'a> TrialGrid<'a> {
    fn new(all: &'a [RehearsalResult], gates: Vec<UsedGate>) -> Self {
        let trials: Vec<&RehearsalResult> = all.iter().filter(|one| !one.baseline).collect();
        let mut rates: Vec<f64> = trials.iter().map(|one| one.sampling_rate).collect();
        rates.sort_by(f64::total_cmp);
        rates.dedup();
        let mut thresholds: Vec<u32> = trials.iter().map(|one| one.threshold).collect();
        thresholds.sort_unstable();
        thresholds.dedup();
        Self { rates, thresholds, trials, baseline: all.iter().find(|one| one.baseline), gates }
    }

    fn is_chosen(&self, one: &RehearsalResult) -> bool {
        self.gates.iter().any(|gate| gate.threshold == one.threshold && (gate.rate - one.sampling_rate).abs() < 1e-9)
    }

    /// Describes the loss of the chosen gates against the comparison, and the gate with the least loss among those that
    /// keep the promise.
    fn describe_best(&self, delta_limit: Option<f64>) -> Vec<String> {
        let chosen_lines = self
            .trials
            .iter()
            .filter(|one| self.is_chosen(one))
            .filter_map(|one| self.describe_trial("As chosen", one));
        let accuracy = |one: &RehearsalResult| last_point(one).map_or(f64::NEG_INFINITY, |point| point.accuracy);
        let best = delta_limit.and_then(|limit| {
            let candidates = self.trials.iter().filter(|one| one.delta.is_some_and(|delta| delta <= limit));
            let best = candidates.max_by(|a, b| accuracy(a).total_cmp(&accuracy(b)))?;
            let condition = format!("with δ at most {}", words::delta(limit));
            if self.is_chosen(best) {
                return Some(format!("Of the tried gates {condition}, none is more accurate."));
            }
            self.describe_trial(&format!("Best tried gate {condition}"), best)
        });
        chosen_lines.chain(best).collect()
    }

    fn describe_trial(&self, subject: &str, one: &RehearsalResult) -> Option<String> {
        let accuracy = last_point(one)?.accuracy;
        let name = format!("β {} and k {}", words::number(one.sampling_rate), words::count(one.threshold.into()));
        let from = self.baseline.and_then(last_point).map_or_else(String::new, |baseline| {
            format!(", {} points from questions without a gate", words::points(accuracy - baseline.accuracy))
        });
        Some(format!("{subject}, {name}: {}{from}.", words::percent(accuracy)))
    }

    /// Describes the chosen squares with their participants, and the chosen pairs outside the grid.
    fn note(&self) -> String {
        let gates = self.gates.iter().map(|gate| {
            let was_tried = self
                .trials
                .iter()
                .any(|one| one.threshold == gate.threshold && (one.sampling_rate - gate.rate).abs() < 1e-9);
            let remark = if was_tried { "" } else { " (not among those tried)" };
            format!("{}: β {}, k {}{remark}", gate.name, words::number(gate.rate), words::count(gate.threshold.into()))
        });
        let gates: Vec<String> = gates.collect();
        match gates.len() {
            0 => String::new(),
            1..=NAMED => format!("Used for {}.", gates.join("; ")),
            more => format!("Used for {} and {} others.", gates[..NAMED].join("; "), more - NAMED),
        }
    }

    fn square_position(&self, one: &RehearsalResult) -> Option<(usize, usize)> {
        let column = self.rates.iter().position(|rate| (rate - one.sampling_rate).abs() < 1e-12)?;
        Some((column, self.thresholds.iter().position(|threshold| *threshold == one.threshold)?))
    }

    fn squares(&self, square: impl Fn(&RehearsalResult) -> Option<(f64, String, String)>) -> Vec<HeatSquare> {
        let one = |one: &&RehearsalResult| {
            let (value, label, more) = square(one)?;
            Some(HeatSquare { at: self.square_position(one)?, value, label, more, is_chosen: self.is_chosen(one) })
        };
        self.trials.iter().filter_map(one).collect()
    }

    fn baseline_square(
        &self,
        square: impl Fn(&RehearsalResult) -> Option<(f64, String, String)>,
    ) -> Option<(String, HeatSquare)> {
        let (value, label, more) = square(self.baseline?)?;
        Some(("β 1, k 1".to_owned(), HeatSquare { at: (0, 0), value, label, more, is_chosen: false }))
    }

    fn plot_heat(
        &self,
        title: &str,
        file: &str,
        square: impl Fn(&RehearsalResult) -> Option<(f64, String, String)>,
    ) -> HeatMap {
        HeatMap {
            title: title.to_owned(),
            file: file.to_owned(),
            note: self.note(),
            columns: ("β, rate of sampling".to_owned(), self.rates.iter().map(|rate| words::number(*rate)).collect()),
            rows: ("k, threshold".to_owned(), self.thresholds.iter().map(|k| words::count((*k).into())).collect()),
            squares: self.squares(&square),
            beside: self.baseline_square(&square),
            table: self.table(),
        }
    }

    fn plot_accuracy(&self) -> HeatMap {
        let baseline = self.baseline.and_then(last_point).map(|point| point.accuracy);
        self.plot_heat("Accuracy against β and k", "accuracy-by-gate", |one| {
            let accuracy = last_point(one)?.accuracy;
            let more = match (one.baseline, baseline) {
                (true, _) => "no gate".to_owned(),
                (false, Some(baseline)) => words::points(accuracy - baseline),
                (false, None) => String::new(),
            };
            Some((accuracy, format!("{:.1}", accuracy * 100.0), more))
        })
    }

    fn plot_budget(&self) -> HeatMap {
        let heat = self.plot_heat("Released questions and δ against β and k", "budget-by-gate", |one| {
            let more = match (one.baseline, one.delta) {
                (true, _) => "no gate".to_owned(),
                (false, Some(delta)) => format!("δ ≤ {}", format_delta_bound(delta)),
                (false, None) => "no ε, δ".to_owned(),
            };
            // The shade follows the magnitude: pools differ by powers of ten.
            Some(((one.pool as f64 + 1.0).ln(), format_compact(one.pool), more))
        });
        HeatMap { note: format!("δ at the ε of the job’s gates. {}", heat.note), ..heat }
    }

    /// Draws accuracy against budget, a drawing for each rate with a line for each threshold, all on one scale.
    fn plot_learning(&self) -> Vec<LineDrawing> {
        let curve = |one: &RehearsalResult, name: String| AccuracyCurve {
            name,
            is_baseline: one.baseline,
            points: one.points.iter().map(|at| (at.labelled as f64, at.accuracy, at.deviation)).collect(),
        };
        let baseline = self.baseline.map(|one| curve(one, "no gate".to_owned()));
        let all: Vec<AccuracyCurve> =
            self.trials.iter().map(|one| curve(one, String::new())).chain(baseline.iter().cloned()).collect();
        let span = learning::measure_span(&all);
        self.rates
            .iter()
            .map(|rate| {
                let of_rate = self.trials.iter().filter(|one| (one.sampling_rate - rate).abs() < 1e-12);
                let name = |one: &RehearsalResult| {
                    let k = words::count(one.threshold.into());
                    if self.is_chosen(one) { format!("k {k}, chosen") } else { format!("k {k}") }
                };
                let curves = of_rate.map(|one| curve(one, name(one))).chain(baseline.iter().cloned()).collect();
                let rate = words::number(*rate);
                LineDrawing {
                    title: format!("Accuracy against budget, β {rate}"),
                    file: format!("accuracy-against-budget-beta-{rate}"),
                    note: "Rehearsal; whiskers are one standard deviation over the trials.".to_owned(),
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
    fn table(&self) -> DrawingTable {
        let head = [
            "β",
            "k",
            "accuracy",
            "standard deviation",
            "labels",
            "difference from no gate",
            "questions",
            "below k",
            "δ",
        ];
        let baseline = self.baseline.and_then(last_point).map(|point| point.accuracy);
        let rows = self.trials.iter().copied().chain(self.baseline).map(|one| {
            let point = last_point(one);
            let from = point.filter(|_| !one.baseline).zip(baseline).map(|(point, baseline)| point.accuracy - baseline);
            vec![
                TableCell::number(words::number(one.sampling_rate), one.sampling_rate),
                TableCell::count(one.threshold.into()),
                TableCell::maybe(words::percent, point.map(|point| point.accuracy)),
                TableCell::maybe(words::percent, point.map(|point| point.deviation)),
                point.map_or_else(|| TableCell::text("–"), |point| TableCell::count(point.labelled)),
                TableCell::maybe(words::points, from),
                TableCell::count(one.pool),
                TableCell::count(one.violations),
                TableCell::maybe(words::delta, one.delta),
            ]
        });
        DrawingTable { head: head.map(str::to_owned).into(), rows: rows.collect() }
    }
}

/// Formats the least power of ten that is not below a δ.
fn format_delta_bound(delta: f64) -> String {
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
fn format_compact(value: u64) -> String {
    match value {
        0..10_000 => words::count(value),
        10_000..1_000_000 => format!("{:.1} k", value as f64 / 1e3),
        _ => format!("{:.1} M", value as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::{format_compact, format_delta_bound};

    #[test]
    fn delta_bound_is_rounded_up() {
        assert_eq!([1e-6, 1.1e-6, 9.9e-9].map(format_delta_bound), ["10⁻⁶", "10⁻⁵", "10⁻⁸"]);
        assert_eq!([0.0, 0.05, 0.7].map(format_delta_bound), ["0", "0.1", "1"]);
    }

    #[test]
    fn compact_counts_are_short() {
        assert_eq!([0, 9999, 12_345, 1_200_000].map(format_compact), ["0", "9,999", "12.3 k", "1.2 M"]);
    }
}
