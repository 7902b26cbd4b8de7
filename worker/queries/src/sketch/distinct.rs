//! Numbers of different texts: `HyperLogLog` of Apache DataSketches, under a secret key.
//!
//! The library hashes with a published function. It receives our keyed hash of 128 bits instead of the text, so that no
//! author of log rows can make them all count as one, or as a million. Its estimator is the historical inverse
//! probability until sketches are merged, and bias-corrected afterwards; both are closer than `HyperLogLog`'s original
//! ones.

use datasketches::common::NumStdDev;
use datasketches::hll::{HllSketch, HllType, HllUnion};

use super::{SketchError, SketchKey};

/// A sketch of the number of different texts. It is for capacity planning and the site's own report; it is never
/// released, and no sampler may read it (`privacy.md`, 6.6).
pub struct DistinctCounter {
    key: SketchKey,
    registers: u8,
    sketch: HllSketch,
}

/// Returns the relative standard error of 2^registers registers after a merge, where the library's estimate is least
/// certain: 1.04 / √m.
fn error(registers: u8) -> f64 {
    1.04 / f64::from(1_u32 << registers).sqrt()
}

/// The library's range of sizes, as powers of two.
const REGISTERS: std::ops::RangeInclusive<u8> = 4..=21;

impl DistinctCounter {
    /// Makes a sketch whose relative standard error is at most `relative`.
    ///
    /// # Errors
    /// [`SketchError::Bound`] unless `relative` is less than 1 and at least 0.00072, the error of two million registers.
    pub fn for_error(relative: f64, key: SketchKey) -> Result<Self, SketchError> {
        let bound = SketchError::Bound {
            name: "the relative error of a number of different texts",
            range: "at least 0.00072 and less than 1",
            value: relative,
        };
        let fits = |registers: &u8| error(*registers) <= relative && relative < 1.0;
        let registers = REGISTERS.into_iter().find(fits).ok_or(bound)?;
        let sketch = HllSketch::new(registers, HllType::Hll8).map_err(|_| bound)?;
        Ok(Self { key, registers, sketch })
    }

    /// Adds a text; repeating a text has no effect.
    pub fn add(&mut self, text: &str) {
        self.sketch.update(self.key.hash(text).to_le_bytes());
    }

    /// Estimates the number of different texts.
    pub fn estimate(&self) -> f64 {
        self.sketch.estimate()
    }

    /// Returns bounds of the number; they fail one time in 370 (three standard deviations).
    pub fn bounds(&self) -> (f64, f64) {
        (self.sketch.lower_bound(NumStdDev::Three), self.sketch.upper_bound(NumStdDev::Three))
    }

    /// Returns the relative standard error of the estimate, at most the requested one.
    pub fn relative_error(&self) -> f64 {
        error(self.registers)
    }

    /// Adds the texts of another sketch; rows of both count once. Correct for every order and every overlap.
    ///
    /// # Errors
    /// [`SketchError`] when the other has another key or another size.
    pub fn merge(&mut self, other: &Self) -> Result<(), SketchError> {
        if self.key != other.key {
            return Err(SketchError::Keys);
        }
        if self.registers != other.registers {
            return Err(SketchError::Sizes);
        }
        // The library makes a union of every size that it makes a sketch of.
        let mut union = HllUnion::new(self.registers).map_err(|_| SketchError::Sizes)?;
        union.update(&self.sketch);
        union.update(&other.sketch);
        self.sketch = union.to_sketch(HllType::Hll8);
        Ok(())
    }
}
