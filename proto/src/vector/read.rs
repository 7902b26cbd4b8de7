//! Incremental reading of a vector.

use super::code::{scaled, widened};
use super::pack::VectorUnpacker;
use super::{BLOCK, VectorError, VectorForm};
use undertone_api::job::dp_sgd::Precision;

/// Converts bytes to numbers, wherever the bytes are split.
pub struct VectorReader {
    unpacker: Option<VectorUnpacker>,
    numbers: NumberDecoder,
}

impl VectorReader {
    /// Makes a reader of a vector with `size` bytes on the wire.
    ///
    /// # Errors
    /// [`VectorError::TooLong`] when it would be smaller without packing.
    pub fn new(form: VectorForm, size: u64) -> Result<Self, VectorError> {
        let most = form.bytes();
        if size > most {
            return Err(VectorError::TooLong { found: size, most });
        }
        let unpacker = if size < most { Some(VectorUnpacker::new(&form)?) } else { None };
        Ok(Self { unpacker, numbers: NumberDecoder { form, rest: Vec::new(), found: 0, read: 0 } })
    }

    /// Takes the next bytes; appends the numbers that they complete.
    ///
    /// # Errors
    /// [`VectorError`] as soon as the bytes cannot be a vector of the form.
    pub fn take(&mut self, bytes: &[u8], numbers: &mut Vec<f32>) -> Result<(), VectorError> {
        match &mut self.unpacker {
            None => self.numbers.take(bytes, numbers),
            Some(unpacker) => unpacker.take(bytes, |encoded| self.numbers.take(encoded, numbers)),
        }
    }

    /// Checks that the vector is complete.
    ///
    /// # Errors
    /// [`VectorError::TooShort`] when it is not.
    pub fn finish(self) -> Result<(), VectorError> {
        if let Some(unpacker) = self.unpacker {
            unpacker.finish()?;
        }
        let (found, expected) = (self.numbers.read, self.numbers.form.bytes());
        if found != expected || self.numbers.found != self.numbers.form.length() {
            return Err(VectorError::TooShort { found, expected });
        }
        Ok(())
    }
}

/// The conversion of encoded bytes to numbers.
struct NumberDecoder {
    form: VectorForm,
    /// Bytes of an incomplete number or block.
    rest: Vec<u8>,
    /// The number of values so far.
    found: u64,
    /// The number of bytes so far.
    read: u64,
}

impl NumberDecoder {
    fn take(&mut self, bytes: &[u8], numbers: &mut Vec<f32>) -> Result<(), VectorError> {
        self.read += bytes.len() as u64;
        let most = self.form.bytes();
        if self.read > most {
            return Err(VectorError::TooLong { found: self.read, most });
        }
        let mut remaining = bytes;
        if !self.rest.is_empty() {
            let lacking = self.unit().saturating_sub(self.rest.len());
            let (now, later) = remaining.split_at(remaining.len().min(lacking));
            self.rest.extend_from_slice(now);
            remaining = later;
            let partial = std::mem::take(&mut self.rest);
            // The whole unit, or nothing while it is incomplete.
            let used = self.whole(&partial, numbers)?;
            self.rest.extend_from_slice(&partial[used..]);
        }
        if self.rest.is_empty() {
            let used = self.whole(remaining, numbers)?;
            self.rest.extend_from_slice(&remaining[used..]);
        }
        Ok(())
    }

    /// Returns the size of the next unit, bytes: a number, or a block with its scale; 0 at the end.
    fn unit(&self) -> usize {
        let remaining = self.form.length() - self.found;
        match self.form.precision() {
            _ if remaining == 0 => 0,
            Precision::F32 => 4,
            Precision::Bf16 => 2,
            Precision::Int8 => 4 + remaining.min(BLOCK as u64) as usize,
        }
    }

    /// Reads the complete units of these bytes, which begin at a unit; returns their number of bytes.
    fn whole(&mut self, bytes: &[u8], numbers: &mut Vec<f32>) -> Result<usize, VectorError> {
        match self.form.precision() {
            Precision::F32 => self.each(bytes.as_chunks::<4>().0, |unit| f32::from_le_bytes(*unit), numbers),
            Precision::Bf16 => self.each(bytes.as_chunks::<2>().0, |unit| widened(u16::from_le_bytes(*unit)), numbers),
            Precision::Int8 => self.blocks(bytes, numbers),
        }
    }

    fn each<const WIDTH: usize>(
        &mut self,
        units: &[[u8; WIDTH]],
        number: impl Fn(&[u8; WIDTH]) -> f32,
        numbers: &mut Vec<f32>,
    ) -> Result<usize, VectorError> {
        let start = numbers.len();
        numbers.extend(units.iter().map(number));
        // Check all numbers first, and search for the position only on failure, which is much faster.
        if !numbers[start..].iter().fold(true, |all, number| all & number.is_finite()) {
            let at = numbers[start..].iter().take_while(|number| number.is_finite()).count();
            numbers.truncate(start + at);
            return Err(VectorError::NotFinite { index: self.found + at as u64 });
        }
        self.found += units.len() as u64;
        Ok(WIDTH * units.len())
    }

    fn blocks(&mut self, bytes: &[u8], numbers: &mut Vec<f32>) -> Result<usize, VectorError> {
        let mut remaining = bytes;
        while let Some((unit, later)) = remaining.split_at_checked(self.unit()) {
            let Some((scale, values)) = unit.split_first_chunk::<4>() else { break };
            let scale = f32::from_le_bytes(*scale);
            if !scale.is_finite() {
                return Err(VectorError::NotFinite { index: self.found });
            }
            numbers.extend(values.iter().map(|value| scaled(*value, scale)));
            self.found += values.len() as u64;
            remaining = later;
        }
        Ok(bytes.len() - remaining.len())
    }
}
