//! The expected error of each number, before the job runs: from the noise and the public sizes of the tables alone.

use serde::{Deserialize, Serialize};
use undertone_privacy::NoiseMultiplier;

use super::estimate::survival::LifeTable;
use super::layout::{LayoutError, VectorLayout};
use super::query::AggregateMeasure;
use super::{BlockStatistic, Spec, VectorBlock};
use crate::dataset::Dataset;
use crate::id::DatasetId;
use crate::job::evaluation::NORMAL_95;

/// The expected error of an aggregate in a cell: half the width of its 95 % interval, in the units of its column.
///
/// Means and variances are divided by the number of rows, which is not public. They are stated for cells of equal size
/// with one row of each unit, and for a mean half-way between the middle and an end of its range. Quantiles are stated as
/// the error of their rank, in rows. A survival curve is stated at its greatest error, if half of the rows have the
/// event, evenly over the intervals, and no time is censored; 1 where the noise would hide the curve. A covariance matrix
/// is stated at the error of a correlation near 0, of columns whose deviation is a quarter of their range.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ExpectedError {
    /// The name of the query.
    pub query: String,
    /// The aggregate: `mean(age)`.
    pub label: String,
    /// The error if each site answered alone.
    pub sites: Vec<(DatasetId, f64)>,
    /// The error of the sum over all sites.
    pub overall: f64,
}

/// A target for the error of an aggregate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TargetError {
    /// The position of the query.
    pub query: usize,
    /// The position of the aggregate in its query.
    pub aggregate: usize,
    /// The greatest half-width of the 95 % interval over all sites, in the units of [`ExpectedError`]: above 0.
    pub error: f64,
}

/// Returns the greatest deviation of a survival curve with `intervals` intervals.
fn expected_survival(intervals: usize, rows: f64, noise: f64) -> f64 {
    let events = std::iter::repeat_n(rows / 2.0 / intervals as f64, intervals);
    let counts: Vec<f64> = events.chain(std::iter::repeat_n(0.0, intervals)).chain([rows / 2.0]).collect();
    let points = LifeTable::new(&counts, noise).estimate();
    let greatest = points.iter().map(|point| point.noise).fold(0.0, f64::max);
    if points.len() < intervals { 1.0 / NORMAL_95 } else { greatest }
}

impl Spec {
    /// Returns the expected error of each aggregate, in the order of the spec.
    ///
    /// # Errors
    /// [`LayoutError`] for queries that do not fit the columns or the limits.
    pub fn expected_errors(&self, datasets: &[Dataset]) -> Result<Vec<ExpectedError>, LayoutError> {
        let layout = self.layout()?;
        let tables: Vec<&Dataset> = datasets.iter().filter(|dataset| self.is_participant(dataset.id)).collect();
        let all: f64 = tables.iter().map(|dataset| dataset.count(self.unit).0 as f64).sum();
        let count = self.participants.len().max(1) as u32;
        let each = self.queries.iter().enumerate().flat_map(|(query, own)| {
            own.aggregates.iter().enumerate().map(move |(aggregate, one)| (query, own, aggregate, one))
        });
        let describe = |(query, own, aggregate, one): (usize, &super::TableQuery, usize, &super::TableAggregate)| {
            let alone = |dataset: &&Dataset| {
                let units = dataset.count(self.unit).0 as f64;
                (dataset.id, self.error_of(&layout, query, aggregate, 1, units))
            };
            ExpectedError {
                query: own.name.clone(),
                label: one.measure.label(),
                sites: tables.iter().map(alone).collect(),
                overall: self.error_of(&layout, query, aggregate, count, all),
            }
        };
        Ok(each.map(describe).collect())
    }

    /// Returns the error of an aggregate in a cell, with `units` units over `sites` sites.
    fn error_of(&self, layout: &VectorLayout, query: usize, aggregate: usize, sites: u32, units: f64) -> f64 {
        let resolved = &layout.queries()[query];
        let is_own = |block: &&VectorBlock| block.aggregate == aggregate;
        let own: Vec<&VectorBlock> = layout.blocks()[resolved.blocks.clone()].iter().filter(is_own).collect();
        let z = self.noise_multiplier.get();
        let deviation =
            |place: usize| own.get(place).map_or(0.0, |block| block.deviation(z, sites) * block.statistic.term_value());
        let rows = (units / resolved.cells as f64).max(1.0);
        let column = own.first().and_then(|block| block.columns.first()).map(|column| &self.columns[*column].kind);
        let step = column.map_or(1.0, crate::table::ColumnKind::step);
        let (least, most) = column.map_or((0, 0), crate::table::ColumnKind::code_range);
        let quarter = (most - least) as f64 / 4.0;
        let error = match &self.queries[query].aggregates[aggregate].measure {
            AggregateMeasure::Count { .. } | AggregateMeasure::CountUnits | AggregateMeasure::Histogram { .. } => {
                deviation(0)
            }
            AggregateMeasure::Sum { .. } => deviation(0) * step,
            AggregateMeasure::Mean { .. } => {
                (deviation(1).powi(2) + (quarter * deviation(0)).powi(2)).sqrt() / rows * step
            }
            AggregateMeasure::Variance { .. } => {
                // With E q² = 2μ² at μ = a quarter of the range, the number of rows cancels to first order.
                (deviation(2).powi(2) + (2.0 * quarter * deviation(1)).powi(2)).sqrt() / rows * step * step
            }
            AggregateMeasure::Quantiles { .. } => {
                let levels = own.first().map_or(1.0, |block| block.statistic.squared_row_norm() as f64);
                deviation(0) * levels.sqrt()
            }
            AggregateMeasure::Survival { edges, .. } => expected_survival(edges.len() - 1, rows, deviation(0)),
            AggregateMeasure::Covariance { .. } => match own.get(2).map(|block| &block.statistic) {
                // Of a correlation near 0, with variances of a quarter of the squared span.
                Some(BlockStatistic::Products { most, .. }) => 4.0 * deviation(2) / (*most as f64 * rows),
                _ => 0.0,
            },
        };
        NORMAL_95 * error
    }

    /// Returns the spec with the shares and the least noise multiplier at which each listed aggregate meets its target.
    /// Aggregates without a target keep their present error. `None` if no noise in the range of the samplers does.
    ///
    /// The error of an aggregate is proportional to z/√s with s its part of all shares. So an aggregate with the error e
    /// at z and s needs a squared sensitivity of (e/target)²·s/z² in the total 1/z'² = Σ (e/target)²·s/z².
    ///
    /// # Errors
    /// [`LayoutError`] for queries that do not fit the columns or the limits.
    pub fn fit_targets(&self, datasets: &[Dataset], targets: &[TargetError]) -> Result<Option<Self>, LayoutError> {
        let errors = self.expected_errors(datasets)?;
        let mut fitted = self.clone();
        let total: f64 = self.queries.iter().flat_map(|query| &query.aggregates).map(|one| one.share).sum();
        let mut sum = 0.0;
        let mut errors = errors.iter();
        for (query, own) in fitted.queries.iter_mut().enumerate() {
            for (aggregate, one) in own.aggregates.iter_mut().enumerate() {
                let present = errors.next().map_or(0.0, |error| error.overall);
                let target = targets.iter().find(|target| (target.query, target.aggregate) == (query, aggregate));
                let ratio = target.map_or(1.0, |target| present / target.error);
                one.share *= ratio * ratio / total;
                sum += one.share;
            }
        }
        let noise = NoiseMultiplier::new(self.noise_multiplier.get() / sum.sqrt());
        // Shares are relative: the greatest becomes 1,000, so that the small ones keep their digits.
        let greatest =
            fitted.queries.iter().flat_map(|query| &query.aggregates).map(|one| one.share).fold(0.0, f64::max);
        for one in fitted.queries.iter_mut().flat_map(|query| &mut query.aggregates) {
            one.share = (one.share / greatest * 1000.0).max(0.001);
        }
        let Some(noise) = noise.ok().filter(|noise| (1.0 / 1024.0..=1024.0).contains(&noise.get())) else {
            return Ok(None);
        };
        fitted.noise_multiplier = noise;
        Ok(Some(fitted))
    }
}
