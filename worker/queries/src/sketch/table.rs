//! The table under the sketches: rows of cells; each text has one cell in each row.
//!
//! Cells of every width saturate instead of wrapping around: a full cell means "at least this many".

use super::key::CellColumns;
use super::size::TableSize;

/// A cell.
pub(super) trait TableCell: Copy + Ord + Default {
    /// The greatest count that a cell can hold.
    const MOST: u64;
    /// Saturates a count to a cell.
    fn from_count(count: u64) -> Self;
    /// Returns the cell's count.
    fn get(self) -> u64;
}

macro_rules! cell {
    ($($kind:ty),*) => {$(
        impl TableCell for $kind {
            const MOST: u64 = <$kind>::MAX as u64;
            fn from_count(count: u64) -> Self {
                count.min(Self::MOST) as $kind
            }
            fn get(self) -> u64 {
                u64::from(self)
            }
        }
    )*};
}

cell!(u8, u16, u32, u64);

/// Rows of cells.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct CellTable<C> {
    size: TableSize,
    cells: Vec<C>,
}

impl<C: TableCell> CellTable<C> {
    pub(super) fn new(size: TableSize) -> Self {
        Self { size, cells: vec![C::default(); size.cells()] }
    }

    pub(super) const fn size(&self) -> TableSize {
        self.size
    }

    /// Iterates over the indices of these cells.
    fn indices(&self, places: &CellColumns) -> impl Iterator<Item = usize> + use<C> {
        let columns = self.size.columns() as usize;
        let places = *places;
        (0..places.columns().len()).map(move |row| row * columns + places.columns()[row] as usize)
    }

    /// Adds to every cell: count-min.
    pub(super) fn add(&mut self, places: &CellColumns, count: u64) {
        for index in self.indices(places) {
            self.cells[index] = C::from_count(self.cells[index].get().saturating_add(count));
        }
    }

    /// Raises every cell to the least of them plus the count, and no cell further: conservative update (Estan and
    /// Varghese 2002).
    pub(super) fn raise(&mut self, places: &CellColumns, count: u64) {
        let level = C::from_count(self.least(places).saturating_add(count));
        for index in self.indices(places) {
            self.cells[index] = self.cells[index].max(level);
        }
    }

    /// Returns the least of the cells. It is never below the true count, up to [`TableCell::MOST`]. For `add` this is
    /// immediate. For `raise`, every cell of a text is at least its count so far, hence so is the least; after the
    /// update every cell is at least the least plus the new occurrences.
    pub(super) fn least(&self, places: &CellColumns) -> u64 {
        self.values(places).min().unwrap_or(0)
    }

    /// Iterates over the cells, row by row.
    pub(super) fn values(&self, places: &CellColumns) -> impl Iterator<Item = u64> {
        self.indices(places).map(|index| self.cells[index].get())
    }

    /// Returns the total of each row.
    pub(super) fn sums(&self) -> Vec<u64> {
        let sum = |row: &[C]| row.iter().fold(0_u64, |sum, cell| sum.saturating_add(cell.get()));
        self.cells.chunks(self.size.columns() as usize).map(sum).collect()
    }

    /// Adds another table of the same size, cell by cell.
    pub(super) fn merge(&mut self, other: &Self) {
        for (cell, other) in self.cells.iter_mut().zip(&other.cells) {
            *cell = C::from_count(cell.get().saturating_add(other.get()));
        }
    }

    /// Returns the rows, for comparison.
    #[cfg(test)]
    pub(super) fn rows(&self) -> Vec<Vec<u64>> {
        self.cells.chunks(self.size.columns() as usize).map(|row| row.iter().map(|cell| cell.get()).collect()).collect()
    }
}
