//! The product of scattered rows with a matrix.
//!
//! Each element is one chain of fused multiply-adds from the first row of the matrix to the last: the same bits in any
//! company of rows, on any processor.

use crate::dp::kernels::block;
use crate::dp::kernels::pack;

/// A matrix to be multiplied from the left.
pub(in crate::dp) struct Panels(pack::Panels);

impl Panels {
    /// Of a row-major matrix.
    pub(in crate::dp) fn new(matrix: &[f32], rows: usize, columns: usize) -> Self {
        Self(pack::Panels::pack(matrix, rows, columns))
    }

    /// Of the transpose of a row-major `[columns, rows]` matrix.
    pub(in crate::dp) fn transposed(matrix: &[f32], columns: usize, rows: usize) -> Self {
        Self(pack::Panels::pack_transposed(matrix, columns, rows))
    }

    /// Rows of `source` (beginning at `from`, each as long as the matrix has rows) times the matrix, into rows of `target`
    /// (beginning at `to`).
    pub(in crate::dp) fn multiply(&self, source: &[f32], from: &[usize], target: &mut [f32], to: &[usize]) {
        block::multiply(&self.0, source, from, target, to);
    }
}
