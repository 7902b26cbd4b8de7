//! What the layers cost most of their time in, as loops over the slices of this process.
//!
//! They compute what the layers' tensors would, an order of magnitude faster for our shapes: products of matrices whose results
//! are used while they are still in registers (`outer`), softmax and cross-entropy between two products (`softmax`), rows of many
//! units times one matrix (`block`). Matrices are laid out once as the loops read them (`pack`), and each loop is compiled for
//! AVX-512, for AVX2 and for any processor and chosen at run time (`lanes`).
//!
//! For the engine's sake each element of each product is one chain of fused multiply-adds in the order of its inner dimension,
//! whatever the shapes, blocks and threads around it: what is computed of a unit is a function of that unit alone, bit for bit.
//! So no kernel may cut the inner dimension by anything but its own index, nor sum over frames of several units on the way to
//! one unit's numbers.

pub(in crate::dp) mod block;
pub(in crate::dp) mod lanes;
pub(in crate::dp) mod outer;
pub(in crate::dp) mod pack;
pub(in crate::dp) mod pool;
pub(in crate::dp) mod scalar;
pub(in crate::dp) mod softmax;
