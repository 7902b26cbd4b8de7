//! Numbers computed from noisy sums, each with the interval that its noise implies.
//!
//! The **interval** covers the exact number of these tables, as bounded and clamped, in 95 % of releases: it comes from
//! the known law of the noise alone. **Sampling**, the standard deviation over other tables of the same kind, is stated
//! beside it and not mixed in. It is an upper bound where the sums do not determine it.
//!
//! A number whose interval does not tell it from nothing has no value: a small cell shows its interval, not a zero.
//!
//! Ratios of sums follow from the first-order expansion (delta method; Efron and Tibshirani 1993, chapter 21). A mean is
//! clamped to its range [a, b], a variance to [0, (μ − a)(b − μ)], the greatest that the mean admits (Bhatia and Davis
//! 2000).

mod covariance;
pub(super) mod drift;
pub(in crate::job::analytics) mod regression;
pub(super) mod survival;

use serde::{Deserialize, Serialize};

use super::layout::{RADIUS, VectorBlock};
use super::query::AggregateMeasure;
use super::statistic::BlockStatistic;
use super::tree::RangeTree;
use crate::job::evaluation::NORMAL_95;
use crate::table::{ColumnKind, TableColumn};

/// The deviations of its noise that a number of rows exceeds before anything is divided by it.
pub const LEAST_DEVIATIONS: f64 = 5.0;

/// A number with its interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NumberEstimate {
    /// The bin, the quantile, or the moment; empty for the one number of its aggregate.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// The estimate; absent when the noise hides it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// The lower end of the 95 % interval of the exact number.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The standard deviation from the noise.
    pub noise: f64,
    /// The standard deviation from sampling, or an upper bound of it; absent if none is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling: Option<f64>,
}

impl NumberEstimate {
    /// Returns whether the interval contains a number.
    pub fn covers(&self, truth: f64) -> bool {
        (self.low..=self.high).contains(&truth)
    }

    fn count(label: String, count: f64, noise: f64, rows: f64) -> Self {
        let half = NORMAL_95 * noise;
        let low = (count - half).max(0.0);
        Self {
            label,
            value: (low > 0.0).then_some(count),
            low,
            high: (count + half).max(0.0),
            noise,
            sampling: Some((count.max(0.0) * rows).sqrt()),
        }
    }

    /// Returns an estimate within a range.
    fn clamped(label: &str, value: f64, noise: f64, sampling: f64, range: (f64, f64)) -> Self {
        let half = NORMAL_95 * noise;
        Self {
            label: label.to_owned(),
            value: Some(value),
            low: (value - half).clamp(range.0, range.1),
            high: (value + half).clamp(range.0, range.1),
            noise,
            sampling: Some(sampling),
        }
    }

    /// Returns a number of which only its range is known.
    pub(super) fn hidden(label: &str, range: (f64, f64)) -> Self {
        let noise = (range.1 - range.0) / (2.0 * NORMAL_95);
        Self { label: label.to_owned(), value: None, low: range.0, high: range.1, noise, sampling: None }
    }
}

/// The noisy sums of one aggregate in one cell.
pub(super) struct CellSums<'a> {
    /// For each block: its sums, and the deviation of the noise of each.
    blocks: Vec<(&'a VectorBlock, Vec<f64>, f64)>,
    /// m: the most rows of a unit, by which clustering can raise a sampling variance.
    rows: f64,
}

impl<'a> CellSums<'a> {
    pub(super) fn new(
        blocks: &[&'a VectorBlock],
        cell: usize,
        sums: &[f64],
        noise_multiplier: f64,
        sites: u32,
        rows: u32,
    ) -> Self {
        let read = |block: &&'a VectorBlock| {
            let own = sums[block.coordinates(cell)].iter().map(|sum| sum / block.factor()).collect();
            (*block, own, block.deviation(noise_multiplier, sites))
        };
        Self { blocks: blocks.iter().map(read).collect(), rows: f64::from(rows) }
    }

    /// Returns the first sum of a block, in units of its codes, and the deviation of its noise.
    fn moment(&self, block: usize) -> (f64, f64) {
        let Some((own, sums, noise)) = self.blocks.get(block) else { return (0.0, 0.0) };
        let unit = own.statistic.term_value();
        (sums.first().copied().unwrap_or_default() * unit, noise * unit)
    }

    /// Returns the numbers of an aggregate over the columns of the spec.
    pub(super) fn estimate(&self, measure: &AggregateMeasure, columns: &[TableColumn]) -> Vec<NumberEstimate> {
        let column = self.blocks.first().and_then(|(block, ..)| block.columns.first());
        match (measure, column.and_then(|column| columns.get(*column)).map(|column| &column.kind)) {
            (AggregateMeasure::Count { .. }, _) => {
                let (count, noise) = self.moment(0);
                vec![NumberEstimate::count(String::new(), count, noise, self.rows)]
            }
            (AggregateMeasure::CountUnits, _) => {
                let (count, noise) = self.moment(0);
                vec![NumberEstimate::count(String::new(), count, noise, 1.0)]
            }
            (AggregateMeasure::Sum { .. }, Some(kind)) => {
                let (sum, noise) = self.moment(0);
                let (value, noise) = (sum * kind.step(), noise * kind.step());
                let half = NORMAL_95 * noise;
                let label = String::new();
                let (low, high) = (value - half, value + half);
                let value = (low > 0.0 || high < 0.0).then_some(value);
                vec![NumberEstimate { label, value, low, high, noise, sampling: None }]
            }
            (AggregateMeasure::Mean { .. }, Some(kind)) => vec![self.mean(kind, "", None)],
            (AggregateMeasure::Variance { .. }, Some(kind)) => self.variance(kind),
            (AggregateMeasure::Histogram { .. }, Some(kind)) => self.histogram(kind),
            (AggregateMeasure::Quantiles { probabilities, .. }, Some(kind)) => self.quantiles(kind, probabilities),
            (AggregateMeasure::Survival { edges, .. }, Some(_)) => self.survival(edges),
            (AggregateMeasure::Covariance { .. }, Some(_)) => self.covariance(columns),
            (AggregateMeasure::LinearRegression { .. }, Some(_)) => self.regression(columns),
            (_, None) => Vec::new(),
        }
    }

    /// Returns the mean; `variance` is the variance of a row's code, if it is known.
    fn mean(&self, kind: &ColumnKind, label: &str, variance: Option<f64>) -> NumberEstimate {
        let (least, most) = kind.code_range();
        let step = kind.step();
        let range = (least as f64 * step, most as f64 * step);
        let (rows, rows_noise) = self.moment(0);
        let (sum, sum_noise) = self.moment(1);
        if rows < LEAST_DEVIATIONS * rows_noise || rows <= 0.0 {
            return NumberEstimate::hidden(label, range);
        }
        let offset = sum / rows;
        let mean = (self.centre() + offset).clamp(least as f64, most as f64);
        let noise = (sum_noise.powi(2) + (offset * rows_noise).powi(2)).sqrt() / rows;
        let greatest = (mean - least as f64) * (most as f64 - mean);
        let sampling = (variance.unwrap_or(greatest).min(greatest) * self.rows / rows).max(0.0).sqrt();
        NumberEstimate::clamped(label, mean * step, noise * step, sampling * step, range)
    }

    /// Returns mean, variance and standard deviation.
    fn variance(&self, kind: &ColumnKind) -> Vec<NumberEstimate> {
        let (least, most) = kind.code_range();
        let step = kind.step();
        let (rows, rows_noise) = self.moment(0);
        let (sum, sum_noise) = self.moment(1);
        let (squares, squares_noise) = self.moment(2);
        let width = (most - least) as f64 * step;
        if rows < LEAST_DEVIATIONS * rows_noise || rows <= 0.0 {
            return vec![
                self.mean(kind, "mean", None),
                NumberEstimate::hidden("variance", (0.0, width * width / 4.0)),
                NumberEstimate::hidden("standard deviation", (0.0, width / 2.0)),
            ];
        }
        let offset = sum / rows;
        let square = squares / rows;
        let mean = (self.centre() + offset).clamp(least as f64, most as f64);
        let greatest = (mean - least as f64) * (most as f64 - mean);
        let variance = (square - offset * offset).clamp(0.0, greatest.max(0.0));
        let by_rows = (square - 2.0 * offset * offset) * rows_noise;
        let by_sum = 2.0 * offset * sum_noise;
        let noise = (squares_noise.powi(2) + by_sum.powi(2) + by_rows.powi(2)).sqrt() / rows;
        // The fourth central moment is at most (greatest distance)² · variance.
        let distance = (mean - least as f64).max(most as f64 - mean);
        let fourth = (distance * distance * variance - variance * variance).max(0.0);
        let sampling = (fourth * self.rows / rows).sqrt();
        let unit = step * step;
        let range = (0.0, width * width / 4.0);
        let one = NumberEstimate::clamped("variance", variance * unit, noise * unit, sampling * unit, range);
        // Where noise hides the variance, its upper end stands for it, so that no deviation is understated.
        let is_hidden = one.low <= 0.0;
        let known = if is_hidden { one.high / unit } else { variance };
        let deviation = (variance * unit).sqrt();
        let scale = if deviation > 0.0 { 0.5 / deviation } else { 0.0 };
        let root = NumberEstimate {
            label: "standard deviation".to_owned(),
            value: (!is_hidden).then_some(deviation),
            low: one.low.sqrt(),
            high: one.high.sqrt(),
            noise: (one.high.sqrt() - one.low.sqrt()) / (2.0 * NORMAL_95),
            sampling: one.sampling.map(|sampling| sampling * scale).filter(|_| !is_hidden),
        };
        let one = if is_hidden { NumberEstimate { value: None, sampling: None, ..one } } else { one };
        vec![self.mean(kind, "mean", Some(known)), one, root]
    }

    fn histogram(&self, kind: &ColumnKind) -> Vec<NumberEstimate> {
        let Some((block, sums, noise)) = self.blocks.first() else { return Vec::new() };
        let BlockStatistic::Bins(bins) = &block.statistic else { return Vec::new() };
        let estimate =
            |(bin, sum): (usize, &f64)| NumberEstimate::count(bins.label(bin, kind), *sum, *noise, self.rows);
        sums.iter().enumerate().map(estimate).collect()
    }

    fn quantiles(&self, kind: &ColumnKind, probabilities: &[f64]) -> Vec<NumberEstimate> {
        let Some((block, sums, noise)) = self.blocks.first() else { return Vec::new() };
        let BlockStatistic::Tree { least, leaf, levels } = block.statistic else { return Vec::new() };
        let tree = RangeTree::new(sums, levels, *noise);
        let (_, most) = kind.code_range();
        let to_value = |place: f64| {
            let code = least as f64 + place * leaf as f64;
            code.min(most as f64) * kind.step()
        };
        let range = (to_value(0.0), most as f64 * kind.step());
        let estimate = |probability: &f64| {
            let label = format!("{probability}");
            let Some(quantile) = tree.find_quantile(*probability, self.rows) else {
                return NumberEstimate::hidden(&label, range);
            };
            let (low, high) = (to_value(quantile.low), to_value(quantile.high));
            NumberEstimate {
                label,
                value: Some(to_value(quantile.place)),
                low,
                high,
                noise: (high - low) / (2.0 * NORMAL_95),
                sampling: Some(quantile.sampling * leaf as f64 * kind.step()),
            }
        };
        probabilities.iter().map(estimate).collect()
    }

    fn centre(&self) -> f64 {
        match self.blocks.get(1).map(|(block, ..)| &block.statistic) {
            Some(BlockStatistic::Sum { centre, .. }) => *centre as f64,
            _ => 0.0,
        }
    }
}

impl VectorBlock {
    /// Returns the standard deviation of the noise in each integer sum over `sites` sites: z·R/W·√sites.
    pub fn deviation(&self, noise_multiplier: f64, sites: u32) -> f64 {
        noise_multiplier * RADIUS as f64 / self.weight as f64 * f64::from(sites).sqrt()
    }
}

impl BlockStatistic {
    /// Returns the value of one step of a term: 2^shift for sums, else 1.
    pub fn term_value(&self) -> f64 {
        match self {
            Self::Sum { shift, .. } | Self::Squares { shift, .. } => libm::exp2(f64::from(*shift)),
            _ => 1.0,
        }
    }
}
