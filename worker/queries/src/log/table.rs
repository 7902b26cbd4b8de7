//! Parquet: reads only the mapped columns, one batch at a time. Texts may be plain or dictionaries; numbers are whole.

use std::fs::File;
use std::path::{Path, PathBuf};

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, UInt64Type};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};

use super::{
    ColumnMap, FIELDS, LONGEST_ROW, LogError, LogField, LogPosition, LogSource, NextRow, RawRow, RejectReason, find,
};
use undertone_worker_site::panics::catch_panic;

/// Rows decoded at once.
const BATCH: usize = 4096;

/// A Parquet file that is being read.
pub(super) struct ParquetLog {
    path: PathBuf,
    reader: ParquetRecordBatchReader,
    /// The index of each column in a batch.
    places: [Option<usize>; FIELDS],
    batch: Option<(ColumnBatch, usize)>,
    /// Rows and bytes of the file.
    rows: u64,
    bytes: u64,
    next: LogPosition,
}

/// The mapped columns of some rows.
struct ColumnBatch {
    rows: usize,
    columns: [Option<ColumnValues>; FIELDS],
}

enum ColumnValues {
    Text(StringArray),
    Count(PrimitiveArray<UInt64Type>),
}

impl ParquetLog {
    /// Opens the file at `place`.
    pub(super) fn open(path: &Path, columns: &ColumnMap, place: LogPosition) -> Result<Self, LogError> {
        catch_panic(|| Self::try_open(path, columns, place)).unwrap_or_else(|| Err(damaged(path)))
    }

    fn try_open(path: &Path, columns: &ColumnMap, place: LogPosition) -> Result<Self, LogError> {
        let broken = |reason: String| LogError::Broken { path: path.to_path_buf(), what: "Parquet", reason };
        let file = File::open(path).map_err(LogError::io(path))?;
        let bytes = file.metadata().map_err(LogError::io(path))?.len();
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| broken(error.to_string()))?;
        let there: Vec<String> = builder.schema().fields().iter().map(|field| field.name().clone()).collect();
        let roots = find(path, &there, columns)?;
        for (field, root) in roots.iter().enumerate() {
            let Some(root) = root else { continue };
            let kind = builder.schema().field(*root).data_type();
            if !is_suitable(kind, field) {
                let expected = match field {
                    _ if field == LogField::Text as usize => "text",
                    _ if field == LogField::Count as usize => "whole numbers",
                    _ => "text or whole numbers",
                };
                let column = there[*root].clone();
                let reason = format!("it holds {kind}: {expected} are needed");
                return Err(LogError::Strange { path: path.to_path_buf(), column, reason });
            }
        }
        // A batch has the projected columns in the order of the file, each once.
        let mut projection: Vec<usize> = roots.iter().flatten().copied().collect();
        projection.sort_unstable();
        projection.dedup();
        let places = roots.map(|root| root.and_then(|root| projection.binary_search(&root).ok()));
        let mask = ProjectionMask::roots(builder.parquet_schema(), projection);
        let groups: Vec<u64> =
            builder.metadata().row_groups().iter().map(|group| group.num_rows().try_into().unwrap_or(0)).collect();
        // The numbers that the file states; they are not verified.
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

    fn batch(&self, batch: &RecordBatch) -> Result<ColumnBatch, LogError> {
        let column =
            |field: usize| self.places[field].map(|at| ColumnValues::from_array(batch.column(at), field)).transpose();
        let columns = [column(0), column(1), column(2), column(3), column(4)];
        let mut sound = [const { None }; FIELDS];
        for (sound, column) in sound.iter_mut().zip(columns) {
            *sound = column.map_err(|reason| LogError::Broken { path: self.path.clone(), what: "Parquet", reason })?;
        }
        Ok(ColumnBatch { rows: batch.num_rows(), columns: sound })
    }
}

/// Returns the error for a file whose decoder panicked.
fn damaged(path: &Path) -> LogError {
    let reason = "it is damaged: its metadata are impossible".to_owned();
    LogError::Broken { path: path.to_path_buf(), what: "Parquet", reason }
}

impl ColumnValues {
    fn from_array(array: &ArrayRef, field: usize) -> Result<Self, String> {
        let kind = if field == LogField::Count as usize { DataType::UInt64 } else { DataType::Utf8 };
        // An unsuitable value (a count below 0) becomes null.
        let array = cast(array, &kind).map_err(|error| error.to_string())?;
        if let Some(numbers) = array.as_primitive_opt::<UInt64Type>() {
            return Ok(Self::Count(numbers.clone()));
        }
        array.as_string_opt::<i32>().map(|texts| Self::Text(texts.clone())).ok_or_else(|| "no text".to_owned())
    }
}

/// Returns true if a column of that type suits the field.
fn is_suitable(kind: &DataType, field: usize) -> bool {
    match kind {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => field != LogField::Count as usize,
        DataType::Dictionary(_, value) => is_suitable(value, field),
        DataType::Boolean => field == LogField::Label as usize || field == LogField::Subset as usize,
        kind => kind.is_integer() && field != LogField::Text as usize,
    }
}

impl LogSource for ParquetLog {
    fn next(&mut self, raw: &mut RawRow) -> Result<NextRow, LogError> {
        let (batch, at) = loop {
            match self.batch.take() {
                Some((batch, at)) if at < batch.rows => break (batch, at),
                _ => {}
            }
            match catch_panic(|| self.reader.next()).ok_or_else(|| damaged(&self.path))? {
                None => return Ok(NextRow::End),
                Some(Ok(batch)) => {
                    let batch = catch_panic(|| self.batch(&batch)).ok_or_else(|| damaged(&self.path))??;
                    self.batch = Some((batch, 0));
                }
                Some(Err(error)) => {
                    let path = self.path.clone();
                    let reason = error.to_string();
                    return Err(LogError::Broken { path, what: "Parquet", reason });
                }
            }
        };
        raw.clear();
        let mut fault = None;
        let texts = batch.columns.iter().flatten().filter_map(|column| match column {
            ColumnValues::Text(texts) if texts.is_valid(at) => Some(texts.value(at)),
            _ => None,
        });
        if texts.clone().map(str::len).sum::<usize>() > LONGEST_ROW {
            let beginning = texts.map(|text| super::excerpt(text.as_bytes())).next().unwrap_or_default();
            self.batch = Some((batch, at + 1));
            self.next.at += 1;
            self.next.line += 1;
            return Ok(NextRow::Bad(RejectReason::Row, beginning));
        }
        for (place, column) in batch.columns.iter().enumerate() {
            match column {
                Some(ColumnValues::Text(texts)) if texts.is_valid(at) => raw.buffer(place).push_str(texts.value(at)),
                Some(ColumnValues::Count(counts)) if counts.is_valid(at) => {
                    raw.buffer(place).push_str(&counts.value(at).to_string());
                }
                Some(ColumnValues::Count(_)) => fault = Some(RejectReason::Count),
                _ => {}
            }
        }
        self.batch = Some((batch, at + 1));
        self.next.at += 1;
        self.next.line += 1;
        Ok(match fault {
            None => NextRow::Row,
            Some(reason) => {
                NextRow::Bad(reason, raw.get(LogField::Text).unwrap_or_default().chars().take(super::EXCERPT).collect())
            }
        })
    }

    fn place(&self) -> LogPosition {
        self.next
    }

    fn line(&self) -> u64 {
        self.next.line
    }

    fn bytes_read(&self) -> u64 {
        let share = u128::from(self.bytes) * u128::from(self.next.at) / u128::from(self.rows.max(1));
        u64::try_from(share).unwrap_or(self.bytes)
    }
}
