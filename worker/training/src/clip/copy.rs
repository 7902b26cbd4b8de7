//! Copies gradients that may differ when they are recomputed, as on a device. The gradient of each unit is computed
//! once and copied into host memory. The copy is measured, clipped and, where needed, subtracted.
//!
//! Two launches of one product on a device may differ in their last bits, because another kernel is selected or a
//! reduction runs in another order. The verified norm is that of the numbers added to the sum, so a subtraction must
//! use the same numbers.

use std::ops::Range;

use rayon::prelude::*;

use crate::layers::{BlockFill, GradientPiece, GradientSink, Layout, MatrixBlock};

/// Maximum count of numbers copied at a time: 256 MiB. A single unit is copied whatever its length.
const MOST: usize = 1 << 26;

/// Returns true if some piece must be copied.
pub(super) fn is_needed(parts: &[Vec<&dyn GradientPiece>]) -> bool {
    parts.iter().flatten().any(|piece| !piece.is_repeatable())
}

/// Returns the ranges of units that are copied together, for gradients of `length` numbers.
pub(super) fn ranges(units: usize, length: usize) -> impl Iterator<Item = Range<usize>> {
    let together = (MOST / length.max(1)).max(1);
    (0..units).step_by(together).map(move |start| start..(start + together).min(units))
}

/// Returns the gradients of `units`, `[units, length]` row-major. Each number is computed once.
pub(super) fn copy_gradients(
    parts: &[Vec<&dyn GradientPiece>],
    layout: &Layout,
    units: Range<usize>,
    length: usize,
) -> Vec<f32> {
    let mut copies = UnitCopies { gradients: vec![0.0; units.len() * length], length, first: units.start };
    let mut at = 0;
    for piece in parts.iter().flatten() {
        piece.stream(layout, at, &mut copies);
        at += piece.parameters();
    }
    copies.gradients
}

/// Collects the gradients of a range of units.
struct UnitCopies {
    gradients: Vec<f32>,
    length: usize,
    first: usize,
}

impl GradientSink for UnitCopies {
    fn matrix(&mut self, at: usize, shape: [usize; 2], block: [usize; 2], fill: &BlockFill<'_>) {
        let (first, length) = (self.first, self.length.max(1));
        let (height, width) = (block[0].max(1), block[1].max(1));
        self.gradients.par_chunks_mut(length).enumerate().for_each(|(index, gradient)| {
            let mut values = Vec::new();
            for row in (0..shape[0]).step_by(height) {
                for column in (0..shape[1]).step_by(width) {
                    let (rows, columns) = (row..(row + height).min(shape[0]), column..(column + width).min(shape[1]));
                    let block = MatrixBlock { rows, columns };
                    values.resize(block.len(), 0.0);
                    if !fill(first + index, &block, &mut values) {
                        continue;
                    }
                    for (row, values) in block.rows.clone().zip(values.chunks_exact(block.columns.len())) {
                        let start = at + row * shape[1] + block.columns.start;
                        gradient[start..start + values.len()].copy_from_slice(values);
                    }
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST, ranges};

    #[test]
    fn ranges_cover_all_units_within_the_limit() {
        for (units, length) in [(0, 5), (7, MOST / 3), (4, 2 * MOST), (1000, 1), (3, 0)] {
            let all: Vec<_> = ranges(units, length).collect();
            assert_eq!(all.iter().flat_map(Clone::clone).collect::<Vec<_>>(), (0..units).collect::<Vec<_>>());
            assert!(all.iter().all(|range| range.len() == 1 || range.len() * length <= MOST), "{units} {length}");
        }
    }
}
