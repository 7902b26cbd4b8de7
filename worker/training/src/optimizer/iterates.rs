//! The exponential mean of the parameters over steps (Polyak 1992; Kingma and Ba 2015, section 7.2). It is
//! post-processing that removes much of the noise of the last steps from a model.

use rayon::prelude::*;

use super::{STRIDE, power};
use crate::vector::vectorized;

/// The mean of the parameters after each step so far. The weight of older steps falls by a constant factor per step.
#[derive(Debug, Clone, PartialEq)]
pub struct IterateMean {
    decay: f64,
    steps: u32,
    mean: Vec<f32>,
}

impl IterateMean {
    /// Returns an empty mean of `length` parameters; `decay` is from 0 (the last step alone) to less than 1.
    pub fn new(decay: f64, length: usize) -> Self {
        Self { decay, steps: 0, mean: vec![0.0; length] }
    }

    /// Returns a mean that continues from a stored one.
    pub const fn resume(decay: f64, steps: u32, mean: Vec<f32>) -> Self {
        Self { decay, steps, mean }
    }

    /// Returns the number of steps.
    pub const fn steps(&self) -> u32 {
        self.steps
    }

    /// Adds the parameters after a step. The weights dᵗ⁻ˢ(1 − d)/(1 − dᵗ) of all steps sum to 1 at any time, so the
    /// start at 0 leaves no bias. As a recursion, the newest parameters move the mean by (1 − d)/(1 − dᵗ) of their
    /// difference.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn add(&mut self, parameters: &[f32]) {
        assert_eq!(parameters.len(), self.mean.len(), "parameters of one model");
        self.steps += 1;
        let weight = (1.0 - self.decay) / (1.0 - power(self.decay, self.steps));
        self.mean.par_chunks_mut(STRIDE).zip(parameters.par_chunks(STRIDE)).for_each(|(mean, parameters)| {
            vectorized!(approach(weight, mean, parameters));
        });
    }

    /// Returns the mean; zeros before the first step.
    pub fn mean(&self) -> &[f32] {
        &self.mean
    }
}

#[inline(always)]
fn approach(weight: f64, mean: &mut [f32], parameters: &[f32]) {
    for (mean, parameter) in mean.iter_mut().zip(parameters) {
        *mean = (f64::from(*mean) + weight * (f64::from(*parameter) - f64::from(*mean))) as f32;
    }
}

#[cfg(test)]
mod tests {
    use super::IterateMean;

    #[test]
    fn the_mean_weighs_every_step_as_it_should() {
        let (decay, values) = (0.97_f64, (0..400).map(|n| (n as f32 * 0.37).sin() + 2.0).collect::<Vec<_>>());
        let mut iterates = IterateMean::new(decay, 1);
        for (step, value) in values.iter().enumerate() {
            iterates.add(&[*value]);
            let weights: Vec<f64> = (0..=step).map(|s| decay.powi((step - s) as i32)).collect();
            let sum: f64 = weights.iter().zip(&values).map(|(weight, value)| weight * f64::from(*value)).sum();
            let expected = sum / weights.iter().sum::<f64>();
            assert!((f64::from(iterates.mean()[0]) - expected).abs() < 5e-6, "step {step}: {expected}");
        }
    }

    #[test]
    fn without_decay_it_is_the_last() {
        let mut iterates = IterateMean::new(0.0, 2);
        iterates.add(&[1.0, 2.0]);
        iterates.add(&[-4.0, 0.1]);
        assert_eq!(iterates.mean(), [-4.0, 0.1]);
    }

    #[test]
    fn a_resumed_mean_is_the_same_bits() {
        let path = |step: usize| [(step as f32).sqrt(), -1.0 / (step as f32 + 1.0)];
        let mut straight = IterateMean::new(0.9, 2);
        (0..9).for_each(|step| straight.add(&path(step)));
        let mut first = IterateMean::new(0.9, 2);
        (0..4).for_each(|step| first.add(&path(step)));
        let mut second = IterateMean::resume(0.9, first.steps(), first.mean().to_vec());
        (4..9).for_each(|step| second.add(&path(step)));
        assert_eq!(straight, second);
    }

    #[test]
    fn noise_of_single_steps_is_taken_out() {
        // Parameters at 1, with ±0.5 added in each step.
        let mut iterates = IterateMean::new(0.95, 1);
        for step in 0..200 {
            iterates.add(&[if step % 2 == 0 { 1.5 } else { 0.5 }]);
        }
        assert!((iterates.mean()[0] - 1.0).abs() < 0.02, "{:?}", iterates.mean());
    }
}
