//! From an averaged gradient to a step: the same bits at every participant that starts from the same parameters and gets the
//! same averages.
//!
//! Plain loops in double precision, each coordinate for itself, without fused operations, rounded once to `f32`: the result
//! depends on neither processor nor threads.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use undertone_api::job::dp_sgd::Optimizer as Rule;

use super::vector::vectorized;

/// β₁ of Adam.
const BETA_1: f64 = 0.9;
/// β₂ of Adam.
const BETA_2: f64 = 0.999;
/// ε of Adam.
const EPSILON: f64 = 1e-8;
/// Coordinates a thread takes at a time.
const STRIDE: usize = 1 << 14;

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
}

impl Optimizer {
    /// A fresh optimizer of `length` parameters.
    pub fn new(rule: Rule, length: usize) -> Self {
        let second = match rule {
            Rule::Sgd { .. } => Vec::new(),
            Rule::Adam { .. } => vec![0.0; length],
        };
        Self { rule, memory: Memory { steps: 0, first: vec![0.0; length], second } }
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

    /// Takes one step.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn step(&mut self, parameters: &mut [f32], gradient: &[f32]) {
        let Memory { steps, first, second } = &mut self.memory;
        assert!(parameters.len() == first.len() && gradient.len() == first.len(), "vectors of one model");
        *steps += 1;
        let unbias = (1.0 - power(BETA_1, *steps), 1.0 - power(BETA_2, *steps));
        let strides =
            parameters.par_chunks_mut(STRIDE).zip(gradient.par_chunks(STRIDE)).zip(first.par_chunks_mut(STRIDE));
        match self.rule {
            Rule::Sgd { learning_rate, momentum } => strides.for_each(|((parameters, gradient), velocity)| {
                vectorized!(sgd(learning_rate, momentum, parameters, gradient, velocity));
            }),
            Rule::Adam { learning_rate } => {
                strides.zip(second.par_chunks_mut(STRIDE)).for_each(|(((parameters, gradient), first), second)| {
                    vectorized!(adam(learning_rate, unbias, parameters, gradient, first, second));
                });
            }
        }
    }
}

/// v = m v + g, θ = θ − η v (Sutskever et al. 2013, as PyTorch writes it).
#[inline(always)]
fn sgd(rate: f64, momentum: f64, parameters: &mut [f32], gradient: &[f32], velocity: &mut [f32]) {
    for ((parameter, gradient), velocity) in parameters.iter_mut().zip(gradient).zip(velocity) {
        *velocity = (momentum * f64::from(*velocity) + f64::from(*gradient)) as f32;
        *parameter = (f64::from(*parameter) - rate * f64::from(*velocity)) as f32;
    }
}

/// Kingma and Ba 2015, algorithm 1.
#[inline(always)]
fn adam(
    rate: f64,
    unbias: (f64, f64),
    parameters: &mut [f32],
    gradient: &[f32],
    first: &mut [f32],
    second: &mut [f32],
) {
    let moments = first.iter_mut().zip(second);
    for ((parameter, gradient), (first, second)) in parameters.iter_mut().zip(gradient).zip(moments) {
        let gradient = f64::from(*gradient);
        *first = (BETA_1 * f64::from(*first) + (1.0 - BETA_1) * gradient) as f32;
        *second = (BETA_2 * f64::from(*second) + (1.0 - BETA_2) * gradient * gradient) as f32;
        let scale = (f64::from(*second) / unbias.1).sqrt() + EPSILON;
        *parameter = (f64::from(*parameter) - rate * f64::from(*first) / unbias.0 / scale) as f32;
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
mod tests {
    #![expect(clippy::float_cmp, reason = "halves are exact, and a resumed run must be the same bits")]

    use super::{Optimizer, Rule};

    #[test]
    fn momentum_carries_a_step_on() {
        let mut optimizer = Optimizer::new(Rule::Sgd { learning_rate: 0.5, momentum: 0.5 }, 1);
        let mut parameters = [1.0];
        optimizer.step(&mut parameters, &[1.0]);
        assert_eq!(parameters, [0.5]);
        optimizer.step(&mut parameters, &[0.0]);
        assert_eq!(parameters, [0.25]);
    }

    #[test]
    fn the_first_step_of_adam_is_the_learning_rate() {
        let mut optimizer = Optimizer::new(Rule::Adam { learning_rate: 0.01 }, 2);
        let mut parameters = [0.0, 0.0];
        optimizer.step(&mut parameters, &[1e-3, -5.0]);
        assert!((parameters[0] + 0.01).abs() < 1e-6 && (parameters[1] - 0.01).abs() < 1e-6, "{parameters:?}");
    }

    #[test]
    fn a_resumed_optimizer_takes_the_same_steps() {
        let rule = Rule::Adam { learning_rate: 0.01 };
        let (mut whole, mut straight) = (Optimizer::new(rule, 1), [0.3]);
        for step in 0..6 {
            whole.step(&mut straight, &[step as f32]);
        }
        let (mut first, mut resumed) = (Optimizer::new(rule, 1), [0.3]);
        for step in 0..3 {
            first.step(&mut resumed, &[step as f32]);
        }
        let mut second = Optimizer::resume(rule, 1, first.memory().clone()).expect("its own memory fits");
        for step in 3..6 {
            second.step(&mut resumed, &[step as f32]);
        }
        assert_eq!(straight, resumed);
    }

    #[test]
    fn memory_of_another_rule_is_refused() {
        let sgd = Optimizer::new(Rule::Sgd { learning_rate: 0.1, momentum: 0.9 }, 3);
        assert_eq!(Optimizer::resume(Rule::Adam { learning_rate: 0.1 }, 3, sgd.memory().clone()), None);
    }
}
