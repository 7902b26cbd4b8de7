//! Parquet: only the mapped columns are read, a batch at a time. Texts may be plain or dictionaries, numbers whole.

use std::fs::File;
use std::path::{Path, PathBuf};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray, RecordBatch, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, UInt64Type};
use datafusion::parquet::arrow::ProjectionMask;
use datafusion::parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};

use super::{Columns, FIELDS, Field, LONGEST_ROW, LogError, Next, Place, Raw, Reason, Source, find};
use crate::contained::contained;

/// Rows decoded at once.
const BATCH: usize = 4096;

/// A Parquet file that is being read.
pub(super) struct Table {
    path: PathBuf,
    reader: ParquetRecordBatchReader,
    /// The place of each column in a batch.
    places: [Option<usize>; FIELDS],
    batch: Option<(Batch, usize)>,
    /// Rows and bytes of the file.
    rows: u64,
    bytes: u64,
    next: Place,
}

/// The mapped columns of some rows.
struct Batch {
    rows: usize,
    columns: [Option<Column>; FIELDS],
}

enum Column {
    Text(StringArray),
    Count(PrimitiveArray<UInt64Type>),
}

impl Table {
    /// Opens the file at `place`.
    pub(super) fn open(path: &Path, columns: &Columns, place: Place) -> Result<Self, LogError> {
        contained(|| Self::opened(path, columns, place)).unwrap_or_else(|| Err(damaged(path)))
    }

    fn opened(path: &Path, columns: &Columns, place: Place) -> Result<Self, LogError> {
        let broken = |reason: String| LogError::Broken { path: path.to_path_buf(), what: "Parquet", reason };
        let file = File::open(path).map_err(LogError::io(path))?;
        let bytes = file.metadata().map_err(LogError::io(path))?.len();
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| broken(error.to_string()))?;
        let there: Vec<String> = builder.schema().fields().iter().map(|field| field.name().clone()).collect();
        let roots = find(path, &there, columns)?;
        for (field, root) in roots.iter().enumerate() {
            let Some(root) = root else { continue };
            let kind = builder.schema().field(*root).data_type();
            if !suits(kind, field) {
                let wanted = match field {
                    _ if field == Field::Text as usize => "text",
                    _ if field == Field::Count as usize => "whole numbers",
                    _ => "text or whole numbers",
                };
                let (column, reason) = (there[*root].clone(), format!("it holds {kind}: {wanted} are needed"));
                return Err(LogError::Strange { path: path.to_path_buf(), column, reason });
            }
        }
        // A batch has the projected columns in the order of the file, each once.
        let mut taken: Vec<usize> = roots.iter().flatten().copied().collect();
        taken.sort_unstable();
        taken.dedup();
        let places = roots.map(|root| root.and_then(|root| taken.binary_search(&root).ok()));
        let mask = ProjectionMask::roots(builder.parquet_schema(), taken);
        let groups: Vec<u64> =
            builder.metadata().row_groups().iter().map(|group| group.num_rows().try_into().unwrap_or(0)).collect();
        // What the file states of itself; nobody has counted.
        let rows = groups.iter().try_fold(0_u64, |rows, group| rows.checked_add(*group));
        let rows = rows.ok_or_else(|| broken("it states more rows than can be counted".to_owned()))?;
        let (mut first, mut before) = (0, 0);
        while first < groups.len() && before + groups[first] <= place.at {
            before += groups[first];
            first += 1;
        }
        let skipped = usize::try_from(place.at - before).map_err(|error| broken(error.to_string()))?;
        let reader = builder
            .with_projection(mask)
            .with_batch_size(BATCH)
            .with_row_groups((first..groups.len()).collect())
            .with_offset(skipped)
            .build()
            .map_err(|error| broken(error.to_string()))?;
        Ok(Self { path: path.to_path_buf(), reader, places, batch: None, rows, bytes, next: place })
    }

    fn batch(&self, batch: &RecordBatch) -> Result<Batch, LogError> {
        let column = |field: usize| self.places[field].map(|at| Column::of(batch.column(at), field)).transpose();
        let columns = [column(0), column(1), column(2), column(3), column(4)];
        let mut sound = [const { None }; FIELDS];
        for (sound, column) in sound.iter_mut().zip(columns) {
            *sound = column.map_err(|reason| LogError::Broken { path: self.path.clone(), what: "Parquet", reason })?;
        }
        Ok(Batch { rows: batch.num_rows(), columns: sound })
    }
}

/// What is said of a file over which its decoder panicked.
fn damaged(path: &Path) -> LogError {
    let reason = "it is damaged: what it states of itself cannot be".to_owned();
    LogError::Broken { path: path.to_path_buf(), what: "Parquet", reason }
}

impl Column {
    fn of(array: &ArrayRef, field: usize) -> Result<Self, String> {
        let kind = if field == Field::Count as usize { DataType::UInt64 } else { DataType::Utf8 };
        // What does not fit (a count below 0) becomes no value.
        let array = cast(array, &kind).map_err(|error| error.to_string())?;
        if let Some(numbers) = array.as_primitive_opt::<UInt64Type>() {
            return Ok(Self::Count(numbers.clone()));
        }
        array.as_string_opt::<i32>().map(|texts| Self::Text(texts.clone())).ok_or_else(|| "no text".to_owned())
    }
}

/// Whether a column of that type can be what it is to be.
fn suits(kind: &DataType, field: usize) -> bool {
    match kind {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => field != Field::Count as usize,
        DataType::Dictionary(_, value) => suits(value, field),
        DataType::Boolean => field == Field::Label as usize || field == Field::Subset as usize,
        kind => kind.is_integer() && field != Field::Text as usize,
    }
}

impl Source for Table {
    fn next(&mut self, raw: &mut Raw) -> Result<Next, LogError> {
        let (batch, at) = loop {
            match self.batch.take() {
                Some((batch, at)) if at < batch.rows => break (batch, at),
                _ => {}
            }
            match contained(|| self.reader.next()).ok_or_else(|| damaged(&self.path))? {
                None => return Ok(Next::End),
                Some(Ok(batch)) => {
                    let batch = contained(|| self.batch(&batch)).ok_or_else(|| damaged(&self.path))??;
                    self.batch = Some((batch, 0));
                }
                Some(Err(error)) => {
                    let (path, reason) = (self.path.clone(), error.to_string());
                    return Err(LogError::Broken { path, what: "Parquet", reason });
                }
            }
        };
        raw.clear();
        let mut fault = None;
        let texts = batch.columns.iter().flatten().filter_map(|column| match column {
            Column::Text(texts) if texts.is_valid(at) => Some(texts.value(at)),
            _ => None,
        });
        if texts.clone().map(str::len).sum::<usize>() > LONGEST_ROW {
            let beginning = texts.map(|text| super::excerpt(text.as_bytes())).next().unwrap_or_default();
            self.batch = Some((batch, at + 1));
            self.next.at += 1;
            self.next.line += 1;
            return Ok(Next::Bad(Reason::Row, beginning));
        }
        for (place, column) in batch.columns.iter().enumerate() {
            match column {
                Some(Column::Text(texts)) if texts.is_valid(at) => raw.room(place).push_str(texts.value(at)),
                Some(Column::Count(counts)) if counts.is_valid(at) => {
                    raw.room(place).push_str(&counts.value(at).to_string());
                }
                Some(Column::Count(_)) => fault = Some(Reason::Count),
                _ => {}
            }
        }
        self.batch = Some((batch, at + 1));
        self.next.at += 1;
        self.next.line += 1;
        Ok(match fault {
            None => Next::Row,
            Some(reason) => {
                Next::Bad(reason, raw.get(Field::Text).unwrap_or_default().chars().take(super::EXCERPT).collect())
            }
        })
    }

    fn place(&self) -> Place {
        self.next
    }

    fn line(&self) -> u64 {
        self.next.line
    }

    fn done(&self) -> u64 {
        let share = u128::from(self.bytes) * u128::from(self.next.at) / u128::from(self.rows.max(1));
        u64::try_from(share).unwrap_or(self.bytes)
    }
}
