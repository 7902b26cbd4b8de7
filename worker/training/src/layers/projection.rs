//! A fixed linear map from the gradient by parameters to the gradient by fewer coordinates.
//!
//! The rows of a parameter matrix `[m, n]` are mapped block by block: a block of rows has no coordinate, each of its
//! parameters is one, or it has k directions M `[rows, k]` and moves as M·B with coordinates B `[k, n]`. The gradient by B
//! is Mᵀ times the gradient by the block.
//!
//! The gradient of a unit by the matrix is Σₜ aₜ bₜᵀ over its rows ([`super::outer`]), so by the coordinates it is
//! Σₜ (Mᵀ aₜ) bₜᵀ. A layer maps its left operand, row by row, and does not compute the gradient by all parameters. The
//! map of a row depends on that row alone, bit for bit (`product`), so the gradient of a unit does too.

use std::ops::Range;

use burn::tensor::Tensor;

use super::Parameters;
use super::product::Matrix;
use super::rows::columns;

/// The coordinates of consecutive rows of a parameter matrix.
#[derive(Debug, Clone, PartialEq)]
pub enum RowMap {
    /// None: the rows are frozen.
    Frozen,
    /// Each parameter.
    Whole,
    /// A number of directions, with the matrix `[rows, directions]` row-major.
    Directions(usize, Vec<f32>),
}

/// Consecutive rows of a parameter matrix.
#[derive(Debug, Clone, PartialEq)]
struct RowBlock {
    /// The first parameter.
    start: usize,
    rows: usize,
    columns: usize,
    map: RowMap,
}

impl RowBlock {
    /// Returns the number of rows of the coordinates.
    const fn directions(&self) -> usize {
        match self.map {
            RowMap::Frozen => 0,
            RowMap::Whole => self.rows,
            RowMap::Directions(count, _) => count,
        }
    }

    /// Maps these rows of the left operand, `[frames, rows]`.
    fn project(&self, left: Tensor<2>) -> Tensor<2> {
        match &self.map {
            RowMap::Frozen | RowMap::Whole => left,
            RowMap::Directions(count, matrix) => {
                let matrix = Parameters::load(matrix, &left.device());
                Matrix::new(&matrix, self.rows, *count).times(left)
            }
        }
    }
}

/// The map of a flat vector of parameters, of which some parts are trained.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GradientProjection {
    /// In ascending order; they cover the trained parts.
    blocks: Vec<RowBlock>,
}

impl GradientProjection {
    /// Appends the map of the `rows` rows of `columns` parameters each that begin at parameter `start`.
    ///
    /// # Panics
    /// If the rows begin before the end of the last ones, or a matrix of directions has another shape.
    pub fn push(&mut self, start: usize, [rows, columns]: [usize; 2], map: RowMap) {
        let end = self.blocks.last().map_or(0, |block| block.start + block.rows * block.columns);
        assert!(start >= end, "blocks of rows in the order of the parameters");
        if let RowMap::Directions(count, matrix) = &map {
            assert_eq!(matrix.len(), rows * count, "a matrix of {rows} × {count}");
        }
        self.blocks.push(RowBlock { start, rows, columns, map });
    }

    /// Returns the number of coordinates of a range of parameters.
    pub(super) fn count(&self, range: &Range<usize>) -> usize {
        self.blocks(range).map(|block| block.directions() * block.columns).sum()
    }

    /// Maps the left operand of the gradient of the matrix at `range`, `[frames, m]`; `None` if it has no coordinate.
    ///
    /// # Panics
    /// If the map does not cover the rows of the matrix.
    pub(super) fn project(&self, range: &Range<usize>, left: &Tensor<2>) -> Option<Tensor<2>> {
        let mut first = 0;
        let mut parts = Vec::new();
        for block in self.blocks(range) {
            if block.directions() > 0 {
                parts.push(block.project(columns(left, first, block.rows)));
            }
            first += block.rows;
        }
        assert_eq!(first, left.dims()[1], "a map of each row of the matrix");
        (!parts.is_empty()).then(|| Tensor::cat(parts, 1))
    }

    /// Returns the blocks within a range of parameters.
    fn blocks(&self, range: &Range<usize>) -> impl Iterator<Item = &RowBlock> + use<'_> {
        let Range { start, end } = *range;
        let first = self.blocks.partition_point(|block| block.start < start);
        self.blocks[first..].iter().take_while(move |block| block.start < end)
    }
}

#[cfg(test)]
mod tests {
    use super::{GradientProjection, RowMap};
    use crate::device::devices_present;
    use crate::layers::rows::{host, tensor};

    /// Returns the map of a matrix of 3 + 1 + 2 rows of 5 parameters after 10 others: two directions, the bias, no others.
    fn projection() -> GradientProjection {
        let mut projection = GradientProjection::default();
        let directions = vec![1.0, 0.0, 2.0, 0.0, 0.0, -1.0];
        projection.push(10, [3, 5], RowMap::Directions(2, directions));
        projection.push(25, [1, 5], RowMap::Whole);
        projection.push(30, [2, 5], RowMap::Frozen);
        projection
    }

    #[test]
    fn rows_are_mapped_block_by_block_on_every_device() {
        let projection = projection();
        for (name, device) in devices_present() {
            let rows = vec![1.0, 2.0, 3.0, 1.0, 7.0, 8.0, 4.0, 5.0, 6.0, 1.0, 9.0, 10.0];
            let left = tensor(rows, [2, 6], &device);
            let mapped = projection.project(&(10..40), &left).expect("it has coordinates");
            assert_eq!(mapped.dims(), [2, 3]);
            assert_eq!(host(mapped), [5.0, -3.0, 1.0, 14.0, -6.0, 1.0], "{name}");
            let frozen = tensor(vec![1.0; 4], [2, 2], &device);
            assert!(projection.project(&(30..40), &frozen).is_none(), "{name}");
        }
        assert_eq!([10..40, 10..25, 25..30, 30..40, 0..10].map(|range| projection.count(&range)), [15, 10, 5, 0, 0]);
    }

    #[test]
    #[should_panic(expected = "each row of the matrix")]
    fn matrix_with_other_rows_is_refused() {
        let device = &devices_present()[0].1;
        projection().project(&(10..30), &tensor(vec![1.0; 6], [1, 6], device));
    }
}
