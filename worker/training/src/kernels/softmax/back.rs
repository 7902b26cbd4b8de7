//! Converts the stored softmax to the derivatives by the activations.

use std::ops::Range;

use super::OutputWeights;
use crate::kernels::block::{Sums, VECTORS, add_rows, by_rows, vectors};
use crate::kernels::lanes::{SimdKernel, SimdLanes};
use crate::kernels::pack::WIDE;

/// Panels of classes whose weights stay in a core's own cache while all frames are multiplied by them.
const TOGETHER: usize = 8;

pub(super) struct BackwardKernel<'a> {
    pub(super) weights: &'a OutputWeights,
    pub(super) errors: &'a [[f32; WIDE]],
    pub(super) scale: &'a [f32],
    pub(super) by_input: &'a mut [f32],
}

impl SimdKernel for BackwardKernel<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: SimdLanes>(self, simd: S) {
        let Self { weights, errors, scale, by_input } = self;
        let Some(matrix) = &weights.back else { return };
        let (count, hidden) = (scale.len(), weights.hidden);
        let mut sums = vec![[0.0_f32; WIDE]; count * matrix.panels()];
        for start in (0..weights.forward.panels()).step_by(TOGETHER) {
            let classes = start..(start + TOGETHER).min(weights.forward.panels());
            for (index, sums) in sums.chunks_exact_mut(count).enumerate() {
                let vectors = (hidden - index * WIDE).min(WIDE).div_ceil(S::F32_LANES);
                let part = ClassRange { errors, count, classes: classes.clone(), right: matrix.panel(index), vectors };
                for row in (0..count).step_by(S::ROWS) {
                    let target = &mut sums[row..];
                    by_rows!((count - row).min(S::ROWS), rows::<S>(simd, &part, row, target));
                }
            }
        }
        for (row, (target, scale)) in by_input.chunks_exact_mut(hidden.max(1)).zip(scale).enumerate() {
            for (index, target) in target.chunks_mut(WIDE).enumerate() {
                target.iter_mut().zip(&sums[index * count + row]).for_each(|(target, sum)| *target = sum * scale);
            }
        }
    }
}

/// A range of classes of all frames of a block, and their rows of 48 columns of the weights.
struct ClassRange<'a> {
    errors: &'a [[f32; WIDE]],
    count: usize,
    classes: Range<usize>,
    right: &'a [[f32; WIDE]],
    /// Vectors of a row without padding.
    vectors: usize,
}

#[inline(always)]
fn rows<S: SimdLanes, const R: usize>(simd: S, part: &ClassRange<'_>, row: usize, target: &mut [[f32; WIDE]]) {
    let mut first = 0;
    while first < part.vectors {
        if part.vectors - first >= VECTORS {
            few::<S, R, VECTORS>(simd, part, row, first, target);
            first += VECTORS;
        } else {
            few::<S, R, 1>(simd, part, row, first, target);
            first += 1;
        }
    }
}

/// Adds the products of `V` vectors for `R` rows.
#[inline(always)]
fn few<S: SimdLanes, const R: usize, const V: usize>(
    simd: S,
    part: &ClassRange<'_>,
    row: usize,
    first: usize,
    target: &mut [[f32; WIDE]],
) {
    let mut sums: Sums<S, R, V> = [[simd.splat_f32s(0.0); V]; R];
    for (sums, target) in sums.iter_mut().zip(&*target) {
        *sums = vectors::<S, V>(target, first);
    }
    for panel in part.classes.clone() {
        let left_rows = &part.errors[panel * part.count + row..][..R];
        sums = add_rows::<S, R, V>(simd, sums, left_rows, &part.right[panel * WIDE..], first);
    }
    for (sums, target) in sums.iter().zip(&mut *target) {
        S::as_mut_simd_f32s(target).0[first..first + V].copy_from_slice(sums);
    }
}
