//! The sum of clipped gradients, in whole numbers.
//!
//! The noise hides one unit only if one unit can move the sum by at most C, *as computed*. Floating-point sums do not keep
//! that promise: their rounding depends on everybody else (Casacuberta et al. 2022), and their low bits give inputs away
//! (Mironov 2012). So (`privacy.md`, 11.2) every unit's gradient is clipped, rounded **toward zero** to a grid γ = 2⁻ᵇ, its
//! norm verified in integers (Σx² ≤ ⌊C/γ⌋², the sum in `u128`), and added to 64-bit integers: exact, order-free, and off by
//! exactly one unit's verified vector when that unit joins or leaves. No floating-point error bound is needed, because
//! nothing is summed over units in floating point. What this leaves to the model: a unit's gradient must be a function of
//! that unit alone, bit for bit (see [`crate::speech::model`]; a test holds it).
//!
//! The grid is fine: both C/γ and σ/γ are at least 2²⁰, so rounding costs a coordinate less than σ·2⁻²⁰ a unit.

use rayon::prelude::*;
use undertone_privacy::{NoiseMultiplier, SamplingRate};

use super::per_unit::PerUnit;
use super::sampler::Batch;
use super::vector::vectorized;

/// Least C/γ and σ/γ.
const FINENESS: f64 = (1_u64 << 20) as f64;
/// Coordinates a thread takes at a time; also the extent of one stream of noise.
pub(super) const STRIDE: usize = 1 << 14;

/// Why a clip is none.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ClipError {
    /// Not a norm.
    #[error("the clip must be a finite number greater than 0 (at most 1,000,000), not {0}")]
    Bound(f64),
    /// Integers cannot hold clip and noise together.
    #[error("a noise multiplier of {0} is outside of 1/1024 to 1024, the range in which noise can be drawn exactly")]
    Noise(f64),
}

/// C and z on the integer grid.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clip {
    bound: f64,
    noise_multiplier: NoiseMultiplier,
    /// 1/γ = 2ᵇ.
    scale: f64,
    /// ⌊C/γ⌋, below 2³¹.
    radius: u64,
    /// σ/γ: the least integer that is not below z·⌊C/γ⌋, below 2³².
    deviation: u64,
}

impl Clip {
    /// Clip to L2 norm `bound`, to be hidden by noise of `noise_multiplier` times as much.
    ///
    /// # Errors
    /// [`ClipError`] when either is out of range.
    pub fn new(bound: f64, noise_multiplier: NoiseMultiplier) -> Result<Self, ClipError> {
        let z = noise_multiplier.get();
        if !(bound.is_finite() && bound > 0.0 && bound <= 1e6) {
            return Err(ClipError::Bound(bound));
        }
        if !(1.0 / 1024.0..=1024.0).contains(&z) {
            return Err(ClipError::Noise(z));
        }
        let least = bound * z.min(1.0);
        let mut scale = 1.0;
        while least * scale < FINENESS {
            scale *= 2.0;
        }
        while least * scale >= 2.0 * FINENESS {
            scale /= 2.0;
        }
        let radius = (bound * scale).floor();
        // The product is rounded, so the next number above it is not below the true product.
        let deviation = (z * radius).next_up().ceil();
        Ok(Self { bound, noise_multiplier, scale, radius: radius as u64, deviation: deviation as u64 })
    }

    /// C.
    pub const fn bound(&self) -> f64 {
        self.bound
    }

    /// z.
    pub const fn noise_multiplier(&self) -> NoiseMultiplier {
        self.noise_multiplier
    }

    /// ⌊C/γ⌋: no unit's integer vector is longer.
    pub const fn radius(&self) -> u64 {
        self.radius
    }

    /// σ/γ, never below z·⌊C/γ⌋.
    pub const fn deviation(&self) -> u64 {
        self.deviation
    }

    /// γ, the worth of one step of the grid.
    pub fn step(&self) -> f64 {
        1.0 / self.scale
    }
}

/// Σ of clipped gradients of a batch, in steps of the grid. Begins with nobody: the sum of an empty batch.
pub struct ClippedSum {
    clip: Clip,
    rate: SamplingRate,
    sum: Vec<i64>,
}

impl ClippedSum {
    /// The empty sum of a batch, for vectors of `length`.
    pub fn begin(batch: &Batch, clip: Clip, length: usize) -> Self {
        Self { clip, rate: batch.rate(), sum: vec![0; length] }
    }

    /// Adds the units of one micro-batch. Those whose gradient is not finite count as zero: `(c / NaN).min(1.0)` is 1.
    /// Gives back the emptied buffer for the next micro-batch.
    ///
    /// # Panics
    /// If the gradients have another length than the sum.
    pub fn add(&mut self, units: PerUnit) -> Vec<f32> {
        let (gradients, length) = units.into_parts();
        assert_eq!(length, self.sum.len(), "gradients and sum are of one model");
        for gradient in gradients.chunks_exact(length) {
            self.add_one(gradient);
        }
        gradients
    }

    fn add_one(&mut self, gradient: &[f32]) {
        let norm = norm(gradient);
        if !norm.is_finite() {
            return;
        }
        let mut factor = self.clip.scale;
        #[cfg(test)]
        if super::sabotage::done() == Some(super::sabotage::Sabotage::NoClip) {
            self.accumulate::<true>(gradient, factor);
            return;
        }
        if norm >= self.clip.bound {
            // The margin covers the rounding of norm and product, so that the check below does not fail in practice.
            factor *= self.clip.bound / norm * (1.0 - f64::EPSILON.sqrt());
        }
        let limit = u128::from(self.clip.radius) * u128::from(self.clip.radius);
        while self.accumulate::<true>(gradient, factor) > limit {
            self.accumulate::<false>(gradient, factor);
            factor *= 1.0 - 1.0 / FINENESS;
        }
    }

    /// Adds (or takes away again) the quantized gradient; answers with its exact squared norm.
    fn accumulate<const ADD: bool>(&mut self, gradient: &[f32], factor: f64) -> u128 {
        let strides = self.sum.par_chunks_mut(STRIDE).zip(gradient.par_chunks(STRIDE));
        strides.map(|(sum, gradient)| vectorized!(quantize::<ADD>(sum, gradient, factor))).sum()
    }

    /// The clip its units were held to.
    pub const fn clip(&self) -> &Clip {
        &self.clip
    }

    pub(super) fn into_parts(self) -> (Clip, SamplingRate, Vec<i64>) {
        (self.clip, self.rate, self.sum)
    }
}

/// L2 norm in double precision; not finite when a coordinate is not.
fn norm(gradient: &[f32]) -> f64 {
    let squares = gradient.par_chunks(STRIDE).map(|part| {
        vectorized!({
            let mut lanes = [0.0_f64; 16];
            let (wide, rest) = part.as_chunks::<16>();
            for values in wide {
                for (lane, value) in lanes.iter_mut().zip(values) {
                    *lane = f64::from(*value).mul_add(f64::from(*value), *lane);
                }
            }
            lanes.iter().sum::<f64>() + rest.iter().map(|v| f64::from(*v) * f64::from(*v)).sum::<f64>()
        })
    });
    // Collected first: the order of the sum must not depend on threads, or the unit's factor would.
    squares.collect::<Vec<_>>().iter().sum::<f64>().sqrt()
}

#[inline(always)]
fn quantize<const ADD: bool>(sum: &mut [i64], gradient: &[f32], factor: f64) -> u128 {
    // Squares below 2⁶³ in two halves, so that sixty-four bits hold the sums of both.
    let (mut high, mut low) = (0_u64, 0_u64);
    for (sum, value) in sum.iter_mut().zip(gradient) {
        // Toward zero. Beyond 31 bits it saturates, which the caller sees by the norm and takes back.
        let steps = i64::from((f64::from(*value) * factor) as i32);
        let square = (steps * steps) as u64;
        high += square >> 32;
        low += square & 0xffff_ffff;
        *sum = if ADD { *sum + steps } else { *sum - steps };
    }
    (u128::from(high) << 32) + u128::from(low)
}

#[cfg(test)]
mod tests;
