//! DP-SGD: from the gradients of single units to the one vector that may leave the site.
//!
//! A chain of types, each step using up the one before it (`privacy.md`, 1.4 and 11):
//!
//! [`sampler::Sampler`] draws a [`sampler::Batch`] (Poisson; an empty one is legal and still pays) →
//! one pass forward and one backward through [`layers`] leave a [`layers::Gradient`], from which every unit's norm and every
//! unit's gradient can be told (a unit too long for a pass has a whole one, [`per_unit::PerUnit`]) →
//! [`clip::ClippedSum::add_group`] → [`clip::ClippedSum`] → [`clip::ClippedSum::release`], which asks for a
//! [`crate::site::clearance::Clearance`] → [`release::Release`] → [`release::Outgoing`], the only thing a site can send. An
//! unclipped, unpaid or noiseless update of private data cannot be written down.
//!
//! What computes: layers are written once over burn's tensors, with derivatives by hand, for the device that the site chose
//! ([`mod@device`]); where a loop of ours is much faster on the CPU it is taken there (`kernels`: AVX-512 or AVX2, found at run
//! time through `pulp`), and a test holds both to the same result. Clipping, rounding, sums and noise are integers of this
//! process on every device. burn's automatic differentiation is no part of the program; it is the oracle of the tests, which
//! write each layer down once more and differentiate it unit by unit.
//!
//! This room knows vectors, not speech ([`mod@bench`] excepted): the model is in [`crate::speech::model`], the rounds are in
//! [`crate::run`]. It must
//! never log a gradient, a norm, a loss of one unit, or who was in a batch.

#![expect(
    clippy::inline_always,
    reason = "a loop gets the processor's vector instructions only where it is inlined into code compiled for them"
)]

pub mod batch_bound;
pub mod bench;
pub mod clip;
pub mod contest;
pub mod device;
mod kernels;
pub mod layers;
pub mod matrix;
pub mod noise;
pub mod optimizer;
pub mod per_unit;
pub mod randomness;
pub mod release;
pub mod runs;
#[cfg(test)]
pub(crate) mod sabotage;
pub mod sampler;
mod vector;
