//! The conversion of received bytes to their stored form.

use std::sync::Arc;

use object_store::WriteMultipart;
use sha2::{Digest as _, Sha256};
use undertone_proto::vector::{VectorError, VectorReader, code};

use super::UploadForm;
use crate::exchange::object::{ObjectError, PARTS_UNDER_WAY, run_blocking};

/// Bytes that are unpacked at a time: only the form bounds the size of their values.
const PIECE: usize = 512 << 10;

/// The conversion of a vector from its wire format to plain values.
pub(super) struct VectorUnpacker {
    hasher: Sha256,
    /// After an error of the form, only the digest is still checked. `None` for bytes that are stored as they came.
    reader: Result<Option<VectorReader>, VectorError>,
    numbers: Vec<f32>,
    /// Σ x² of the values so far.
    square: f64,
}

impl VectorUnpacker {
    pub(super) fn new(form: UploadForm, size: u64) -> Self {
        let reader = match form {
            UploadForm::Numbers(form) => VectorReader::new(form, size).map(Some),
            UploadForm::Masked(expected) if size < expected => Err(VectorError::TooShort { found: size, expected }),
            UploadForm::Masked(most) if size > most => Err(VectorError::TooLong { found: size, most }),
            UploadForm::Masked(_) => Ok(None),
        };
        Self { hasher: Sha256::new(), reader, numbers: Vec::new(), square: 0.0 }
    }

    /// Unpacks the next bytes, except the first `from`.
    pub(super) async fn pour(
        self,
        bytes: Vec<u8>,
        from: usize,
        writer: &mut WriteMultipart,
    ) -> Result<Self, ObjectError> {
        let (mut unpacking, bytes) = (self, Arc::new(bytes));
        for start in (from..bytes.len()).step_by(PIECE) {
            let bytes = Arc::clone(&bytes);
            let (next, plain) = run_blocking(move || {
                let plain = unpacking.take(&bytes[start..bytes.len().min(start + PIECE)]);
                Ok((unpacking, plain))
            })
            .await?;
            unpacking = next;
            writer.wait_for_capacity(PARTS_UNDER_WAY).await?;
            writer.put(plain.into());
        }
        Ok(unpacking)
    }

    /// Returns the values that the next bytes complete, as f32, little-endian, or the bytes of a masked vector.
    fn take(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.hasher.update(bytes);
        let mut plain = Vec::new();
        if let Ok(None) = self.reader {
            plain.extend_from_slice(bytes);
        }
        if let Ok(Some(reader)) = &mut self.reader {
            if let Err(wrong) = reader.take(bytes, &mut self.numbers) {
                self.reader = Err(wrong);
            }
            self.square += self.numbers.iter().map(|number| f64::from(*number).powi(2)).sum::<f64>();
            code::plain(&self.numbers, &mut plain);
            self.numbers.clear();
        }
        plain
    }

    pub(super) fn finish(self, digest: &str, most_norm: Option<f64>) -> Result<(), ObjectError> {
        if hex::encode(self.hasher.finalize()) != digest {
            return Err(ObjectError::Digest);
        }
        if let Some(reader) = self.reader? {
            reader.finish()?;
        }
        let norm = self.square.sqrt();
        match most_norm {
            Some(most) if norm > most => Err(ObjectError::Norm { norm, most }),
            _ => Ok(()),
        }
    }
}
