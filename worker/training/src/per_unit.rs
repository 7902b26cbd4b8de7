//! Gradients of single units, complete and unclipped: the most sensitive values of the engine. They cannot be sent,
//! stored or printed; the only operation on them is clipping.

use std::ops::Range;

use rayon::prelude::*;

use super::layers::{GradientPiece, GradientSink, Layout, MatrixBlock};
use super::vector::{STRIDE, vectorized};

/// One gradient for each unit of a part of a batch, as `[units, length]` row-major.
pub struct PerUnit {
    gradients: Vec<f32>,
    length: usize,
}

impl PerUnit {
    /// Wraps gradients `[units, length]`.
    ///
    /// # Panics
    /// If the gradients are not complete vectors.
    pub fn new(gradients: Vec<f32>, length: usize) -> Self {
        assert!(length > 0 && gradients.len().is_multiple_of(length), "whole gradients of length {length}");
        Self { gradients, length }
    }

    /// Returns the number of units.
    pub fn units(&self) -> usize {
        self.gradients.len() / self.length
    }

    /// Returns the gradients, for tests of the model.
    #[cfg(any(test, feature = "testing"))]
    pub fn in_test(&self) -> &[f32] {
        &self.gradients
    }

    pub(super) fn into_parts(self) -> (Vec<f32>, usize) {
        (self.gradients, self.length)
    }
}

/// One part of complete gradients, as a piece.
pub(super) struct DensePiece<'a> {
    gradients: &'a [f32],
    length: usize,
    part: Range<usize>,
}

impl<'a> DensePiece<'a> {
    /// Returns the coordinates `part` of gradients `[units, length]`.
    pub(super) fn new(gradients: &'a [f32], length: usize, part: Range<usize>) -> Self {
        Self { gradients, length, part }
    }

    fn gradient(&self, unit: usize) -> &'a [f32] {
        &self.gradients[unit * self.length..][self.part.clone()]
    }
}

impl GradientPiece for DensePiece<'_> {
    fn parameters(&self) -> usize {
        self.part.len()
    }

    fn squared_norms(&self, layout: &Layout) -> Vec<f64> {
        let squares = |unit: usize| {
            let strides = self.gradient(unit).par_chunks(STRIDE).map(|stride| vectorized!(squares(stride)));
            // Collected first: if the order of the sum depended on threads, so would the unit's factor.
            strides.collect::<Vec<_>>().iter().sum()
        };
        (0..layout.units()).map(squares).collect()
    }

    fn is_repeatable(&self) -> bool {
        true
    }

    fn stream(&self, _layout: &Layout, at: usize, sink: &mut dyn GradientSink) {
        sink.matrix(at, [1, self.part.len()], [1, STRIDE], &|unit: usize, block: &MatrixBlock, target: &mut [f32]| {
            target.copy_from_slice(&self.gradient(unit)[block.columns.clone()]);
            true
        });
    }

    fn add_to(&self, target: &mut [f32]) {
        for unit in 0..self.gradients.len() / self.length.max(1) {
            target.iter_mut().zip(self.gradient(unit)).for_each(|(target, value)| *target += value);
        }
    }
}

/// Returns Σ v² in double precision; not finite if a coordinate is not.
#[inline(always)]
fn squares(values: &[f32]) -> f64 {
    let mut lanes = [0.0_f64; 16];
    let (wide, rest) = values.as_chunks::<16>();
    for values in wide {
        for (lane, value) in lanes.iter_mut().zip(values) {
            *lane = f64::from(*value).mul_add(f64::from(*value), *lane);
        }
    }
    lanes.iter().sum::<f64>() + rest.iter().map(|v| f64::from(*v) * f64::from(*v)).sum::<f64>()
}
