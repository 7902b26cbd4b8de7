//! Matrix products on slices: the one place that calls the `gemm` crate, with every bound checked before.
//!
//! For given shapes, each element of a product is computed by the same operations in the same order whatever the number of
//! threads: work is divided over rows and columns of the result, never along the sum.

use std::ops::Range;

use gemm::Parallelism;

/// A matrix in a slice.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    data: &'a [f32],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a> View<'a> {
    /// `[rows, columns]`, row-major and dense.
    ///
    /// # Panics
    /// If the slice has another length.
    pub fn new(data: &'a [f32], rows: usize, columns: usize) -> Self {
        assert_eq!(data.len(), rows * columns, "a matrix of {rows} × {columns}");
        Self { data, rows, columns, row_stride: columns, column_stride: 1 }
    }

    /// Some neighbouring columns of it, without moving anything.
    ///
    /// # Panics
    /// If it has not so many.
    #[must_use]
    pub fn columns(self, columns: Range<usize>) -> Self {
        assert!(columns.start <= columns.end && columns.end <= self.columns, "columns of {}", self.columns);
        let start = (columns.start * self.column_stride).min(self.data.len());
        Self { data: &self.data[start..], columns: columns.len(), ..self }
    }

    /// Some neighbouring rows of it, without moving anything.
    ///
    /// # Panics
    /// If it has not so many.
    #[must_use]
    pub fn rows(self, rows: Range<usize>) -> Self {
        self.transposed().columns(rows).transposed()
    }

    /// The transposed matrix, without moving anything.
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

    /// Whether every element lies within the slice.
    const fn fits(&self) -> bool {
        self.rows == 0
            || self.columns == 0
            || (self.rows - 1) * self.row_stride + (self.columns - 1) * self.column_stride < self.data.len()
    }
}

/// What happens to the result's old content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Into {
    /// It is overwritten.
    Replace,
    /// The product is added to it.
    Add,
}

/// `target = left · right`, or `target += left · right`; `target` is row-major and dense.
///
/// # Panics
/// If the shapes do not fit.
pub fn multiply(target: &mut [f32], left: View<'_>, right: View<'_>, into: Into) {
    product(target, left, right, into, Parallelism::Rayon(0));
}

/// The same on the calling thread alone, for where many products are computed side by side.
///
/// # Panics
/// If the shapes do not fit.
pub fn multiply_alone(target: &mut [f32], left: View<'_>, right: View<'_>, into: Into) {
    product(target, left, right, into, Parallelism::None);
}

fn product(target: &mut [f32], left: View<'_>, right: View<'_>, into: Into, threads: Parallelism) {
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
            into == Into::Add,
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

    use super::{Into, View, multiply, multiply_alone};

    #[test]
    fn products_of_plain_and_transposed_matrices_are_right() {
        let (a, b) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0, 0.5, -1.0, 2.0, 0.0, 1.0]);
        let mut plain = [9.0; 4];
        multiply(&mut plain, View::new(&a, 2, 3), View::new(&b, 3, 2), Into::Replace);
        assert_eq!(plain, [-1.0, 7.5, -1.0, 18.0]);
        let mut added = [1.0; 9];
        multiply(&mut added, View::new(&a, 2, 3).transposed(), View::new(&b, 3, 2).transposed(), Into::Add);
        assert_eq!(added, [4.0, 8.0, 5.0, 5.5, 9.0, 6.0, 7.0, 10.0, 7.0]);
    }

    #[test]
    fn columns_of_a_matrix_are_a_matrix() {
        let (a, b) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0, 0.5, -1.0, 2.0, 0.0, 1.0]);
        let mut target = [0.0; 4];
        let left = View::new(&a, 2, 3).columns(1..3);
        multiply_alone(&mut target, left, View::new(&b, 2, 3).columns(0..2), Into::Replace);
        assert_eq!(target, [8.0, 1.0, 17.0, 2.5]);
        let mut one = [1.0];
        multiply_alone(&mut one, left.columns(1..2).transposed(), left.columns(0..1), Into::Add);
        assert_eq!(one, [37.0]);
    }

    #[test]
    fn an_empty_inner_dimension_gives_zero() {
        let mut target = [3.0; 2];
        multiply(&mut target, View::new(&[], 2, 0), View::new(&[], 0, 1), Into::Replace);
        assert_eq!(target, [0.0; 2]);
    }
}
