//! Gradients of single units, whole and unclipped: the most sensitive values of the engine. They cannot be sent, stored or
//! printed; all they can do is be clipped.

use super::clip::{Clip, ClippedSum};
use super::sampler::Batch;

/// One gradient for each of some units of a batch, as `[units, length]` row-major.
pub struct PerUnit {
    gradients: Vec<f32>,
    length: usize,
}

impl PerUnit {
    /// Takes gradients `[units, length]`.
    ///
    /// # Panics
    /// If they are not whole vectors.
    pub fn new(gradients: Vec<f32>, length: usize) -> Self {
        assert!(length > 0 && gradients.len().is_multiple_of(length), "whole gradients of length {length}");
        Self { gradients, length }
    }

    /// How many units.
    pub fn units(&self) -> usize {
        self.gradients.len() / self.length
    }

    /// Clips each unit's gradient, over all its coordinates at once, and sums. For batches in micro-batches see
    /// [`ClippedSum::begin`] and [`ClippedSum::add`].
    pub fn clip(self, batch: &Batch, clip: Clip) -> ClippedSum {
        let mut sum = ClippedSum::begin(batch, clip, self.length);
        sum.add(self);
        sum
    }

    /// The gradients, for tests of the model.
    #[cfg(test)]
    pub(crate) fn in_test(&self) -> &[f32] {
        &self.gradients
    }

    pub(super) fn into_parts(self) -> (Vec<f32>, usize) {
        (self.gradients, self.length)
    }
}
