//! Converts gradients to integers: the one place where a unit's numbers become steps of the grid.

use rayon::prelude::*;

use crate::layers::piece::GridQuantizer;
use crate::layers::{BlockFill, GradientPiece, GradientSink, Layout, MatrixBlock, SparseFill};
use crate::vector::vectorized;

/// A change of one unit's contribution: its old contribution is subtracted, and it is added with another factor.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct UnitChange {
    /// The factor of the contribution in the sum, to be subtracted.
    pub(super) take: Option<f64>,
    /// The factor of the contribution to add.
    pub(super) put: Option<f64>,
}

/// The integers of one part, with the change of each unit.
struct SumQuantizer<'a> {
    sum: &'a mut [i64],
    changes: &'a [UnitChange],
    /// Maximum norm of a unit's contribution, in steps.
    radius: u64,
    squares: Vec<u128>,
}

/// Streams the pieces of one part into its integers and returns the exact squared norm of each unit's addition.
pub(super) fn stream_part(
    sum: &mut [i64],
    pieces: &[&dyn GradientPiece],
    layout: &Layout,
    changes: &[UnitChange],
    radius: u64,
) -> Vec<u128> {
    let mut quantizer = SumQuantizer { sum, changes, radius, squares: vec![0; changes.len()] };
    if changes.iter().any(|change| change.take.is_some() || change.put.is_some()) {
        let mut at = 0;
        for piece in pieces {
            piece.stream(layout, at, &mut quantizer);
            at += piece.parameters();
        }
    }
    quantizer.squares
}

impl GradientSink for SumQuantizer<'_> {
    /// Distributes the blocks over threads. All units are added to a block's integers while the block is in the cache.
    fn matrix(&mut self, at: usize, shape: [usize; 2], block: [usize; 2], fill: &BlockFill<'_>) {
        let changes = self.changes;
        let blocks = blocks(&mut self.sum[at..at + shape[0] * shape[1]], shape, block);
        let squares: Vec<Vec<u128>> = blocks
            .into_par_iter()
            .map(|(block, mut rows)| {
                let mut values = vec![0.0; block.len()];
                let add = |(unit, change): (usize, &UnitChange)| match (change.take, change.put) {
                    (None, None) => 0,
                    _ if !fill(unit, &block, &mut values) => 0,
                    (None, Some(put)) => vectorized!(quantize::<false>(&mut rows, &values, 0.0, put)),
                    (take, put) => {
                        let (take, put) = (take.unwrap_or(0.0), put.unwrap_or(0.0));
                        vectorized!(quantize::<true>(&mut rows, &values, take, put))
                    }
                };
                changes.iter().enumerate().map(add).collect()
            })
            .collect();
        self.note(squares);
    }

    /// Adds the units one after another: their coordinates may coincide, and are few.
    fn sparse(&mut self, at: usize, fill: &SparseFill<'_>) -> bool {
        for (unit, change) in self.changes.iter().enumerate() {
            let (take, put) = match (change.take, change.put) {
                (None, None) => continue,
                (take, put) => (take.unwrap_or(0.0), put.unwrap_or(0.0)),
            };
            fill(unit, &mut |start, values| {
                let own = &mut self.sum[at + start..at + start + values.len()];
                self.squares[unit] += quantize::<true>(&mut [own], values, take, put);
            });
        }
        true
    }

    /// Distributes the strips over threads. Units are added to a strip's 32-bit integers, which are flushed into the
    /// sum before they could overflow. A coordinate at its maximum is longer than the radius, so the norm reveals it.
    fn steps(&mut self, at: usize, shape: [usize; 2], steps: &dyn GridQuantizer) -> bool {
        if self.radius >= u64::from(steps.most()) {
            return false;
        }
        let changes = self.changes;
        let together = (i32::MAX as usize / steps.most() as usize).max(1);
        let strips = blocks(&mut self.sum[at..at + shape[0] * shape[1]], shape, [shape[0], steps.width()]);
        let squares: Vec<Vec<u128>> = strips
            .into_par_iter()
            .enumerate()
            .map(|(strip, (_, mut rows))| {
                let mut sums = vec![0; steps.height() * steps.width()];
                let mut squares = vec![0; changes.len()];
                for (index, changes) in changes.chunks(together).enumerate() {
                    for (unit, change) in (index * together..).zip(changes) {
                        // Both in one sum would need twice the range. An earlier call added the contribution that is
                        // subtracted here.
                        if let Some(take) = change.take {
                            steps.add(unit, strip, take as f32, true, &mut sums);
                            empty(&mut sums, steps.width(), &mut rows);
                        }
                        if let Some(put) = change.put {
                            squares[unit] = steps.add(unit, strip, put as f32, false, &mut sums);
                        }
                    }
                    empty(&mut sums, steps.width(), &mut rows);
                }
                squares
            })
            .collect();
        self.note(squares);
        true
    }
}

impl SumQuantizer<'_> {
    fn note(&mut self, squares: Vec<Vec<u128>>) {
        for squares in squares {
            self.squares.iter_mut().zip(squares).for_each(|(total, own)| *total += own);
        }
    }
}

/// Adds the 32-bit sums to the 64-bit rows and resets them to zero.
fn empty(sums: &mut [i32], width: usize, rows: &mut [&mut [i64]]) {
    for (sums, row) in sums.chunks_exact_mut(width.max(1)).zip(rows) {
        row.iter_mut().zip(&*sums).for_each(|(total, sum)| *total += i64::from(*sum));
    }
    sums.fill(0);
}

/// Splits a matrix into blocks, each with its own rows of the integers.
fn blocks(
    sum: &mut [i64],
    [rows, columns]: [usize; 2],
    [height, width]: [usize; 2],
) -> Vec<(MatrixBlock, Vec<&mut [i64]>)> {
    let (height, width) = (height.max(1), width.max(1));
    let mut blocks = Vec::with_capacity(rows.div_ceil(height) * columns.div_ceil(width));
    for (band, sum) in sum.chunks_mut((height * columns).max(1)).enumerate() {
        let first = blocks.len();
        let rows = band * height..(band * height + height).min(rows);
        for start in (0..columns).step_by(width) {
            let columns = start..(start + width).min(columns);
            blocks.push((MatrixBlock { rows: rows.clone(), columns }, Vec::with_capacity(rows.len())));
        }
        for row in sum.chunks_mut(columns.max(1)) {
            for ((_, rows), part) in blocks[first..].iter_mut().zip(row.chunks_mut(width)) {
                rows.push(part);
            }
        }
    }
    blocks
}

/// Rounds a block of a gradient, scaled by `put`, to the grid and adds it; with `TAKE`, first subtracts the same block
/// scaled by `take`. Returns the exact squared norm of the addition.
///
/// Rounding is toward zero. NaN becomes 0 and a value beyond 31 bits becomes the largest integer, the same on each
/// call, so that it can be subtracted. The norm reveals such values to the caller.
#[inline(always)]
fn quantize<const TAKE: bool>(rows: &mut [&mut [i64]], values: &[f32], take: f64, put: f64) -> u128 {
    let width = rows.first().map_or(1, |row| row.len()).max(1);
    // Squares are below 2⁶³. They are summed in two halves, so that 64 bits hold each sum.
    let (mut high, mut low) = (0_u64, 0_u64);
    for (sum, values) in rows.iter_mut().zip(values.chunks_exact(width)) {
        for (sum, value) in sum.iter_mut().zip(values) {
            let value = f64::from(*value);
            let steps = i64::from((value * put) as i32);
            let square = (steps * steps) as u64;
            high += square >> 32;
            low += square & 0xffff_ffff;
            *sum += steps;
            if TAKE {
                *sum -= i64::from((value * take) as i32);
            }
        }
    }
    (u128::from(high) << 32) + u128::from(low)
}

#[cfg(test)]
mod tests {
    use super::blocks;

    #[test]
    fn blocks_are_all_of_a_matrix_once() {
        for (shape, block) in [([5, 7], [2, 3]), ([1, 9], [1, 4]), ([4, 4], [8, 8]), ([3, 1], [1, 1]), ([0, 3], [2, 2])]
        {
            let mut sum: Vec<i64> = (0..shape[0] * shape[1]).map(|place| place as i64).collect();
            let mut visited = Vec::new();
            for (block, rows) in blocks(&mut sum, shape, block) {
                assert_eq!(rows.len(), block.rows.len());
                for (row, values) in block.rows.clone().zip(rows) {
                    let expected: Vec<i64> =
                        block.columns.clone().map(|column| (row * shape[1] + column) as i64).collect();
                    assert_eq!(values, expected);
                    visited.extend(expected);
                }
            }
            visited.sort_unstable();
            assert_eq!(visited, sum, "{shape:?} in {block:?}");
        }
    }
}
