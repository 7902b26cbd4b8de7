//! The texts that may occur at least k times: the first pass of the gate.
//!
//! Count-min with conservative update. Its cells need only distinguish "less than k" from "at least k": bytes for a k
//! up to 255. It never leaves out a text with k occurrences ([`super::table`]), and may name many texts with fewer.
//! Their number affects the duration of the second pass, and nothing else.

use super::SketchError;
use super::key::{CellColumns, SketchKey};
use super::size::TableSize;
use super::table::CellTable;

/// Rows of the table: enough that a rare text seldom shares a cell with frequent ones in all of them.
const ROWS: u32 = 4;
/// Fewest columns: small logs take little time anyway.
const LEAST_COLUMNS: u64 = 1 << 10;

enum NominatorCells {
    Bytes(CellTable<u8>),
    Shorts(CellTable<u16>),
    Words(CellTable<u32>),
}

/// Names the texts that may occur at least k times.
pub struct Nominator {
    key: SketchKey,
    threshold: u64,
    size: TableSize,
    cells: NominatorCells,
}

impl Nominator {
    /// Makes a table for `occurrences` occurrences and threshold k: 4·N/k columns, so that in each row the other texts
    /// in its cell raise a text below k/2 to k with probability at most one half (`privacy.md`, 7.4). The table never
    /// exceeds `memory` bytes, for any log.
    ///
    /// # Errors
    /// [`SketchError`] when not even 2 columns fit into `memory`.
    pub fn new(threshold: u32, occurrences: u64, memory: usize, key: SketchKey) -> Result<Self, SketchError> {
        let threshold = u64::from(threshold);
        let bytes = match threshold {
            0..=0xFF => 1,
            0x100..=0xFFFF => 2,
            _ => 4,
        };
        let target = (4 * (occurrences / threshold.max(1)).min(1 << 40)).max(LEAST_COLUMNS);
        let fit = (memory as u64 / (bytes * u64::from(ROWS))).min(super::MOST_CELLS / u64::from(ROWS));
        let size = TableSize::new(ROWS, u32::try_from(target.min(fit)).unwrap_or(u32::MAX))?;
        Ok(Self::with_size(threshold, size, key))
    }

    /// Makes a table of any size.
    pub(crate) fn with_size(threshold: u64, size: TableSize, key: SketchKey) -> Self {
        let cells = match threshold {
            0..=0xFF => NominatorCells::Bytes(CellTable::new(size)),
            0x100..=0xFFFF => NominatorCells::Shorts(CellTable::new(size)),
            _ => NominatorCells::Words(CellTable::new(size)),
        };
        Self { key, threshold, size, cells }
    }

    /// Returns the bytes of its table.
    pub fn memory(&self) -> usize {
        let bytes = match self.cells {
            NominatorCells::Bytes(_) => 1,
            NominatorCells::Shorts(_) => 2,
            NominatorCells::Words(_) => 4,
        };
        self.size.cells() * bytes
    }

    /// Counts a text.
    pub fn add(&mut self, text: &str, count: u64) {
        let places = self.places(text);
        match &mut self.cells {
            NominatorCells::Bytes(table) => table.raise(&places, count),
            NominatorCells::Shorts(table) => table.raise(&places, count),
            NominatorCells::Words(table) => table.raise(&places, count),
        }
    }

    /// Returns true if the text may have k of the added occurrences; always true for a text that has k.
    pub fn names(&self, text: &str) -> bool {
        let places = self.places(text);
        let least = match &self.cells {
            NominatorCells::Bytes(table) => table.least(&places),
            NominatorCells::Shorts(table) => table.least(&places),
            NominatorCells::Words(table) => table.least(&places),
        };
        least >= self.threshold
    }

    fn places(&self, text: &str) -> CellColumns {
        self.key.places(text, self.size.rows(), self.size.columns())
    }
}
