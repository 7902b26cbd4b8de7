//! DP-SGD: from the gradients of single units to the one vector that may leave the site.
//!
//! The chain of types below is the only way to a vector that can be sent. Each step consumes the value of the step
//! before it (`privacy.md`, 1.4 and 11):
//!
//! 1. [`sampler::Sampler`] draws a [`sampler::Batch`] by Poisson sampling. A batch may be empty, and it is charged
//!    all the same.
//! 2. One forward and one backward pass through [`layers`] produce a [`layers::Gradient`], from which the norm and
//!    the gradient of each unit are computed. A unit too long for one pass has a complete gradient,
//!    [`per_unit::PerUnit`].
//! 3. [`clip::ClippedSum::add_group`] clips the gradients and adds them to a [`clip::ClippedSum`].
//! 4. [`clip::ClippedSum::release`] consumes a [`undertone_worker_site::clearance::Clearance`] and returns a
//!    [`release::Release`].
//! 5. A [`release::Release`] becomes a [`release::Outgoing`], the only type that a site can send. Code that sends an
//!    unclipped, uncharged or noiseless update of private data does not compile.
//!
//! Layers are written once over burn's tensors, with derivatives by hand, for the device that the site configured
//! ([`mod@device`]). Where a hand-written loop is much faster on the CPU, the layer uses it (`kernels`: AVX-512 or
//! AVX2, detected at run time through `pulp`), and a test compares both results. Clipping, rounding, sums and noise are
//! integer operations of this process on every device. The program does not contain burn's automatic differentiation:
//! the tests use it as an oracle, with a second definition of each layer that they differentiate unit by unit.
//!
//! This crate handles vectors, not speech (except `bench`). [`crate::model`] is the acoustic model; the
//! worker's `run` module executes the rounds. The crate must never log a gradient, a norm, a loss of one unit, or the
//! members of a batch.

#![expect(
    clippy::inline_always,
    reason = "a loop gets the processor's vector instructions only where it is inlined into code compiled for them"
)]

pub mod batch_bound;
#[cfg(any(test, feature = "bench"))]
pub mod bench;
pub mod class_logits;
pub mod clip;
pub mod ctc;
pub mod device;
pub mod histograms;
mod kernels;
pub mod layers;
pub mod matrix;
pub mod model;
pub mod noise;
pub mod optimizer;
pub mod per_unit;
pub mod private_selection;
pub mod randomness;
pub mod release;
pub mod runs;
#[cfg(any(test, feature = "testing"))]
pub mod sabotage;
pub mod sampler;
mod vector;
