//! Converts a released gradient to a step, with the same bits at every participant that starts from the same parameters
//! and receives the same averages.
//!
//! All operations here are post-processing. The inputs are a [`StepDirection`] (a release, an average of releases, or a
//! gradient of public data), public numbers of the spec, and the step number. This module must not read data.
//!
//! The loops are plain double-precision arithmetic, each coordinate by itself, without fused operations, rounded once
//! to `f32`: the result depends on neither processor nor threads. `rule` contains the loops, [`noise`] computes the
//! noise of an average, and [`iterates`] averages the parameters over steps. To add a rule, add a variant of [`Rule`],
//! its loop, and its moments in [`Optimizer::new`].

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
/// Coordinates that one thread processes at a time.
const STRIDE: usize = 1 << 14;

/// A direction for a step: a vector and the variance of its noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepDirection<'a> {
    vector: &'a [f32],
    variance: f64,
}

impl<'a> StepDirection<'a> {
    /// Returns an average of the participants' releases, with the variance of the noise in each coordinate
    /// ([`noise::variance`]).
    pub const fn averaged(vector: &'a [f32], variance: f64) -> Self {
        Self { vector, variance }
    }

    /// Returns a gradient without noise, of data that are public or disclosed by their owner.
    pub const fn exact(vector: &'a [f32]) -> Self {
        Self { vector, variance: 0.0 }
    }
}

impl<'a> From<&'a Release> for StepDirection<'a> {
    fn from(release: &'a Release) -> Self {
        Self { vector: release.vector(), variance: release.variance() }
    }
}

/// A rule with its state.
#[derive(Debug, Clone, PartialEq)]
pub struct Optimizer {
    rule: Rule,
    memory: OptimizerMemory,
}

/// The state of an optimizer, stored in checkpoints.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct OptimizerMemory {
    /// Steps taken.
    pub steps: u32,
    /// Momentum, or Adam's first moment: `[parameters]`.
    pub first: Vec<f32>,
    /// Adam's second moment: `[parameters]`; empty for SGD.
    pub second: Vec<f32>,
    /// Noise in the second moment: the same moving mean, of the variances of the directions. 0 except for `DpAdam`.
    pub noise: f64,
}

impl Optimizer {
    /// Returns an optimizer of `length` parameters without past steps.
    pub fn new(rule: Rule, length: usize) -> Self {
        let second = match rule {
            Rule::Sgd { .. } => Vec::new(),
            Rule::Adam { .. } | Rule::DpAdam { .. } => vec![0.0; length],
        };
        Self { rule, memory: OptimizerMemory { steps: 0, first: vec![0.0; length], second, noise: 0.0 } }
    }

    /// Returns an optimizer that continues from `memory`; `None` if the memory belongs to another rule or length.
    pub fn resume(rule: Rule, length: usize, memory: OptimizerMemory) -> Option<Self> {
        let fresh = Self::new(rule, length);
        let fits = memory.first.len() == fresh.memory.first.len() && memory.second.len() == fresh.memory.second.len();
        fits.then_some(Self { rule, memory })
    }

    /// Returns the state.
    pub const fn memory(&self) -> &OptimizerMemory {
        &self.memory
    }

    /// Takes one step of `pace` times the rule's learning rate, from 0 to 1; [`Schedule::factor`] returns the pace of a
    /// round.
    ///
    /// [`Schedule::factor`]: undertone_api::job::dp_sgd::RateSchedule::factor
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn step(&mut self, parameters: &mut [f32], direction: StepDirection<'_>, pace: f64) {
        let OptimizerMemory { steps, first, second, noise } = &mut self.memory;
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
            Rule::Adam { learning_rate } => rule::AdamCorrections::plain(learning_rate * pace, *steps),
            Rule::DpAdam { learning_rate } => {
                *noise = BETA_2 * *noise + (1.0 - BETA_2) * direction.variance;
                rule::AdamCorrections::of_noise(learning_rate * pace, *steps, *noise)
            }
        };
        strides.zip(second.par_chunks_mut(STRIDE)).for_each(|(((parameters, gradient), first), second)| {
            vectorized!(rule::adam(corrections, parameters, gradient, first, second));
        });
    }
}

/// Returns baseⁿ by squaring. It uses multiplications only, so the bits are the same everywhere.
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
