//! From a released gradient to a step: the same bits at every participant that starts from the same parameters and gets the
//! same averages.
//!
//! Everything here is post-processing: what goes in is a [`Direction`] (a release, an average of releases, or a gradient of
//! public data), public numbers of the spec, and the number of the step. Nothing here may ask for data.
//!
//! Plain loops in double precision, each coordinate for itself, without fused operations, rounded once to `f32`: the result
//! depends on neither processor nor threads. `rule` has the loops, [`noise`] says how much noise an average holds,
//! [`iterates`] averages what the steps lead to. To add a rule: a variant of [`Rule`], its loop, and its moments in
//! [`Optimizer::new`].

pub mod iterates;
pub mod noise;
mod rule;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use undertone_api::job::dp_sgd::Optimizer as Rule;

use super::release::Release;
use super::vector::vectorized;

/// β₁ of Adam.
const BETA_1: f64 = 0.9;
/// β₂ of Adam.
const BETA_2: f64 = 0.999;
/// Coordinates a thread takes at a time.
const STRIDE: usize = 1 << 14;

/// What may be stepped along: a vector and how much noise is in it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Direction<'a> {
    vector: &'a [f32],
    variance: f64,
}

impl<'a> Direction<'a> {
    /// An average of what participants released, with the variance of the noise in each coordinate ([`noise::variance`]).
    pub const fn averaged(vector: &'a [f32], variance: f64) -> Self {
        Self { vector, variance }
    }

    /// A gradient without noise: of data that are public, or opened by their owner.
    pub const fn exact(vector: &'a [f32]) -> Self {
        Self { vector, variance: 0.0 }
    }
}

impl<'a> From<&'a Release> for Direction<'a> {
    fn from(release: &'a Release) -> Self {
        Self { vector: release.vector(), variance: release.variance() }
    }
}

/// A rule with its memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Optimizer {
    rule: Rule,
    memory: Memory,
}

/// What an optimizer remembers; kept in checkpoints.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Memory {
    /// Steps taken.
    pub steps: u32,
    /// Momentum, or Adam's first moment: `[parameters]`.
    pub first: Vec<f32>,
    /// Adam's second moment: `[parameters]`; empty for SGD.
    pub second: Vec<f32>,
    /// What of the second moment is noise: the same moving mean, of the variances of the directions. 0 but for `DpAdam`.
    pub noise: f64,
}

impl Optimizer {
    /// A fresh optimizer of `length` parameters.
    pub fn new(rule: Rule, length: usize) -> Self {
        let second = match rule {
            Rule::Sgd { .. } => Vec::new(),
            Rule::Adam { .. } | Rule::DpAdam { .. } => vec![0.0; length],
        };
        Self { rule, memory: Memory { steps: 0, first: vec![0.0; length], second, noise: 0.0 } }
    }

    /// An optimizer that goes on where another stopped; `None` when the memory is not one of this rule and length.
    pub fn resume(rule: Rule, length: usize, memory: Memory) -> Option<Self> {
        let fresh = Self::new(rule, length);
        let fits = memory.first.len() == fresh.memory.first.len() && memory.second.len() == fresh.memory.second.len();
        fits.then_some(Self { rule, memory })
    }

    /// What it remembers.
    pub const fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Takes one step, of `pace` (0 to 1; [`Schedule::factor`] says it of a round) times the rule's learning rate.
    ///
    /// [`Schedule::factor`]: undertone_api::job::dp_sgd::Schedule::factor
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn step(&mut self, parameters: &mut [f32], direction: Direction<'_>, pace: f64) {
        let Memory { steps, first, second, noise } = &mut self.memory;
        let gradient = direction.vector;
        assert!(parameters.len() == first.len() && gradient.len() == first.len(), "vectors of one model");
        *steps += 1;
        let strides =
            parameters.par_chunks_mut(STRIDE).zip(gradient.par_chunks(STRIDE)).zip(first.par_chunks_mut(STRIDE));
        let corrections = match self.rule {
            Rule::Sgd { learning_rate, momentum } => {
                let rate = learning_rate * pace;
                strides.for_each(|((parameters, gradient), velocity)| {
                    vectorized!(rule::sgd(rate, momentum, parameters, gradient, velocity));
                });
                return;
            }
            Rule::Adam { learning_rate } => rule::Corrections::plain(learning_rate * pace, *steps),
            Rule::DpAdam { learning_rate } => {
                *noise = BETA_2 * *noise + (1.0 - BETA_2) * direction.variance;
                rule::Corrections::of_noise(learning_rate * pace, *steps, *noise)
            }
        };
        strides.zip(second.par_chunks_mut(STRIDE)).for_each(|(((parameters, gradient), first), second)| {
            vectorized!(rule::adam(corrections, parameters, gradient, first, second));
        });
    }
}

/// baseⁿ by squaring: multiplications only, so the same bits everywhere.
fn power(base: f64, exponent: u32) -> f64 {
    let (mut result, mut square, mut rest) = (1.0, base, exponent);
    while rest > 0 {
        if rest & 1 == 1 {
            result *= square;
        }
        square *= square;
        rest >>= 1;
    }
    result
}

#[cfg(test)]
mod tests;
