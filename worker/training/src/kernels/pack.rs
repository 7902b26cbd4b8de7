//! Matrices in the order in which the kernels read them.

use std::ops::Range;

use rayon::prelude::*;

/// Columns of a panel.
pub(crate) const WIDE: usize = 48;
/// Columns of a tile.
pub(crate) const TALL: usize = 8;

/// Rows in blocks and blocks in panels of columns: `[block][panel][row of the block][48]`, with zeros beyond the last
/// column.
#[derive(Debug, Default)]
pub(crate) struct ColumnPanels {
    data: Vec<f32>,
    rows: usize,
    columns: usize,
    block: usize,
}

impl ColumnPanels {
    /// Allocates panels in a reused buffer, in blocks of `block` rows (the last may be shorter). The caller must write
    /// all numbers.
    pub(crate) fn room(mut buffer: Vec<f32>, rows: usize, columns: usize, block: usize) -> Self {
        buffer.resize(rows * columns.div_ceil(WIDE) * WIDE, 0.0);
        Self { data: buffer, rows, columns, block: block.max(1) }
    }

    /// Packs a row-major `[rows, columns]` matrix as one block.
    pub(crate) fn pack(matrix: &[f32], rows: usize, columns: usize) -> Self {
        Self::from_fn(rows, columns, |row, start, target| {
            target.copy_from_slice(&matrix[row * columns + start..][..target.len()]);
        })
    }

    /// Packs the transpose of a row-major `[columns, rows]` matrix as one block.
    pub(crate) fn pack_transposed(matrix: &[f32], columns: usize, rows: usize) -> Self {
        Self::from_fn(rows, columns, |row, start, target| {
            for (index, target) in target.iter_mut().enumerate() {
                *target = matrix[(start + index) * rows + row];
            }
        })
    }

    /// Packs as one block the numbers that `write` writes for each row and first column.
    fn from_fn(rows: usize, columns: usize, write: impl Fn(usize, usize, &mut [f32]) + Sync) -> Self {
        let mut packed = Self::room(Vec::new(), rows, columns, rows);
        packed.data.as_chunks_mut::<WIDE>().0.par_chunks_mut(rows.max(1)).enumerate().for_each(|(panel, targets)| {
            let start = panel * WIDE;
            for (row, target) in targets.iter_mut().enumerate() {
                write(row, start, &mut target[..WIDE.min(columns - start)]);
            }
        });
        packed
    }

    /// Writes a value into a row of the only block, beyond the last column.
    pub(crate) fn fill_beyond(&mut self, row: usize, value: f32) {
        if !self.columns.is_multiple_of(WIDE) {
            let place = (self.panels() - 1) * self.rows + row;
            self.data.as_chunks_mut::<WIDE>().0[place][self.columns % WIDE..].fill(value);
        }
    }

    /// Returns the buffer for reuse.
    pub(crate) fn into_buffer(self) -> Vec<f32> {
        self.data
    }

    pub(crate) const fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) const fn columns(&self) -> usize {
        self.columns
    }

    /// Returns the number of panels of a block.
    pub(crate) const fn panels(&self) -> usize {
        self.columns.div_ceil(WIDE)
    }

    /// Returns a panel of the only block.
    pub(crate) fn panel(&self, panel: usize) -> &[[f32; WIDE]] {
        &self.data.as_chunks::<WIDE>().0[panel * self.rows..(panel + 1) * self.rows]
    }

    /// Returns the part of a panel for `rows`, piece by piece, in order.
    #[inline(always)]
    pub(crate) fn pieces(&self, rows: Range<usize>, panel: usize) -> impl Iterator<Item = &[[f32; WIDE]]> {
        let data = self.data.as_chunks::<WIDE>().0;
        let mut at = rows.start;
        std::iter::from_fn(move || {
            if at >= rows.end {
                return None;
            }
            let (first, height) = self.place(at);
            let start = first + panel * height;
            let length = (height - at % self.block).min(rows.end - at);
            at += length;
            Some(&data[start..start + length])
        })
    }

    /// Returns the location of a row: its index in the first panel of its block, and the distance between panels.
    #[inline(always)]
    pub(crate) fn place(&self, row: usize) -> (usize, usize) {
        let start = row / self.block * self.block;
        (start * self.panels() + (row - start), self.block.min(self.rows - start))
    }

    /// Returns the part of a panel for the row at a location.
    #[inline(always)]
    pub(crate) fn row_part(&self, (first, step): (usize, usize), panel: usize) -> &[f32; WIDE] {
        &self.data.as_chunks::<WIDE>().0[first + panel * step]
    }

    /// Returns all blocks with their rows, each `[panel][row][48]`.
    pub(crate) fn blocks_mut(&mut self) -> impl Iterator<Item = (Range<usize>, &mut [[f32; WIDE]])> {
        let (rows, block, panels) = (self.rows, self.block, self.panels());
        let mut rest = self.data.as_chunks_mut::<WIDE>().0;
        (0..rows).step_by(block).map(move |start| {
            let rows = start..(start + block).min(rows);
            let own = rest.split_off_mut(..rows.len() * panels).unwrap_or_default();
            (rows, own)
        })
    }
}

/// Columns in tiles of eight, each `[row][8]`, with zeros beyond the last column.
#[derive(Debug, Default)]
pub(crate) struct ColumnTiles {
    data: Vec<[f32; TALL]>,
    rows: usize,
    columns: usize,
}

impl ColumnTiles {
    /// Packs a row-major `[rows, columns]` matrix.
    pub(crate) fn pack(matrix: &[f32], rows: usize, columns: usize) -> Self {
        Self::from_fn(rows, columns, |row, column| matrix[row * columns + column])
    }

    /// Packs a row-major `[rows, columns]` matrix and a last column of ones, with each row multiplied by its scale.
    pub(crate) fn pack_with_one(matrix: &[f32], columns: usize, scale: &[f32]) -> Self {
        Self::from_fn(scale.len(), columns + 1, |row, column| {
            if column == columns { scale[row] } else { matrix[row * columns + column] * scale[row] }
        })
    }

    /// Packs a row-major `[rows, columns]` matrix with each row multiplied by its scale.
    pub(crate) fn pack_scaled(matrix: &[f32], columns: usize, scale: &[f32]) -> Self {
        Self::from_fn(scale.len(), columns, |row, column| matrix[row * columns + column] * scale[row])
    }

    #[inline(always)]
    fn from_fn(rows: usize, columns: usize, element: impl Fn(usize, usize) -> f32 + Sync) -> Self {
        let mut data = vec![[0.0; TALL]; columns.div_ceil(TALL) * rows];
        data.par_chunks_exact_mut(rows.max(1)).enumerate().for_each(|(index, tile)| {
            let width = TALL.min(columns - index * TALL);
            for (row, target) in tile.iter_mut().enumerate() {
                for (column, target) in target[..width].iter_mut().enumerate() {
                    *target = element(row, index * TALL + column);
                }
            }
        });
        Self { data, rows, columns }
    }

    /// Returns the same matrix in panels.
    pub(crate) fn panels(&self) -> ColumnPanels {
        ColumnPanels::from_fn(self.rows, self.columns, |row, start, target| {
            for (column, target) in (start..).zip(target) {
                *target = self.data[column / TALL * self.rows + row][column % TALL];
            }
        })
    }

    pub(crate) const fn columns(&self) -> usize {
        self.columns
    }

    pub(crate) const fn tiles(&self) -> usize {
        self.columns.div_ceil(TALL)
    }

    /// Returns the part of a tile for `rows`.
    #[inline(always)]
    pub(crate) fn tile(&self, tile: usize, rows: &Range<usize>) -> &[[f32; TALL]] {
        &self.data[tile * self.rows + rows.start..tile * self.rows + rows.end]
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::float_cmp, reason = "numbers are moved, not computed")]

    use super::{ColumnPanels, ColumnTiles, WIDE};

    #[test]
    fn packed_matrices_hold_every_element_where_it_is_read() {
        let (rows, columns) = (7, 2 * WIDE + 5);
        let matrix: Vec<f32> = (0..rows * columns).map(|n| n as f32).collect();
        let turned: Vec<f32> = (0..rows * columns).map(|n| matrix[n % rows * columns + n / rows]).collect();
        let tiles = ColumnTiles::pack(&matrix, rows, columns);
        let mut blocks = ColumnPanels::room(vec![1.0; 3], rows, columns, 3);
        for (own, block) in blocks.blocks_mut() {
            for (index, target) in block.iter_mut().enumerate() {
                let (panel, row) = (index / own.len(), own.start + index % own.len());
                *target = std::array::from_fn(|c| matrix.get(row * columns + panel * WIDE + c).copied().unwrap_or(0.0));
            }
        }
        for packed in [
            ColumnPanels::pack(&matrix, rows, columns),
            ColumnPanels::pack_transposed(&turned, columns, rows),
            tiles.panels(),
            blocks,
        ] {
            for row in 0..rows {
                for column in 0..columns {
                    assert_eq!(
                        packed.row_part(packed.place(row), column / WIDE)[column % WIDE],
                        matrix[row * columns + column]
                    );
                }
            }
            let read: Vec<f32> = packed.pieces(2..6, 1).flatten().map(|row| row[0]).collect();
            assert_eq!(read, (2..6).map(|row| matrix[row * columns + WIDE]).collect::<Vec<_>>());
        }
    }
}
