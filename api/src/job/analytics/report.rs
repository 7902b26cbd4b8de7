//! The report of a finished job: noisy numbers of all sites together, as post-processing of the released vectors.

use serde::{Deserialize, Serialize};

use super::estimate::drift::{NoisyHistogram, measure_drift};
use super::estimate::{CellSums, NumberEstimate};
use super::layout::{LayoutError, ResolvedQuery, VectorBlock};
use super::query::{AggregateMeasure, TableQuery};
use super::resolve::SelectedKeys;
use super::statistic::BlockStatistic;
use super::{Spec, VectorLayout};
use crate::id::DatasetId;
use crate::table::{CalendarDate, ColumnKind, TableColumn};

/// Why no report can be computed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnalyticsError {
    /// The queries have no layout.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// A vector of another length.
    #[error("the average has {found} numbers, the layout of the job {expected}: all sites must run the same version")]
    Length {
        /// The numbers of the vector.
        found: usize,
        /// The numbers of the layout.
        expected: usize,
    },
}

/// The numbers of one aggregate in one cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AggregateResult {
    /// The aggregate: `mean(age)`.
    pub label: String,
    /// Its numbers: one, or one for each bin or quantile.
    pub numbers: Vec<NumberEstimate>,
    /// Whether the numbers are dates: values and intervals count days since 1970-01-01, deviations count days.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_date: bool,
    /// The edges of a survival curve, which is 1 at the first; each number holds from the edge after it. Empty for other
    /// aggregates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub times: Vec<f64>,
}

impl AggregateResult {
    /// Returns a value or an end of an interval as a date, if the numbers are dates.
    pub fn find_date(&self, value: f64) -> Option<CalendarDate> {
        // The conversion saturates; days beyond the calendar have no date.
        CalendarDate::from_days(value.round() as i64).ok().filter(|_| self.is_date)
    }
}

/// One cell of a query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CellResult {
    /// The site of the numbers, in a query by site.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<DatasetId>,
    /// The group of each key, in the order of the keys; empty for a query without keys.
    pub groups: Vec<String>,
    /// The aggregates, in the order of the query.
    pub aggregates: Vec<AggregateResult>,
}

/// The result of one query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QueryResult {
    /// The name of the query.
    pub name: String,
    /// The columns of the keys.
    pub keys: Vec<String>,
    /// The cells, the last key fastest, of one site after another in a query by site. Each declared cell is listed,
    /// whatever it holds; of a key that the job chose, the chosen groups.
    pub cells: Vec<CellResult>,
    /// The drift of each histogram of a query by site: its distance, at a site and in a group, from the same histogram of
    /// the other sites together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drifts: Vec<CellResult>,
}

/// The report of a finished `analytics` job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = AnalyticsReport))]
pub struct Report {
    /// The number of sites in the sums.
    pub sites: u32,
    /// The queries, in the order of the spec.
    pub queries: Vec<QueryResult>,
}

impl AggregateMeasure {
    fn edges_of_time(&self) -> Vec<f64> {
        match self {
            Self::Survival { edges, .. } => edges.clone(),
            _ => Vec::new(),
        }
    }
}

impl Spec {
    /// Computes the report of a spec that selects no keys from the sums over `sites` sites.
    ///
    /// # Errors
    /// [`AnalyticsError`] when the vector is not of this spec's layout.
    pub fn report(&self, sums: &[f64], sites: u32) -> Result<Report, AnalyticsError> {
        self.report_keys(&SelectedKeys::new(), sums, sites)
    }

    /// Computes the report from the sums over `sites` sites, with the keys that [`Spec::select_keys`] returned.
    ///
    /// # Errors
    /// [`AnalyticsError`] when the vector is not of this spec's layout.
    pub fn report_keys(&self, selected: &SelectedKeys, sums: &[f64], sites: u32) -> Result<Report, AnalyticsError> {
        let layout = self.layout()?.with_keys(selected);
        if sums.len() != layout.length() {
            return Err(AnalyticsError::Length { found: sums.len(), expected: layout.length() });
        }
        let queries = (0..self.queries.len()).map(|query| self.report_query(&layout, query, sums, sites)).collect();
        Ok(Report { sites, queries })
    }

    /// Returns whether the numbers of an aggregate are dates.
    fn has_dates(&self, measure: &AggregateMeasure) -> bool {
        let AggregateMeasure::Quantiles { column, .. } = measure else { return false };
        let is_date = |one: &TableColumn| one.name == *column && matches!(one.kind, ColumnKind::Date { .. });
        self.columns.iter().any(is_date)
    }

    fn report_query(&self, layout: &VectorLayout, index: usize, sums: &[f64], sites: u32) -> QueryResult {
        let query = &self.queries[index];
        let resolved = &layout.queries()[index];
        let blocks = &layout.blocks()[resolved.blocks.clone()];
        let drifts = if query.by_site { self.report_drifts(query, resolved, blocks, sums) } else { Vec::new() };
        let noisy_sites = if query.by_site { 1 } else { sites };
        let cells = (0..resolved.sites * resolved.cells).filter_map(|cell| {
            let aggregates = query.aggregates.iter().enumerate().map(|(aggregate, one)| {
                let own: Vec<_> = blocks.iter().filter(|block| block.aggregate == aggregate).collect();
                let noise = self.noise_multiplier.get();
                let sums = CellSums::new(&own, cell, sums, noise, noisy_sites, query.limits.rows);
                AggregateResult {
                    label: one.measure.label(),
                    numbers: sums.estimate(&one.measure, &self.columns),
                    is_date: self.has_dates(&one.measure),
                    times: one.measure.edges_of_time(),
                }
            });
            self.place_result(query, resolved, cell, aggregates.collect())
        });
        QueryResult {
            name: query.name.clone(),
            keys: query.group_by.iter().map(|key| key.column().to_owned()).collect(),
            cells: cells.collect(),
            drifts,
        }
    }

    /// Returns the drift of each histogram, by site and group. Two sites are the least between which there is one.
    fn report_drifts(
        &self,
        query: &TableQuery,
        resolved: &ResolvedQuery,
        blocks: &[VectorBlock],
        sums: &[f64],
    ) -> Vec<CellResult> {
        let is_histogram = |block: &&VectorBlock| matches!(block.statistic, BlockStatistic::Bins(_));
        let histograms: Vec<&VectorBlock> = blocks.iter().filter(is_histogram).collect();
        if resolved.sites < 2 || histograms.is_empty() {
            return Vec::new();
        }
        let read = |block: &VectorBlock, cell: usize| NoisyHistogram {
            counts: sums[block.coordinates(cell)].iter().map(|sum| sum / block.factor()).collect(),
            noise: block.deviation(self.noise_multiplier.get(), 1),
        };
        let drifts = (0..resolved.sites * resolved.cells).filter_map(|cell| {
            let (site, group) = (cell / resolved.cells, cell % resolved.cells);
            let aggregates = histograms.iter().map(|block| {
                let others: Vec<NoisyHistogram> = (0..resolved.sites)
                    .filter(|other| *other != site)
                    .map(|other| read(block, other * resolved.cells + group))
                    .collect();
                AggregateResult {
                    label: format!("drift of {}", query.aggregates[block.aggregate].measure.label()),
                    numbers: measure_drift(&read(block, cell), &NoisyHistogram::sum(others.iter())),
                    is_date: false,
                    times: Vec::new(),
                }
            });
            self.place_result(query, resolved, cell, aggregates.collect())
        });
        drifts.collect()
    }

    /// Returns results with the names of their groups and, in a query by site, their site; `None` for a cell without a
    /// chosen key.
    fn place_result(
        &self,
        query: &TableQuery,
        resolved: &ResolvedQuery,
        cell: usize,
        aggregates: Vec<AggregateResult>,
    ) -> Option<CellResult> {
        let ranges = resolved.split_cell(cell % resolved.cells);
        let groups = resolved.keys.iter().zip(ranges);
        let site = self.participants.get(cell / resolved.cells).filter(|_| query.by_site);
        let groups: Option<Vec<String>> =
            groups.map(|(key, group)| key.label(group, &self.columns[key.column()].kind)).collect();
        Some(CellResult { site: site.map(|party| party.dataset), groups: groups?, aggregates })
    }
}

/// A number of a report with its place: a line of the files with results.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultLine<'a> {
    /// The name of the query.
    pub query: &'a str,
    /// The group: `sex=female; ward=a`, empty for a query without keys. In a query by site, the dataset is first:
    /// `site=ID; sex=female`.
    pub group: String,
    /// The aggregate.
    pub aggregate: &'a AggregateResult,
    /// The number.
    pub number: &'a NumberEstimate,
}

impl QueryResult {
    fn name_group(&self, cell: &CellResult) -> String {
        let site = cell.site.map(|site| format!("site={site}"));
        let keys = self.keys.iter().zip(&cell.groups).map(|(key, group)| format!("{key}={group}"));
        site.into_iter().chain(keys).collect::<Vec<_>>().join("; ")
    }
}

impl Report {
    /// Returns the numbers of all queries, in their order; the drifts of a query after its cells.
    pub fn lines(&self) -> impl Iterator<Item = ResultLine<'_>> {
        let cells = self
            .queries
            .iter()
            .flat_map(|query| query.cells.iter().chain(&query.drifts).map(move |cell| (query, cell)));
        cells.flat_map(|(query, cell)| {
            let line = move |aggregate, number| ResultLine {
                query: &query.name,
                group: query.name_group(cell),
                aggregate,
                number,
            };
            cell.aggregates
                .iter()
                .flat_map(move |aggregate| aggregate.numbers.iter().map(move |number| line(aggregate, number)))
        })
    }

    /// Returns the report as CSV (RFC 4180): one line for each number. A number that noise hides has an empty value; dates
    /// are written as `2026-01-31`.
    pub fn to_csv(&self) -> String {
        let mut text = "query,group,aggregate,number,value,low,high,noise,sampling\r\n".to_owned();
        for ResultLine { query, group, aggregate, number } in self.lines() {
            let digits = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
            let place =
                |value: f64| aggregate.find_date(value).map_or_else(|| value.to_string(), |date| date.to_string());
            let fields = [
                quote(query),
                quote(&group),
                quote(&aggregate.label),
                quote(&number.label),
                number.value.map(place).unwrap_or_default(),
                place(number.low),
                place(number.high),
                number.noise.to_string(),
                digits(number.sampling),
            ];
            text.push_str(&fields.join(","));
            text.push_str("\r\n");
        }
        text
    }
}

/// Quotes a field of CSV. A text that a spreadsheet would run as a formula gets an apostrophe.
fn quote(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let guard = if is_formula { "'" } else { "" };
    format!("\"{guard}{}\"", text.replace('"', "\"\""))
}
