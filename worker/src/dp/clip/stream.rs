//! From gradients to integers: the one place where a unit's numbers become steps of the grid.

use rayon::prelude::*;

use crate::dp::layers::piece::Steps;
use crate::dp::layers::{Block, Fill, Layout, Piece, Sink};
use crate::dp::vector::vectorized;

/// What is done with a unit: what it was put in with is taken out, and it is put in with another factor.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Change {
    /// The factor with which it is in the sum.
    pub(super) take: Option<f64>,
    /// The factor with which it shall be.
    pub(super) put: Option<f64>,
}

/// The integers of one part, and what is done with each unit.
struct Quantizer<'a> {
    sum: &'a mut [i64],
    changes: &'a [Change],
    /// The longest a unit may be, in steps.
    radius: u64,
    squares: Vec<u128>,
}

/// Streams the pieces of one part into its integers; answers with the exact squared norm of what was put in, by unit.
pub(super) fn through(
    sum: &mut [i64],
    pieces: &[&dyn Piece],
    layout: &Layout,
    changes: &[Change],
    radius: u64,
) -> Vec<u128> {
    let mut quantizer = Quantizer { sum, changes, radius, squares: vec![0; changes.len()] };
    if changes.iter().any(|change| change.take.is_some() || change.put.is_some()) {
        let mut at = 0;
        for piece in pieces {
            piece.stream(layout, at, &mut quantizer);
            at += piece.parameters();
        }
    }
    quantizer.squares
}

impl Sink for Quantizer<'_> {
    /// Threads share out the blocks; unit after unit goes into a block's integers while these are in the cache.
    fn matrix(&mut self, at: usize, shape: [usize; 2], block: [usize; 2], fill: &Fill<'_>) {
        let changes = self.changes;
        let blocks = blocks(&mut self.sum[at..at + shape[0] * shape[1]], shape, block);
        let squares: Vec<Vec<u128>> = blocks
            .into_par_iter()
            .map(|(block, mut rows)| {
                let mut values = vec![0.0; block.len()];
                let add = |(unit, change): (usize, &Change)| match (change.take, change.put) {
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

    /// Threads share out the strips; unit after unit goes into a strip's 32-bit integers, which are emptied into the sum before
    /// they could be too small. A coordinate that is the most it can be is longer than the radius, so it shows.
    fn steps(&mut self, at: usize, shape: [usize; 2], steps: &dyn Steps) -> bool {
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
                        // Both at once would need twice the room; what is taken out was put in by an earlier call.
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

impl Quantizer<'_> {
    fn note(&mut self, squares: Vec<Vec<u128>>) {
        for squares in squares {
            self.squares.iter_mut().zip(squares).for_each(|(total, own)| *total += own);
        }
    }
}

/// Adds what was summed in 32 bits to the 64 bits of some rows, and begins anew.
fn empty(sums: &mut [i32], width: usize, rows: &mut [&mut [i64]]) {
    for (sums, row) in sums.chunks_exact_mut(width.max(1)).zip(rows) {
        row.iter_mut().zip(&*sums).for_each(|(total, sum)| *total += i64::from(*sum));
    }
    sums.fill(0);
}

/// Cuts a matrix in blocks, each with its own rows of the integers.
fn blocks(sum: &mut [i64], [rows, columns]: [usize; 2], [height, width]: [usize; 2]) -> Vec<(Block, Vec<&mut [i64]>)> {
    let (height, width) = (height.max(1), width.max(1));
    let mut blocks = Vec::with_capacity(rows.div_ceil(height) * columns.div_ceil(width));
    for (band, sum) in sum.chunks_mut((height * columns).max(1)).enumerate() {
        let first = blocks.len();
        let rows = band * height..(band * height + height).min(rows);
        for start in (0..columns).step_by(width) {
            let columns = start..(start + width).min(columns);
            blocks.push((Block { rows: rows.clone(), columns }, Vec::with_capacity(rows.len())));
        }
        for row in sum.chunks_mut(columns.max(1)) {
            for ((_, rows), part) in blocks[first..].iter_mut().zip(row.chunks_mut(width)) {
                rows.push(part);
            }
        }
    }
    blocks
}

/// Rounds a block of a gradient, times a factor, to the grid and adds it; first takes out again what it was with another
/// factor. Answers with the exact squared norm of what was added.
///
/// Rounding is toward zero. What is no number gives 0 and what is beyond 31 bits the largest, the same each time, so that
/// it can be taken out; the norm shows it to the caller.
#[inline(always)]
fn quantize<const TAKE: bool>(rows: &mut [&mut [i64]], values: &[f32], take: f64, put: f64) -> u128 {
    let width = rows.first().map_or(1, |row| row.len()).max(1);
    // Squares below 2⁶³ in two halves, so that sixty-four bits hold the sums of both.
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
            let mut seen = Vec::new();
            for (block, rows) in blocks(&mut sum, shape, block) {
                assert_eq!(rows.len(), block.rows.len());
                for (row, values) in block.rows.clone().zip(rows) {
                    let expected: Vec<i64> =
                        block.columns.clone().map(|column| (row * shape[1] + column) as i64).collect();
                    assert_eq!(values, expected);
                    seen.extend(expected);
                }
            }
            seen.sort_unstable();
            assert_eq!(seen, sum, "{shape:?} in {block:?}");
        }
    }
}
