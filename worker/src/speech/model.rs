//! The acoustic model: features → LSTM → linear → senone classes, and its gradients.
//!
//! Parameters are one flat vector, so that a gradient is a vector, an average is a vector and a step is a loop:
//!
//! | part | shape (row-major) | rows |
//! |---|---|---|
//! | `lstm` | `[inputs + 1 + hidden, 4 · hidden]` | inputs, bias, previous output; columns: gates i, f, g, o |
//! | `linear` | `[hidden + 1, classes]` | outputs of the LSTM, bias |
//!
//! Features are normalized by a mean and a deviation that the lead computed from its public data; they belong to the model
//! file and are not trained. There is no layer that mixes examples (batch normalization is forbidden here: it would make
//! one unit's gradient depend on another's data).
//!
//! A unit's gradient depends on nothing but the unit, to the last bit: [`gradient`] says how, and a test holds it.

mod file;
pub mod gradient;

use std::ops::Range;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::dp::layers::linear::Linear;
use crate::dp::layers::lstm::Lstm;

pub use file::ModelError;

/// Dimensions of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Coefficients of a frame.
    pub inputs: usize,
    /// Units of the LSTM.
    pub hidden: usize,
    /// Classes.
    pub classes: usize,
}

impl Shape {
    /// The recurrent layer.
    pub const fn lstm(&self) -> Lstm {
        Lstm { inputs: self.inputs, hidden: self.hidden }
    }

    /// The output layer.
    pub const fn linear(&self) -> Linear {
        Linear { hidden: self.hidden, classes: self.classes }
    }

    /// Number of trained parameters.
    pub const fn parameters(&self) -> usize {
        self.lstm().parameters() + self.linear().parameters()
    }

    /// Where the recurrent layer lies in the flat vector; the output layer is the rest.
    pub const fn recurrent(&self) -> Range<usize> {
        0..self.lstm().parameters()
    }
}

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
    /// A model of random parameters, uniform within 1/√hidden, forget gates open: the same for the same seed.
    ///
    /// # Panics
    /// If the normalizer is for another number of inputs.
    pub fn initialize(shape: Shape, normalizer: Normalizer, seed: u64) -> Self {
        assert!(
            normalizer.mean.len() == shape.inputs && normalizer.deviation.len() == shape.inputs,
            "normalizer and model have the same inputs"
        );
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let reach = 1.0 / (shape.hidden as f32).sqrt();
        let mut uniform = || (rng.next_u32() >> 8) as f32 / (1 << 23) as f32 - 1.0;
        let mut parameters: Vec<f32> = (0..shape.parameters()).map(|_| uniform() * reach).collect();
        let bias = shape.inputs * 4 * shape.hidden;
        parameters[bias..bias + 4 * shape.hidden].fill(0.0);
        parameters[bias + shape.hidden..bias + 2 * shape.hidden].fill(1.0);
        let linear_bias = shape.parameters() - shape.classes;
        parameters[linear_bias..].fill(0.0);
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
