//! One file of rows: a Parquet file (Zstandard) with at most as many rows as an interrupted preparation may lose.
//!
//! Columns: `text` (UTF-8), `count` (unsigned, 64 bits), `test` (whether it is held out), and where the log has them `user`
//! (16 bytes, see [`super::user`]) and `label` (unsigned, 16 bits, absent where the row has none). The same rows give the
//! same bytes.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanBuilder, FixedSizeBinaryBuilder, RecordBatch, StringBuilder, UInt16Builder, UInt64Builder,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{RowRef, Subset};
use undertone_worker_site::dataset_meta::DatasetError;
use undertone_worker_site::fault;
use undertone_worker_site::folder::sync_folder;

pub(super) const TEXT: &str = "text";
pub(super) const COUNT: &str = "count";
pub(super) const TEST: &str = "test";
pub(super) const USER: &str = "user";
pub(super) const LABEL: &str = "label";

/// Rows that go to the encoder at once.
const BATCH: usize = 1 << 16;
/// Rows of a row group, which can be read without those before them. The encoder holds that many.
const GROUP: usize = 1 << 18;

/// A file of rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatasetPart {
    /// Its name in the folder of rows.
    pub name: String,
    /// Rows in it.
    pub rows: u64,
    /// Its length.
    pub bytes: u64,
    /// Its SHA-256, hexadecimal.
    pub digest: String,
}

/// Returns the name of part number `n`. Names sort in the order of numbers.
pub(crate) fn name(n: usize) -> String {
    format!("{n:06}.parquet")
}

/// Returns true for names that [`name`] gives.
pub(super) fn is_name(text: &str) -> bool {
    let number = text.strip_suffix(".parquet").filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
    number.and_then(|number| number.parse().ok()).is_some_and(|n| name(n) == text)
}

/// A part that is being written: hidden until it is complete.
pub(crate) struct PartWriter {
    path: PathBuf,
    hidden: PathBuf,
    name: String,
    encoder: ArrowWriter<HashingWriter>,
    columns: PartColumns,
    rows: u64,
}

impl PartWriter {
    /// Creates part number `n` in `folder`, and overwrites the remains of an interrupted run.
    pub(crate) fn create(folder: &Path, n: usize, users: bool, labels: bool) -> Result<Self, DatasetError> {
        let name = name(n);
        let path = folder.join(&name);
        let hidden = folder.join(format!(".{name}.new"));
        let mut options = OpenOptions::new();
        options.create(true).truncate(true).write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&hidden).map_err(DatasetError::io("create", &hidden))?;
        let columns = PartColumns::new(users, labels);
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_max_row_group_row_count(Some(GROUP))
            .build();
        let target = HashingWriter { file: BufWriter::new(file), hash: Sha256::new(), bytes: 0 };
        let encoder = ArrowWriter::try_new(target, columns.schema.clone(), Some(properties))
            .map_err(|error| refused(&hidden, error))?;
        Ok(Self { path, hidden, name, encoder, columns, rows: 0 })
    }

    /// Adds a row. It has a user, and may have a label, if the part was created with these columns.
    pub(crate) fn push(&mut self, row: RowRef<'_>, subset: Subset) -> Result<(), DatasetError> {
        self.columns.push(row, subset);
        self.rows += 1;
        if self.columns.len() == BATCH { self.hand_over() } else { Ok(()) }
    }

    fn hand_over(&mut self) -> Result<(), DatasetError> {
        let batch = self.columns.take();
        self.encoder.write(&batch).map_err(|error| refused(&self.hidden, error))
    }

    /// Makes the part durable, and then renames it to its final name.
    pub(crate) fn finish(mut self) -> Result<DatasetPart, DatasetError> {
        self.hand_over()?;
        let Self { path, hidden, name, encoder, rows, .. } = self;
        let HashingWriter { file, hash, bytes } = encoder.into_inner().map_err(|error| refused(&hidden, error))?;
        let sync = || {
            let file: File = file.into_inner().map_err(std::io::IntoInnerError::into_error)?;
            fault::disk(fault::BEFORE_SYNC)?;
            file.sync_all()?;
            std::fs::rename(&hidden, &path)
        };
        sync().map_err(DatasetError::io("write", &path))?;
        sync_folder(path.parent().unwrap_or(Path::new("."))).map_err(super::user::folder_error)?;
        fault::disk(fault::AFTER_SYNC).map_err(DatasetError::io("write", &path))?;
        Ok(DatasetPart { name, rows, bytes, digest: hex::encode(hash.finalize()) })
    }
}

fn refused(path: &Path, error: ParquetError) -> DatasetError {
    DatasetError::io("write", path)(std::io::Error::other(error))
}

/// Columns that grow row by row.
struct PartColumns {
    schema: SchemaRef,
    text: StringBuilder,
    count: UInt64Builder,
    test: BooleanBuilder,
    user: Option<FixedSizeBinaryBuilder>,
    label: Option<UInt16Builder>,
}

impl PartColumns {
    fn new(users: bool, labels: bool) -> Self {
        let mut fields = vec![
            Field::new(TEXT, DataType::Utf8, false),
            Field::new(COUNT, DataType::UInt64, false),
            Field::new(TEST, DataType::Boolean, false),
        ];
        fields.extend(users.then(|| Field::new(USER, DataType::FixedSizeBinary(16), false)));
        fields.extend(labels.then(|| Field::new(LABEL, DataType::UInt16, true)));
        Self {
            schema: Arc::new(Schema::new(fields)),
            text: StringBuilder::new(),
            count: UInt64Builder::new(),
            test: BooleanBuilder::new(),
            user: users.then(|| FixedSizeBinaryBuilder::new(16)),
            label: labels.then(UInt16Builder::new),
        }
    }

    fn len(&self) -> usize {
        self.count.values_slice().len()
    }

    fn push(&mut self, row: RowRef<'_>, subset: Subset) {
        self.text.append_value(row.text);
        self.count.append_value(row.count);
        self.test.append_value(subset == Subset::Test);
        if let Some(users) = &mut self.user {
            let user = row.user.expect("whoever begins a part with users gives each row one");
            users.append_value(user.to_be_bytes()).expect("a user is 16 bytes, as the column");
        }
        if let Some(labels) = &mut self.label {
            labels.append_option(row.label);
        }
    }

    fn take(&mut self) -> RecordBatch {
        let mut columns: Vec<ArrayRef> =
            vec![Arc::new(self.text.finish()), Arc::new(self.count.finish()), Arc::new(self.test.finish())];
        columns.extend(self.user.as_mut().map(|users| Arc::new(users.finish()) as ArrayRef));
        columns.extend(self.label.as_mut().map(|labels| Arc::new(labels.finish()) as ArrayRef));
        RecordBatch::try_new(self.schema.clone(), columns).expect("the columns are those of the schema, equally long")
    }
}

/// A writer that hashes the bytes that it writes.
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
