//! Reading a vector as its bytes come.

use super::code::{scaled, widened};
use super::pack::Unpacker;
use super::{BLOCK, Form, VectorError};
use undertone_api::job::dp_sgd::Precision;

/// Makes numbers of bytes, wherever the bytes are cut.
pub struct Reader {
    unpacker: Option<Unpacker>,
    numbers: Numbers,
}

impl Reader {
    /// A reader of a vector that travels in `size` bytes.
    ///
    /// # Errors
    /// [`VectorError::TooLong`] when it would be smaller as it is.
    pub fn new(form: Form, size: u64) -> Result<Self, VectorError> {
        let most = form.bytes();
        if size > most {
            return Err(VectorError::TooLong { found: size, most });
        }
        let unpacker = if size < most { Some(Unpacker::new(&form)?) } else { None };
        Ok(Self { unpacker, numbers: Numbers { form, rest: Vec::new(), found: 0, read: 0 } })
    }

    /// Takes the next bytes; appends the numbers that they complete.
    ///
    /// # Errors
    /// [`VectorError`] as soon as it shows that this is no vector of the form.
    pub fn take(&mut self, bytes: &[u8], numbers: &mut Vec<f32>) -> Result<(), VectorError> {
        match &mut self.unpacker {
            None => self.numbers.take(bytes, numbers),
            Some(unpacker) => unpacker.take(bytes, |encoded| self.numbers.take(encoded, numbers)),
        }
    }

    /// That all has come.
    ///
    /// # Errors
    /// [`VectorError::TooShort`] when it has not.
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

/// Encoded bytes on their way to numbers.
struct Numbers {
    form: Form,
    /// Bytes of a number, or of a block, that was cut.
    rest: Vec<u8>,
    /// Numbers so far.
    found: u64,
    /// Bytes so far.
    read: u64,
}

impl Numbers {
    fn take(&mut self, bytes: &[u8], numbers: &mut Vec<f32>) -> Result<(), VectorError> {
        self.read += bytes.len() as u64;
        let most = self.form.bytes();
        if self.read > most {
            return Err(VectorError::TooLong { found: self.read, most });
        }
        self.rest.extend_from_slice(bytes);
        let all = std::mem::take(&mut self.rest);
        let mut left = all.as_slice();
        while let Some((unit, later)) = left.split_at_checked(self.unit()).filter(|(unit, _)| !unit.is_empty()) {
            self.unit_in(unit, numbers)?;
            left = later;
        }
        self.rest = left.to_vec();
        Ok(())
    }

    /// Bytes that belong together: a number, or a block with its scale; 0 when all have come.
    fn unit(&self) -> usize {
        let left = self.form.length() - self.found;
        match self.form.precision() {
            _ if left == 0 => 0,
            Precision::F32 => 4,
            Precision::Bf16 => 2,
            Precision::Int8 => 4 + left.min(BLOCK as u64) as usize,
        }
    }

    fn unit_in(&mut self, unit: &[u8], numbers: &mut Vec<f32>) -> Result<(), VectorError> {
        let index = self.found;
        let finite = |number: f32| if number.is_finite() { Ok(number) } else { Err(VectorError::NotFinite { index }) };
        match (self.form.precision(), unit) {
            (Precision::F32, &[a, b, c, d]) => numbers.push(finite(f32::from_le_bytes([a, b, c, d]))?),
            (Precision::Bf16, &[a, b]) => numbers.push(finite(widened(u16::from_le_bytes([a, b])))?),
            (Precision::Int8, &[a, b, c, d, ref bytes @ ..]) => {
                let scale = finite(f32::from_le_bytes([a, b, c, d]))?;
                numbers.extend(bytes.iter().map(|byte| scaled(*byte, scale)));
                self.found += bytes.len() as u64 - 1;
            }
            // `unit` says how many bytes there are.
            _ => return Err(VectorError::TooShort { found: self.read, expected: self.form.bytes() }),
        }
        self.found += 1;
        Ok(())
    }
}
