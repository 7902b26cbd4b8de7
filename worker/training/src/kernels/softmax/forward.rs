//! Converts activations to logits and to the stored softmax.

use super::{FRAMES, FrameScore, FrameTiles, OutputWeights};
use crate::kernels::block::{VECTORS, add, by_rows, zero};
use crate::kernels::lanes::{SimdKernel, SimdLanes};
use crate::kernels::pack::{TALL, WIDE};
use crate::kernels::scalar::exp;

pub(super) struct ForwardKernel<'a> {
    pub(super) weights: &'a OutputWeights,
    pub(super) tiles: &'a FrameTiles,
    pub(super) labels: &'a [u16],
    pub(super) errors: &'a mut [[f32; WIDE]],
    pub(super) scale: &'a mut [f32],
}

/// A value of one frame in each vector lane.
type PerLane = [f32; 16];

impl SimdKernel for ForwardKernel<'_> {
    type Output = FrameScore;

    #[inline(always)]
    fn run<S: SimdLanes>(self, simd: S) -> FrameScore {
        let Self { weights, tiles, labels, errors, scale } = self;
        let count = labels.len();
        let mut highest: [PerLane; FRAMES] = [[f32::NEG_INFINITY; 16]; FRAMES];
        for (index, errors) in errors.chunks_exact_mut(count).enumerate() {
            let panel = weights.forward.panel(index);
            for (tile, left) in tiles.data.chunks_exact(tiles.width).enumerate() {
                let here = TALL.min(count - tile * TALL);
                for row in (0..here).step_by(S::ROWS) {
                    let target = &mut errors[tile * TALL + row..];
                    let highest = &mut highest[tile * TALL + row..];
                    by_rows!((here - row).min(S::ROWS), logits::<S>(simd, left, row, panel, target, highest));
                }
            }
        }
        let mut tops = [0.0_f32; FRAMES];
        let mut owns = [0.0_f32; FRAMES];
        for (row, label) in labels.iter().enumerate() {
            assert!(usize::from(*label) < weights.classes, "label {label} of {} classes", weights.classes);
            tops[row] = highest[row].iter().fold(f32::NEG_INFINITY, |a, b| a.max(*b));
            owns[row] = *class_value(errors, count, row, *label);
        }
        let mut sums: [PerLane; FRAMES] = [[0.0; 16]; FRAMES];
        for errors in errors.chunks_exact_mut(count) {
            for ((values, top), sums) in errors.iter_mut().zip(&tops).zip(&mut sums) {
                for values in values.as_chunks_mut::<16>().0 {
                    for (value, sum) in values.iter_mut().zip(sums.iter_mut()) {
                        *value = exp(*value - top);
                        *sum += *value;
                    }
                }
            }
        }
        let mut score = FrameScore { frames: count as u64, ..FrameScore::default() };
        for (row, label) in labels.iter().enumerate() {
            let sum = sums[row].iter().sum::<f32>();
            *class_value(errors, count, row, *label) -= sum;
            scale[row] = 1.0 / sum;
            score.right += u64::from(owns[row] >= tops[row]);
            score.loss += f64::from(sum).ln() + f64::from(tops[row]) - f64::from(owns[row]);
        }
        score
    }
}

/// Returns a frame's value of a class.
#[inline(always)]
fn class_value(errors: &mut [[f32; WIDE]], count: usize, row: usize, label: u16) -> &mut f32 {
    let label = usize::from(label);
    &mut errors[label / WIDE * count + row][label % WIDE]
}

/// Computes the logits of `R` frames by 48 classes and updates the maximum of each frame in each lane.
#[inline(always)]
fn logits<S: SimdLanes, const R: usize>(
    simd: S,
    left: &[[f32; TALL]],
    row: usize,
    panel: &[[f32; WIDE]],
    target: &mut [[f32; WIDE]],
    highest: &mut [PerLane],
) {
    for first in (0..WIDE / S::F32_LANES).step_by(VECTORS) {
        let sums = add::<S, R>(simd, zero::<S, R>(simd), left, row, panel, first);
        for ((sums, target), highest) in sums.iter().zip(&mut *target).zip(&mut *highest) {
            let highest = &mut S::as_mut_simd_f32s(highest).0[0];
            for sum in sums {
                *highest = simd.max_f32s(*highest, *sum);
            }
            S::as_mut_simd_f32s(target).0[first..first + VECTORS].copy_from_slice(sums);
        }
    }
}
