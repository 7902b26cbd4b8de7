//! The sums of the aggregates of a job.

use undertone_api::job::analytics::{ContributionLimits, VectorBlock, VectorLayout};

use super::ContributionSum;
use super::admission::{AdmittedRow, RowAdmission};
use super::condition::{RowCondition, Truth, TruthPool};
use super::groups::{KeyLookup, NO_CELL};
use super::norms::{UnitNorms, square};
use crate::chunk::UnitChunk;
use crate::error::TableError;

/// The sum of contributions as [`VectorLayout::contribute_steps`] defines them.
#[derive(Debug, Clone)]
pub struct AggregateSum {
    queries: Vec<QueryPlan>,
    steps: Vec<i64>,
    norms: UnitNorms,
    scratch: QueryScratch,
}

/// A query, prepared for columns.
#[derive(Debug, Clone)]
struct QueryPlan {
    filter: Option<RowCondition>,
    keys: Vec<KeyLookup>,
    limits: ContributionLimits,
    /// The number of cells of one site.
    cells: usize,
    /// The first cell of this site.
    first_cell: usize,
    blocks: Vec<VectorBlock>,
}

/// Buffers that are used again.
#[derive(Debug, Clone, Default)]
struct QueryScratch {
    /// The cell of each row.
    cells: Vec<u32>,
    truths: TruthPool,
    admission: RowAdmission,
}

impl AggregateSum {
    /// Returns the empty sum of a participant, by its position.
    pub fn new(layout: &VectorLayout, site: usize) -> Self {
        let queries = layout.queries().iter().map(|query| QueryPlan {
            filter: query.filter.as_ref().map(RowCondition::new),
            keys: query.keys.iter().map(KeyLookup::new).collect(),
            limits: query.limits,
            cells: query.cells,
            first_cell: query.cells_of(site).start,
            blocks: layout.blocks()[query.blocks.clone()].to_vec(),
        });
        Self {
            queries: queries.collect(),
            steps: vec![0; layout.length()],
            norms: UnitNorms::default(),
            scratch: QueryScratch::default(),
        }
    }
}

impl ContributionSum for AggregateSum {
    fn add_units(&mut self, chunk: &UnitChunk) -> Result<(), TableError> {
        let Self { queries, steps, norms, scratch } = self;
        norms.begin(chunk.unit_count());
        for query in queries.iter() {
            query.find_cells(chunk, scratch);
            scratch.admission.admit(chunk, &scratch.cells, query.limits, query.cells);
            for block in &query.blocks {
                add_block(block, query.first_cell, (chunk, scratch.admission.rows()), steps, norms);
            }
        }
        norms.verify()
    }

    fn steps(&self) -> &[i64] {
        &self.steps
    }
}

impl QueryPlan {
    /// Finds the cell of each row, of one site's cells.
    fn find_cells(&self, chunk: &UnitChunk, scratch: &mut QueryScratch) {
        let QueryScratch { cells, truths, .. } = scratch;
        cells.clear();
        cells.resize(chunk.rows(), 0);
        if let Some(filter) = &self.filter {
            let values = filter.evaluate(chunk, truths);
            for (cell, value) in cells.iter_mut().zip(&values) {
                *cell = if *value == Truth::True { 0 } else { NO_CELL };
            }
            truths.push(values);
        }
        for key in &self.keys {
            key.split_cells(chunk.column(key.column), cells);
        }
    }
}

/// Adds the entries of admitted rows in a block to the sums, and their squares to the norms of their units.
///
/// A cell with n rows of a unit has at most n times the sum of their squared norms (Cauchy and Schwarz); of units, that
/// of the first row alone.
fn add_block(
    block: &VectorBlock,
    first_cell: usize,
    (chunk, rows): (&UnitChunk, &[AdmittedRow]),
    steps: &mut [i64],
    norms: &mut UnitNorms,
) {
    let columns: Vec<_> = block.columns.iter().map(|column| chunk.column(*column)).collect();
    let weight = block.weight.cast_signed();
    let counts_units = block.statistic.counts_units();
    for admitted in rows {
        let row = admitted.row as usize;
        if !columns.iter().all(|column| column.has_code[row]) {
            continue;
        }
        let own = &mut steps[block.coordinates(first_cell + admitted.cell as usize)];
        let code = |place: usize| columns.get(place).map_or(0, |column| column.codes[row]);
        let mut squares = 0_u64;
        block.statistic.visit_entries(code, admitted.is_first, |place, value| {
            let entry = value.saturating_mul(weight);
            own[place] += entry;
            squares = squares.saturating_add(square(entry));
        });
        let most_rows = if counts_units { 1 } else { u64::from(admitted.cell_rows) };
        norms.add(admitted.unit as usize, squares.saturating_mul(most_rows));
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use serde_json::json;
    use undertone_api::job::analytics::Spec;

    use super::{AggregateSum, ContributionSum as _};
    use crate::chunk::UnitChunk;
    use crate::error::TableError;

    /// Returns the sum of a job with one row for each unit.
    fn sum() -> AggregateSum {
        let spec: Spec = serde_json::from_value(json!({
            "unit": "user",
            "participants": [{ "dataset": "00000000-0000-0000-0000-000000000001" }],
            "columns": [{ "name": "age", "kind": "integer", "least": 0, "most": 100 }],
            "queries": [{ "name": "ages", "aggregates": [{ "aggregate": "sum", "column": "age" }] }],
            "noise_multiplier": 1.0,
        }))
        .unwrap();
        AggregateSum::new(&spec.layout().unwrap(), 0)
    }

    #[test]
    fn unit_beyond_the_sensitivity_is_refused() {
        let mut chunk = UnitChunk::new(1);
        chunk.push_unit([&[Some(7)][..]]);
        chunk.push_unit([&[Some(100)][..], &[Some(100)]]);
        assert!(sum().add_units(&chunk).is_ok());
        let mut heavy = sum();
        heavy.queries[0].blocks[0].weight *= 2;
        assert!(matches!(heavy.add_units(&chunk), Err(TableError::ExcessContribution)), "a wrong weight");
        let mut unlimited = sum();
        unlimited.queries[0].limits.rows = 2;
        assert!(matches!(unlimited.add_units(&chunk), Err(TableError::ExcessContribution)), "a wrong limit");
    }
}
