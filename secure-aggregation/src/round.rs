//! The identity of a round, to which all keys, seals and signatures of the round are bound.

use sha2::{Digest as _, Sha256};

use crate::modulus::Modulus;
use crate::roster::Roster;

/// The highest number of coordinates of a vector: 64 Mi.
pub const MAX_LENGTH: u64 = 64 << 20;

/// Reasons why a round cannot exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RoundError {
    /// The vector has no coordinate, or too many.
    #[error("a vector has 1 to {MAX_LENGTH} coordinates, not {0}")]
    Length(u64),
}

/// A round of a series of a job, with the form of its vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundContext {
    length: u64,
    modulus: Modulus,
    slot: [u8; 32],
    digest: [u8; 32],
}

impl RoundContext {
    /// Makes the context of round `number` of `series`, with vectors of `length` coordinates.
    ///
    /// # Errors
    /// [`RoundError::Length`] when `length` is 0 or above [`MAX_LENGTH`].
    pub fn new(roster: &Roster, series: &str, number: u32, length: u64, modulus: Modulus) -> Result<Self, RoundError> {
        if length == 0 || length > MAX_LENGTH {
            return Err(RoundError::Length(length));
        }
        let mut hash = Sha256::new_with_prefix("undertone secure aggregation: round");
        hash.update(roster.digest());
        hash.update((series.len() as u64).to_le_bytes());
        hash.update(series);
        hash.update(number.to_le_bytes());
        let slot: [u8; 32] = hash.finalize().into();
        let mut hash = Sha256::new_with_prefix("undertone secure aggregation: vectors");
        hash.update(slot);
        hash.update(length.to_le_bytes());
        hash.update([modulus.bits()]);
        Ok(Self { length, modulus, slot, digest: hash.finalize().into() })
    }

    /// Returns the number of coordinates.
    pub const fn length(&self) -> usize {
        self.length as usize
    }

    /// Returns the modulus of the masked vectors.
    pub const fn modulus(&self) -> Modulus {
        self.modulus
    }

    /// Returns the digest of roster, series and number: the key of the round in a site's journal. A round with another
    /// form of vectors has the same key.
    pub const fn slot(&self) -> &[u8; 32] {
        &self.slot
    }

    /// Returns the digest of the round and the form of its vectors.
    pub const fn digest(&self) -> &[u8; 32] {
        &self.digest
    }
}
