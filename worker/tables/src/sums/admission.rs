//! The limits on a unit: which of its rows count in a query.

use undertone_api::job::analytics::ContributionLimits;

use super::groups::NO_CELL;
use crate::chunk::UnitChunk;

/// A row that counts. A chunk has fewer than 2³² rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct AdmittedRow {
    /// The row in the chunk.
    pub(super) row: u32,
    /// The unit in the chunk.
    pub(super) unit: u32,
    /// The cell, of one site's cells.
    pub(super) cell: u32,
    /// The admitted rows of the unit in this cell.
    pub(super) cell_rows: u32,
    /// Whether the row is the first one of the unit in this cell.
    pub(super) is_first: bool,
}

/// Admits rows by the limits on units. Its buffers are used again.
#[derive(Debug, Clone, Default)]
pub(super) struct RowAdmission {
    rows: Vec<AdmittedRow>,
    /// The admitted rows of the present unit in each cell: zero between units.
    counts: Vec<u32>,
    /// The cells of the present unit.
    unit_cells: Vec<u32>,
}

impl RowAdmission {
    /// Returns the rows that [`Self::admit`] admitted.
    pub(super) fn rows(&self) -> &[AdmittedRow] {
        &self.rows
    }

    /// Admits of each unit, in the order of its rows, the first rows of each cell in the first cells. `cells` has the cell
    /// of each row, below `most_cells`.
    pub(super) fn admit(&mut self, chunk: &UnitChunk, cells: &[u32], limits: ContributionLimits, most_cells: usize) {
        self.rows.clear();
        if limits.rows == 0 || limits.groups == 0 {
            return;
        }
        if self.counts.len() < most_cells {
            self.counts.resize(most_cells, 0);
        }
        for (unit, (_, rows)) in chunk.units().enumerate() {
            let first = self.rows.len();
            for row in rows {
                let cell = cells[row];
                if cell == NO_CELL {
                    continue;
                }
                let count = &mut self.counts[cell as usize];
                if *count == 0 {
                    if self.unit_cells.len() >= limits.groups as usize {
                        continue;
                    }
                    self.unit_cells.push(cell);
                }
                if *count < limits.rows {
                    *count += 1;
                    self.rows.push(AdmittedRow {
                        row: row as u32,
                        unit: unit as u32,
                        cell,
                        cell_rows: 0,
                        is_first: *count == 1,
                    });
                }
            }
            for admitted in &mut self.rows[first..] {
                admitted.cell_rows = self.counts[admitted.cell as usize];
            }
            for cell in self.unit_cells.drain(..) {
                self.counts[cell as usize] = 0;
            }
        }
    }
}
