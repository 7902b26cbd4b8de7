//! The clipped sum of score histograms over a site's test set.
//!
//! A unit contributes the mean of its examples (frames or texts), each with its scores of the evaluated classes. The
//! clip is the norm that no contribution exceeds; it still bounds every one, so that the guarantee does not rest on this
//! code.

use undertone_api::job::evaluation::{HistogramLayout, HistogramRelease, ScoredExample};
use undertone_privacy::SamplingRate;

use super::class_logits::ClassLogits;
use super::clip::{Clip, ClipError, ClippedSum};
use super::per_unit::PerUnit;
use super::randomness::Randomness;
use super::sampler::Sampler;

/// The sum of the contributions of a site's units.
pub struct HistogramSum {
    layout: HistogramLayout,
    sum: ClippedSum,
}

impl HistogramSum {
    /// Begins the sum of `units` units; every unit is in it.
    ///
    /// # Errors
    /// [`ClipError`] when the noise is out of range.
    pub fn begin(release: &HistogramRelease, units: usize, randomness: &Randomness) -> Result<Self, ClipError> {
        let layout = release.layout();
        let clip = Clip::new(release.contribution_norm(), release.noise_multiplier)?;
        let batch = Sampler::new(units, SamplingRate::ONE).draw(randomness);
        let sum = ClippedSum::begin(&batch, clip, layout.length());
        Ok(Self { layout, sum })
    }

    /// Returns the positions of the sums.
    pub const fn layout(&self) -> &HistogramLayout {
        &self.layout
    }

    /// Returns the contribution of a unit without examples: zeros.
    pub fn begin_unit(&self) -> UnitContribution<'_> {
        UnitContribution {
            layout: &self.layout,
            logits: vec![0.0; self.layout.classes().len()],
            sums: vec![0.0; self.layout.length()],
        }
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

    /// Returns the sum.
    pub fn into_sum(self) -> ClippedSum {
        self.sum
    }
}

/// The contribution of one unit.
pub struct UnitContribution<'a> {
    layout: &'a HistogramLayout,
    /// The logits of the evaluated classes of one example.
    logits: Vec<f64>,
    sums: Vec<f64>,
}

impl UnitContribution<'_> {
    /// Adds an example with the model's outputs for all classes and its label. A unit with n examples gives each the
    /// weight 1/n.
    pub fn add_example(&mut self, outputs: &[f32], label: u32, weight: f64) {
        let scores = ClassLogits::new(outputs);
        let classes = self.layout.classes();
        for (logit, class) in self.logits.iter_mut().zip(classes) {
            *logit = scores.logit(*class as usize);
        }
        let position = classes.iter().position(|class| *class == label);
        let is_correct = scores.best() == label as usize;
        let example = ScoredExample { logits: &self.logits, label: position, is_correct };
        self.layout.add_example(example, weight, &mut self.sums);
    }

    /// Returns the numbers of the contribution.
    pub fn into_sums(self) -> Vec<f64> {
        self.sums
    }
}
