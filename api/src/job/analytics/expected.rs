//! The expected error of each number, before the job runs: from the noise and the public sizes of the tables alone.

use serde::{Deserialize, Serialize};
use undertone_privacy::NoiseMultiplier;

use super::estimate::regression::most_visible_error;
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
/// is stated at the error of a correlation near 0, of columns whose deviation is a quarter of their range; so is a linear
/// regression, where it is that of a coefficient near 0 with each column in units of its deviation; at least 1, the end of
/// its range, where the noise would hide the coefficients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ExpectedError {
    /// The name of the query.
    pub query: String,
    /// The aggregate: `mean(age)`.
    pub label: String,
    /// The error if each site answered alone.
    pub sites: Vec<(DatasetId, f64)>,
    /// The error of the sum over all sites; of a query by site, the greatest error of a site.
    pub overall: f64,
}

/// The noise multipliers for which the sites can draw noise exactly.
const NOISE_RANGE: std::ops::RangeInclusive<f64> = 1.0 / 1024.0..=1024.0;
/// The steps of a fit before the last one.
const FITTING_STEPS: usize = 3;

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
            let alone: Vec<(DatasetId, f64)> = tables.iter().map(alone).collect();
            let greatest = alone.iter().map(|(_, error)| *error).fold(0.0, f64::max);
            ExpectedError {
                query: own.name.clone(),
                label: one.measure.label(),
                overall: if own.by_site { greatest } else { self.error_of(&layout, query, aggregate, count, all) },
                sites: alone,
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
            AggregateMeasure::Covariance { .. } | AggregateMeasure::LinearRegression { .. } => {
                match own.get(2).map(|block| &block.statistic) {
                    // Of a correlation near 0, with variances of a quarter of the squared span; so also of a coefficient near 0
                    // of columns in units of their deviations, for features without correlations.
                    Some(BlockStatistic::Products { most, .. }) => 4.0 * deviation(2) / (*most as f64 * rows),
                    _ => 0.0,
                }
            }
        };
        let error = NORMAL_95 * error;
        match &self.queries[query].aggregates[aggregate].measure {
            AggregateMeasure::LinearRegression { features, .. } if error > most_visible_error(features.len()) => {
                error.max(1.0)
            }
            _ => error,
        }
    }

    /// Returns the spec with the shares and the greatest noise multiplier at which each listed aggregate meets its target.
    /// Aggregates without a target keep their present error. `None` if no noise in the range of the samplers does.
    ///
    /// The error of an aggregate is proportional to z/√s with s its part of all shares. So an aggregate with the error e
    /// at z and s needs a squared sensitivity of (e/target)²·s/z² in the total 1/z'² = Σ (e/target)²·s/z². An error that
    /// is not proportional, because the noise hides its number, is after the next step.
    ///
    /// # Errors
    /// [`LayoutError`] for queries that do not fit the columns or the limits.
    pub fn fit_targets(&self, datasets: &[Dataset], targets: &[TargetError]) -> Result<Option<Self>, LayoutError> {
        let mut goals = self.list_errors(datasets)?;
        let places = self
            .queries
            .iter()
            .enumerate()
            .flat_map(|(query, own)| (0..own.aggregates.len()).map(move |aggregate| (query, aggregate)));
        for (goal, place) in goals.iter_mut().zip(places) {
            let target = targets.iter().find(|target| (target.query, target.aggregate) == place);
            let Some(target) = target else { continue };
            // A wider interval of a coefficient is not given.
            *goal = match &self.queries[place.0].aggregates[place.1].measure {
                AggregateMeasure::LinearRegression { features, .. } => {
                    target.error.min(most_visible_error(features.len()))
                }
                _ => target.error,
            };
        }
        let mut fitted = self.clone();
        for step in 0..=FITTING_STEPS {
            let errors = fitted.list_errors(datasets)?;
            let ratios = errors.iter().zip(&goals).map(|(error, goal)| if *goal > 0.0 { error / goal } else { 1.0 });
            let z = fitted.noise_multiplier.get();
            let noise = if step < FITTING_STEPS {
                fitted.scale_shares(z, ratios)
            } else {
                // Shares and weights are rounded: the noise pays for it, so that each target holds.
                z / ratios.fold(1.0, f64::max)
            };
            let Some(noise) = NoiseMultiplier::new(noise).ok().filter(|noise| NOISE_RANGE.contains(&noise.get()))
            else {
                return Ok(None);
            };
            fitted.noise_multiplier = noise;
        }
        Ok(Some(fitted))
    }

    /// Returns the error of each aggregate over all sites.
    fn list_errors(&self, datasets: &[Dataset]) -> Result<Vec<f64>, LayoutError> {
        Ok(self.expected_errors(datasets)?.into_iter().map(|error| error.overall).collect())
    }

    /// Multiplies the share of each aggregate by the square of its ratio, and returns the noise multiplier that divides
    /// its error by the ratio.
    fn scale_shares(&mut self, z: f64, ratios: impl Iterator<Item = f64>) -> f64 {
        let shares = || self.queries.iter().flat_map(|query| &query.aggregates).map(|one| one.share);
        let total: f64 = shares().sum();
        let scaled: Vec<f64> = shares().zip(ratios).map(|(share, ratio)| share * ratio * ratio / total).collect();
        let sum: f64 = scaled.iter().sum();
        // Shares are relative: the greatest becomes 1,000, so that the small ones keep their digits.
        let greatest = scaled.iter().copied().fold(0.0, f64::max);
        let aggregates = self.queries.iter_mut().flat_map(|query| &mut query.aggregates);
        for (one, share) in aggregates.zip(scaled) {
            one.share = (share / greatest * 1000.0).max(0.001);
        }
        z / sum.sqrt()
    }
}
