//! Noise that is correlated over the steps of a training: its encoders, and the price under cyclic Poisson sampling.
//!
//! A site releases x + C⁻¹z for the clipped sums x of T steps, independent Gaussian noise z and a lower triangular matrix
//! C, the *encoder*. It has at most b bands here: column t is 0 outside of the rows t to t + b − 1.
//!
//! **Sampling.** The units are split into b groups, once, by a rule that reads nothing but a unit's own id. Group t mod b
//! has its turn at step t: each of its units is in the batch with probability p = b q, independently, where q is the
//! expected share of all units in a batch. A unit has at most k = ⌈T/b⌉ turns, and two of them are b steps apart or more.
//!
//! **Price.** k releases of Poisson samples with probability p, where z is the deviation of the noise relative to the
//! clip times the column norm of C ([`crate::Event::BandedGaussian`]; Choquette-Choo, Ganesh, McKenna, McMahan, Rush,
//! Thakurta and Xu 2023). Proof, for adaptive steps: let the unit's turns be t(1), t(2), … Rows t(i) to t(i) + b − 1 of
//! Cx + z, block i, get the unit's contribution of turn i only, because column t(i) of C is 0 outside of them and the
//! blocks are disjoint. Given all rows before the block, the contribution v of the unit, if drawn, is fixed: the model of
//! step t(i) is a function of these rows. The contributions of others are functions of the rows before their own step, with
//! or without the unit. So the block is that of a mixture: with probability p rows that the unit has shifted, else rows
//! that it has not. The shifts of a block have a norm of at most S = ‖C(t(i))‖ ‖v‖, so that the shifted rows and the rows
//! without a shift are post-processing of one Gaussian release with sensitivity S and of its noise alone: a filter for
//! Gaussian releases of that total never halts them (Koskela, Tobaben and Honkela 2023). The same post-processing maps
//! (1 − p) N(0, σ²) + p N(S, σ²) to the block. Adaptive composition over the k blocks ends the proof. It holds for each
//! site of a job: the vectors of other sites are functions of earlier rows and of data without the unit.
//!
//! **Rounding.** The argument needs bounded shifts, not fixed ones. A site computes the noise of a step in integers,
//! y(t) = z(t) − R(Σ C(k) y(t − k)) with R the rounding to a whole step of the grid, and releases x + y. A contribution v at
//! step s changes y(s) by −v, and then z(s + k), for the same release, by an integer vector that differs from C(k) v by at
//! most 1 in each coordinate. So S is at most ‖C(t)‖ ‖v‖ + √((b − 1) d) steps of the grid for d coordinates, to which the
//! site scales its noise ([`BandedEncoder::sensitivity`]). The noise is a discrete Gaussian, and a shift depends on earlier
//! rows through R. `mechanism/discrete.rs` proves that on the grid of a site this costs what continuous noise costs, at the
//! orders of all curves (up to 1024) and in both directions ([`crate::mechanism::ln_adaptive_excess`], with b times the length
//! of the model as the coordinates of a block). The tight (ε, δ) of a closed plan takes noise as
//! continuous, as for independent noise (`pld.rs`).
//!
//! **Steps that are not released.** No vector of them leaves, and their noise is 0 or, after a crash between their seed and
//! their vector, is in the sums of later steps. In both cases the mechanism is that of all steps without these rows. So a
//! job that ends early, a site that takes part in fewer rounds, and a round that a site misses cost at most as much. The
//! whole price is charged by the first release, as of one mechanism. Its parameters are fixed, and the filters of the ledger hold for mechanisms whose releases alternate
//! with those of others (Haney, Shoemate, Tian, Vadhan, Vyrros, Xu and Zhang 2023).
//!
//! **Not priced.** Full columns (DP-λCGD, BISR): the contributions of a unit overlap, and this price would be too low, as a
//! test shows. A second release of the same step. Units in several groups, as the records of a speaker are.
//!
//! The relation is zero-out or add/remove: a unit's contribution is replaced by 0, and the groups of the others stay. The
//! price of a substitution is that of two such steps, for a unit that keeps its id and with it its group.

mod band;
mod banded;
mod choice;
mod encoder;
#[cfg(test)]
mod tests;

pub use band::find_best_banded;
pub use banded::{BandedEncoder, MOST_BANDS, WEIGHT_BITS};
pub use choice::{BandProposal, match_noise, propose_bands};
pub use encoder::{NoiseEncoder, RunningSumError};
