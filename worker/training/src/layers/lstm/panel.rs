//! The product of rows at arbitrary offsets with a matrix.
//!
//! Each element is one chain of fused multiply-adds from the first row of the matrix to the last: the same bits with
//! any other rows, on any processor.

use crate::kernels::block;
use crate::kernels::pack;

/// A matrix that rows are multiplied with.
pub(crate) struct PanelMatrix(pack::ColumnPanels);

impl PanelMatrix {
    /// Packs a row-major matrix.
    pub(crate) fn new(matrix: &[f32], rows: usize, columns: usize) -> Self {
        Self(pack::ColumnPanels::pack(matrix, rows, columns))
    }

    /// Packs the transpose of a row-major `[columns, rows]` matrix.
    pub(crate) fn transposed(matrix: &[f32], columns: usize, rows: usize) -> Self {
        Self(pack::ColumnPanels::pack_transposed(matrix, columns, rows))
    }

    /// Multiplies rows of `source` (starting at the offsets `from`, each as long as the matrix has rows) with the
    /// matrix and writes the products to rows of `target` (starting at the offsets `to`).
    pub(crate) fn multiply(&self, source: &[f32], from: &[usize], target: &mut [f32], to: &[usize]) {
        block::multiply(&self.0, source, from, target, to);
    }
}
