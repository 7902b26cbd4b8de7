//! Streams rows from the files of a dataset, batch by batch.

use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};

use arrow::array::{
    Array, ArrowPrimitiveType, AsArray, BooleanArray, FixedSizeBinaryArray, PrimitiveArray, RecordBatch, StringArray,
};
use arrow::datatypes::{UInt16Type, UInt64Type};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};

use super::part::{COUNT, LABEL, TEST, TEXT, USER};
use super::{Meta, Subset};
use undertone_worker_site::dataset_meta::DatasetError;

/// Rows decoded at once.
const BATCH: usize = 8192;

/// One row of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The query, normalized; at least one character.
    pub text: String,
    /// The user, if the log has users: a hash under a key that stays in the dataset's folder. It distinguishes users
    /// and identifies none of them.
    pub user: Option<u128>,
    /// Number of occurrences, at least 1.
    pub count: u64,
    /// The number of its label, less than the length of [`Meta::labels`]; `None` without a label.
    pub label: Option<u16>,
}

/// One row, borrowed from its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowRef<'a> {
    /// As [`Row::text`].
    pub text: &'a str,
    /// As [`Row::user`].
    pub user: Option<u128>,
    /// As [`Row::count`].
    pub count: u64,
    /// As [`Row::label`].
    pub label: Option<u16>,
}

impl From<RowRef<'_>> for Row {
    fn from(row: RowRef<'_>) -> Self {
        Self { text: row.text.to_owned(), user: row.user, count: row.count, label: row.label }
    }
}

/// The rows of a subset. After an error there are no more.
#[derive(Debug)]
pub struct DatasetRows {
    parts: VecDeque<PathBuf>,
    subset: Subset,
    users: bool,
    labels: Option<usize>,
    open: Option<(PathBuf, ParquetRecordBatchReader)>,
    batch: Option<(RowBatch, usize)>,
}

impl DatasetRows {
    pub(super) fn new(parts: VecDeque<PathBuf>, meta: &Meta, subset: Subset) -> Self {
        let labels = meta.has_labels().then_some(meta.labels.len());
        Self { parts, subset, users: meta.has_users(), labels, open: None, batch: None }
    }

    /// Returns the next row without a copy of it; `None` after the last.
    ///
    /// # Errors
    /// [`DatasetError`] naming the file that cannot be read.
    pub fn next_ref(&mut self) -> Result<Option<RowRef<'_>>, DatasetError> {
        let at = loop {
            if let Some((batch, at)) = &mut self.batch {
                let index = (*at..batch.rows()).find(|at| batch.subset(*at) == self.subset);
                if let Some(index) = index {
                    *at = index + 1;
                    break index;
                }
            }
            if !self.advance().inspect_err(|_| self.parts.clear())? {
                return Ok(None);
            }
        };
        Ok(self.batch.as_ref().map(|(batch, _)| batch.row(at)))
    }

    /// Moves to the next batch; returns false after the last.
    fn advance(&mut self) -> Result<bool, DatasetError> {
        self.batch = None;
        loop {
            let (path, mut reader) = match self.open.take() {
                Some(open) => open,
                None => match self.parts.pop_front() {
                    Some(path) => {
                        let reader = open(&path)?;
                        (path, reader)
                    }
                    None => return Ok(false),
                },
            };
            let Some(batch) = reader.next() else { continue };
            let batch = batch.map_err(|error| damaged(&path, error.to_string()))?;
            self.batch = Some((RowBatch::new(&batch, self.users, self.labels).map_err(|why| damaged(&path, why))?, 0));
            self.open = Some((path, reader));
            return Ok(true);
        }
    }
}

impl Iterator for DatasetRows {
    type Item = Result<Row, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_ref().map(|row| row.map(Row::from)).transpose()
    }
}

fn open(path: &Path) -> Result<ParquetRecordBatchReader, DatasetError> {
    let file = File::open(path).map_err(DatasetError::io("open", path))?;
    ParquetRecordBatchReaderBuilder::try_new(file)
        .and_then(|builder| builder.with_batch_size(BATCH).build())
        .map_err(|error| damaged(path, error.to_string()))
}

fn damaged(path: &Path, reason: String) -> DatasetError {
    DatasetError::Damaged { path: path.to_path_buf(), reason }
}

/// The columns of a batch, checked once so that rows need no check.
#[derive(Debug)]
struct RowBatch {
    text: StringArray,
    count: PrimitiveArray<UInt64Type>,
    test: BooleanArray,
    user: Option<FixedSizeBinaryArray>,
    label: Option<PrimitiveArray<UInt16Type>>,
}

impl RowBatch {
    fn new(batch: &RecordBatch, users: bool, labels: Option<usize>) -> Result<Self, String> {
        let column = |name: &str| batch.column_by_name(name).ok_or_else(|| format!("it has no column {name}"));
        let strange = |name: &str| format!("its column {name} is of another type");
        fn numbers<T: ArrowPrimitiveType>(array: &dyn Array) -> Option<PrimitiveArray<T>> {
            array.as_primitive_opt::<T>().cloned()
        }
        let text = column(TEXT)?.as_string_opt::<i32>().ok_or_else(|| strange(TEXT))?.clone();
        let count = numbers::<UInt64Type>(column(COUNT)?).ok_or_else(|| strange(COUNT))?;
        let test = column(TEST)?.as_boolean_opt().ok_or_else(|| strange(TEST))?.clone();
        let user = if users {
            Some(column(USER)?.as_fixed_size_binary_opt().ok_or_else(|| strange(USER))?.clone())
        } else {
            None
        };
        let label = match labels {
            Some(_) => Some(numbers::<UInt16Type>(column(LABEL)?).ok_or_else(|| strange(LABEL))?),
            None => None,
        };
        let holes = text.null_count() + count.null_count() + test.null_count();
        if holes > 0 || user.as_ref().is_some_and(|user| user.null_count() > 0 || user.value_length() != 16) {
            return Err("it lacks a value".to_owned());
        }
        if count.values().contains(&0) {
            return Err("it has a row with the count 0".to_owned());
        }
        let above = |array: &PrimitiveArray<UInt16Type>| {
            array.iter().flatten().any(|label| usize::from(label) >= labels.unwrap_or(0))
        };
        if label.as_ref().is_some_and(above) {
            return Err("it has a label without a name".to_owned());
        }
        Ok(Self { text, count, test, user, label })
    }

    fn rows(&self) -> usize {
        self.text.len()
    }

    fn subset(&self, at: usize) -> Subset {
        if self.test.value(at) { Subset::Test } else { Subset::Train }
    }

    fn row(&self, at: usize) -> RowRef<'_> {
        let user = |users: &FixedSizeBinaryArray| {
            let mut bytes = [0; 16];
            bytes.copy_from_slice(users.value(at));
            u128::from_be_bytes(bytes)
        };
        RowRef {
            text: self.text.value(at),
            user: self.user.as_ref().map(user),
            count: self.count.value(at),
            label: self.label.as_ref().filter(|labels| labels.is_valid(at)).map(|labels| labels.value(at)),
        }
    }
}
