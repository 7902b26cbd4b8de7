//! The acoustic model: features → (convolution over frames) → recurrent layers → (layer norm) → linear → senone classes, and
//! its gradients.
//!
//! Parameters are one flat vector, so that a gradient is a vector, an average is a vector and a step is a loop. In it lie, one
//! after another, the matrices of the parts that the model has, row-major:
//!
//! | part | shape | rows |
//! |---|---|---|
//! | `context` | `[frames · inputs + 1, hidden]` | inputs of each frame seen, the earliest first, then the bias |
//! | `layer1` … `layer4` | `[fed + 1 + hidden, gates · hidden]` for each direction | what it is fed, bias, its previous output; columns: gates i, f, g, o of an LSTM, reset, update, candidate of a GRU |
//! | `normalize` | `[2, width]` | scales, shifts |
//! | `output` | `[width + 1, classes]` | outputs of the last layer (forward, then backward), bias |
//!
//! `width` is hidden, twice that with two directions; a layer is fed the inputs, hidden after a convolution, width after
//! another layer. Some parts may be frozen: they compute, and are neither trained nor exchanged ([`subset`]).
//!
//! Features are normalized by a mean and a deviation that the lead computed from its public data; they belong to the model
//! file and are not trained. There is no layer that mixes examples (batch normalization is forbidden here: it would make
//! one unit's gradient depend on another's data).
//!
//! A unit's gradient depends on nothing but the unit, to the last bit: [`gradient`] says how, and a test holds it.

mod body;
mod file;
pub mod gradient;
mod shape;
pub mod subset;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use undertone_api::job::dp_sgd::Parts;

use crate::dp::layers::Layer as _;

pub use file::ModelError;
pub use shape::Shape;

/// Mean and deviation of each coefficient, from public data.
#[derive(Debug, Clone, PartialEq)]
pub struct Normalizer {
    /// `[inputs]`.
    pub mean: Vec<f32>,
    /// `[inputs]`, positive.
    pub deviation: Vec<f32>,
}

impl Normalizer {
    /// From the moments of public data. A coefficient that hardly changes says nothing and must not be blown up: its
    /// deviation counts as 1.
    pub fn new(mean: Vec<f32>, mut deviation: Vec<f32>) -> Self {
        for deviation in &mut deviation {
            if *deviation < 1e-3 {
                *deviation = 1.0;
            }
        }
        Self { mean, deviation }
    }
}

/// A model: dimensions, normalizer, parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    shape: Shape,
    normalizer: Normalizer,
    parameters: Vec<f32>,
}

impl Model {
    /// A model of random parameters, each layer's as its kind asks for (weights uniform within 1/√ of what they see or of the
    /// hidden units, forget gates open, scales 1): the same for the same seed.
    ///
    /// # Panics
    /// If the normalizer is for another number of inputs.
    pub fn initialize(shape: Shape, normalizer: Normalizer, seed: u64) -> Self {
        assert!(
            normalizer.mean.len() == shape.inputs && normalizer.deviation.len() == shape.inputs,
            "normalizer and model have the same inputs"
        );
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut uniform = || (rng.next_u32() >> 8) as f32 / (1 << 23) as f32 - 1.0;
        let mut parameters = vec![0.0; shape.parameters()];
        shape.stack(Parts::default()).initialize(&mut parameters, &mut uniform);
        Self { shape, normalizer, parameters }
    }

    /// Dimensions.
    pub const fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The normalizer.
    pub const fn normalizer(&self) -> &Normalizer {
        &self.normalizer
    }

    /// All trained parameters, flat.
    pub fn parameters(&self) -> &[f32] {
        &self.parameters
    }

    /// The same, to be stepped.
    pub fn parameters_mut(&mut self) -> &mut [f32] {
        &mut self.parameters
    }
}

#[cfg(test)]
pub(crate) mod tests;
