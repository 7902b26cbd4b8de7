//! Layers with hand-written derivatives. One forward and one backward pass yield everything needed to compute the
//! gradients of single units.
//!
//! A [`Layer`] works on the frames of many units at once, packed as rows ([`Layout`]). Its backward pass does not compute
//! gradients; it leaves [`piece`]s, from which each unit's squared norm and each unit's clipped gradient are computed
//! without ever holding one gradient per unit. [`stack::Stack`] composes layers under names.
//!
//! The engine requires that the gradient of one unit be a function of that unit alone, bit for bit, whichever units
//! share its pass. Layers achieve this with the same operations in the same order for each row (`product`), or with
//! matrix products whose shapes depend on the unit only (`outer`). So no layer may mix units; [`normalization`]
//! explains why this excludes batch normalization. Biases are an additional row of a weight matrix, for a constant
//! input of 1, so that one product computes both.
//!
//! Training of few coordinates replaces the gradient by a matrix by that of fewer rows ([`projection`]): the
//! [`Parameters`] of a layer carry the map, and a layer builds its pieces from them.
//!
//! Layers are written once over burn's tensors, for all its devices, without automatic differentiation. Where a
//! hand-written loop is much faster on the CPU, a layer uses it (`dp::kernels`), and a test compares both results. To
//! add a layer, add one file that implements [`Layer`] and a case in the tests of this module, which compare it with a
//! loop over single units through burn's automatic differentiation.

pub mod affine;
pub mod combine;
pub mod conv1d;
pub mod dense;
pub mod embedding;
pub mod embedding_bag;
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
pub mod projection;
pub mod recurrent;
mod rows;
pub mod stack;

use burn::tensor::Tensor;

pub use layout::Layout;
pub use parameters::Parameters;
pub use piece::{BlockFill, Gradient, GradientPiece, GradientSink, MatrixBlock, SparseFill};
pub use projection::GradientProjection;
pub use stack::Stack;

/// The outputs that a caller requests from a backward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GradientRequest {
    /// The derivatives by the input.
    pub by_input: bool,
    /// The derivatives by the layer's own parameters; a frozen layer has none.
    pub gradient: bool,
}

impl GradientRequest {
    /// Requests both.
    pub const ALL: Self = Self { by_input: true, gradient: true };
}

/// The result of a backward pass.
pub struct Backward {
    /// The loss's derivatives by the input, `[rows, inputs]`. Absent if not requested, or if the input is discrete.
    pub by_input: Option<Tensor<2>>,
    /// Pieces that together cover the layer's trained coordinates, in the order of its parameters; empty if not requested.
    pub pieces: Vec<Box<dyn GradientPiece>>,
}

/// A transformation of rows, with its derivatives.
///
/// No row of the output, and nothing of a unit's gradient, may depend on rows of another unit.
pub trait Layer: Send + Sync + 'static {
    /// State of the forward pass that the backward pass needs.
    type Tape: Send + 'static;

    /// Returns the number of input columns.
    fn inputs(&self) -> usize;

    /// Returns the number of output columns.
    fn outputs(&self) -> usize;

    /// Returns the number of parameters.
    fn parameters(&self) -> usize;

    /// Returns true if derivatives by the input exist. Only the first layer of a stack may lack them.
    fn passes_back(&self) -> bool {
        true
    }

    /// Writes the initial parameters; `uniform` draws from −1 to 1.
    fn initialize(&self, parameters: &mut [f32], uniform: &mut dyn FnMut() -> f32);

    /// Returns the output `[rows, outputs]` for an input `[rows, inputs]` of at least one row.
    fn forward(&self, parameters: &Parameters<'_>, input: Tensor<2>, layout: &Layout) -> (Tensor<2>, Self::Tape);

    /// Propagates the loss's derivatives by the output, `[rows, outputs]`, back through the same rows.
    fn backward(
        &self,
        parameters: &Parameters<'_>,
        tape: Self::Tape,
        by_output: Tensor<2>,
        layout: &Layout,
        request: GradientRequest,
    ) -> Backward;
}

#[cfg(test)]
mod tests;
