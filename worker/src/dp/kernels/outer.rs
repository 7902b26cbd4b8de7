//! Sums of outer products over rows, Σₜ aₜ bₜᵀ: what the gradients of parameter matrices are made of.
//!
//! Of one unit's rows: the squared norm of their sum, and the sum itself times a factor, cut to whole steps and added to integers,
//! without the sum ever being written down. Of all rows: the sum added to floating-point numbers.

mod inner;
mod strip;

use std::ops::Range;

use rayon::prelude::*;

use super::lanes::dispatch;
use super::pack::{Panels, TALL, Tiles, WIDE};
use inner::inner_products;
use strip::{Add, Keep, Norm, Quantize, Requantize};

/// The most that a coordinate can be in steps. What is beyond, or is no number, counts as so many: the exact norm shows it, being
/// longer than any radius that may be used here.
pub(in crate::dp) const MOST_STEPS: u32 = 1 << 25;
/// Most rows of a matrix whose steps are taken here.
pub(in crate::dp) const TALLEST: usize = 4096;
/// Rows of a sum of all rows between two additions to memory.
const DEEP: usize = 512;

/// Both sides of the products.
pub(in crate::dp) struct Outer {
    left: Tiles,
    right: Panels,
}

impl Outer {
    /// Of a `[rows, m]` and b `[rows, n]`.
    pub(in crate::dp) const fn new(left: Tiles, right: Panels) -> Self {
        Self { left, right }
    }

    /// Gives the larger side's buffer back.
    pub(in crate::dp) fn into_buffer(self) -> Vec<f32> {
        self.right.into_buffer()
    }

    /// m and n.
    pub(in crate::dp) const fn shape(&self) -> [usize; 2] {
        [self.left.columns(), self.right.columns()]
    }

    /// How many rows.
    pub(in crate::dp) const fn rows(&self) -> usize {
        self.right.rows()
    }

    /// Adds the sum over some rows, times `factor`, cut toward zero to whole steps, to the integers of 48 columns of the matrix
    /// (`[≥ m, 48]`), or takes it away again. Answers with the sum of the squares of the steps.
    ///
    /// The product with the factor is rounded to `f32` before it is cut, the same each time; that the steps are not longer
    /// together than they may be is for the caller to see from their squares.
    pub(in crate::dp) fn quantize(
        &self,
        rows: &Range<usize>,
        strip: usize,
        factor: f32,
        away: bool,
        sums: &mut [i32],
    ) -> u128 {
        dispatch(Quantize { outer: self, rows, strip, factor, away, sums })
    }

    /// The sum over some rows of 48 columns of the matrix, `[≥ m, 48]`.
    pub(in crate::dp) fn strip(&self, rows: &Range<usize>, strip: usize) -> Vec<[f32; WIDE]> {
        let mut sums = vec![[0.0; WIDE]; height(self.shape())];
        dispatch(Add { outer: self, rows, strip, sums: &mut sums });
        sums
    }

    /// Squared norms of the sums over each of some ranges of rows: by the inner products of the rows with each other where that
    /// is cheaper, from the sum itself where not.
    pub(in crate::dp) fn squared_norms(&self, units: &[Range<usize>]) -> Vec<f64> {
        let ghost = |rows: &Range<usize>| ghost_is_cheaper(rows.len(), self.shape());
        let left = units.iter().any(ghost).then(|| self.left.panels());
        let one = |rows: &Range<usize>| match &left {
            _ if rows.is_empty() => 0.0,
            Some(left) if ghost(rows) => self.ghost_norm(left, rows),
            _ => self.direct_norm(rows),
        };
        units.par_iter().map(one).collect()
    }

    fn direct_norm(&self, rows: &Range<usize>) -> f64 {
        (0..self.right.panels()).map(|strip| dispatch(Norm { outer: self, rows, strip })).sum()
    }

    /// Σₜₛ (aₜ·aₛ)(bₜ·bₛ), each pair once.
    fn ghost_norm(&self, left: &Panels, rows: &Range<usize>) -> f64 {
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
    /// If it has another shape.
    pub(in crate::dp) fn add_to(&self, target: &mut [f32]) {
        in_strips(target, self.shape()).into_par_iter().enumerate().for_each(|(strip, target)| {
            let mut sums = vec![[0.0; WIDE]; height(self.shape())];
            for start in (0..self.rows()).step_by(DEEP) {
                let rows = start..(start + DEEP).min(self.rows());
                dispatch(Add { outer: self, rows: &rows, strip, sums: &mut sums });
            }
            add_strip(target, &sums);
        });
    }
}

/// A matrix in strips of 48 columns, each `[m rounded up to 8, 48]`: a sum that is written down, because that is cheaper than to
/// compute it twice.
pub(in crate::dp) struct Kept {
    data: Vec<f32>,
    shape: [usize; 2],
}

impl Kept {
    /// A sum over all rows, in a buffer used before, and its squared norm.
    pub(in crate::dp) fn new(mut buffer: Vec<f32>, outer: &Outer) -> (Self, f64) {
        let shape = outer.shape();
        buffer.resize(shape[1].div_ceil(WIDE) * height(shape) * WIDE, 0.0);
        let mut kept = Self { data: buffer, shape };
        let norm = kept.change(outer, false);
        (kept, norm)
    }

    /// Adds a sum over all rows; answers with the squared norm of what is there then.
    ///
    /// # Panics
    /// If it has another shape.
    pub(in crate::dp) fn add(&mut self, outer: &Outer) -> f64 {
        self.change(outer, true)
    }

    fn change(&mut self, outer: &Outer, add: bool) -> f64 {
        assert_eq!(outer.shape(), self.shape, "matrices of one shape");
        let height = height(self.shape);
        let strips = self.data.as_chunks_mut::<WIDE>().0.par_chunks_exact_mut(height).enumerate();
        let norms = strips.map(|(strip, sums)| dispatch(Keep { outer, strip, add, sums }));
        // Collected first: the order of the sum must not depend on threads, or the unit's factor would.
        norms.collect::<Vec<_>>().iter().sum()
    }

    /// 48 columns of the matrix, `[≥ m, 48]`.
    pub(in crate::dp) fn strip(&self, strip: usize) -> &[[f32; WIDE]] {
        let height = height(self.shape);
        &self.data.as_chunks::<WIDE>().0[strip * height..(strip + 1) * height]
    }

    /// As [`Outer::quantize`].
    pub(in crate::dp) fn quantize(&self, strip: usize, factor: f32, away: bool, sums: &mut [i32]) -> u128 {
        dispatch(Requantize { values: self.strip(strip), factor, away, sums })
    }

    /// Adds it to a row-major matrix.
    ///
    /// # Panics
    /// If that has another shape.
    pub(in crate::dp) fn add_to(&self, target: &mut [f32]) {
        let strips = self.data.as_chunks::<WIDE>().0.chunks_exact(height(self.shape));
        in_strips(target, self.shape).into_iter().zip(strips).for_each(|(target, sums)| add_strip(target, sums));
    }

    /// The buffer, for another use.
    pub(in crate::dp) fn into_buffer(self) -> Vec<f32> {
        self.data
    }
}

/// Rows of a strip.
pub(in crate::dp) const fn height(shape: [usize; 2]) -> usize {
    shape[0].div_ceil(TALL) * TALL
}

/// Whether the squared norm of the sum over so many rows costs less from inner products than from the sum itself. Both were
/// measured: pairs of rows take about twice the time of the multiplications they are.
pub(in crate::dp) const fn ghost_is_cheaper(rows: usize, [m, n]: [usize; 2]) -> bool {
    rows.saturating_mul(m + n) < m * n
}

/// Whether it is cheaper to write a sum over so many rows down than to tell its norm without and compute it once more. Both were
/// measured: written and read, a coordinate takes the time of some sixty multiplications.
pub(in crate::dp) const fn keeping_is_cheaper(rows: usize, [m, n]: [usize; 2]) -> bool {
    rows.saturating_mul(rows).saturating_mul(m + n) > 60 * m * n
}

/// Rows of each strip of 48 columns of a row-major matrix.
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
