//! One file of a table: Parquet (Zstandard) with the column `unit` (16 bytes, keyed) and the codes of each declared column
//! in its order (`c0`, `c1`, ...): one column, or several of a text. Rows are sorted by unit, then in keyed order, and a unit is in one part. The same
//! rows give the same bytes.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, FixedSizeBinaryBuilder, Int64Builder, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use undertone_worker_site::dataset_meta::DatasetError;
use undertone_worker_site::fault;

/// The bytes of a unit.
pub(crate) const UNIT_BYTES: i32 = 16;
/// Rows that go to the encoder at once.
const BATCH: usize = 1 << 13;
/// Rows of a row group.
const GROUP: usize = 1 << 16;
/// Rows after which a part ends at the next unit.
pub(crate) const PART_ROWS: u64 = 1 << 22;

/// A file of rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TablePart {
    /// Its name in the folder of rows.
    pub name: String,
    /// Rows in it.
    pub rows: u64,
    /// Its length.
    pub bytes: u64,
    /// Its SHA-256, hexadecimal.
    pub digest: String,
}

/// Returns the name of part number `n`.
pub(crate) fn part_name(n: usize) -> String {
    format!("{n:06}.parquet")
}

/// A part that is being written.
pub(crate) struct PartWriter {
    path: PathBuf,
    name: String,
    schema: SchemaRef,
    encoder: ArrowWriter<HashingWriter>,
    units: FixedSizeBinaryBuilder,
    codes: Vec<Int64Builder>,
    buffered: usize,
    rows: u64,
}

impl PartWriter {
    /// Creates part number `n` in `folder`, for rows of `columns` codes.
    pub(crate) fn create(folder: &Path, n: usize, columns: usize) -> Result<Self, DatasetError> {
        let name = part_name(n);
        let path = folder.join(&name);
        let mut options = OpenOptions::new();
        options.create(true).truncate(true).write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&path).map_err(DatasetError::io("create", &path))?;
        let codes = (0..columns).map(|column| Field::new(format!("c{column}"), DataType::Int64, true));
        let unit = Field::new("unit", DataType::FixedSizeBinary(UNIT_BYTES), false);
        let schema = Arc::new(Schema::new(std::iter::once(unit).chain(codes).collect::<Vec<_>>()));
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_max_row_group_row_count(Some(GROUP))
            .build();
        let target = HashingWriter { file: BufWriter::new(file), hash: Sha256::new(), bytes: 0 };
        let encoder = ArrowWriter::try_new(target, Arc::clone(&schema), Some(properties))
            .map_err(|error| refuse(&path, error))?;
        let units = FixedSizeBinaryBuilder::with_capacity(BATCH, UNIT_BYTES);
        let codes = (0..columns).map(|_| Int64Builder::with_capacity(BATCH)).collect();
        Ok(Self { path, name, schema, encoder, units, codes, buffered: 0, rows: 0 })
    }

    /// Returns the number of rows.
    pub(crate) const fn rows(&self) -> u64 {
        self.rows
    }

    /// Adds a row: its unit, and a code for each column.
    pub(crate) fn push(
        &mut self,
        unit: u128,
        cells: impl IntoIterator<Item = Option<i64>>,
    ) -> Result<(), DatasetError> {
        let path = &self.path;
        self.units
            .append_value(unit.to_be_bytes())
            .map_err(|error| refuse(path, ParquetError::ArrowError(error.to_string())))?;
        for (codes, cell) in self.codes.iter_mut().zip(cells) {
            codes.append_option(cell);
        }
        self.buffered += 1;
        self.rows += 1;
        if self.buffered == BATCH { self.encode() } else { Ok(()) }
    }

    /// Passes the buffered rows to the encoder.
    fn encode(&mut self) -> Result<(), DatasetError> {
        self.buffered = 0;
        let units = std::iter::once(Arc::new(self.units.finish()) as ArrayRef);
        let columns = units.chain(self.codes.iter_mut().map(|codes| Arc::new(codes.finish()) as ArrayRef)).collect();
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(ParquetError::from);
        batch.and_then(|batch| self.encoder.write(&batch)).map_err(|error| refuse(&self.path, error))
    }

    /// Makes the part durable.
    pub(crate) fn finish(mut self) -> Result<TablePart, DatasetError> {
        self.encode()?;
        let Self { path, name, encoder, rows, .. } = self;
        let HashingWriter { file, hash, bytes } = encoder.into_inner().map_err(|error| refuse(&path, error))?;
        let sync = || {
            let file: File = file.into_inner().map_err(std::io::IntoInnerError::into_error)?;
            fault::disk(fault::BEFORE_SYNC)?;
            file.sync_all()
        };
        sync().map_err(DatasetError::io("write", &path))?;
        Ok(TablePart { name, rows, bytes, digest: hex::encode(hash.finalize()) })
    }
}

/// Returns the error of an encoder that cannot write; its cause is the disk.
fn refuse(path: &Path, error: ParquetError) -> DatasetError {
    let source = match error {
        ParquetError::External(source) => match source.downcast::<std::io::Error>() {
            Ok(source) => *source,
            Err(source) => std::io::Error::other(source),
        },
        other => std::io::Error::other(other),
    };
    DatasetError::io("write", path)(source)
}

/// Writes a file and hashes what it writes.
struct HashingWriter {
    file: BufWriter<File>,
    hash: Sha256,
    bytes: u64,
}

impl Write for HashingWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}
