//! A device whose products come out slightly differently each time: the verified norm is still that of what is in the sum.

use std::sync::atomic::{AtomicU32, Ordering};

use super::{batch, clip, norm_in_steps};
use crate::dp::clip::{Clip, ClippedSum, Mode};
use crate::dp::layers::{Block, Gradient, Layout, Piece, Sink};

const LENGTH: usize = 12;

/// Gradients by unit, each evaluation of which is off by up to a thousandth. Norms are far too small, so that every unit is put
/// in too long and taken out again.
struct Unsteady {
    gradients: Vec<Vec<f32>>,
    evaluations: AtomicU32,
    is_repeatable: bool,
}

impl Piece for Unsteady {
    fn parameters(&self) -> usize {
        LENGTH
    }

    fn squared_norms(&self, _layout: &Layout) -> Vec<f64> {
        vec![1e-6; self.gradients.len()]
    }

    fn is_repeatable(&self) -> bool {
        self.is_repeatable
    }

    fn stream(&self, _layout: &Layout, at: usize, sink: &mut dyn Sink) {
        let fill = |unit: usize, block: &Block, target: &mut [f32]| {
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

/// The sum of units as an unsteady device computes them.
fn summed(units: &[Vec<f32>], clip: Clip, is_repeatable: bool) -> Vec<i64> {
    let piece = Unsteady { gradients: units.to_vec(), evaluations: AtomicU32::new(0), is_repeatable };
    let mut gradient = Gradient::new();
    gradient.push("weights", vec![Box::new(piece) as Box<dyn Piece>]);
    let mut sum = ClippedSum::begin_parts(&batch(), clip, &[LENGTH]);
    sum.add_group(&gradient, &Layout::new(units.iter().map(|_| [])));
    sum.sum
}

fn norm(sum: &[i64], clip: &Clip) -> f64 {
    (norm_in_steps(sum) as f64).sqrt() / clip.radius() as f64
}

#[test]
fn a_device_that_repeats_nothing_moves_the_sum_by_the_clip_at_most() {
    let unit: Vec<f32> = (0..LENGTH).map(|n| 4.0 - n as f32 / 10.0).collect();
    for mode in [Mode::Flat, Mode::PerLayer, Mode::Automatic] {
        let clip = clip(0.5, 1.0).with_mode(mode);
        let own = norm(&summed(std::slice::from_ref(&unit), clip, false), &clip);
        assert!(own <= 1.0 && own > 0.98, "{mode:?}: {own} clips");
        // The same unit if the device's word were taken: what is taken out is not what was put in.
        let believed = norm(&summed(std::slice::from_ref(&unit), clip, true), &clip);
        assert!(believed > 1.0, "{mode:?}: the double must be able to break the bound, {believed} clips");
    }
}

#[test]
fn units_of_an_unsteady_device_add_up_to_at_most_a_clip_each() {
    let units: Vec<Vec<f32>> = (1..=5).map(|unit| vec![unit as f32 * 3.0; LENGTH]).collect();
    let clip = clip(1.0, 1.0);
    // All point the same way, so that the norm of the sum is the sum of the norms.
    let whole = norm(&summed(&units, clip, false), &clip);
    assert!(whole <= 5.0 && whole > 4.9, "{whole} clips");
}
