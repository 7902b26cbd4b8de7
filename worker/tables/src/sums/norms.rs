//! The norm of each unit's contribution, verified in integers before a sum is used.
//!
//! The layout of a vector proves that no contribution is longer than R. This is a second check of the sums themselves: a
//! term that was not clamped, or a row beyond the limits, ends the pass.

use undertone_api::job::analytics::RADIUS;

use crate::error::TableError;

/// Upper bounds of the squared norms of the units of a chunk, in squared steps. They saturate.
#[derive(Debug, Clone, Default)]
pub(super) struct UnitNorms(Vec<u64>);

impl UnitNorms {
    /// Begins with units of norm 0.
    pub(super) fn begin(&mut self, units: usize) {
        self.0.clear();
        self.0.resize(units, 0);
    }

    /// Adds the squared norm of coordinates that no other addition concerns.
    #[inline]
    pub(super) fn add(&mut self, unit: usize, square: u64) {
        self.0[unit] = self.0[unit].saturating_add(square);
    }

    /// Checks that no norm is greater than R.
    ///
    /// # Errors
    /// [`TableError::ExcessContribution`] if one is.
    pub(super) fn verify(&self) -> Result<(), TableError> {
        let is_bounded = self.0.iter().all(|square| *square <= RADIUS * RADIUS);
        if is_bounded { Ok(()) } else { Err(TableError::ExcessContribution) }
    }
}

/// Returns the square of an entry; it saturates.
#[inline]
pub(super) const fn square(entry: i64) -> u64 {
    let size = entry.unsigned_abs();
    size.saturating_mul(size)
}
