//! Sums of outer products over rows, Σₜ aₜ bₜᵀ: the gradients of parameter matrices.
//!
//! For the rows of one unit: the squared norm of their sum, and the sum itself, scaled by a factor, truncated to whole
//! steps and added to integers without a copy in memory. For all rows: the sum added to floating-point numbers.

mod inner;
mod strip;

use std::ops::Range;

use rayon::prelude::*;

use super::lanes::dispatch;
use super::pack::{ColumnPanels, ColumnTiles, TALL, WIDE};
use inner::inner_products;
use strip::{AddKernel, NormKernel, QuantizeKernel, RequantizeKernel, StoreKernel};

/// Maximum of a coordinate in steps. A larger coordinate or NaN counts as this maximum. The exact norm reveals such a
/// coordinate, because it is longer than any radius allowed here.
pub(crate) const MOST_STEPS: u32 = 1 << 25;
/// Maximum rows of a matrix that is quantized here.
pub(crate) const TALLEST: usize = 4096;
/// Rows that are summed in registers between two additions to memory.
const DEEP: usize = 512;

/// Both operands of the outer products.
pub(crate) struct RowProducts {
    left: ColumnTiles,
    right: ColumnPanels,
}

impl RowProducts {
    /// Combines a `[rows, m]` and b `[rows, n]`.
    pub(crate) const fn new(left: ColumnTiles, right: ColumnPanels) -> Self {
        Self { left, right }
    }

    /// Returns the buffer of the larger operand.
    pub(crate) fn into_buffer(self) -> Vec<f32> {
        self.right.into_buffer()
    }

    /// Returns m and n.
    pub(crate) const fn shape(&self) -> [usize; 2] {
        [self.left.columns(), self.right.columns()]
    }

    /// Returns the number of rows.
    pub(crate) const fn rows(&self) -> usize {
        self.right.rows()
    }

    /// Adds the sum over `rows`, scaled by `factor` and truncated toward zero to whole steps, to the integers of 48
    /// columns of the matrix (`[≥ m, 48]`), or subtracts it with `away`. Returns the sum of the squares of the steps.
    ///
    /// The product with the factor is rounded to `f32` before the truncation, the same on every call. The caller checks
    /// with the squares that the steps stay within the radius.
    pub(crate) fn quantize(
        &self,
        rows: &Range<usize>,
        strip: usize,
        factor: f32,
        away: bool,
        sums: &mut [i32],
    ) -> u128 {
        dispatch(QuantizeKernel { outer: self, rows, strip, factor, away, sums })
    }

    /// Returns the sum over `rows` of 48 columns of the matrix, `[≥ m, 48]`.
    pub(crate) fn strip(&self, rows: &Range<usize>, strip: usize) -> Vec<[f32; WIDE]> {
        let mut sums = vec![[0.0; WIDE]; height(self.shape())];
        dispatch(AddKernel { outer: self, rows, strip, sums: &mut sums });
        sums
    }

    /// Returns the squared norms of the sums over each range of rows, from the inner products of the rows where that is
    /// cheaper, otherwise from the sum itself.
    pub(crate) fn squared_norms(&self, units: &[Range<usize>]) -> Vec<f64> {
        let ghost = |rows: &Range<usize>| ghost_is_cheaper(rows.len(), self.shape());
        let left_panels = units.iter().any(ghost).then(|| self.left.panels());
        let one = |rows: &Range<usize>| match &left_panels {
            _ if rows.is_empty() => 0.0,
            Some(left_panels) if ghost(rows) => self.ghost_norm(left_panels, rows),
            _ => self.direct_norm(rows),
        };
        units.par_iter().map(one).collect()
    }

    fn direct_norm(&self, rows: &Range<usize>) -> f64 {
        (0..self.right.panels()).map(|strip| dispatch(NormKernel { outer: self, rows, strip })).sum()
    }

    /// Returns Σₜₛ (aₜ·aₛ)(bₜ·bₛ), each pair once.
    fn ghost_norm(&self, left: &ColumnPanels, rows: &Range<usize>) -> f64 {
        let count = rows.len();
        let (left, right) = (inner_products(left, rows), inner_products(&self.right, rows));
        let mut sum = 0.0;
        for (t, (left, right)) in left.chunks_exact(count).zip(right.chunks_exact(count)).enumerate() {
            let pairs = left[..t].iter().zip(&right[..t]).map(|(left, right)| f64::from(left * right)).sum::<f64>();
            sum += 2.0 * pairs + f64::from(left[t] * right[t]);
        }
        sum
    }

    /// Adds the sum over all rows to a row-major matrix `[m, n]`.
    ///
    /// # Panics
    /// If the matrix has another shape.
    pub(crate) fn add_to(&self, target: &mut [f32]) {
        in_strips(target, self.shape()).into_par_iter().enumerate().for_each(|(strip, target)| {
            let mut sums = vec![[0.0; WIDE]; height(self.shape())];
            for start in (0..self.rows()).step_by(DEEP) {
                let rows = start..(start + DEEP).min(self.rows());
                dispatch(AddKernel { outer: self, rows: &rows, strip, sums: &mut sums });
            }
            add_strip(target, &sums);
        });
    }
}

/// A matrix in strips of 48 columns, each `[m rounded up to 8, 48]`: a sum stored in memory where that is cheaper than
/// computing it twice.
pub(crate) struct StoredSum {
    data: Vec<f32>,
    shape: [usize; 2],
}

impl StoredSum {
    /// Stores the sum over all rows in a reused buffer and returns it with its squared norm.
    pub(crate) fn new(mut buffer: Vec<f32>, outer: &RowProducts) -> (Self, f64) {
        let shape = outer.shape();
        buffer.resize(shape[1].div_ceil(WIDE) * height(shape) * WIDE, 0.0);
        let mut stored = Self { data: buffer, shape };
        let norm = stored.change(outer, false);
        (stored, norm)
    }

    /// Adds the sum over all rows and returns the squared norm of the total.
    ///
    /// # Panics
    /// If the shapes differ.
    pub(crate) fn add(&mut self, outer: &RowProducts) -> f64 {
        self.change(outer, true)
    }

    fn change(&mut self, outer: &RowProducts, add: bool) -> f64 {
        assert_eq!(outer.shape(), self.shape, "matrices of one shape");
        let height = height(self.shape);
        let strips = self.data.as_chunks_mut::<WIDE>().0.par_chunks_exact_mut(height).enumerate();
        let norms = strips.map(|(strip, sums)| dispatch(StoreKernel { outer, strip, add, sums }));
        // Collected first: if the order of the sum depended on threads, so would the unit's factor.
        norms.collect::<Vec<_>>().iter().sum()
    }

    /// Returns 48 columns of the matrix, `[≥ m, 48]`.
    pub(crate) fn strip(&self, strip: usize) -> &[[f32; WIDE]] {
        let height = height(self.shape);
        &self.data.as_chunks::<WIDE>().0[strip * height..(strip + 1) * height]
    }

    /// Quantizes the stored sum as [`RowProducts::quantize`] does.
    pub(crate) fn quantize(&self, strip: usize, factor: f32, away: bool, sums: &mut [i32]) -> u128 {
        dispatch(RequantizeKernel { values: self.strip(strip), factor, away, sums })
    }

    /// Adds the stored sum to a row-major matrix.
    ///
    /// # Panics
    /// If the matrix has another shape.
    pub(crate) fn add_to(&self, target: &mut [f32]) {
        let strips = self.data.as_chunks::<WIDE>().0.chunks_exact(height(self.shape));
        in_strips(target, self.shape).into_iter().zip(strips).for_each(|(target, sums)| add_strip(target, sums));
    }

    /// Returns the buffer for reuse.
    pub(crate) fn into_buffer(self) -> Vec<f32> {
        self.data
    }
}

/// Returns the number of rows of a strip.
pub(crate) const fn height(shape: [usize; 2]) -> usize {
    shape[0].div_ceil(TALL) * TALL
}

/// Returns true if the squared norm of the sum over `rows` rows costs less from inner products than from the sum
/// itself. Both were measured: the inner products take about twice the time that their number of multiplications
/// suggests.
pub(crate) const fn ghost_is_cheaper(rows: usize, [m, n]: [usize; 2]) -> bool {
    rows.saturating_mul(m + n) < m * n
}

/// Returns true if storing a sum over `rows` rows costs less than computing its norm without the sum and then the sum.
/// Both were measured: writing and reading a coordinate takes as long as about sixty multiplications.
pub(crate) const fn storing_is_cheaper(rows: usize, [m, n]: [usize; 2]) -> bool {
    rows.saturating_mul(rows).saturating_mul(m + n) > 60 * m * n
}

/// Returns the rows of each strip of 48 columns of a row-major matrix.
fn in_strips(target: &mut [f32], [m, n]: [usize; 2]) -> Vec<Vec<&mut [f32]>> {
    assert_eq!(target.len(), m * n, "a matrix of {m} × {n}");
    let mut strips: Vec<Vec<&mut [f32]>> = (0..n.div_ceil(WIDE)).map(|_| Vec::with_capacity(m)).collect();
    for row in target.chunks_mut(n.max(1)) {
        strips.iter_mut().zip(row.chunks_mut(WIDE)).for_each(|(strip, part)| strip.push(part));
    }
    strips
}

fn add_strip(target: Vec<&mut [f32]>, sums: &[[f32; WIDE]]) {
    for (target, sums) in target.into_iter().zip(sums) {
        target.iter_mut().zip(sums).for_each(|(target, sum)| *target += sum);
    }
}

#[cfg(test)]
mod tests;
