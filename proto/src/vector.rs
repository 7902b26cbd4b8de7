//! The wire format of vectors: their precision and compression. The only code that writes and reads these bytes, for
//! site and server alike.
//!
//! A vector of n numbers is *encoded* in [`VectorForm::bytes`] bytes, which depend on its [`VectorForm`] alone:
//! * [`Precision::F32`]: 4 bytes a number, little-endian.
//! * [`Precision::Bf16`]: 2 bytes a number, little-endian: the upper half of the 32 bits, rounded to nearest, ties to
//!   even.
//! * [`Precision::Int8`]: blocks of [`BLOCK`] numbers (the last may be shorter), each a scale (4 bytes, f32) and one
//!   signed byte per number, stochastically rounded so that its expectation is the number ([`mod@code`]).
//!
//! The encoded bytes are *packed* by zstd where that reduces their number ([`mod@pack`]). Fewer bytes than the form has
//! are packed, as many are plain, more are rejected. So the number of bytes determines the encoding, and a reader knows
//! the size of the result before the first byte. A packed vector that decompresses to more is rejected during
//! decompression: its form bounds the memory, whatever the bytes contain.
//!
//! Rounding and packing apply to the released values: they cost no privacy. Signatures, storage and retransmission
//! apply to the bytes on the wire.

pub mod code;
pub mod pack;
mod read;
mod sum;

use undertone_api::job::dp_sgd::Precision;

pub use read::VectorReader;
pub use sum::WeightedSum;

/// The highest number of values in a vector: 64 Mi.
pub const MAX_LENGTH: u64 = 64 << 20;
/// The number of values that share a scale.
pub const BLOCK: usize = 256;
/// The least encoded size for which packing is worthwhile, bytes.
const LEAST_PACKED: usize = 4096;
/// The number of values processed at a time; whole blocks.
pub const SLICE: usize = 64 << 10;

/// Reasons why bytes are not a vector of their form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VectorError {
    /// Longer than any vector may be.
    #[error("a vector has 1 to {MAX_LENGTH} numbers, not {0}")]
    Length(u64),
    /// More bytes than the form has.
    #[error(
        "{found} bytes are more than the {most} of such a vector: send it as it is where packing makes it no smaller"
    )]
    TooLong {
        /// The number of bytes, announced or received so far.
        found: u64,
        /// The number of bytes of the form.
        most: u64,
    },
    /// Fewer bytes than the form has.
    #[error("the vector ends after {found} of its {expected} bytes")]
    TooShort {
        /// The number of bytes received.
        found: u64,
        /// The number of bytes of the form.
        expected: u64,
    },
    /// The bytes are not zstd, or damaged.
    #[error("the packed bytes cannot be unpacked: {0}")]
    Packed(String),
    /// A number, or the scale of its block, is infinite or not a number.
    #[error("number {index} is not finite: only finite numbers can be averaged")]
    NotFinite {
        /// Its position, from 0.
        index: u64,
    },
}

/// The properties that determine the encoded size of a vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VectorForm {
    precision: Precision,
    length: u64,
}

impl VectorForm {
    /// Makes the form of vectors of `length` numbers.
    ///
    /// # Errors
    /// [`VectorError::Length`] when `length` is 0 or more than [`MAX_LENGTH`].
    pub const fn new(precision: Precision, length: u64) -> Result<Self, VectorError> {
        if length == 0 || length > MAX_LENGTH {
            return Err(VectorError::Length(length));
        }
        Ok(Self { precision, length })
    }

    /// Returns the precision.
    pub const fn precision(&self) -> Precision {
        self.precision
    }

    /// Returns the number of values.
    pub const fn length(&self) -> u64 {
        self.length
    }

    /// Returns the size of the encoded vector, bytes; packed it is smaller.
    pub const fn bytes(&self) -> u64 {
        match self.precision {
            Precision::F32 => 4 * self.length,
            Precision::Bf16 => 2 * self.length,
            Precision::Int8 => self.length + 4 * self.length.div_ceil(BLOCK as u64),
        }
    }

    /// Returns the size of the units that [`mod@pack`] sorts by, bytes.
    const fn width(&self) -> usize {
        match self.precision {
            Precision::F32 => 4,
            Precision::Bf16 => 2,
            Precision::Int8 => 1,
        }
    }
}

/// Encodes a vector, and packs it where that is smaller. `draw` returns uniform random bits, for precisions with
/// stochastic rounding.
///
/// # Errors
/// [`VectorError`] when it is too long, or contains a number that is not finite.
pub fn write(vector: &[f32], precision: Precision, draw: impl FnMut() -> u32) -> Result<Vec<u8>, VectorError> {
    let form = VectorForm::new(precision, vector.len() as u64)?;
    if let Some(at) = vector.iter().position(|number| !number.is_finite()) {
        return Err(VectorError::NotFinite { index: at as u64 });
    }
    let mut encoded = Vec::with_capacity(form.bytes() as usize);
    code::encode(vector, precision, draw, &mut encoded);
    if encoded.len() < LEAST_PACKED {
        return Ok(encoded);
    }
    let mut packer = pack::VectorPacker::new(&form)?;
    let mut packed = Vec::new();
    packer.take(&encoded, &mut packed)?;
    packer.finish(&mut packed)?;
    Ok(if packed.len() < encoded.len() { packed } else { encoded })
}

/// Decodes a complete vector.
///
/// # Errors
/// [`VectorError`] when the bytes are not a vector of the form.
pub fn read(bytes: &[u8], form: VectorForm) -> Result<Vec<f32>, VectorError> {
    let mut reader = VectorReader::new(form, bytes.len() as u64)?;
    let mut numbers = Vec::with_capacity(form.length() as usize);
    reader.take(bytes, &mut numbers)?;
    reader.finish()?;
    Ok(numbers)
}

#[cfg(test)]
mod tests;
