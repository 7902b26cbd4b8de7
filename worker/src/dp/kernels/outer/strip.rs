//! 48 columns of a sum of outer products, block by block in registers, and what is done with each block there.

use std::ops::Range;

use super::{MOST_STEPS, Outer};
use crate::dp::kernels::block::{Sums, VECTORS, add, vectors, zero};
use crate::dp::kernels::lanes::{Kernel, Lanes};
use crate::dp::kernels::pack::{TALL, WIDE};

/// One row of a block, and where it belongs: the row of the strip, the first vector of it.
trait Each<S: Lanes> {
    fn row(&mut self, simd: S, sums: &[S::f32s; VECTORS], row: usize, first: usize);
}

/// Computes a strip and hands each row of each block on.
#[inline(always)]
fn blocks<S: Lanes>(simd: S, outer: &Outer, rows: &Range<usize>, strip: usize, each: &mut impl Each<S>) {
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
fn block<S: Lanes, const R: usize>(
    simd: S,
    outer: &Outer,
    rows: &Range<usize>,
    strip: usize,
    (tile, row): (usize, usize),
    first: usize,
) -> Sums<S, R> {
    let mut sums = zero::<S, R>(simd);
    let mut left = outer.left.tile(tile, rows);
    for right in outer.right.pieces(rows.clone(), strip) {
        let (own, rest) = left.split_at(right.len());
        sums = add::<S, R>(simd, sums, own, row, right, first);
        left = rest;
    }
    sums
}

/// Cuts numbers times a factor to steps, into integers.
struct Steps<'a, S: Lanes> {
    factor: S::f32s,
    away: bool,
    sums: &'a mut [[i32; WIDE]],
    /// At most 2⁵⁰ each time, three times a row, [`TALLEST`](super::TALLEST) rows: less than 2⁶⁴.
    squares: [u64; 16],
}

impl<'a, S: Lanes> Steps<'a, S> {
    #[inline(always)]
    fn new(simd: S, factor: f32, away: bool, sums: &'a mut [i32]) -> Self {
        Self { factor: simd.splat_f32s(factor), away, sums: sums.as_chunks_mut().0, squares: [0; 16] }
    }

    #[inline(always)]
    fn total(&self) -> u128 {
        self.squares.iter().map(|lane| u128::from(*lane)).sum()
    }
}

impl<S: Lanes> Each<S> for Steps<'_, S> {
    #[inline(always)]
    fn row(&mut self, simd: S, sums: &[S::f32s; VECTORS], row: usize, first: usize) {
        let (most, least) = (simd.splat_f32s(MOST_STEPS as f32), simd.splat_f32s(-(MOST_STEPS as f32)));
        let integers = &mut S::as_mut_simd_i32s(&mut self.sums[row]).0[first..first + VECTORS];
        for (sum, integers) in sums.iter().zip(integers) {
            // Of two numbers of which one is none, the processor's minimum is the second.
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

pub(super) struct Quantize<'a> {
    pub(super) outer: &'a Outer,
    pub(super) rows: &'a Range<usize>,
    pub(super) strip: usize,
    pub(super) factor: f32,
    pub(super) away: bool,
    pub(super) sums: &'a mut [i32],
}

impl Kernel for Quantize<'_> {
    type Output = u128;

    #[inline(always)]
    fn run<S: Lanes>(self, simd: S) -> u128 {
        let mut steps = Steps::new(simd, self.factor, self.away, self.sums);
        blocks(simd, self.outer, self.rows, self.strip, &mut steps);
        steps.total()
    }
}

pub(super) struct Requantize<'a> {
    pub(super) values: &'a [[f32; WIDE]],
    pub(super) factor: f32,
    pub(super) away: bool,
    pub(super) sums: &'a mut [i32],
}

impl Kernel for Requantize<'_> {
    type Output = u128;

    #[inline(always)]
    fn run<S: Lanes>(self, simd: S) -> u128 {
        let mut steps = Steps::new(simd, self.factor, self.away, self.sums);
        for (row, values) in self.values.iter().enumerate() {
            for first in (0..WIDE / S::F32_LANES).step_by(VECTORS) {
                steps.row(simd, &vectors::<S, VECTORS>(values, first), row, first);
            }
        }
        steps.total()
    }
}

/// Σ of squares, row by row.
struct Squares<S: Lanes>(S::f32s, f64);

impl<S: Lanes> Each<S> for Squares<S> {
    #[inline(always)]
    fn row(&mut self, simd: S, sums: &[S::f32s; VECTORS], row: usize, _first: usize) {
        for sum in sums {
            self.0 = simd.mul_add_f32s(*sum, *sum, self.0);
        }
        // Few enough in single precision for the sum of many.
        if row % TALL == TALL - 1 {
            self.1 += f64::from(simd.reduce_sum_f32s(self.0));
            self.0 = simd.splat_f32s(0.0);
        }
    }
}

pub(super) struct Norm<'a> {
    pub(super) outer: &'a Outer,
    pub(super) rows: &'a Range<usize>,
    pub(super) strip: usize,
}

impl Kernel for Norm<'_> {
    type Output = f64;

    #[inline(always)]
    fn run<S: Lanes>(self, simd: S) -> f64 {
        let mut squares = Squares::<S>(simd.splat_f32s(0.0), 0.0);
        blocks(simd, self.outer, self.rows, self.strip, &mut squares);
        squares.1 + f64::from(simd.reduce_sum_f32s(squares.0))
    }
}

/// Adds rows to those of memory, or puts them there; with squares, of what is there then.
struct Into<'a, S: Lanes> {
    add: bool,
    sums: &'a mut [[f32; WIDE]],
    squares: Option<Squares<S>>,
}

impl<S: Lanes> Each<S> for Into<'_, S> {
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

pub(super) struct Add<'a> {
    pub(super) outer: &'a Outer,
    pub(super) rows: &'a Range<usize>,
    pub(super) strip: usize,
    pub(super) sums: &'a mut [[f32; WIDE]],
}

impl Kernel for Add<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, simd: S) {
        let mut into = Into::<S> { add: true, sums: self.sums, squares: None };
        blocks(simd, self.outer, self.rows, self.strip, &mut into);
    }
}

pub(super) struct Keep<'a> {
    pub(super) outer: &'a Outer,
    pub(super) strip: usize,
    pub(super) add: bool,
    pub(super) sums: &'a mut [[f32; WIDE]],
}

impl Kernel for Keep<'_> {
    type Output = f64;

    #[inline(always)]
    fn run<S: Lanes>(self, simd: S) -> f64 {
        let mut into = Into::<S> { add: self.add, sums: self.sums, squares: Some(Squares(simd.splat_f32s(0.0), 0.0)) };
        blocks(simd, self.outer, &(0..self.outer.rows()), self.strip, &mut into);
        into.squares.map_or(0.0, |squares| squares.1 + f64::from(simd.reduce_sum_f32s(squares.0)))
    }
}
