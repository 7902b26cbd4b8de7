//! 48 columns of a sum of outer products, computed block by block in registers, with the operations on each block.

use std::ops::Range;

use super::{MOST_STEPS, RowProducts};
use crate::kernels::block::{Sums, VECTORS, add, vectors, zero};
use crate::kernels::lanes::{SimdKernel, SimdLanes};
use crate::kernels::pack::{TALL, WIDE};

/// Consumes one row of a block, given the row of the strip and the first vector in it.
trait RowConsumer<S: SimdLanes> {
    fn row(&mut self, simd: S, sums: &[S::f32s; VECTORS], row: usize, first: usize);
}

/// Computes a strip and passes each row of each block to `each`.
#[inline(always)]
fn blocks<S: SimdLanes>(
    simd: S,
    outer: &RowProducts,
    rows: &Range<usize>,
    strip: usize,
    each: &mut impl RowConsumer<S>,
) {
    for tile in 0..outer.left.tiles() {
        for first in (0..WIDE / S::F32_LANES).step_by(VECTORS) {
            if S::ROWS == 8 {
                let sums = block::<S, 8>(simd, outer, rows, strip, (tile, 0), first);
                for (row, sums) in sums.iter().enumerate() {
                    each.row(simd, sums, tile * TALL + row, first);
                }
            } else {
                for half in [0, 4] {
                    let sums = block::<S, 4>(simd, outer, rows, strip, (tile, half), first);
                    for (row, sums) in sums.iter().enumerate() {
                        each.row(simd, sums, tile * TALL + half + row, first);
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn block<S: SimdLanes, const R: usize>(
    simd: S,
    outer: &RowProducts,
    rows: &Range<usize>,
    strip: usize,
    (tile, row): (usize, usize),
    first: usize,
) -> Sums<S, R> {
    let mut sums = zero::<S, R>(simd);
    let mut left_rows = outer.left.tile(tile, rows);
    for right in outer.right.pieces(rows.clone(), strip) {
        let (own, rest) = left_rows.split_at(right.len());
        sums = add::<S, R>(simd, sums, own, row, right, first);
        left_rows = rest;
    }
    sums
}

/// Multiplies rows by a factor and truncates them to steps, added to integers.
struct StepQuantizer<'a, S: SimdLanes> {
    factor: S::f32s,
    away: bool,
    sums: &'a mut [[i32; WIDE]],
    /// At most 2⁵⁰ each time, three times a row, [`TALLEST`](super::TALLEST) rows: less than 2⁶⁴.
    squares: [u64; 16],
}

impl<'a, S: SimdLanes> StepQuantizer<'a, S> {
    #[inline(always)]
    fn new(simd: S, factor: f32, away: bool, sums: &'a mut [i32]) -> Self {
        Self { factor: simd.splat_f32s(factor), away, sums: sums.as_chunks_mut().0, squares: [0; 16] }
    }

    #[inline(always)]
    fn total(&self) -> u128 {
        self.squares.iter().map(|lane| u128::from(*lane)).sum()
    }
}

impl<S: SimdLanes> RowConsumer<S> for StepQuantizer<'_, S> {
    #[inline(always)]
    fn row(&mut self, simd: S, sums: &[S::f32s; VECTORS], row: usize, first: usize) {
        let (most, least) = (simd.splat_f32s(MOST_STEPS as f32), simd.splat_f32s(-(MOST_STEPS as f32)));
        let integers = &mut S::as_mut_simd_i32s(&mut self.sums[row]).0[first..first + VECTORS];
        for (sum, integers) in sums.iter().zip(integers) {
            // With one NaN operand, the processor's minimum is the second operand.
            let steps = simd.max_f32s(simd.min_f32s(simd.mul_f32s(*sum, self.factor), most), least);
            let steps = simd.truncate(steps);
            *integers = if self.away { simd.sub_i32s(*integers, steps) } else { simd.add_i32s(*integers, steps) };
            let steps: &[i32] = bytemuck::cast_slice(std::slice::from_ref(&steps));
            for (lane, steps) in self.squares.iter_mut().zip(steps) {
                let steps = i64::from(*steps);
                *lane = lane.wrapping_add(steps.wrapping_mul(steps) as u64);
            }
        }
    }
}

pub(super) struct QuantizeKernel<'a> {
    pub(super) outer: &'a RowProducts,
    pub(super) rows: &'a Range<usize>,
    pub(super) strip: usize,
    pub(super) factor: f32,
    pub(super) away: bool,
    pub(super) sums: &'a mut [i32],
}

impl SimdKernel for QuantizeKernel<'_> {
    type Output = u128;

    #[inline(always)]
    fn run<S: SimdLanes>(self, simd: S) -> u128 {
        let mut steps = StepQuantizer::new(simd, self.factor, self.away, self.sums);
        blocks(simd, self.outer, self.rows, self.strip, &mut steps);
        steps.total()
    }
}

pub(super) struct RequantizeKernel<'a> {
    pub(super) values: &'a [[f32; WIDE]],
    pub(super) factor: f32,
    pub(super) away: bool,
    pub(super) sums: &'a mut [i32],
}

impl SimdKernel for RequantizeKernel<'_> {
    type Output = u128;

    #[inline(always)]
    fn run<S: SimdLanes>(self, simd: S) -> u128 {
        let mut steps = StepQuantizer::new(simd, self.factor, self.away, self.sums);
        for (row, values) in self.values.iter().enumerate() {
            for first in (0..WIDE / S::F32_LANES).step_by(VECTORS) {
                steps.row(simd, &vectors::<S, VECTORS>(values, first), row, first);
            }
        }
        steps.total()
    }
}

/// The sum of squares, row by row.
struct SquareSum<S: SimdLanes>(S::f32s, f64);

impl<S: SimdLanes> RowConsumer<S> for SquareSum<S> {
    #[inline(always)]
    fn row(&mut self, simd: S, sums: &[S::f32s; VECTORS], row: usize, _first: usize) {
        for sum in sums {
            self.0 = simd.mul_add_f32s(*sum, *sum, self.0);
        }
        // Few enough additions in single precision; the total over all rows has double precision.
        if row % TALL == TALL - 1 {
            self.1 += f64::from(simd.reduce_sum_f32s(self.0));
            self.0 = simd.splat_f32s(0.0);
        }
    }
}

pub(super) struct NormKernel<'a> {
    pub(super) outer: &'a RowProducts,
    pub(super) rows: &'a Range<usize>,
    pub(super) strip: usize,
}

impl SimdKernel for NormKernel<'_> {
    type Output = f64;

    #[inline(always)]
    fn run<S: SimdLanes>(self, simd: S) -> f64 {
        let mut squares = SquareSum::<S>(simd.splat_f32s(0.0), 0.0);
        blocks(simd, self.outer, self.rows, self.strip, &mut squares);
        squares.1 + f64::from(simd.reduce_sum_f32s(squares.0))
    }
}

/// Adds rows to memory or overwrites it, optionally with the squares of the result.
struct StripWriter<'a, S: SimdLanes> {
    add: bool,
    sums: &'a mut [[f32; WIDE]],
    squares: Option<SquareSum<S>>,
}

impl<S: SimdLanes> RowConsumer<S> for StripWriter<'_, S> {
    #[inline(always)]
    fn row(&mut self, simd: S, sums: &[S::f32s; VECTORS], row: usize, first: usize) {
        let target = &mut S::as_mut_simd_f32s(&mut self.sums[row]).0[first..first + VECTORS];
        let mut now = *sums;
        for ((sum, target), now) in sums.iter().zip(target).zip(&mut now) {
            *now = if self.add { simd.add_f32s(*target, *sum) } else { *sum };
            *target = *now;
        }
        if let Some(squares) = &mut self.squares {
            squares.row(simd, &now, row, first);
        }
    }
}

pub(super) struct AddKernel<'a> {
    pub(super) outer: &'a RowProducts,
    pub(super) rows: &'a Range<usize>,
    pub(super) strip: usize,
    pub(super) sums: &'a mut [[f32; WIDE]],
}

impl SimdKernel for AddKernel<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: SimdLanes>(self, simd: S) {
        let mut into = StripWriter::<S> { add: true, sums: self.sums, squares: None };
        blocks(simd, self.outer, self.rows, self.strip, &mut into);
    }
}

pub(super) struct StoreKernel<'a> {
    pub(super) outer: &'a RowProducts,
    pub(super) strip: usize,
    pub(super) add: bool,
    pub(super) sums: &'a mut [[f32; WIDE]],
}

impl SimdKernel for StoreKernel<'_> {
    type Output = f64;

    #[inline(always)]
    fn run<S: SimdLanes>(self, simd: S) -> f64 {
        let mut into =
            StripWriter::<S> { add: self.add, sums: self.sums, squares: Some(SquareSum(simd.splat_f32s(0.0), 0.0)) };
        blocks(simd, self.outer, &(0..self.outer.rows()), self.strip, &mut into);
        into.squares.map_or(0.0, |squares| squares.1 + f64::from(simd.reduce_sum_f32s(squares.0)))
    }
}
