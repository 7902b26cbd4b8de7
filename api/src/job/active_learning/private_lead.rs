//! A private log that leads: its classifiers are trained by DP-SGD, and each is one release.
//!
//! Before the first question and after the answers of each round, the lead takes T noisy steps on its labelled rows and
//! releases the classifier: rounds + 1 releases, each of T Poisson-sampled Gaussians, all charged to its lineage. The
//! ranking of questions, the uncertainty, the files and the report follow from these releases, from answers and from
//! public test sets.

use serde::{Deserialize, Serialize};
use undertone_privacy::{Event, NoiseMultiplier, SamplingRate};

use super::{Classifier, Encoder};
use crate::job::dp_sgd::Optimizer;

/// The series in which a private lead releases its classifiers: in round 1 the first, in round n + 1 the one after the
/// questions of round n.
pub const TRAINING: &str = "training";

/// The DP-SGD training of a private lead.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PrivateTraining {
    /// q: the probability with which each unit is in the batch of a step, drawn independently and in secret.
    #[cfg_attr(feature = "openapi", schema(value_type = f64, example = 0.125))]
    pub sampling_rate: SamplingRate,
    /// z: the standard deviation of the noise of a step relative to the clip.
    #[cfg_attr(feature = "openapi", schema(value_type = f64, example = 2.0))]
    pub noise_multiplier: NoiseMultiplier,
    /// C: the L2 norm to which the gradient of each unit is clipped; above 0, at most 1,000,000.
    #[cfg_attr(feature = "openapi", schema(exclusive_minimum = 0, maximum = 1_000_000))]
    pub clip: f64,
    /// T: noisy steps of each training, 1 to 10,000.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 10000))]
    pub steps: u32,
    /// Learning rate of Adam, whose second moment is corrected by the known variance of the noise; above 0, at most 1.
    #[cfg_attr(feature = "openapi", schema(exclusive_minimum = 0, maximum = 1))]
    pub learning_rate: f64,
}

impl PrivateTraining {
    /// Returns the release of one training.
    pub fn event(&self) -> Event {
        let Self { sampling_rate, noise_multiplier, .. } = *self;
        let step = Event::PoissonSampledGaussian { sampling_rate, noise_multiplier };
        if self.steps == 1 { step } else { step.times(self.steps.into()) }
    }

    /// Returns the rule from noisy gradients to steps.
    pub const fn optimizer(&self) -> Optimizer {
        Optimizer::DpAdam { learning_rate: self.learning_rate }
    }
}

impl Classifier {
    /// Returns the number of parameters of the layers after the embedding, for a number of labels: the length of the
    /// vector that a private lead releases. The embedding stays as the seed and the answers make it.
    pub const fn dense_length(&self, labels: usize) -> u64 {
        let (embedding, hidden) = (self.embedding as u64, self.hidden as u64);
        let outputs = if labels == 2 { 1 } else { labels as u64 };
        let layer = match self.encoder {
            Encoder::Bag => (embedding + 1) * hidden,
            Encoder::Lstm => (embedding + 1 + hidden) * 4 * hidden,
        };
        layer + (hidden + 1) * outputs
    }
}
