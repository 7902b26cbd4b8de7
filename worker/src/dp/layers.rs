//! Layers with hand-written derivatives: what the gradients of single units can be told from, after one pass forward and
//! one backward.
//!
//! A [`Layer`] works on the frames of many units at once, packed as rows ([`Layout`]). Its backward pass does not compute
//! gradients; it leaves [`piece`]s, from which each unit's squared norm and each unit's clipped gradient are computed
//! without ever holding one gradient per unit. [`stack::Stack`] composes layers under names.
//!
//! What the engine needs of a layer is that the gradient of one unit be a function of that unit alone, bit for bit, whoever
//! shares its pass: row by row the same operations in the same order (`product`), or matrix products whose shapes
//! depend on the unit only (`outer`). So no layer may mix units: [`normalization`] says why batch normalization is none.
//! Biases are one more row of a weight matrix, for a constant input of 1, so that one product serves both.
//!
//! Layers are written once, over burn's tensors, for all its devices, without automatic differentiation; where a loop of
//! ours is much faster on the CPU, a layer takes it there (`dp::kernels`), and a test holds both to the same result.
//! To add a layer: one file, [`Layer`] for it, and a row in this room's tests, which compare it with a loop over single
//! units through burn's automatic differentiation.

pub mod affine;
pub mod combine;
pub mod conv1d;
pub mod embedding;
mod host;
pub mod layer_norm;
pub mod layout;
pub mod lstm;
pub mod normalization;
pub mod outer;
pub mod output;
pub mod parameters;
pub mod piece;
mod product;
pub mod recurrent;
mod rows;
pub mod stack;

use burn::tensor::Tensor;

pub use layout::Layout;
pub use parameters::Parameters;
pub use piece::{Block, Fill, Gradient, Piece, Sink};
pub use stack::Stack;

/// What is asked of a backward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// The derivatives by the input.
    pub by_input: bool,
    /// The derivatives by the layer's own parameters: not those of a frozen layer.
    pub gradient: bool,
}

impl Wanted {
    /// Both.
    pub const ALL: Self = Self { by_input: true, gradient: true };
}

/// What a backward pass gives.
pub struct Backward {
    /// The loss's derivatives by the input, `[rows, inputs]`; absent where not wanted, or where the input is no number that
    /// could change a little.
    pub by_input: Option<Tensor<2>>,
    /// Pieces that together are the layer's parameters, in their order; none where not wanted.
    pub pieces: Vec<Box<dyn Piece>>,
}

/// A transformation of rows, with its derivatives.
///
/// No row of the output, and nothing of a unit's gradient, may depend on rows of another unit.
pub trait Layer: Send + Sync + 'static {
    /// What the forward pass keeps for the backward pass.
    type Tape: Send + 'static;

    /// Columns of its input.
    fn inputs(&self) -> usize;

    /// Columns of its output.
    fn outputs(&self) -> usize;

    /// How many parameters it has.
    fn parameters(&self) -> usize;

    /// Whether derivatives by its input exist. Only the first layer of a stack may do without.
    fn passes_back(&self) -> bool {
        true
    }

    /// Writes parameters to begin with; `uniform` draws from −1 to 1.
    fn initialize(&self, parameters: &mut [f32], uniform: &mut dyn FnMut() -> f32);

    /// The output `[rows, outputs]` for an input `[rows, inputs]` of at least one row.
    fn forward(&self, parameters: &Parameters<'_>, input: Tensor<2>, layout: &Layout) -> (Tensor<2>, Self::Tape);

    /// Back through the same rows, given the loss's derivatives by the output `[rows, outputs]`.
    fn backward(
        &self,
        parameters: &Parameters<'_>,
        tape: Self::Tape,
        by_output: Tensor<2>,
        layout: &Layout,
        wanted: Wanted,
    ) -> Backward;
}

#[cfg(test)]
mod tests;
