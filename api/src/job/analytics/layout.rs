//! The vector of one site: a block of integer sums for each statistic of each aggregate.
//!
//! For each query in the order of the spec, for each aggregate, for each of its statistics: one block. A block has the
//! cells of the query (the combinations of its keys' groups, the last key fastest), and for each cell the coordinates of
//! the statistic. [`VectorLayout::contribute_steps`] defines the entries of one unit. A site sums many units at once, in
//! columns, and tests compare its sums with this definition (`worker/tables/src/sums.rs`).
//!
//! A query by site has these cells once for each participant, in the order of the spec. A site fills its own cells; the
//! others are zero in its vector, whatever its rows are. So a unit of a site counts in the cells of one site, and the
//! sensitivity is that of a query without this key.
//!
//! # Sensitivity
//!
//! One unit, emptied, changes the sum over units by its own contribution, whatever the other units are, because the
//! limits on a unit do not depend on other units. A contribution has at most m rows in a cell and at most g cells. Let a
//! row add a vector of norm at most r to one cell of a block. Then a cell receives at most m·r (triangle inequality),
//! and g cells, which have disjoint coordinates, at most m·r·√g. So the squared sensitivity of the block is
//!
//! S² = min(g, cells) · (m·r)², with r² = 1 for rows and bins, X² for sums of values up to X, L for a tree of L levels,
//! (m·r)² = 1 for units, r² = 1 for a row of a life table, which is in one of its counts, r² = kX² for k sums of terms up
//! to X, and r² = k(k + 1)/2·X² for the products of k columns: each of the k(k + 1)/2 products is at most X.
//!
//! All these are integers. Block b is multiplied by the integer weight
//!
//! W = ⌊√(R²·s / (Σs·S²))⌋, in integer arithmetic, with R = 2²⁰ and s the share of the block.
//!
//! Blocks have disjoint coordinates, so the squared norm of a contribution is at most Σ W²S² ≤ Σ R²·s/Σs = R²: the
//! whole vector has the sensitivity R, in steps of 2⁻²⁰: C = 1. One Gaussian release of the vector with the noise
//! multiplier z has noise of deviation z·R/W in each integer sum of block b. No floating-point number is involved.

use std::collections::BTreeMap;
use std::ops::Range;

use super::filter::CodeFilter;
use super::query::{AggregateMeasure, ContributionLimits, TableQuery};
use super::resolve::{KeyGroups, SelectedKeys};
use super::resolve_error::ResolveError;
use super::statistic::{BlockStatistic, PlannedStatistic, plan_statistics};
use crate::table::TableColumn;

/// R: the greatest norm of a unit's contribution, in steps of the grid.
pub const RADIUS: u64 = 1 << 20;
/// The least weight of a block: below it, rounding the weight down would add more than one part in 16 to the noise.
pub const LEAST_WEIGHT: u64 = 16;
/// The most cells of a query.
pub const MOST_CELLS: usize = 10_000;
/// The most coordinates of a vector.
pub const MOST_LENGTH: usize = 1 << 20;

/// Why a spec has no layout.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// A part of a query does not fit the columns.
    #[error("{error}")]
    Resolve {
        /// The path of the field within the spec: `queries.0.filter`.
        field: String,
        /// The reason.
        #[source]
        error: ResolveError,
    },
    /// A column whose range is not valid.
    #[error("column `{column}`: {problem}")]
    Column {
        /// The path of the field.
        field: String,
        /// The name of the column.
        column: String,
        /// The problem with its range.
        problem: String,
    },
    /// Too many cells.
    #[error("{cells} groups are more than {MOST_CELLS}: use fewer keys or wider ranges")]
    Cells {
        /// The path of the field.
        field: String,
        /// The number of groups.
        cells: usize,
    },
    /// Too many coordinates.
    #[error("the job releases more than {MOST_LENGTH} numbers: use fewer groups, bins or levels")]
    Length,
    /// Too many choices of keys.
    #[error("the choices of keys release more than {MOST_LENGTH} numbers: let fewer queries select keys")]
    Choices {
        /// The path of the field.
        field: String,
    },
    /// A block whose integers are too coarse.
    #[error("the share of this aggregate is too small for its limits: lower `rows` or `groups`, or raise its share")]
    Coarse {
        /// The path of the field.
        field: String,
    },
}

impl LayoutError {
    /// Returns the path of the field within the spec.
    pub fn field(&self) -> &str {
        match self {
            Self::Resolve { field, .. }
            | Self::Column { field, .. }
            | Self::Cells { field, .. }
            | Self::Choices { field }
            | Self::Coarse { field } => field,
            Self::Length => "queries",
        }
    }
}

/// A query with its names resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct ResolvedQuery {
    /// The filter on codes.
    pub filter: Option<CodeFilter>,
    /// The keys; the cells are their combinations, the last key fastest.
    pub keys: Vec<KeyGroups>,
    /// The limits on one unit.
    pub limits: ContributionLimits,
    /// The number of cells of one site.
    pub cells: usize,
    /// The sites with cells of their own: 1 for a query over all sites together.
    pub sites: usize,
    /// The blocks of the query.
    pub blocks: Range<usize>,
}

impl ResolvedQuery {
    /// Returns the cell of a row; `None` if the filter is not true or a key has no group for it.
    pub fn find_cell(&self, row: &[Option<i64>]) -> Option<usize> {
        if let Some(filter) = &self.filter
            && filter.evaluate(row) != Some(true)
        {
            return None;
        }
        let mut cell = 0;
        for key in &self.keys {
            let code = row.get(key.column()).copied().flatten()?;
            cell = cell * key.len() + key.find_group(code)?;
        }
        Some(cell)
    }

    /// Returns the cells of a participant, by its position, as ranges of [`VectorBlock::coordinates`].
    pub const fn cells_of(&self, site: usize) -> Range<usize> {
        let first = if self.sites > 1 { site * self.cells } else { 0 };
        first..first + self.cells
    }

    /// Returns the range of each key in a cell of one site.
    pub fn split_cell(&self, mut cell: usize) -> Vec<usize> {
        let mut ranges = vec![0; self.keys.len()];
        for (range, key) in ranges.iter_mut().zip(&self.keys).rev() {
            *range = cell % key.len();
            cell /= key.len();
        }
        ranges
    }
}

/// The sums of one statistic for all cells of a query.
#[derive(Debug, Clone, PartialEq)]
pub struct VectorBlock {
    /// The position of the query in the spec.
    pub query: usize,
    /// The position of the aggregate in its query.
    pub aggregate: usize,
    /// The positions of the columns; rows without a value in each of them add nothing.
    pub columns: Vec<usize>,
    /// The statistic.
    pub statistic: BlockStatistic,
    /// The first coordinate.
    pub offset: usize,
    /// The coordinates of a cell.
    pub width: usize,
    /// W: the factor of the integer sums.
    pub weight: u64,
    /// S²: the squared sensitivity of the integer sums, without the factor.
    pub squared_sensitivity: u128,
}

/// The positions and weights of all sums in a vector.
#[derive(Debug, Clone, PartialEq)]
pub struct VectorLayout {
    queries: Vec<ResolvedQuery>,
    blocks: Vec<VectorBlock>,
    length: usize,
}

impl VectorLayout {
    /// Returns the layout of the vectors of `sites` participants for these queries.
    ///
    /// # Errors
    /// [`LayoutError`] with the field of the first query that does not fit the columns or the limits.
    pub fn new(columns: &[TableColumn], queries: &[TableQuery], sites: usize) -> Result<Self, LayoutError> {
        for (index, column) in columns.iter().enumerate() {
            if let Some((field, problem)) = column.find_problem() {
                let (field, column) = (format!("columns.{index}.{field}"), column.name.clone());
                return Err(LayoutError::Column { field, column, problem });
            }
        }
        let total = queries.iter().flat_map(|query| &query.aggregates).map(|one| 6 * to_thousandths(one.share)).sum();
        let mut layout = Self { queries: Vec::new(), blocks: Vec::new(), length: 0 };
        for (index, query) in queries.iter().enumerate() {
            let sites = if query.by_site { sites.max(1) } else { 1 };
            layout.push_query(columns, index, (query, sites), total)?;
        }
        Ok(layout)
    }

    fn push_query(
        &mut self,
        columns: &[TableColumn],
        index: usize,
        (query, sites): (&TableQuery, usize),
        total: u128,
    ) -> Result<(), LayoutError> {
        let wrap = |field: String| move |error| LayoutError::Resolve { field, error };
        let filter = query.filter.as_ref().map(|filter| filter.resolve(columns));
        let filter = filter.transpose().map_err(wrap(format!("queries.{index}.filter")))?;
        let keys = query
            .group_by
            .iter()
            .enumerate()
            .map(|(place, key)| key.resolve(columns).map_err(wrap(format!("queries.{index}.group_by.{place}"))));
        let keys: Vec<KeyGroups> = keys.collect::<Result<_, _>>()?;
        let cells = keys.iter().map(KeyGroups::len).fold(1, usize::saturating_mul);
        let all_cells = cells.saturating_mul(sites);
        if all_cells > MOST_CELLS {
            let cells = all_cells;
            return Err(LayoutError::Cells { field: format!("queries.{index}.group_by"), cells });
        }
        let first = self.blocks.len();
        for (aggregate, one) in query.aggregates.iter().enumerate() {
            let field = format!("queries.{index}.aggregates.{aggregate}");
            let share = to_thousandths(one.share);
            let frame = BlockFrame { limits: query.limits, cells, total };
            let blocks = frame.plan(&one.measure, share, columns, &field)?;
            for (columns, statistic, weight, squared_sensitivity) in blocks {
                let width = statistic.width();
                let offset = self.length;
                let block = VectorBlock {
                    query: index,
                    aggregate,
                    columns,
                    statistic,
                    offset,
                    width,
                    weight,
                    squared_sensitivity,
                };
                self.blocks.push(block);
                self.length =
                    width.checked_mul(all_cells).and_then(|own| own.checked_add(offset)).unwrap_or(usize::MAX);
                if self.length > MOST_LENGTH {
                    return Err(LayoutError::Length);
                }
            }
        }
        let blocks = first..self.blocks.len();
        self.queries.push(ResolvedQuery { filter, keys, limits: query.limits, cells, sites, blocks });
        Ok(())
    }

    /// Returns the layout with the chosen keys of its queries. The coordinates and their weights stay.
    #[must_use]
    pub fn with_keys(mut self, selected: &SelectedKeys) -> Self {
        for (query, chosen) in self.queries.iter_mut().zip(selected) {
            for (key, chosen) in query.keys.iter_mut().zip(chosen) {
                if let KeyGroups::Selected { codes, most, .. } = key {
                    *codes = chosen.iter().copied().take(*most).collect();
                }
            }
        }
        self
    }

    /// Returns the number of coordinates.
    pub const fn length(&self) -> usize {
        self.length
    }

    /// Returns the queries, in the order of the spec.
    pub fn queries(&self) -> &[ResolvedQuery] {
        &self.queries
    }

    /// Returns all blocks, in the order of their coordinates.
    pub fn blocks(&self) -> &[VectorBlock] {
        &self.blocks
    }

    /// Returns Σ W²S², the squared sensitivity of the vector in steps of the grid: at most R².
    pub fn squared_sensitivity(&self) -> u128 {
        self.blocks.iter().map(|block| u128::from(block.weight).pow(2) * block.squared_sensitivity).sum()
    }

    /// Returns the coordinates that a participant fills, by its position: the others are zero in its vector, whatever its
    /// rows are.
    pub fn own_coordinates(&self, site: usize) -> Vec<Range<usize>> {
        let own = self.blocks.iter().map(|block| {
            let cells = self.queries[block.query].cells_of(site);
            block.offset + cells.start * block.width..block.offset + cells.end * block.width
        });
        own.collect()
    }

    /// Returns the contribution of one unit of a participant, by its position, in steps of the grid: coordinate and
    /// integer, each coordinate once, ascending. `rows` are the codes of the unit's rows, in the order in which the limits
    /// admit them.
    pub fn contribute_steps<'a>(
        &self,
        site: usize,
        rows: impl Iterator<Item = &'a [Option<i64>]>,
    ) -> Vec<(usize, i64)> {
        let rows: Vec<&[Option<i64>]> = rows.collect();
        let mut entries = BTreeMap::new();
        for query in &self.queries {
            let first = query.cells_of(site).start;
            // Rows of the unit by cell: a unit is in few cells.
            let mut cells: BTreeMap<usize, u32> = BTreeMap::new();
            for row in rows.iter().copied() {
                let Some(cell) = query.find_cell(row) else { continue };
                if !cells.contains_key(&cell) && cells.len() >= query.limits.groups as usize {
                    continue;
                }
                let count = cells.entry(cell).or_default();
                if *count >= query.limits.rows {
                    continue;
                }
                *count += 1;
                let is_first = *count == 1;
                for block in &self.blocks[query.blocks.clone()] {
                    block.visit_row(first + cell, row, is_first, |place, steps| {
                        *entries.entry(place).or_default() += steps;
                    });
                }
            }
        }
        entries.into_iter().collect()
    }
}

impl VectorBlock {
    /// Returns the coordinates of a cell, of all sites' cells.
    #[inline]
    pub const fn coordinates(&self, cell: usize) -> Range<usize> {
        let start = self.offset + cell * self.width;
        start..start + self.width
    }

    /// Returns W/R, the factor from integer sums to the numbers of a vector.
    pub fn factor(&self) -> f64 {
        self.weight as f64 / RADIUS as f64
    }

    /// Calls `visit` with the coordinates and the steps that a row adds to a cell.
    fn visit_row(&self, cell: usize, row: &[Option<i64>], is_first: bool, mut visit: impl FnMut(usize, i64)) {
        let code = |column: &usize| row.get(*column).copied().flatten();
        if !self.columns.iter().all(|column| code(column).is_some()) {
            return;
        }
        let code = |place: usize| self.columns.get(place).and_then(code).unwrap_or_default();
        let start = self.coordinates(cell).start;
        let weight = self.weight.cast_signed();
        self.statistic.visit_entries(code, is_first, |place, value| visit(start + place, value * weight));
    }
}

/// Returns a relative share in thousandths: 1 to 1,000,000.
fn to_thousandths(share: f64) -> u128 {
    ((share * 1000.0).round_ties_even().clamp(1.0, 1e6) as u128).max(1)
}

/// The facts that all blocks of a query share.
struct BlockFrame {
    limits: ContributionLimits,
    /// The cells of one site.
    cells: usize,
    /// The sum of all shares of the job.
    total: u128,
}

/// Columns, statistic, weight and squared sensitivity of a block.
type PlannedBlock = (Vec<usize>, BlockStatistic, u64, u128);

impl BlockFrame {
    fn plan(
        &self,
        measure: &AggregateMeasure,
        share: u128,
        columns: &[TableColumn],
        field: &str,
    ) -> Result<Vec<PlannedBlock>, LayoutError> {
        let planned = plan_statistics(measure, columns);
        let planned = planned.map_err(|error| LayoutError::Resolve { field: field.to_owned(), error })?;
        let blocks = planned.into_iter().map(|PlannedStatistic { columns, mut statistic, part }| {
            loop {
                let squared = self.squared_sensitivity(&statistic);
                let quotient = u128::from(RADIUS).pow(2) * share * part / (self.total * squared);
                let weight = quotient.isqrt() as u64;
                if weight >= LEAST_WEIGHT {
                    return Ok((columns, statistic, weight, squared));
                }
                statistic = statistic.coarsen().ok_or_else(|| LayoutError::Coarse { field: field.to_owned() })?;
            }
        });
        blocks.collect()
    }

    /// Returns S²: see the module's documentation.
    fn squared_sensitivity(&self, statistic: &BlockStatistic) -> u128 {
        let rows = if statistic.counts_units() { 1 } else { u128::from(self.limits.rows.max(1)) };
        let cells = u128::from(self.limits.groups.max(1)).min(self.cells as u128);
        cells * rows * rows * statistic.squared_row_norm()
    }
}
