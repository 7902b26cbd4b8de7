//! How many different texts: `HyperLogLog` of Apache DataSketches, under a key of our own.
//!
//! The library hashes with a published function; it is given our keyed hash of 128 bits instead of the text, so that nobody can
//! write rows that all count as one, or as a million. Its estimator is the historical inverse probability until sketches are
//! merged, and bias-corrected afterwards; both are closer than `HyperLogLog`'s first ones.

use datasketches::common::NumStdDev;
use datasketches::hll::{HllSketch, HllType, HllUnion};

use super::{Key, SketchError};

/// A sketch of how many different texts there are. For capacity planning and the site's own report; never released, and no sampler
/// may look at it (`privacy.md`, 6.6).
pub struct Distinct {
    key: Key,
    registers: u8,
    sketch: HllSketch,
}

/// Standard errors of 2^registers registers after a merge, where the library's estimate is least sure: 1.04 / √m.
fn error(registers: u8) -> f64 {
    1.04 / f64::from(1_u32 << registers).sqrt()
}

/// The library's range of sizes, as powers of two.
const REGISTERS: std::ops::RangeInclusive<u8> = 4..=21;

impl Distinct {
    /// A sketch whose relative standard error is at most `relative`.
    ///
    /// # Errors
    /// [`SketchError::Bound`] unless `relative` is less than 1 and at least 0.00072, the error of two million registers.
    pub fn for_error(relative: f64, key: Key) -> Result<Self, SketchError> {
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

    /// Adds a text; the same text again changes nothing.
    pub fn add(&mut self, text: &str) {
        self.sketch.update(self.key.hash(text).to_le_bytes());
    }

    /// About how many different texts were added.
    pub fn estimate(&self) -> f64 {
        self.sketch.estimate()
    }

    /// Bounds within which the truth lies but for one time in 370 (three standard deviations).
    pub fn bounds(&self) -> (f64, f64) {
        (self.sketch.lower_bound(NumStdDev::Three), self.sketch.upper_bound(NumStdDev::Three))
    }

    /// Relative standard error of the estimate, at most what was asked.
    pub fn relative_error(&self) -> f64 {
        error(self.registers)
    }

    /// Adds what another sketch has seen; rows that both saw count once. Sound for every order and every overlap.
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
