//! Layers with hand-written gradients, as slices in and slices out.
//!
//! What the engine needs of a layer is that the gradient of one unit be a function of that unit alone, bit for bit, whoever
//! shares its micro-batch: row by row the same operations in the same order (`lstm`), or matrix products whose shapes
//! depend on the unit only (`linear`, and the sums over a unit's frames). Biases are one more row of a weight matrix, for
//! a constant input of 1, so that one product serves both.

pub mod linear;
pub mod lstm;
mod scalar;
