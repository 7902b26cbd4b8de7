//! The sum of clipped gradients, in integers.
//!
//! The noise hides one unit only if one unit can move the sum by at most C, *as computed*. A floating-point sum does
//! not guarantee that: its rounding depends on the other units (Casacuberta et al. 2022), and its low bits reveal
//! inputs (Mironov 2012). So (`privacy.md`, 11.2) the gradient of every unit is clipped and rounded **toward zero** to
//! a grid γ = 2⁻ᵇ, its norm is verified in integers (Σx² ≤ ⌊C/γ⌋², the sum in `u128`), and it is added to 64-bit
//! integers. The sum is exact and independent of the order of units. It changes by exactly one unit's verified vector
//! when that unit joins or leaves. No floating-point error bound is needed, because nothing is summed over units in
//! floating point. One requirement remains for the model: the gradient of a unit must be a function of that unit alone,
//! bit for bit (see [`crate::model`]; a test checks it).
//!
//! The grid is fine: both C/γ and σ/γ are at least 2²⁰, so rounding costs a coordinate less than σ·2⁻²⁰ per unit.

mod copy;
mod mode;
mod stream;

use std::ops::Range;

use undertone_privacy::{NoiseMultiplier, SamplingRate};

use self::stream::UnitChange;
use super::layers::{Gradient, GradientPiece, Layout};
use super::per_unit::{DensePiece, PerUnit};
use super::sampler::Batch;

pub use self::mode::{ClipMode, STABILITY};

/// The minimum of C/γ and σ/γ.
const FINENESS: f64 = (1_u64 << 20) as f64;
/// Coordinates that one thread processes at a time; also the length of one noise stream.
pub(super) const STRIDE: usize = 1 << 14;
/// Maximum number of attempts to scale a unit whose integers are too long before its contribution becomes zero.
const ATTEMPTS: usize = 8;

/// Reasons why a clip is invalid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ClipError {
    /// The bound is not a valid norm.
    #[error("clip {0} is not a valid bound: set a finite number greater than 0 and at most 1,000,000")]
    Bound(f64),
    /// The integers cannot represent clip and noise together.
    #[error("noise multiplier {0} is outside 1/1024 to 1024, the range of exact noise: set one within it")]
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
    mode: ClipMode,
}

impl Clip {
    /// Returns a clip to L2 norm `bound`, with noise of standard deviation `noise_multiplier` · `bound`.
    ///
    /// # Errors
    /// [`ClipError`] if either is out of range.
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
        let (radius, deviation) = (radius as u64, deviation as u64);
        Ok(Self { bound, noise_multiplier, scale, radius, deviation, mode: ClipMode::Flat })
    }

    /// Returns the same bound and noise with another clipping mode; [`Self::new`] sets [`ClipMode::Flat`].
    #[must_use]
    pub const fn with_mode(self, mode: ClipMode) -> Self {
        Self { mode, ..self }
    }

    /// Returns the clipping mode.
    pub const fn mode(&self) -> ClipMode {
        self.mode
    }

    /// Returns C.
    pub const fn bound(&self) -> f64 {
        self.bound
    }

    /// Returns z.
    pub const fn noise_multiplier(&self) -> NoiseMultiplier {
        self.noise_multiplier
    }

    /// Returns ⌊C/γ⌋, the maximum norm of a unit's integer vector.
    pub const fn radius(&self) -> u64 {
        self.radius
    }

    /// Returns σ/γ, never below z·⌊C/γ⌋.
    pub const fn deviation(&self) -> u64 {
        self.deviation
    }

    /// Returns γ, the value of one step of the grid.
    pub fn step(&self) -> f64 {
        1.0 / self.scale
    }
}

/// The sum of the clipped gradients of a batch, in steps of the grid. It begins as the sum of an empty batch.
pub struct ClippedSum {
    clip: Clip,
    rate: SamplingRate,
    sum: Vec<i64>,
    /// Coordinates of each part.
    parts: Vec<Range<usize>>,
    /// Maximum norm of a unit's integer vector within each part, in steps.
    radii: Vec<u64>,
}

impl ClippedSum {
    /// Returns the empty sum of a batch, for vectors of `length` coordinates in a single part.
    pub fn begin(batch: &Batch, clip: Clip, length: usize) -> Self {
        Self::begin_parts(batch, clip, &[length])
    }

    /// Returns the empty sum of a batch, for vectors of several parts of the given lengths. [`ClipMode::PerLayer`] clips
    /// each part separately.
    pub fn begin_parts(batch: &Batch, clip: Clip, lengths: &[usize]) -> Self {
        let mut end = 0;
        let mut parts = Vec::with_capacity(lengths.len());
        for length in lengths {
            parts.push(end..end + length);
            end += length;
        }
        let radii = mode::radii(clip.mode, clip.radius, parts.len());
        Self { clip, rate: batch.rate(), sum: vec![0; end], parts, radii }
    }

    /// Adds the units of one micro-batch, whose gradients are complete vectors, and returns the buffer for the next
    /// micro-batch. A gradient that is not finite counts as zero.
    ///
    /// # Panics
    /// If the gradients and the sum differ in length.
    pub fn add(&mut self, units: PerUnit) -> Vec<f32> {
        let (gradients, length) = units.into_parts();
        assert_eq!(length, self.sum.len(), "gradients and sum are of one model");
        self.add_dense(&gradients);
        gradients
    }

    /// Adds units whose gradients `[units, length]` are in host memory.
    fn add_dense(&mut self, gradients: &[f32]) {
        let length = self.sum.len();
        let layout = Layout::new((0..gradients.len() / length.max(1)).map(|_| []));
        let dense: Vec<DensePiece<'_>> =
            self.parts.iter().map(|part| DensePiece::new(gradients, length, part.clone())).collect();
        let parts: Vec<Vec<&dyn GradientPiece>> = dense.iter().map(|dense| vec![dense as &dyn GradientPiece]).collect();
        self.add_repeatable(&parts, &layout);
    }

    /// Adds the units of one pass, whose gradients are available as pieces only. The method computes the norm of each
    /// unit, then streams the gradient of each unit, block by block and scaled by its factor, into the sum, together
    /// with the exact norm of the added integers. A unit that exceeds its radius is subtracted again, exactly, and
    /// added with a smaller factor. A unit whose norm is not finite counts as zero. Gradients that a device would
    /// recompute on each call are copied once; the norm and the clipping refer to the copy.
    ///
    /// # Panics
    /// If the gradient and the sum have different parts.
    pub fn add_group(&mut self, gradient: &Gradient, layout: &Layout) {
        let lengths: Vec<usize> = self.parts.iter().map(ExactSizeIterator::len).collect();
        assert_eq!(gradient.lengths(), lengths, "gradient and sum have the same parts");
        let parts: Vec<Vec<&dyn GradientPiece>> =
            gradient.parts().map(|(_, pieces)| pieces.iter().map(|piece| &**piece).collect()).collect();
        if copy::is_needed(&parts) {
            let length = self.sum.len();
            for units in copy::ranges(layout.units(), length) {
                self.add_dense(&copy::copy_gradients(&parts, layout, units, length));
            }
        } else {
            self.add_repeatable(&parts, layout);
        }
    }

    /// Adds units whose pieces return the same bits on every call, so that a contribution can be subtracted exactly.
    fn add_repeatable(&mut self, parts: &[Vec<&dyn GradientPiece>], layout: &Layout) {
        let units = layout.units();
        let squared: Vec<Vec<f64>> = parts.iter().map(|pieces| squared_norms(pieces, layout)).collect();
        let mut factors = mode::factors(&self.clip, &self.radii, &squared, units);
        #[cfg(any(test, feature = "testing"))]
        let unclipped = super::sabotage::active_fault() == Some(super::sabotage::Sabotage::NoClip);
        #[cfg(not(any(test, feature = "testing")))]
        let unclipped = false;
        if unclipped {
            factors = vec![vec![self.clip.scale; units]; parts.len()];
        }
        let put = |factor: &f64| UnitChange { take: None, put: (*factor > 0.0).then_some(*factor) };
        let mut changes: Vec<Vec<UnitChange>> = factors.iter().map(|part| part.iter().map(put).collect()).collect();
        for attempt in 1..=ATTEMPTS {
            let squares = self.stream(parts, layout, &changes);
            if unclipped {
                return;
            }
            let too_long = self.too_long(&squares, units);
            if too_long.is_empty() {
                return;
            }
            changes = vec![vec![UnitChange::default(); units]; parts.len()];
            for (part, unit, shrink) in too_long {
                let factor = &mut factors[part][unit];
                let take = Some(*factor);
                *factor *= shrink * (1.0 - 1.0 / FINENESS);
                // The last attempt only subtracts.
                let put = (attempt + 1 < ATTEMPTS && *factor > 0.0).then_some(*factor);
                changes[part][unit] = UnitChange { take, put };
            }
        }
    }

    /// Returns the part, the unit and the required factor of each unit that exceeds its radius.
    fn too_long(&self, squares: &[Vec<u128>], units: usize) -> Vec<(usize, usize, f64)> {
        let limit = |radius: u64| u128::from(radius) * u128::from(radius);
        let shrink = |radius: u64, squares: u128| radius as f64 / (squares as f64).sqrt();
        let mut excesses = Vec::new();
        for unit in 0..units {
            if self.clip.mode == ClipMode::PerLayer {
                let own = squares.iter().zip(&self.radii).enumerate();
                let long = own.filter(|(_, (part, radius))| part[unit] > limit(**radius));
                excesses.extend(long.map(|(index, (part, radius))| (index, unit, shrink(*radius, part[unit]))));
            } else {
                let whole: u128 = squares.iter().map(|part| part[unit]).sum();
                if whole > limit(self.clip.radius) {
                    excesses.extend((0..squares.len()).map(|part| (part, unit, shrink(self.clip.radius, whole))));
                }
            }
        }
        excesses
    }

    /// Applies `changes` to the sum and returns the exact squared norm of each addition, by part and unit.
    fn stream(
        &mut self,
        parts: &[Vec<&dyn GradientPiece>],
        layout: &Layout,
        changes: &[Vec<UnitChange>],
    ) -> Vec<Vec<u128>> {
        let each = parts.iter().zip(&self.parts).zip(changes);
        let radius = self.clip.radius;
        each.map(|((pieces, part), changes)| {
            stream::stream_part(&mut self.sum[part.clone()], pieces, layout, changes, radius)
        })
        .collect()
    }

    /// Returns the clip of the sum.
    pub const fn clip(&self) -> &Clip {
        &self.clip
    }

    /// Returns the coordinates in steps, for tests.
    #[cfg(any(test, feature = "testing"))]
    pub fn in_test(&self) -> &[i64] {
        &self.sum
    }

    pub(super) fn into_parts(self) -> (Clip, SamplingRate, Vec<i64>) {
        (self.clip, self.rate, self.sum)
    }
}

/// Returns the squared norm of each unit over all `pieces`.
fn squared_norms(pieces: &[&dyn GradientPiece], layout: &Layout) -> Vec<f64> {
    let mut total = vec![0.0; layout.units()];
    for piece in pieces {
        total.iter_mut().zip(piece.squared_norms(layout)).for_each(|(total, own)| *total += own);
    }
    total
}

#[cfg(test)]
mod tests;
