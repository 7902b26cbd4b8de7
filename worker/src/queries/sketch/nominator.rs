//! Which texts may occur at least k times: the first pass of the gate.
//!
//! Count-min with conservative update, whose cells need to tell no more than "less than k" from "at least k": bytes for a k up to
//! 255. It never leaves out a text with k occurrences ([`super::table`]), and it may name many that have fewer; how many decides
//! how long the second pass takes, and nothing else.

use super::SketchError;
use super::key::{Key, Places};
use super::size::Size;
use super::table::Table;

/// Rows of the table: enough that a rare text shares a cell with frequent ones in all of them only rarely.
const ROWS: u32 = 4;
/// Fewest columns: small logs are counted in no time anyway.
const LEAST_COLUMNS: u64 = 1 << 10;

enum Cells {
    Bytes(Table<u8>),
    Shorts(Table<u16>),
    Words(Table<u32>),
}

/// Names the texts that may occur at least k times.
pub struct Nominator {
    key: Key,
    threshold: u64,
    size: Size,
    cells: Cells,
}

impl Nominator {
    /// A table for `occurrences` occurrences and threshold k: 4·N/k columns, so that a text below k/2 shares a cell with so many
    /// others that it reaches k only half of the time at most in each row (`privacy.md`, 7.4). Never more than `memory` bytes,
    /// whatever the log.
    ///
    /// # Errors
    /// [`SketchError`] when not even 2 columns fit into `memory`.
    pub fn new(threshold: u32, occurrences: u64, memory: usize, key: Key) -> Result<Self, SketchError> {
        let threshold = u64::from(threshold);
        let bytes = match threshold {
            0..=0xFF => 1,
            0x100..=0xFFFF => 2,
            _ => 4,
        };
        let wanted = (4 * (occurrences / threshold.max(1)).min(1 << 40)).max(LEAST_COLUMNS);
        let fit = (memory as u64 / (bytes * u64::from(ROWS))).min(super::MOST_CELLS / u64::from(ROWS));
        let size = Size::new(ROWS, u32::try_from(wanted.min(fit)).unwrap_or(u32::MAX))?;
        Ok(Self::of(threshold, size, key))
    }

    /// A table of any size.
    pub(in crate::queries) fn of(threshold: u64, size: Size, key: Key) -> Self {
        let cells = match threshold {
            0..=0xFF => Cells::Bytes(Table::new(size)),
            0x100..=0xFFFF => Cells::Shorts(Table::new(size)),
            _ => Cells::Words(Table::new(size)),
        };
        Self { key, threshold, size, cells }
    }

    /// Bytes of its table.
    pub fn memory(&self) -> usize {
        let bytes = match self.cells {
            Cells::Bytes(_) => 1,
            Cells::Shorts(_) => 2,
            Cells::Words(_) => 4,
        };
        self.size.cells() * bytes
    }

    /// Counts a text.
    pub fn add(&mut self, text: &str, count: u64) {
        let places = self.places(text);
        match &mut self.cells {
            Cells::Bytes(table) => table.raise(&places, count),
            Cells::Shorts(table) => table.raise(&places, count),
            Cells::Words(table) => table.raise(&places, count),
        }
    }

    /// Whether the text may have k occurrences among those that were added. True for every one that has.
    pub fn names(&self, text: &str) -> bool {
        let places = self.places(text);
        let least = match &self.cells {
            Cells::Bytes(table) => table.least(&places),
            Cells::Shorts(table) => table.least(&places),
            Cells::Words(table) => table.least(&places),
        };
        least >= self.threshold
    }

    fn places(&self, text: &str) -> Places {
        self.key.places(text, self.size.rows(), self.size.columns())
    }
}
