//! A device whose products differ slightly on each call: the verified norm still is that of the numbers in the sum.

use std::sync::atomic::{AtomicU32, Ordering};

use super::{batch, clip, norm_in_steps};
use crate::clip::ClippedSum;
use crate::clip::grid::Clip;
use crate::clip::mode::ClipMode;
use crate::layers::{Gradient, GradientPiece, GradientSink, Layout, MatrixBlock};

const LENGTH: usize = 12;

/// Gradients by unit; each evaluation is off by up to a thousandth. The claimed norms are far too small, so every unit
/// is added too long and subtracted again.
struct UnsteadyDevice {
    gradients: Vec<Vec<f32>>,
    evaluations: AtomicU32,
    is_repeatable: bool,
}

impl GradientPiece for UnsteadyDevice {
    fn parameters(&self) -> usize {
        LENGTH
    }

    fn squared_norms(&self, _layout: &Layout) -> Vec<f64> {
        vec![1e-6; self.gradients.len()]
    }

    fn is_repeatable(&self) -> bool {
        self.is_repeatable
    }

    fn stream(&self, _layout: &Layout, at: usize, sink: &mut dyn GradientSink) {
        let fill = |unit: usize, block: &MatrixBlock, target: &mut [f32]| {
            let off = 1.0 - (self.evaluations.fetch_add(1, Ordering::Relaxed) % 7) as f32 / 7000.0;
            for (target, value) in target.iter_mut().zip(&self.gradients[unit][block.columns.clone()]) {
                *target = value * off;
            }
            true
        };
        sink.matrix(at, [1, LENGTH], [1, 5], &fill);
    }

    fn add_to(&self, _target: &mut [f32]) {}
}

/// Returns the sum of `units` as an unsteady device computes them.
fn sum_on_device(units: &[Vec<f32>], clip: Clip, is_repeatable: bool) -> Vec<i64> {
    let piece = UnsteadyDevice { gradients: units.to_vec(), evaluations: AtomicU32::new(0), is_repeatable };
    let mut gradient = Gradient::new();
    gradient.push("weights", vec![Box::new(piece) as Box<dyn GradientPiece>]);
    let mut sum = ClippedSum::begin_parts(&batch(), clip, &[LENGTH]);
    sum.add_group(&gradient, &Layout::new(units.iter().map(|_| [])));
    sum.sum
}

fn norm(sum: &[i64], clip: &Clip) -> f64 {
    (norm_in_steps(sum) as f64).sqrt() / clip.radius() as f64
}

#[test]
fn unrepeatable_device_moves_the_sum_by_at_most_the_clip() {
    let unit: Vec<f32> = (0..LENGTH).map(|n| 4.0 - n as f32 / 10.0).collect();
    for mode in [ClipMode::Flat, ClipMode::PerLayer, ClipMode::Automatic] {
        let clip = clip(0.5, 1.0).with_mode(mode);
        let own = norm(&sum_on_device(std::slice::from_ref(&unit), clip, false), &clip);
        assert!(own <= 1.0 && own > 0.98, "{mode:?}: {own} clips");
        // With the device's claim accepted, the subtraction uses other numbers than the addition did.
        let unprotected = norm(&sum_on_device(std::slice::from_ref(&unit), clip, true), &clip);
        assert!(unprotected > 1.0, "{mode:?}: the double must be able to break the bound, {unprotected} clips");
    }
}

#[test]
fn unsteady_device_adds_at_most_one_clip_per_unit() {
    let units: Vec<Vec<f32>> = (1..=5).map(|unit| vec![unit as f32 * 3.0; LENGTH]).collect();
    let clip = clip(1.0, 1.0);
    // All vectors have the same direction, so the norm of the sum is the sum of the norms.
    let whole = norm(&sum_on_device(&units, clip, false), &clip);
    assert!(whole <= 5.0 && whole > 4.9, "{whole} clips");
}
