//! The integers modulo 2^b in which masked vectors are added, and their bytes.

/// Integers modulo 2^b, 2 ≤ b ≤ 32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Modulus(u8);

/// Reasons why a modulus does not exist, or why bytes are not a vector of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ModulusError {
    /// The number of bits is outside its range.
    #[error("a modulus has 2 to 32 bits, not {0}")]
    Bits(u8),
    /// The bytes are more or fewer than the form has.
    #[error("the vector has {found} bytes instead of {expected}")]
    Size {
        /// The number of bytes received.
        found: usize,
        /// The number of bytes of the form.
        expected: usize,
    },
    /// Bits after the last coordinate are set.
    #[error("the bits after the last coordinate are not zero")]
    Padding,
}

impl Modulus {
    /// Returns the modulus 2^`bits`.
    ///
    /// # Errors
    /// [`ModulusError::Bits`] outside 2 to 32.
    pub const fn new(bits: u8) -> Result<Self, ModulusError> {
        if bits < 2 || bits > 32 { Err(ModulusError::Bits(bits)) } else { Ok(Self(bits)) }
    }

    /// Returns b.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Returns the representative from 0 to 2^b − 1.
    pub const fn reduce(self, value: u32) -> u32 {
        value & (u32::MAX >> (32 - self.0))
    }

    /// Returns the representative from −2^{b−1} to 2^{b−1} − 1.
    pub const fn center(self, value: u32) -> i32 {
        let unused = 32 - self.0;
        (value << unused).cast_signed() >> unused
    }

    /// Returns the number of bytes of a vector.
    pub const fn bytes(self, length: usize) -> usize {
        (length * self.0 as usize).div_ceil(8)
    }

    /// Returns the coordinates in b bits each, the least significant bit first. Values are reduced.
    pub fn pack(self, values: &[u32]) -> Vec<u8> {
        match self.0 {
            8 => values.iter().map(|value| *value as u8).collect(),
            16 => values.iter().flat_map(|value| (*value as u16).to_le_bytes()).collect(),
            32 => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            _ => self.pack_bits(values),
        }
    }

    fn pack_bits(self, values: &[u32]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.bytes(values.len()));
        let mut pending = 0_u64;
        let mut bits = 0;
        for value in values {
            pending |= u64::from(self.reduce(*value)) << bits;
            bits += self.0;
            while bits >= 8 {
                bytes.push(pending as u8);
                pending >>= 8;
                bits -= 8;
            }
        }
        if bits > 0 {
            bytes.push(pending as u8);
        }
        bytes
    }

    /// Adds the coordinates of packed bytes to `sum`, modulo 2³².
    ///
    /// # Errors
    /// [`ModulusError`] when the bytes are not a vector of the length of `sum`. The sum is unchanged then.
    pub fn add_packed(self, bytes: &[u8], sum: &mut [u32]) -> Result<(), ModulusError> {
        let expected = self.bytes(sum.len());
        if bytes.len() != expected {
            return Err(ModulusError::Size { found: bytes.len(), expected });
        }
        let used = (sum.len() * usize::from(self.0)) % 8;
        if used > 0 && bytes.last().is_some_and(|last| last >> used != 0) {
            return Err(ModulusError::Padding);
        }
        match self.0 {
            16 => {
                let (words, _) = bytes.as_chunks::<2>();
                for (total, word) in sum.iter_mut().zip(words) {
                    *total = total.wrapping_add(u32::from(u16::from_le_bytes(*word)));
                }
            }
            32 => {
                let (words, _) = bytes.as_chunks::<4>();
                for (total, word) in sum.iter_mut().zip(words) {
                    *total = total.wrapping_add(u32::from_le_bytes(*word));
                }
            }
            _ => self.add_bits(bytes, sum),
        }
        Ok(())
    }

    fn add_bits(self, bytes: &[u8], sum: &mut [u32]) {
        let mut bytes = bytes.iter();
        let mut pending = 0_u64;
        let mut bits = 0;
        for total in sum {
            while bits < self.0 {
                pending |= u64::from(bytes.next().copied().unwrap_or_default()) << bits;
                bits += 8;
            }
            *total = total.wrapping_add(self.reduce(pending as u32));
            pending >>= self.0;
            bits -= self.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Modulus, ModulusError};

    #[test]
    fn packed_vectors_come_back_in_every_width() {
        for bits in 2..=32 {
            let modulus = Modulus::new(bits).expect("a width");
            for length in [1, 2, 7, 8, 9, 33] {
                let values: Vec<u32> = (0..length).map(|at: u32| at.wrapping_mul(2_654_435_761)).collect();
                let bytes = modulus.pack(&values);
                assert_eq!(bytes.len(), modulus.bytes(values.len()), "{bits}");
                let mut sum = vec![u32::MAX; values.len()];
                assert_eq!(modulus.add_packed(&bytes, &mut sum), Ok(()));
                for (total, value) in sum.iter().zip(&values) {
                    assert_eq!(modulus.reduce(total.wrapping_add(1)), modulus.reduce(*value), "{bits}");
                }
            }
        }
        assert_eq!(Modulus::new(1), Err(ModulusError::Bits(1)));
        assert_eq!(Modulus::new(33), Err(ModulusError::Bits(33)));
    }

    #[test]
    fn damaged_vectors_are_refused() {
        let modulus = Modulus::new(11).expect("a width");
        let mut bytes = modulus.pack(&[1, 2, 3]);
        let mut sum = [0; 3];
        assert_eq!(modulus.add_packed(&bytes[1..], &mut sum), Err(ModulusError::Size { found: 4, expected: 5 }));
        bytes[4] |= 0x80;
        assert_eq!(modulus.add_packed(&bytes, &mut sum), Err(ModulusError::Padding));
        assert_eq!(sum, [0; 3]);
    }

    #[test]
    fn centers_cover_both_signs() {
        for bits in [2, 8, 13, 16, 31, 32] {
            let modulus = Modulus::new(bits).expect("a width");
            let most = ((1_u64 << (bits - 1)) - 1) as i32;
            for value in [0, 1, -1, most, -most, -most - 1] {
                assert_eq!(modulus.center(modulus.reduce(value.cast_unsigned())), value, "{bits}");
            }
        }
    }
}
