//! DP-SGD: from the gradients of single units to the one vector that may leave the site.
//!
//! A chain of types, each step using up the one before it (`privacy.md`, 1.4 and 11):
//!
//! [`sampler::Sampler`] draws a [`sampler::Batch`] (Poisson; an empty one is legal and still pays) →
//! [`per_unit::PerUnit`] gradients → [`per_unit::PerUnit::clip`] → [`clip::ClippedSum`] → [`clip::ClippedSum::release`],
//! which asks for a [`crate::site::clearance::Clearance`] → [`release::Release`] → [`release::Outgoing`], the only thing a site
//! can send. An unclipped, unpaid or noiseless update of private data cannot be written down.
//!
//! What computes: matrix products by the `gemm` crate, everything around them (the recurrence, the loss, clipping, the noise)
//! by loops of this room that the compiler turns into the processor's vector instructions through `pulp`. The derivatives are
//! written by hand in [`layers`]; burn is no part of the program. It is the oracle of the tests: they write the same model down
//! once more in burn's tensors, differentiate it automatically unit by unit, and hold the fast path to the result.
//!
//! This room knows vectors, not speech ([`mod@bench`] excepted): the model is in [`crate::speech::model`], the rounds are in
//! [`crate::run`]. It must
//! never log a gradient, a norm, a loss of one unit, or who was in a batch.

#![expect(
    clippy::inline_always,
    reason = "a loop gets the processor's vector instructions only where it is inlined into code compiled for them"
)]

pub mod bench;
pub mod clip;
pub mod layers;
pub mod matrix;
pub mod noise;
pub mod optimizer;
pub mod per_unit;
pub mod randomness;
pub mod release;
#[cfg(test)]
pub(crate) mod sabotage;
pub mod sampler;
mod vector;
