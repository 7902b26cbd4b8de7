//! The table under the sketches: rows of cells, each text counted in one cell of each row.
//!
//! Whatever the cells are, they saturate instead of wrapping around: a full cell says "at least this many".

use super::key::Places;
use super::size::Size;

/// A cell.
pub(super) trait Cell: Copy + Ord + Default {
    /// The greatest count it can tell from a smaller one.
    const MOST: u64;
    /// As much of a count as it holds.
    fn of(count: u64) -> Self;
    /// Its count.
    fn get(self) -> u64;
}

macro_rules! cell {
    ($($kind:ty),*) => {$(
        impl Cell for $kind {
            const MOST: u64 = <$kind>::MAX as u64;
            fn of(count: u64) -> Self {
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
pub(super) struct Table<C> {
    size: Size,
    cells: Vec<C>,
}

impl<C: Cell> Table<C> {
    pub(super) fn new(size: Size) -> Self {
        Self { size, cells: vec![C::default(); size.cells()] }
    }

    pub(super) const fn size(&self) -> Size {
        self.size
    }

    /// The indices of these places.
    fn indices(&self, places: &Places) -> impl Iterator<Item = usize> + use<C> {
        let (columns, places) = (self.size.columns() as usize, *places);
        (0..places.columns().len()).map(move |row| row * columns + places.columns()[row] as usize)
    }

    /// Adds to every cell: count-min.
    pub(super) fn add(&mut self, places: &Places, count: u64) {
        for index in self.indices(places) {
            self.cells[index] = C::of(self.cells[index].get().saturating_add(count));
        }
    }

    /// Raises every cell to the least of them plus the count, and no cell further: conservative update (Estan and Varghese 2002).
    pub(super) fn raise(&mut self, places: &Places, count: u64) {
        let level = C::of(self.least(places).saturating_add(count));
        for index in self.indices(places) {
            self.cells[index] = self.cells[index].max(level);
        }
    }

    /// The least of the cells: never below the true count, up to [`Cell::MOST`]. For `add` that is plain; for `raise`, every cell
    /// of a text is at least its count so far, so the least is, so after the update every cell is at least that plus the new ones.
    pub(super) fn least(&self, places: &Places) -> u64 {
        self.values(places).min().unwrap_or(0)
    }

    /// The cells of these places, row by row.
    pub(super) fn values(&self, places: &Places) -> impl Iterator<Item = u64> {
        self.indices(places).map(|index| self.cells[index].get())
    }

    /// What each row holds in all.
    pub(super) fn sums(&self) -> Vec<u64> {
        let sum = |row: &[C]| row.iter().fold(0_u64, |sum, cell| sum.saturating_add(cell.get()));
        self.cells.chunks(self.size.columns() as usize).map(sum).collect()
    }

    /// Adds another table of the same size, cell by cell.
    pub(super) fn merge(&mut self, other: &Self) {
        for (cell, other) in self.cells.iter_mut().zip(&other.cells) {
            *cell = C::of(cell.get().saturating_add(other.get()));
        }
    }

    /// The rows, for comparison.
    #[cfg(test)]
    pub(super) fn rows(&self) -> Vec<Vec<u64>> {
        self.cells.chunks(self.size.columns() as usize).map(|row| row.iter().map(|cell| cell.get()).collect()).collect()
    }
}
