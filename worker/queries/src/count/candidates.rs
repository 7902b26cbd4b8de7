//! The files that engines read: Parquet, compressed, readable by the worker's account only, written in batches of a few
//! thousand rows.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringBuilder, UInt64Builder};
use arrow::datatypes::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{CountError, cannot};

/// Rows, or bytes of text, after which a batch goes to the writer.
const BATCH_ROWS: usize = 8192;
const BATCH_BYTES: usize = 4 << 20;
/// Bytes of encoded rows after which a row group is finished. It bounds the writer's memory for any rows, and is the
/// smallest share of the file that a reader can take.
const GROUP_BYTES: usize = 4 << 20;

/// A Parquet file being written.
struct ParquetOutput {
    path: PathBuf,
    schema: Arc<Schema>,
    writer: ArrowWriter<File>,
}

impl ParquetOutput {
    fn create(path: &Path, schema: Schema) -> Result<Self, CountError> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path).map_err(cannot("create", path))?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_statistics_enabled(EnabledStatistics::None)
            .build();
        let schema = Arc::new(schema);
        let writer = ArrowWriter::try_new(file, Arc::clone(&schema), Some(properties)).map_err(parquet)?;
        Ok(Self { path: path.to_owned(), schema, writer })
    }

    fn write(&mut self, columns: Vec<ArrayRef>) -> Result<(), CountError> {
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns)
            .map_err(|error| CountError::Engine(error.into()))?;
        self.writer.write(&batch).map_err(parquet)?;
        if self.writer.in_progress_size() >= GROUP_BYTES {
            self.writer.flush().map_err(parquet)?;
        }
        Ok(())
    }

    fn finish(self) -> Result<(), CountError> {
        let file = self.writer.into_inner().map_err(parquet)?;
        file.sync_all().map_err(cannot("write", &self.path))
    }
}

fn parquet(error: ParquetError) -> CountError {
    CountError::Engine(error.into())
}

fn column(name: &str, kind: DataType) -> Field {
    Field::new(name, kind, false)
}

/// Rows with their counts: the input of [`super::CountingEngine::count`].
pub struct CandidateFile {
    output: ParquetOutput,
    text: StringBuilder,
    n: UInt64Builder,
    rows: u64,
    total: u64,
}

impl CandidateFile {
    /// Creates the file, which must not exist.
    ///
    /// # Errors
    /// [`CountError::Io`].
    pub fn create(path: &Path) -> Result<Self, CountError> {
        let schema = Schema::new(vec![column("text", DataType::Utf8), column("n", DataType::UInt64)]);
        Ok(Self {
            output: ParquetOutput::create(path, schema)?,
            text: StringBuilder::new(),
            n: UInt64Builder::new(),
            rows: 0,
            total: 0,
        })
    }

    /// Adds a row of `text`, which stands for `n` occurrences.
    ///
    /// # Errors
    /// [`CountError::Overflow`] when all counts together exceed 64 bits (so that no sum of the engine can wrap around),
    /// [`CountError::Zero`], or the error of writing the file.
    pub fn push(&mut self, text: &str, n: u64) -> Result<(), CountError> {
        if n == 0 {
            return Err(CountError::Zero);
        }
        self.total = self.total.checked_add(n).ok_or(CountError::Overflow)?;
        self.rows += 1;
        self.text.append_value(text);
        self.n.append_value(n);
        if is_full(&self.text) { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), CountError> {
        self.output.write(vec![Arc::new(self.text.finish()), Arc::new(self.n.finish())])
    }

    /// Completes the file and returns its number of rows.
    ///
    /// # Errors
    /// The error of writing the file.
    pub fn finish(mut self) -> Result<u64, CountError> {
        self.flush()?;
        self.output.finish()?;
        Ok(self.rows)
    }
}

/// Rows with their users: the input of [`super::CountingEngine::distinct_users`].
///
/// Each row also holds its place in the order that selects a user's texts: a hash of user and text under `key`, so that
/// it depends on nothing else in the log.
pub struct UserRows {
    output: ParquetOutput,
    key: u64,
    bytes: Vec<u8>,
    user: [UInt64Builder; 2],
    text: StringBuilder,
    place: UInt64Builder,
    rows: u64,
}

impl UserRows {
    /// Creates the file, which must not exist. `key`: random, new for each release.
    ///
    /// # Errors
    /// [`CountError::Io`].
    pub fn create(path: &Path, key: u64) -> Result<Self, CountError> {
        let schema = Schema::new(vec![
            column("user_high", DataType::UInt64),
            column("user_low", DataType::UInt64),
            column("text", DataType::Utf8),
            column("place", DataType::UInt64),
        ]);
        Ok(Self {
            output: ParquetOutput::create(path, schema)?,
            key,
            bytes: Vec::new(),
            user: [UInt64Builder::new(), UInt64Builder::new()],
            text: StringBuilder::new(),
            place: UInt64Builder::new(),
            rows: 0,
        })
    }

    /// Adds a row of `user`; its number of occurrences has no effect here.
    ///
    /// # Errors
    /// The error of writing the file.
    pub fn push(&mut self, user: u128, text: &str) -> Result<(), CountError> {
        self.bytes.clear();
        self.bytes.extend_from_slice(&user.to_le_bytes());
        self.bytes.extend_from_slice(text.as_bytes());
        self.user[0].append_value((user >> 64) as u64);
        self.user[1].append_value(user as u64);
        self.text.append_value(text);
        self.place.append_value(xxh3_64_with_seed(&self.bytes, self.key));
        self.rows += 1;
        if is_full(&self.text) { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), CountError> {
        let [high, low] = &mut self.user;
        self.output.write(vec![
            Arc::new(high.finish()),
            Arc::new(low.finish()),
            Arc::new(self.text.finish()),
            Arc::new(self.place.finish()),
        ])
    }

    /// Completes the file and returns its number of rows.
    ///
    /// # Errors
    /// The error of writing the file.
    pub fn finish(mut self) -> Result<u64, CountError> {
        self.flush()?;
        self.output.finish()?;
        Ok(self.rows)
    }
}

fn is_full(text: &StringBuilder) -> bool {
    use arrow::array::ArrayBuilder;
    text.len() >= BATCH_ROWS || text.values_slice().len() >= BATCH_BYTES
}
