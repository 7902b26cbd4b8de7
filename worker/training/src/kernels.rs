//! CPU loops over slices for the operations that take most of the layers' time.
//!
//! They compute the same as tensor operations, an order of magnitude faster for the shapes of this program: matrix
//! products whose results are used while they are still in registers (`outer`), softmax and cross-entropy between two
//! products (`softmax`), and rows of many units times one matrix (`block`). Matrices are packed once in the order in
//! which the loops read them (`pack`). Each loop is compiled for AVX-512, for AVX2 and for the baseline, and selected
//! at run time (`lanes`).
//!
//! The engine requires that each element of each product be one chain of fused multiply-adds in the order of its inner
//! dimension, whatever the shapes, blocks and threads around it: the result for a unit is a function of that unit
//! alone, bit for bit. So no kernel may split the inner dimension by anything but its own index, nor add frames of
//! several units on the way to one unit's numbers.

pub(crate) mod block;
pub(crate) mod lanes;
pub(crate) mod outer;
pub(crate) mod pack;
pub(crate) mod pool;
pub(crate) mod scalar;
pub(crate) mod softmax;
