//! How vectors of numbers travel: in how many bits, and whether compressed. The one place that writes and reads these bytes,
//! for site and server alike.
//!
//! A vector of n numbers is *encoded* in [`Form::bytes`] bytes, which follow from its [`Form`] alone:
//! * [`Precision::F32`]: 4 bytes a number, little-endian.
//! * [`Precision::Bf16`]: 2 bytes a number, little-endian: the upper half of the 32 bits, rounded to nearest, ties to even.
//! * [`Precision::Int8`]: blocks of [`BLOCK`] numbers (the last may be shorter), each a scale (4 bytes, f32) and one signed
//!   byte a number, rounded up or down by chance so that its expectation is the number ([`mod@code`]).
//!
//! The encoded bytes are *packed* by zstd where that makes them fewer ([`mod@pack`]). Fewer bytes than the form has are packed
//! ones, as many are plain ones, more are refused: so the number of bytes says which they are, and whoever reads knows
//! before the first byte how much can come out. A packed vector that unpacks to more is refused while it is unpacked, not after:
//! the memory it takes is bounded by its form, whatever the bytes say.
//!
//! Rounding and packing are of what was released already: they cost no privacy. What is signed for, stored and sent again is
//! the bytes as they travel.

pub mod code;
pub mod pack;
mod read;
mod sum;

use undertone_api::job::dp_sgd::Precision;

pub use read::Reader;
pub use sum::Sum;

/// Most numbers in a vector: 64 Mi.
pub const MAX_LENGTH: u64 = 64 << 20;
/// Numbers that share a scale.
pub const BLOCK: usize = 256;
/// Vectors of fewer encoded bytes are not packed: there is nothing to win.
const LEAST_PACKED: usize = 4096;
/// Numbers that are worked on at a time; whole blocks.
pub const SLICE: usize = 64 << 10;

/// Why bytes are no vector of their form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VectorError {
    /// Longer than any vector may be.
    #[error("a vector has 1 to {MAX_LENGTH} numbers, not {0}")]
    Length(u64),
    /// More bytes than such a vector has.
    #[error(
        "{found} bytes are more than the {most} of such a vector: send it as it is where packing makes it no smaller"
    )]
    TooLong {
        /// Bytes announced, or found so far.
        found: u64,
        /// Bytes of the form.
        most: u64,
    },
    /// Fewer bytes than such a vector has.
    #[error("the vector ends after {found} of its {expected} bytes")]
    TooShort {
        /// Bytes found.
        found: u64,
        /// Bytes of the form.
        expected: u64,
    },
    /// Not zstd, or damaged.
    #[error("the packed bytes cannot be unpacked: {0}")]
    Packed(String),
    /// A number, or the scale of its block, is infinite or not a number.
    #[error("number {index} is not finite: only finite numbers can be averaged")]
    NotFinite {
        /// Its position, from 0.
        index: u64,
    },
}

/// What a vector's bytes follow from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    precision: Precision,
    length: u64,
}

impl Form {
    /// The form of vectors of `length` numbers.
    ///
    /// # Errors
    /// [`VectorError::Length`] when it is 0 or more than [`MAX_LENGTH`].
    pub const fn new(precision: Precision, length: u64) -> Result<Self, VectorError> {
        if length == 0 || length > MAX_LENGTH {
            return Err(VectorError::Length(length));
        }
        Ok(Self { precision, length })
    }

    /// In how many bits.
    pub const fn precision(&self) -> Precision {
        self.precision
    }

    /// How many numbers.
    pub const fn length(&self) -> u64 {
        self.length
    }

    /// Bytes of the encoded vector; packed it has fewer.
    pub const fn bytes(&self) -> u64 {
        match self.precision {
            Precision::F32 => 4 * self.length,
            Precision::Bf16 => 2 * self.length,
            Precision::Int8 => self.length + 4 * self.length.div_ceil(BLOCK as u64),
        }
    }

    /// Bytes between which numbers are never cut, for [`mod@pack`] to sort.
    const fn width(&self) -> usize {
        match self.precision {
            Precision::F32 => 4,
            Precision::Bf16 => 2,
            Precision::Int8 => 1,
        }
    }
}

/// A vector as it travels: encoded, and packed where that is smaller. `draw` gives uniform random bits, for the precisions that
/// round by chance.
///
/// # Errors
/// [`VectorError`] when it is too long, or holds a number that is not finite.
pub fn write(vector: &[f32], precision: Precision, draw: impl FnMut() -> u32) -> Result<Vec<u8>, VectorError> {
    let form = Form::new(precision, vector.len() as u64)?;
    if let Some(at) = vector.iter().position(|number| !number.is_finite()) {
        return Err(VectorError::NotFinite { index: at as u64 });
    }
    let mut encoded = Vec::with_capacity(form.bytes() as usize);
    code::encode(vector, precision, draw, &mut encoded);
    if encoded.len() < LEAST_PACKED {
        return Ok(encoded);
    }
    let mut packer = pack::Packer::new(&form)?;
    let mut packed = Vec::new();
    packer.take(&encoded, &mut packed)?;
    packer.finish(&mut packed)?;
    Ok(if packed.len() < encoded.len() { packed } else { encoded })
}

/// The numbers of a vector that came whole.
///
/// # Errors
/// [`VectorError`] when it is none of its form.
pub fn read(bytes: &[u8], form: Form) -> Result<Vec<f32>, VectorError> {
    let mut reader = Reader::new(form, bytes.len() as u64)?;
    let mut numbers = Vec::with_capacity(form.length() as usize);
    reader.take(bytes, &mut numbers)?;
    reader.finish()?;
    Ok(numbers)
}

#[cfg(test)]
mod tests;
