//! The acoustic model and its gradients: features → (convolution over frames) → recurrent layers → (layer norm) →
//! linear → senone classes. A model of rows of tables has dense layers instead, or none: each row is a frame. Its texts
//! pass through an embedding first.
//!
//! Parameters are one flat vector, so a gradient is a vector, an average is a vector and a step is a loop. The matrices
//! of the model's parts lie in it one after another, row-major:
//!
//! | part | shape | rows |
//! |---|---|---|
//! | `embedding` | `[buckets, width]` | the vectors of n-grams, of a model of rows with texts |
//! | `context` | `[frames · inputs + 1, hidden]` | inputs of each frame seen, the earliest first, then the bias |
//! | `layer1` … `layer4` | `[fed + 1 + hidden, gates · hidden]` for each direction | its input, bias, its previous
//! output; columns: gates i, f, g, o of an LSTM, reset, update, candidate of a GRU |
//! | `layer1` … `layer4` of rows | `[fed + 1, hidden]` | its input, bias |
//! | `normalize` | `[2, width]` | scales, shifts |
//! | `output` | `[width + 1, classes]` | outputs of the last layer (forward, then backward), bias |
//!
//! `width` is `hidden`, doubled with two directions; the inputs for a linear model of rows. The input of a recurrent layer is the features, the convolution's
//! output, or the output of the layer before it. Parts may be frozen: they take part in the computation, but are
//! neither trained nor exchanged. Of the others each parameter is trained, or fewer coordinates are ([`coordinates`]).
//!
//! Features are normalized by a mean and a deviation that the lead computed from its public data. They belong to the
//! model file and are not trained. No layer mixes examples: batch normalization is forbidden here, because it would
//! make one unit's gradient depend on another unit's data.
//!
//! The gradient of a unit depends on that unit alone, to the last bit: [`gradient`] describes how, and a test checks
//! it.

mod augmentation;
mod body;
pub mod coordinates;
mod directions;
mod file;
pub mod gradient;
mod shape;
mod tally;
mod usage;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use undertone_api::job::dp_sgd::ModelParts;

use crate::layers::Layer as _;

pub use file::ModelError;
pub use shape::{ModelShape, TextShape};
pub use tally::FrameTally;
pub use usage::{FeatureSettings, ModelUsage};

/// Mean and deviation of each coefficient, from public data.
#[derive(Debug, Clone, PartialEq)]
pub struct Normalizer {
    /// `[inputs]`.
    pub mean: Vec<f32>,
    /// `[inputs]`, positive.
    pub deviation: Vec<f32>,
}

impl Normalizer {
    /// Returns a normalizer from the moments of public data. A coefficient that is almost constant carries no
    /// information and must not be amplified, so its deviation counts as 1.
    pub fn new(mean: Vec<f32>, mut deviation: Vec<f32>) -> Self {
        for deviation in &mut deviation {
            if *deviation < 1e-3 {
                *deviation = 1.0;
            }
        }
        Self { mean, deviation }
    }
}

/// A model: dimensions, normalizer, parameters and the settings of its use.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    shape: ModelShape,
    normalizer: Normalizer,
    parameters: Vec<f32>,
    usage: ModelUsage,
}

impl Model {
    /// Returns a model with random parameters, initialized as each layer kind requires (weights uniform within 1/√ of
    /// the inputs or hidden units, forget gates open, scales 1). The same seed gives the same parameters.
    ///
    /// # Panics
    /// If the normalizer has another number of inputs.
    pub fn initialize(shape: ModelShape, normalizer: Normalizer, seed: u64) -> Self {
        assert!(
            normalizer.mean.len() == shape.inputs && normalizer.deviation.len() == shape.inputs,
            "normalizer and model have the same inputs"
        );
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut uniform = || (rng.next_u32() >> 8) as f32 / (1 << 23) as f32 - 1.0;
        let mut parameters = vec![0.0; shape.parameters()];
        shape.stack(ModelParts::default()).initialize(&mut parameters, &mut uniform);
        Self { shape, normalizer, parameters, usage: ModelUsage::default() }
    }

    /// Returns the dimensions.
    pub const fn shape(&self) -> &ModelShape {
        &self.shape
    }

    /// Returns the normalizer.
    pub const fn normalizer(&self) -> &Normalizer {
        &self.normalizer
    }

    /// Returns the settings of use that the model's file records.
    pub const fn usage(&self) -> &ModelUsage {
        &self.usage
    }

    /// Replaces the settings of use. They change neither a score nor a gradient.
    pub fn set_usage(&mut self, usage: ModelUsage) {
        self.usage = usage;
    }

    /// Returns whether two models give the same scores: all but the settings of use are equal.
    pub fn has_same_scores(&self, other: &Self) -> bool {
        self.shape == other.shape && self.normalizer == other.normalizer && self.parameters == other.parameters
    }

    /// Returns all trained parameters, flat.
    pub fn parameters(&self) -> &[f32] {
        &self.parameters
    }

    /// Returns all trained parameters, mutable.
    pub fn parameters_mut(&mut self) -> &mut [f32] {
        &mut self.parameters
    }
}

#[cfg(test)]
pub(crate) mod tests;
