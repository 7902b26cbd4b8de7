//! `analytics`: aggregates of tables of rows over several sites.
//!
//! Each site sums the bounded contributions of its units to all aggregates of all queries in one vector of integers, adds
//! discrete Gaussian noise, and releases it. Where a query has groups of keys that nobody declared, each site releases a
//! vector of the choice of keys before. The server averages; counts, means, variances, histograms, quantiles,
//! survival curves and covariance matrices, each with an interval, follow from the sum as post-processing. One release of each site, charged once; two
//! with a choice of keys.
//!
//! `query.rs` and `filter.rs` define the request, `resolve.rs` binds it to declared columns, `statistic.rs` and
//! `layout.rs` the vector and its sensitivity, `selection.rs` the choice of keys, `estimate.rs` and its neighbours the results, `cost.rs` the charge,
//! `check.rs` the limits. `sql.rs` reads a restricted SQL text into the same queries.
//!
#![doc = include_str!("analytics/spec.md")]

mod check;
mod cost;
mod estimate;
mod expected;
mod filter;
mod layout;
mod query;
mod report;
mod resolve;
mod resolve_error;
mod selection;
#[cfg(feature = "sql")]
pub mod sql;
mod statistic;
#[cfg(test)]
pub(crate) mod tests;
mod tree;

use serde::{Deserialize, Serialize};
use undertone_privacy::{Event, NoiseMultiplier, PrivacyUnit};

use super::{AllowedMeasurements, Charge, DatasetUse, JobKind, RoundSeries};
use crate::dataset::Dataset;
use crate::id::DatasetId;
use crate::job::dp_sgd::Precision;
use crate::problem::Violation;
use crate::table::TableColumn;

pub use check::{MOST_AGGREGATES, MOST_QUERIES};
pub use estimate::drift::LEAST_SHARE;
pub use estimate::{LEAST_DEVIATIONS, NumberEstimate};
pub use expected::{ExpectedError, TargetError};
pub use filter::{
    CodeFilter, CodeRange, Comparison, FilterValue, MOST_FILTER_DEPTH, MOST_FILTER_NODES, MOST_LISTED_VALUES, RowFilter,
};
pub use layout::{
    LEAST_WEIGHT, LayoutError, MOST_CELLS, MOST_LENGTH, RADIUS, ResolvedQuery, VectorBlock, VectorLayout,
};
pub use query::{AggregateMeasure, ContributionLimits, DatePeriod, GroupKey, TableAggregate, TableQuery};
pub use report::{AggregateResult, AnalyticsError, CellResult, QueryResult, Report, ResultLine};
pub use resolve::{CodeBounds, KeyGroups, MOST_EDGES, SelectedKeys};
pub use resolve_error::ResolveError;
pub use selection::{BUCKETS, FOUND, KeyChoice, KeyLayout, MOST_SELECTED};
pub use statistic::{BlockStatistic, CentredColumn, LEVELS};

/// The series in which the vectors of the choice of keys are averaged, in one round: number 1. Only where a query selects
/// keys.
pub const KEYS: &str = "keys";
/// The series in which the vectors are averaged, in one round: number 1.
pub const VECTOR: &str = "vector";

/// The file of the report's numbers, in Parquet.
pub const NUMBERS_FILE: &str = "numbers.parquet";

/// A participant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = AnalyticsParty))]
#[serde(deny_unknown_fields)]
pub struct Party {
    /// Its dataset, a table.
    pub dataset: DatasetId,
}

/// An `analytics` job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = AnalyticsSpec))]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// The protected unit: `user`, the values of the table's column of units.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::unit))]
    pub unit: PrivacyUnit,
    /// The participants. The first computes the report from the average.
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 100))]
    pub participants: Vec<Party>,
    /// The columns that the queries use, as each participant's table declares them.
    #[cfg_attr(feature = "openapi", schema(max_items = 256))]
    pub columns: Vec<TableColumn>,
    /// The queries: 1 to 32.
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 32))]
    pub queries: Vec<TableQuery>,
    /// z: the standard deviation of each site's noise relative to the greatest contribution of a unit.
    #[cfg_attr(feature = "openapi", schema(value_type = f64, example = 4.3))]
    pub noise_multiplier: NoiseMultiplier,
    /// The fewest sites with which the round may close after its deadline.
    #[serde(default = "one")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub quorum: u32,
    /// The time in seconds that the round waits for all sites: 1 to 86,400.
    #[serde(default = "default_deadline")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 86400))]
    pub deadline_seconds: u32,
}

const fn one() -> u32 {
    1
}

const fn default_deadline() -> u32 {
    86_400
}

impl Spec {
    /// Returns the positions and weights of all sums in a site's vector.
    ///
    /// # Errors
    /// [`LayoutError`] for queries that do not fit the columns or the limits.
    pub fn layout(&self) -> Result<VectorLayout, LayoutError> {
        VectorLayout::new(&self.columns, &self.queries, self.participants.len())
    }

    /// Returns C, the greatest norm of a unit's contribution: 1, see `layout.rs`.
    pub const fn contribution_norm(&self) -> f64 {
        1.0
    }

    /// Returns the position of a dataset among the participants.
    pub fn find_site(&self, dataset: DatasetId) -> Option<usize> {
        self.participants.iter().position(|party| party.dataset == dataset)
    }

    /// Returns whether a dataset takes part.
    pub fn is_participant(&self, dataset: DatasetId) -> bool {
        self.find_site(dataset).is_some()
    }

    /// Returns whether a query shows each site's numbers on their own.
    pub fn has_queries_by_site(&self) -> bool {
        self.queries.iter().any(|query| query.by_site)
    }

    /// Returns whether a dataset is the lead's.
    pub fn is_lead(&self, dataset: DatasetId) -> bool {
        self.participants.first().is_some_and(|party| party.dataset == dataset)
    }
}

impl JobKind for Spec {
    const NAME: &'static str = "analytics";

    fn check(&self, datasets: &[Dataset]) -> Vec<Violation> {
        check::check(self, datasets)
    }

    fn datasets(&self) -> Vec<(DatasetId, DatasetUse)> {
        self.participants.iter().map(|party| (party.dataset, DatasetUse::Participate)).collect()
    }

    fn cost(&self, dataset: &Dataset) -> Option<Charge> {
        cost::cost(self, dataset)
    }

    fn release(&self, dataset: &Dataset, series: &str) -> Option<Event> {
        cost::release(self, dataset, series)
    }

    fn clip(&self, dataset: DatasetId) -> Option<f64> {
        self.is_participant(dataset).then(|| self.contribution_norm())
    }

    fn most_norm(&self, dataset: &Dataset, series: &RoundSeries) -> Option<f64> {
        cost::most_norm(self, dataset, series)
    }

    fn units(&self, dataset: &Dataset) -> u64 {
        dataset.count(self.unit).0
    }

    fn series(&self, datasets: &[Dataset]) -> Vec<RoundSeries> {
        let is_known = |party: &&Party| datasets.iter().any(|dataset| dataset.id == party.dataset);
        let series = |name: &str, length: Option<usize>| RoundSeries {
            name: name.to_owned(),
            rounds: 1,
            quorum: self.quorum,
            deadline_seconds: self.deadline_seconds,
            weights: self.participants.iter().filter(is_known).map(|party| (party.dataset, 1.0)).collect(),
            until: Vec::new(),
            length: length.map(|length| length as u64),
            precision: Precision::F32,
            masked: None,
        };
        let keys = self.selects_keys().then(|| series(KEYS, self.key_layout().ok().map(|layout| layout.length())));
        let vector = series(VECTOR, self.layout().ok().map(|layout| layout.length()));
        keys.into_iter().chain([vector]).collect()
    }

    fn allowed_measurements(&self) -> AllowedMeasurements {
        AllowedMeasurements { series: Vec::new(), tests: Vec::new() }
    }

    fn follows_from_releases(&self, dataset: DatasetId) -> bool {
        // The lead has no access to the rows but through its own release: the report is computed from the average.
        self.is_lead(dataset)
    }
}
