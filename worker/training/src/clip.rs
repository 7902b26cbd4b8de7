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
mod factor;
pub(crate) mod grid;
pub(crate) mod mode;
mod stream;
mod whole;

use std::ops::Range;

use undertone_privacy::SamplingRate;

use self::grid::FINENESS;
use self::stream::UnitChange;
use super::layers::{Gradient, GradientPiece, Layout};
use super::per_unit::{DensePiece, PerUnit};
use super::sampler::Batch;

pub use self::grid::{Clip, ClipError};
pub use self::mode::{ClipMode, STABILITY};

/// Maximum number of attempts to scale a unit whose integers are too long before its contribution becomes zero.
const ATTEMPTS: usize = 8;

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
        let mut factors = factor::factors(&self.clip, &self.radii, &squared, units);
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

impl PerUnit {
    /// Clips each unit's gradient over all its coordinates together and returns the sum. For a batch in micro-batches
    /// use [`ClippedSum::begin`] and [`ClippedSum::add`].
    pub fn clip(self, batch: &Batch, clip: Clip) -> ClippedSum {
        let (gradients, length) = self.into_parts();
        let mut sum = ClippedSum::begin(batch, clip, length);
        sum.add_dense(&gradients);
        sum
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
