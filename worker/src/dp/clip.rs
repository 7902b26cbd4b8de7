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

mod copy;
mod mode;
mod stream;

use std::ops::Range;

use undertone_privacy::{NoiseMultiplier, SamplingRate};

use self::stream::Change;
use super::layers::{Gradient, Layout, Piece};
use super::per_unit::{Dense, PerUnit};
use super::sampler::Batch;

pub use self::mode::{Mode, STABILITY};

/// Least C/γ and σ/γ.
const FINENESS: f64 = (1_u64 << 20) as f64;
/// Coordinates a thread takes at a time; also the extent of one stream of noise.
pub(super) const STRIDE: usize = 1 << 14;
/// How often a unit whose integers came out too long is tried again with a smaller factor before it counts as nothing.
const ATTEMPTS: usize = 8;

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
    mode: Mode,
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
        let (radius, deviation) = (radius as u64, deviation as u64);
        Ok(Self { bound, noise_multiplier, scale, radius, deviation, mode: Mode::Flat })
    }

    /// The same bound and noise, reached in another way; [`Mode::Flat`] is that of [`Self::new`].
    #[must_use]
    pub const fn with_mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// How gradients are made so short.
    pub const fn mode(&self) -> Mode {
        self.mode
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
    /// Coordinates of each part.
    parts: Vec<Range<usize>>,
    /// The longest a unit's integer vector may be within each part, in steps.
    radii: Vec<u64>,
}

impl ClippedSum {
    /// The empty sum of a batch, for vectors of `length` that are one part.
    pub fn begin(batch: &Batch, clip: Clip, length: usize) -> Self {
        Self::begin_parts(batch, clip, &[length])
    }

    /// The empty sum of a batch, for vectors of several parts of the given lengths; [`Mode::PerLayer`] clips each for itself.
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

    /// Adds the units of one micro-batch, whose gradients are there as vectors. Those that are not finite count as zero.
    /// Gives back the buffer for the next micro-batch.
    ///
    /// # Panics
    /// If the gradients have another length than the sum.
    pub fn add(&mut self, units: PerUnit) -> Vec<f32> {
        let (gradients, length) = units.into_parts();
        assert_eq!(length, self.sum.len(), "gradients and sum are of one model");
        self.add_dense(&gradients);
        gradients
    }

    /// Adds units whose gradients `[units, length]` lie in this process.
    fn add_dense(&mut self, gradients: &[f32]) {
        let length = self.sum.len();
        let layout = Layout::new((0..gradients.len() / length.max(1)).map(|_| []));
        let dense: Vec<Dense<'_>> = self.parts.iter().map(|part| Dense::new(gradients, length, part.clone())).collect();
        let parts: Vec<Vec<&dyn Piece>> = dense.iter().map(|dense| vec![dense as &dyn Piece]).collect();
        self.add_repeatable(&parts, &layout);
    }

    /// Adds the units of one pass, whose gradients are known by their pieces only: asks for each unit's norm, then streams
    /// each unit's gradient, block by block, times its factor into the sum, and with it the exact norm of what was added; a
    /// unit that turns out too long is taken out again, exactly, and put in shorter. Those whose norm is not finite count as
    /// zero. Gradients that a device would compute anew each time are copied once, and the copy is measured and clipped.
    ///
    /// # Panics
    /// If the gradient has other parts than the sum.
    pub fn add_group(&mut self, gradient: &Gradient, layout: &Layout) {
        let lengths: Vec<usize> = self.parts.iter().map(ExactSizeIterator::len).collect();
        assert_eq!(gradient.lengths(), lengths, "gradient and sum have the same parts");
        let parts: Vec<Vec<&dyn Piece>> =
            gradient.parts().map(|(_, pieces)| pieces.iter().map(|piece| &**piece).collect()).collect();
        if copy::is_needed(&parts) {
            let length = self.sum.len();
            for units in copy::ranges(layout.units(), length) {
                self.add_dense(&copy::copied(&parts, layout, units, length));
            }
        } else {
            self.add_repeatable(&parts, layout);
        }
    }

    /// Adds units whose pieces answer the same bits each time they are asked, so that what was put in can be taken out.
    fn add_repeatable(&mut self, parts: &[Vec<&dyn Piece>], layout: &Layout) {
        let units = layout.units();
        let squared: Vec<Vec<f64>> = parts.iter().map(|pieces| squared_norms(pieces, layout)).collect();
        let mut factors = mode::factors(&self.clip, &self.radii, &squared, units);
        #[cfg(test)]
        let unclipped = super::sabotage::done() == Some(super::sabotage::Sabotage::NoClip);
        #[cfg(not(test))]
        let unclipped = false;
        if unclipped {
            factors = vec![vec![self.clip.scale; units]; parts.len()];
        }
        let put = |factor: &f64| Change { take: None, put: (*factor > 0.0).then_some(*factor) };
        let mut changes: Vec<Vec<Change>> = factors.iter().map(|part| part.iter().map(put).collect()).collect();
        for attempt in 1..=ATTEMPTS {
            let squares = self.stream(parts, layout, &changes);
            if unclipped {
                return;
            }
            let too_long = self.too_long(&squares, units);
            if too_long.is_empty() {
                return;
            }
            changes = vec![vec![Change::default(); units]; parts.len()];
            for (part, unit, shrink) in too_long {
                let factor = &mut factors[part][unit];
                let take = Some(*factor);
                *factor *= shrink * (1.0 - 1.0 / FINENESS);
                // The last attempt only takes out.
                let put = (attempt + 1 < ATTEMPTS && *factor > 0.0).then_some(*factor);
                changes[part][unit] = Change { take, put };
            }
        }
    }

    /// Which units are longer than they may be, in which part, and how much shorter they must be.
    fn too_long(&self, squares: &[Vec<u128>], units: usize) -> Vec<(usize, usize, f64)> {
        let limit = |radius: u64| u128::from(radius) * u128::from(radius);
        let shrink = |radius: u64, squares: u128| radius as f64 / (squares as f64).sqrt();
        let mut found = Vec::new();
        for unit in 0..units {
            if self.clip.mode == Mode::PerLayer {
                let own = squares.iter().zip(&self.radii).enumerate();
                let long = own.filter(|(_, (part, radius))| part[unit] > limit(**radius));
                found.extend(long.map(|(index, (part, radius))| (index, unit, shrink(*radius, part[unit]))));
            } else {
                let whole: u128 = squares.iter().map(|part| part[unit]).sum();
                if whole > limit(self.clip.radius) {
                    found.extend((0..squares.len()).map(|part| (part, unit, shrink(self.clip.radius, whole))));
                }
            }
        }
        found
    }

    /// Changes the sum by units; answers with the exact squared norm of what was put in, by part and unit.
    fn stream(&mut self, parts: &[Vec<&dyn Piece>], layout: &Layout, changes: &[Vec<Change>]) -> Vec<Vec<u128>> {
        let each = parts.iter().zip(&self.parts).zip(changes);
        let radius = self.clip.radius;
        each.map(|((pieces, part), changes)| {
            stream::through(&mut self.sum[part.clone()], pieces, layout, changes, radius)
        })
        .collect()
    }

    /// The clip its units were held to.
    pub const fn clip(&self) -> &Clip {
        &self.clip
    }

    /// Its coordinates, in steps, for tests.
    #[cfg(test)]
    pub(crate) fn in_test(&self) -> &[i64] {
        &self.sum
    }

    pub(super) fn into_parts(self) -> (Clip, SamplingRate, Vec<i64>) {
        (self.clip, self.rate, self.sum)
    }
}

/// Squared norms of each unit over some pieces together.
fn squared_norms(pieces: &[&dyn Piece], layout: &Layout) -> Vec<f64> {
    let mut total = vec![0.0; layout.units()];
    for piece in pieces {
        total.iter_mut().zip(piece.squared_norms(layout)).for_each(|(total, own)| *total += own);
    }
    total
}

#[cfg(test)]
mod tests;
