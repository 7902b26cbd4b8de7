//! The contributions of a site's units, and their clipped sum.
//!
//! A unit contributes the mean of its frames, each with its scores of the evaluated classes. The clip is the norm that
//! no contribution exceeds; it still bounds every one, so that the guarantee does not rest on this code.

use undertone_api::job::evaluation::{HistogramLayout, ScoredExample, Spec};
use undertone_privacy::SamplingRate;

use super::error::EvaluationError;
use super::score::FrameLogits;
use crate::dp::clip::{Clip, ClippedSum};
use crate::dp::per_unit::PerUnit;
use crate::dp::randomness::Randomness;
use crate::dp::sampler::Sampler;
use crate::speech::model::Model;
use crate::speech::model::gradient::{Engine, Unit};

/// The sum of the contributions of a site's units.
pub struct HistogramSum {
    layout: HistogramLayout,
    sum: ClippedSum,
}

impl HistogramSum {
    /// Begins the sum of `units` units; every unit is in it.
    ///
    /// # Errors
    /// [`EvaluationError::Clip`] when the noise is out of range.
    pub fn begin(spec: &Spec, units: usize, randomness: &Randomness) -> Result<Self, EvaluationError> {
        let layout = spec.layout();
        let clip = Clip::new(spec.contribution_norm(), spec.noise_multiplier)?;
        let batch = Sampler::new(units, SamplingRate::ONE).draw(randomness);
        let sum = ClippedSum::begin(&batch, clip, layout.length());
        Ok(Self { layout, sum })
    }

    /// Returns the positions of the sums.
    pub const fn layout(&self) -> &HistogramLayout {
        &self.layout
    }

    /// Adds a unit's contribution.
    ///
    /// # Panics
    /// If it has another length.
    pub fn add(&mut self, contribution: &[f64]) {
        let vector: Vec<f32> = contribution.iter().map(|value| *value as f32).collect();
        let length = vector.len();
        drop(self.sum.add(PerUnit::new(vector, length)));
    }

    /// Adds the contribution of a unit of frames.
    pub(super) fn add_unit(&mut self, model: &Model, unit: &Unit<'_>, engine: &mut Engine) {
        let frames: usize = unit.iter().map(|example| example.labels.len()).sum();
        let weight = 1.0 / frames.max(1) as f64;
        let classes = model.shape().classes;
        let mut contribution = vec![0.0; self.layout.length()];
        let layout = &self.layout;
        let mut logits = vec![0.0; layout.classes().len()];
        engine.classify(model, unit, &mut |number, scores| {
            for (scores, label) in scores.chunks_exact(classes).zip(unit[number].labels) {
                let frame = FrameLogits::new(scores);
                for (logit, class) in logits.iter_mut().zip(layout.classes()) {
                    *logit = frame.logit(*class as usize);
                }
                let label = u32::from(*label);
                let position = layout.classes().iter().position(|class| *class == label);
                let is_correct = frame.best() == label as usize;
                let example = ScoredExample { logits: &logits, label: position, is_correct };
                layout.add_example(example, weight, &mut contribution);
            }
        });
        self.add(&contribution);
    }

    /// Returns the sum.
    pub fn into_sum(self) -> ClippedSum {
        self.sum
    }
}
