//! Masks: the keystream of ChaCha20 (RFC 8439) as a vector modulo 2^b.
//!
//! The nonce and the first counter are 0, because each key makes one mask. A coordinate is a little-endian integer of
//! 2 bytes for b ≤ 16, and of 4 bytes for larger b, reduced modulo 2^b.

use chacha20::ChaCha20;
use chacha20::cipher::{KeyIvInit as _, StreamCipher as _};

use crate::modulus::Modulus;

/// The number of bytes of keystream at a time.
const PIECE: usize = 16 << 10;

/// The direction in which a mask enters a vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaskSign {
    /// The mask is added.
    Plus,
    /// The mask is subtracted.
    Minus,
}

impl MaskSign {
    /// Returns the sign of the mask that the sites `own` and `peer` share, in the vector of `own`.
    pub const fn between(own: u8, peer: u8) -> Self {
        if own < peer { Self::Plus } else { Self::Minus }
    }

    /// Returns the other sign.
    #[must_use]
    pub const fn inverse(self) -> Self {
        match self {
            Self::Plus => Self::Minus,
            Self::Minus => Self::Plus,
        }
    }
}

/// Returns the coordinates modulo 2³².
// Compiled in this crate, which every profile optimizes, and not in the caller's.
#[inline(never)]
pub(crate) fn to_unsigned(vector: &[i32]) -> Vec<u32> {
    vector.iter().map(|value| value.cast_unsigned()).collect()
}

/// Adds the mask of `key` to a vector, or subtracts it, modulo 2³². The caller reduces the vector modulo 2^b.
pub fn apply(key: &[u8; 32], modulus: Modulus, sign: MaskSign, vector: &mut [u32]) {
    let mut cipher = ChaCha20::new(key.into(), &[0; 12].into());
    let mut stream = vec![0_u8; PIECE];
    if modulus.bits() <= 16 {
        for part in vector.chunks_mut(PIECE / 2) {
            let stream = &mut stream[..2 * part.len()];
            cipher.write_keystream(stream);
            let (words, _) = stream.as_chunks::<2>();
            add(part, words.iter().map(|word| u32::from(u16::from_le_bytes(*word))), sign);
        }
    } else {
        for part in vector.chunks_mut(PIECE / 4) {
            let stream = &mut stream[..4 * part.len()];
            cipher.write_keystream(stream);
            let (words, _) = stream.as_chunks::<4>();
            add(part, words.iter().map(|word| u32::from_le_bytes(*word)), sign);
        }
    }
}

fn add(part: &mut [u32], words: impl Iterator<Item = u32>, sign: MaskSign) {
    match sign {
        MaskSign::Plus => part.iter_mut().zip(words).for_each(|(value, word)| *value = value.wrapping_add(word)),
        MaskSign::Minus => part.iter_mut().zip(words).for_each(|(value, word)| *value = value.wrapping_sub(word)),
    }
}
