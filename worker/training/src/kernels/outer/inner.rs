//! Inner products between rows.

use std::ops::Range;

use crate::kernels::lanes::{SimdKernel, SimdLanes, dispatch};
use crate::kernels::pack::{ColumnPanels, WIDE};

/// Panels whose products are computed together: their part of the rows stays in a core's own cache.
const CHUNK: usize = 16;
/// Rows by rows whose products stay in registers.
const BLOCK: [usize; 2] = [4, 6];

/// Returns the inner products of `rows`, `[count, count]`; only the lower triangle is written.
pub(super) fn inner_products(panels: &ColumnPanels, rows: &Range<usize>) -> Vec<f32> {
    let mut products = vec![0.0; rows.len() * rows.len()];
    for start in (0..panels.panels()).step_by(CHUNK) {
        let chunk = start..(start + CHUNK).min(panels.panels());
        dispatch(InnerProductKernel { panels, rows, chunk, products: &mut products });
    }
    products
}

struct InnerProductKernel<'a> {
    panels: &'a ColumnPanels,
    rows: &'a Range<usize>,
    chunk: Range<usize>,
    products: &'a mut [f32],
}

impl SimdKernel for InnerProductKernel<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: SimdLanes>(self, simd: S) {
        const A: usize = BLOCK[0];
        const B: usize = BLOCK[1];
        let count = self.rows.len();
        for first in (0..count).step_by(A) {
            for second in (0..(first + A).min(count)).step_by(B) {
                // Rows beyond the end repeat the last one; their products are discarded.
                let place = |row: usize| self.panels.place(self.rows.start + row.min(count - 1));
                let left_places: [_; A] = std::array::from_fn(|i| place(first + i));
                let right: [_; B] = std::array::from_fn(|j| place(second + j));
                let mut sums = [[simd.splat_f32s(0.0); B]; A];
                for panel in self.chunk.clone() {
                    let left_parts: [_; A] =
                        std::array::from_fn(|i| S::as_simd_f32s(self.panels.row_part(left_places[i], panel)).0);
                    let right: [_; B] =
                        std::array::from_fn(|j| S::as_simd_f32s(self.panels.row_part(right[j], panel)).0);
                    for v in 0..WIDE / S::F32_LANES {
                        for i in 0..A {
                            for j in 0..B {
                                sums[i][j] = simd.mul_add_f32s(left_parts[i][v], right[j][v], sums[i][j]);
                            }
                        }
                    }
                }
                for (i, sums) in sums.iter().enumerate().take(count - first) {
                    for (j, sum) in sums.iter().enumerate().take(count - second) {
                        self.products[(first + i) * count + second + j] += simd.reduce_sum_f32s(*sum);
                    }
                }
            }
        }
    }
}
