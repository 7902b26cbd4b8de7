//! Queries: the aggregates that share a filter, groups and limits.

use serde::{Deserialize, Serialize};

use super::filter::RowFilter;
use crate::table::CalendarDate;

/// One query group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct TableQuery {
    /// Its name in the result: 1 to 100 characters.
    pub name: String,
    /// The rows that count; each row without a filter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<RowFilter>,
    /// The keys of the groups, at most 4; one group without keys. The cells are all combinations of the keys' groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(max_items = 4))]
    pub group_by: Vec<GroupKey>,
    /// Whether each site answers on its own: a site fills its own cells, and adds noise to these alone. Each number is then
    /// of one site, with its noise, and histograms are compared between the sites. The quorum must be all sites.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_site: bool,
    /// The limits on the contribution of one unit.
    #[serde(default)]
    pub limits: ContributionLimits,
    /// The aggregates, each for every cell: 1 to 64.
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 64))]
    pub aggregates: Vec<TableAggregate>,
}

/// The limits on the contribution of one unit to one query. Rows and cells beyond them are chosen by a keyed order, not
/// by their values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ContributionLimits {
    /// m: the most rows of a unit that count in one cell: 1 to 1,000.
    #[serde(default = "one")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1000))]
    pub rows: u32,
    /// g: the most cells in which a unit counts: 1 to 1,000.
    #[serde(default = "one")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1000))]
    pub groups: u32,
}

const fn one() -> u32 {
    1
}

impl Default for ContributionLimits {
    fn default() -> Self {
        Self { rows: 1, groups: 1 }
    }
}

/// A key of groups: declared before the data are read, or chosen privately by the job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "by", rename_all = "snake_case", deny_unknown_fields)]
pub enum GroupKey {
    /// One group for each value of a column of categories or booleans.
    Values {
        /// The column.
        column: String,
    },
    /// Groups of integers or reals: from each edge to below the next, the last with its upper edge.
    Ranges {
        /// The column.
        column: String,
        /// The edges, ascending: 2 to 1,001.
        edges: Vec<f64>,
    },
    /// One group for each of the most frequent keys of a column of keys, chosen from a noisy vector that each site releases
    /// before that of the aggregates.
    Selected {
        /// The column.
        column: String,
        /// The most groups: 1 to 1,000.
        #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1000))]
        most: u32,
    },
    /// Groups of dates.
    Dates {
        /// The column.
        column: String,
        /// The period of a group.
        every: DatePeriod,
        /// A date in the first group.
        first: CalendarDate,
        /// A date in the last group.
        last: CalendarDate,
    },
}

/// A period of the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum DatePeriod {
    /// A day.
    Day,
    /// Seven days, beginning on Monday.
    Week,
    /// A calendar month.
    Month,
    /// Three calendar months, beginning in January, April, July and October.
    Quarter,
    /// A calendar year.
    Year,
}

/// An aggregate with its share of the budget.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TableAggregate {
    /// The aggregate.
    #[serde(flatten)]
    pub measure: AggregateMeasure,
    /// Its share of the budget relative to the other aggregates of the job: 0.001 to 1,000. The variance of its noise is
    /// inversely proportional to it.
    #[serde(default = "full_share", skip_serializing_if = "is_full_share")]
    #[cfg_attr(feature = "openapi", schema(minimum = 0.001, maximum = 1000))]
    pub share: f64,
}

const fn full_share() -> f64 {
    1.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_full_share(share: &f64) -> bool {
    (*share - 1.0).abs() < f64::EPSILON
}

/// An aggregate. Rows whose column has no value do not count in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "aggregate", rename_all = "snake_case")]
pub enum AggregateMeasure {
    /// The number of rows.
    Count {
        /// Counts the rows with a value in this column; all rows without one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        column: Option<String>,
    },
    /// The number of units.
    CountUnits,
    /// The sum of a column of numbers.
    Sum {
        /// The column.
        column: String,
    },
    /// The mean of a column of numbers over rows.
    Mean {
        /// The column.
        column: String,
    },
    /// The variance of a column of numbers over rows, with its mean.
    Variance {
        /// The column.
        column: String,
    },
    /// The number of rows in each bin of a column of numbers, or for each value of a column of categories or booleans.
    Histogram {
        /// The column.
        column: String,
        /// The edges of bins of numbers, ascending: 2 to 1,001; empty for categories and booleans.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        edges: Vec<f64>,
    },
    /// Quantiles of a column of numbers or dates, from a noisy binary tree over its declared range.
    Quantiles {
        /// The column.
        column: String,
        /// The probabilities, ascending, between 0 and 1: 1 to 99.
        probabilities: Vec<f64>,
        /// The levels of the tree, below its root: 2 to 12. The range is cut into 2^levels equal parts.
        #[serde(default = "usual_levels")]
        #[cfg_attr(feature = "openapi", schema(minimum = 2, maximum = 12))]
        levels: u32,
    },
    /// The survival curve of the times to an event on a declared grid, by the estimator of Kaplan and Meier (1958) for
    /// the times as grouped. Rows whose time is below the first edge do not count.
    Survival {
        /// The column of times to the event or to the end of observation: integers or reals.
        time: String,
        /// The column of booleans: true if the event was observed, false if the time is censored.
        event: String,
        /// The edges of the intervals, ascending: 2 to 1,001. A time in an interval counts at its end; times beyond the
        /// last edge are observed throughout.
        edges: Vec<f64>,
    },
    /// The covariance matrix of several columns of numbers, with the correlations, over the rows with a value in each.
    Covariance {
        /// The columns, each once: 2 to 16.
        #[cfg_attr(feature = "openapi", schema(min_items = 2, max_items = 16))]
        columns: Vec<String>,
    },
    /// The linear regression of a column of numbers on others by least squares, over the rows with a value in each: a
    /// coefficient for each feature, the intercept, and the share of the target's variance that the features explain.
    LinearRegression {
        /// The column to explain.
        target: String,
        /// The columns that explain it, each once and without the target: 1 to 15.
        #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 15))]
        features: Vec<String>,
    },
}

const fn usual_levels() -> u32 {
    8
}

impl AggregateMeasure {
    /// Returns the columns, in the order of the label.
    pub fn columns(&self) -> Vec<&str> {
        match self {
            Self::Count { column } => column.as_deref().into_iter().collect(),
            Self::CountUnits => Vec::new(),
            Self::Sum { column }
            | Self::Mean { column }
            | Self::Variance { column }
            | Self::Histogram { column, .. }
            | Self::Quantiles { column, .. } => vec![column],
            Self::Survival { time, event, .. } => vec![time, event],
            Self::Covariance { columns } => columns.iter().map(String::as_str).collect(),
            Self::LinearRegression { target, features } => {
                std::iter::once(target).chain(features).map(String::as_str).collect()
            }
        }
    }

    /// Returns the aggregate as text: `mean(age)`.
    pub fn label(&self) -> String {
        let name = match self {
            Self::Count { .. } => "count",
            Self::CountUnits => return "count(units)".to_owned(),
            Self::Sum { .. } => "sum",
            Self::Mean { .. } => "mean",
            Self::Variance { .. } => "variance",
            Self::Histogram { .. } => "histogram",
            Self::Quantiles { .. } => "quantiles",
            Self::Survival { .. } => "survival",
            Self::Covariance { .. } => "covariance",
            Self::LinearRegression { .. } => "linear_regression",
        };
        let columns = self.columns();
        let columns = if columns.is_empty() { "*".to_owned() } else { columns.join(", ") };
        format!("{name}({columns})")
    }
}
