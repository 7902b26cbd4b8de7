//! An open file of rows, read at positions, so that several threads read it at once.
//!
//! Clones of a [`File`] share one position, which threads would move under each other. Here each reader has its own.

use std::fs::File;
use std::io::{BufReader, Read};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{ChunkReader, Length};
use sha2::{Digest, Sha256};
use undertone_worker_site::dataset_meta::DatasetError;

use crate::part::TablePart;

/// Bytes that are hashed at once.
const PIECE: usize = 1 << 16;

/// A file of rows that stays open. Clones are of the same file.
#[derive(Debug, Clone)]
pub(crate) struct PartFile(Arc<OpenPart>);

#[derive(Debug)]
struct OpenPart {
    path: PathBuf,
    file: File,
    part: TablePart,
}

impl PartFile {
    /// Opens a file in the folder of rows, and checks its length.
    pub(crate) fn open(folder: &Path, part: &TablePart) -> Result<Self, DatasetError> {
        let path = folder.join(&part.name);
        let file = File::open(&path).map_err(DatasetError::io("open", &path))?;
        let length = file.metadata().map_err(DatasetError::io("read", &path))?.len();
        if length != part.bytes {
            return Err(DatasetError::Length { path, expected: part.bytes, found: length });
        }
        Ok(Self(Arc::new(OpenPart { path, file, part: part.clone() })))
    }

    /// Checks that the file is unchanged since it was written, by its SHA-256.
    pub(crate) fn check(&self) -> Result<(), DatasetError> {
        let OpenPart { path, part, .. } = &*self.0;
        let mut hash = Sha256::new();
        let mut buffer = vec![0; PIECE];
        let mut reader = self.read_from(0);
        loop {
            match reader.read(&mut buffer).map_err(DatasetError::io("read", path))? {
                0 => break,
                length => hash.update(&buffer[..length]),
            }
        }
        let digest = hex::encode(hash.finalize());
        if digest == part.digest {
            Ok(())
        } else {
            Err(DatasetError::Digest { path: path.clone(), expected: part.digest.clone(), found: digest })
        }
    }

    /// Returns the error of a file that cannot be decoded.
    pub(crate) fn damage(&self, reason: &dyn ToString) -> DatasetError {
        DatasetError::Damaged { path: self.0.path.clone(), reason: reason.to_string() }
    }

    fn read_from(&self, position: u64) -> PartReader {
        PartReader { file: self.clone(), position }
    }
}

impl Length for PartFile {
    fn len(&self) -> u64 {
        self.0.part.bytes
    }
}

impl ChunkReader for PartFile {
    type T = BufReader<PartReader>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        Ok(BufReader::new(self.read_from(start)))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        // Checked before the memory is allocated: a changed file may name any length.
        if start.checked_add(length as u64).is_none_or(|end| end > self.len()) {
            return Err(ParquetError::EOF(format!("{length} bytes at {start} reach beyond the end")));
        }
        let mut buffer = vec![0; length];
        self.0.file.read_exact_at(&mut buffer, start)?;
        Ok(buffer.into())
    }
}

/// Reads a file from a position on.
#[derive(Debug)]
pub(crate) struct PartReader {
    file: PartFile,
    position: u64,
}

impl Read for PartReader {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = self.file.0.file.read_at(buffer, self.position)?;
        self.position += length as u64;
        Ok(length)
    }
}
