//! The encoder of a site: the best Toeplitz encoder of b bands, with weights of whole 2⁻²⁴, so that noise is computed in
//! integers and all machines agree.

use std::num::NonZeroU32;

use super::band::find_best_banded;
use super::encoder::{NoiseEncoder, RunningSumError};

/// The binary digits of a weight after the point.
pub const WEIGHT_BITS: u32 = 24;
/// The most bands of an encoder.
pub const MOST_BANDS: u32 = 32;
/// The most steps for which the bands are chosen. Those of a longer training are as good as these to a part in a hundred.
const HORIZON: u32 = 1024;

/// A banded encoder with the diagonal 1.
#[derive(Debug, Clone, PartialEq)]
pub struct BandedEncoder {
    /// C(1), C(2), … in units of 2⁻²⁴.
    weights: Vec<i64>,
    /// ‖C(t)‖, rounded up.
    norm: f64,
    /// Σ over s ≤ t of C⁻¹(s)², by t, until the sum is constant.
    variances: Vec<f64>,
}

impl BandedEncoder {
    /// Makes the best encoder with `bands` bands, at most [`MOST_BANDS`], for `steps` steps.
    pub fn best(bands: NonZeroU32, steps: NonZeroU32) -> Self {
        let horizon = steps.get().min(HORIZON);
        let bands = bands.get().min(MOST_BANDS).min(horizon);
        let best = find_best_banded(bands as usize, horizon as usize);
        let column = &best.column()[..bands as usize];
        let unit = f64::from(1_u32 << WEIGHT_BITS);
        let weights: Vec<i64> = column[1..].iter().map(|value| (value / column[0] * unit).round() as i64).collect();
        let exact: Vec<f64> = std::iter::once(1.0).chain(weights.iter().map(|weight| *weight as f64 / unit)).collect();
        let encoder = NoiseEncoder::banded(&exact, horizon as usize);
        let mut sum = 0.0;
        let variances = encoder.inverse().iter().map(|value| {
            sum += value * value;
            sum
        });
        Self { weights, norm: encoder.column_norm(), variances: variances.collect() }
    }

    /// Returns C(1), C(2), …, the weights of the noise of earlier steps, in units of 2⁻²⁴.
    pub fn weights(&self) -> &[i64] {
        &self.weights
    }

    /// Returns the norm of a column of C, rounded up.
    pub const fn column_norm(&self) -> f64 {
        self.norm
    }

    /// Returns the most by which one unit shifts the rows of its turn, rounded up, in steps of the grid: for contributions of
    /// at most `radius` steps in `length` coordinates, with the rounding of the noise of earlier steps.
    pub fn sensitivity(&self, radius: u64, length: usize) -> f64 {
        let rounding = ((self.weights.len() as f64) * length as f64).next_up().sqrt().next_up();
        (self.norm * radius as f64).next_up() + rounding.next_up()
    }

    /// Returns the deviation of the noise of step `step`, from 1, relative to that of its independent part.
    pub fn step_deviation(&self, step: u32) -> f64 {
        let index = (step.max(1) as usize - 1).min(self.variances.len() - 1);
        self.variances[index].sqrt()
    }

    /// Returns the largest deviation of the noise of a step, relative to that of its independent part.
    pub fn most_deviation(&self) -> f64 {
        self.variances.last().copied().unwrap_or(1.0).sqrt()
    }

    /// Returns the error of the running sums of `steps` steps, for independent parts of deviation 1.
    pub fn errors(&self, steps: NonZeroU32) -> RunningSumError {
        let unit = f64::from(1_u32 << WEIGHT_BITS);
        let exact: Vec<f64> =
            std::iter::once(1.0).chain(self.weights.iter().map(|weight| *weight as f64 / unit)).collect();
        NoiseEncoder::banded(&exact, steps.get().min(HORIZON) as usize).errors()
    }
}
