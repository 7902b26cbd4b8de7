//! Matrix products on slices: the only calls of the `gemm` crate, with all bounds checked before.
//!
//! For given shapes, each element of a product is computed by the same operations in the same order whatever the number
//! of threads: work is divided over rows and columns of the result, never along the sum.

use std::ops::Range;

use gemm::Parallelism;

/// A view of a slice as a matrix.
#[derive(Debug, Clone, Copy)]
pub struct MatrixView<'a> {
    data: &'a [f32],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a> MatrixView<'a> {
    /// Returns a `[rows, columns]` matrix, row-major and dense.
    ///
    /// # Panics
    /// If the slice has another length.
    pub fn new(data: &'a [f32], rows: usize, columns: usize) -> Self {
        assert_eq!(data.len(), rows * columns, "a matrix of {rows} × {columns}");
        Self { data, rows, columns, row_stride: columns, column_stride: 1 }
    }

    /// Returns a range of columns, without a copy.
    ///
    /// # Panics
    /// If the range is out of bounds.
    #[must_use]
    pub fn columns(self, columns: Range<usize>) -> Self {
        assert!(columns.start <= columns.end && columns.end <= self.columns, "columns of {}", self.columns);
        let start = (columns.start * self.column_stride).min(self.data.len());
        Self { data: &self.data[start..], columns: columns.len(), ..self }
    }

    /// Returns a range of rows, without a copy.
    ///
    /// # Panics
    /// If the range is out of bounds.
    #[must_use]
    pub fn rows(self, rows: Range<usize>) -> Self {
        self.transposed().columns(rows).transposed()
    }

    /// Returns the transposed matrix, without a copy.
    #[must_use]
    pub const fn transposed(self) -> Self {
        Self {
            data: self.data,
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
        }
    }

    /// Returns true if every element is within the slice.
    const fn fits(&self) -> bool {
        self.rows == 0
            || self.columns == 0
            || (self.rows - 1) * self.row_stride + (self.columns - 1) * self.column_stride < self.data.len()
    }
}

/// The effect of a product on its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteMode {
    /// The product replaces the content.
    Replace,
    /// The product is added to the content.
    Add,
}

/// Computes `target = left · right` or `target += left · right`; `target` is row-major and dense.
///
/// # Panics
/// If the shapes do not match.
pub fn multiply(target: &mut [f32], left: MatrixView<'_>, right: MatrixView<'_>, into: WriteMode) {
    product(target, left, right, into, Parallelism::Rayon(0));
}

/// Computes the same product on the calling thread alone, for callers that run many products in parallel.
///
/// # Panics
/// If the shapes do not match.
pub fn multiply_alone(target: &mut [f32], left: MatrixView<'_>, right: MatrixView<'_>, into: WriteMode) {
    product(target, left, right, into, Parallelism::None);
}

fn product(target: &mut [f32], left: MatrixView<'_>, right: MatrixView<'_>, into: WriteMode, threads: Parallelism) {
    let (m, n, k) = (left.rows, right.columns, left.columns);
    assert_eq!(right.rows, k, "inner dimensions of a product");
    assert_eq!(target.len(), m * n, "a product of {m} × {n}");
    assert!(left.fits() && right.fits(), "matrices lie within their slices");
    #[expect(unsafe_code, reason = "the crate of the fastest matrix product has raw pointers for an interface")]
    // SAFETY: the assertions above bound every index: `left` is m × k, `right` k × n, both within their slices by `fits`;
    // `target` is m × n dense and, being borrowed mutably, overlaps neither. Strides are far below `isize::MAX`.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            target.as_mut_ptr(),
            1,
            n.cast_signed(),
            into == WriteMode::Add,
            left.data.as_ptr(),
            left.column_stride.cast_signed(),
            left.row_stride.cast_signed(),
            right.data.as_ptr(),
            right.column_stride.cast_signed(),
            right.row_stride.cast_signed(),
            1.0,
            1.0,
            false,
            false,
            false,
            threads,
        );
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::float_cmp, reason = "small whole numbers and halves are exact")]

    use super::{MatrixView, WriteMode, multiply, multiply_alone};

    #[test]
    fn products_of_plain_and_transposed_matrices_are_right() {
        let (a, b) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0, 0.5, -1.0, 2.0, 0.0, 1.0]);
        let mut plain = [9.0; 4];
        multiply(&mut plain, MatrixView::new(&a, 2, 3), MatrixView::new(&b, 3, 2), WriteMode::Replace);
        assert_eq!(plain, [-1.0, 7.5, -1.0, 18.0]);
        let mut added = [1.0; 9];
        multiply(
            &mut added,
            MatrixView::new(&a, 2, 3).transposed(),
            MatrixView::new(&b, 3, 2).transposed(),
            WriteMode::Add,
        );
        assert_eq!(added, [4.0, 8.0, 5.0, 5.5, 9.0, 6.0, 7.0, 10.0, 7.0]);
    }

    #[test]
    fn columns_of_a_matrix_are_a_matrix() {
        let (a, b) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0, 0.5, -1.0, 2.0, 0.0, 1.0]);
        let mut target = [0.0; 4];
        let view = MatrixView::new(&a, 2, 3).columns(1..3);
        multiply_alone(&mut target, view, MatrixView::new(&b, 2, 3).columns(0..2), WriteMode::Replace);
        assert_eq!(target, [8.0, 1.0, 17.0, 2.5]);
        let mut one = [1.0];
        multiply_alone(&mut one, view.columns(1..2).transposed(), view.columns(0..1), WriteMode::Add);
        assert_eq!(one, [37.0]);
    }

    #[test]
    fn an_empty_inner_dimension_gives_zero() {
        let mut target = [3.0; 2];
        multiply(&mut target, MatrixView::new(&[], 2, 0), MatrixView::new(&[], 0, 1), WriteMode::Replace);
        assert_eq!(target, [0.0; 2]);
    }
}
