//! Parquet: reads the declared columns alone, one batch at a time.

use std::fs::File;
use std::path::{Path, PathBuf};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float64Type, Int64Type, TimeUnit, TimestampSecondType, UInt64Type,
};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use undertone_api::table::{ColumnKind, TableSchema};
use undertone_worker_site::panics::catch_panic;

use super::{RowSource, SourceRow, SourceStep, find_columns, to_text};
use crate::error::TableError;
use crate::value::SourceValue;

/// Rows decoded at once. Few, because a text may have megabytes.
const BATCH: usize = 256;

/// A Parquet file that is being read.
pub(super) struct ParquetSource {
    path: PathBuf,
    reader: ParquetRecordBatchReader,
    /// The place of each needed column in a batch.
    places: Vec<usize>,
    /// The form in which each needed column is read.
    forms: Vec<ColumnForm>,
    batch: Option<(Vec<ArrayRef>, usize)>,
    row: u64,
}

/// The form in which a column is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ColumnForm {
    Text,
    Boolean,
    Integer,
    Unsigned,
    Real,
    Decimal,
    Date,
    LocalTime,
    Instant,
}

impl ColumnForm {
    /// Returns the form of a type, if there is one.
    fn from_type(kind: &DataType) -> Option<Self> {
        Some(match kind {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::Text,
            DataType::Dictionary(_, value) => return Self::from_type(value).filter(|form| *form == Self::Text),
            DataType::Boolean => Self::Boolean,
            DataType::UInt64 => Self::Unsigned,
            kind if kind.is_integer() => Self::Integer,
            DataType::Float16 | DataType::Float32 | DataType::Float64 => Self::Real,
            DataType::Decimal128(_, _) => Self::Decimal,
            DataType::Date32 | DataType::Date64 => Self::Date,
            DataType::Timestamp(_, None) => Self::LocalTime,
            DataType::Timestamp(_, Some(_)) => Self::Instant,
            _ => return None,
        })
    }

    /// Returns the type to which an array of this form is converted.
    fn to_type(self, kind: &DataType) -> DataType {
        match self {
            Self::Text => DataType::LargeUtf8,
            Self::Boolean => DataType::Boolean,
            Self::Integer => DataType::Int64,
            Self::Unsigned => DataType::UInt64,
            Self::Real => DataType::Float64,
            Self::Decimal => kind.clone(),
            Self::Date => DataType::Date32,
            Self::LocalTime => DataType::Timestamp(TimeUnit::Second, None),
            Self::Instant => DataType::Timestamp(TimeUnit::Second, Some("UTC".into())),
        }
    }

    /// Returns whether values of this form can have a code of the kind.
    fn fits(self, kind: &ColumnKind) -> bool {
        match kind {
            ColumnKind::Boolean => matches!(self, Self::Boolean | Self::Integer | Self::Unsigned | Self::Text),
            ColumnKind::Integer { .. } | ColumnKind::Real { .. } => {
                !matches!(self, Self::Date | Self::LocalTime | Self::Instant)
            }
            ColumnKind::Category { .. } => matches!(self, Self::Boolean | Self::Integer | Self::Unsigned | Self::Text),
            ColumnKind::Key { .. } => matches!(self, Self::Integer | Self::Unsigned | Self::Text),
            ColumnKind::Text { .. } => matches!(self, Self::Text),
            ColumnKind::Date { .. } => matches!(self, Self::Date | Self::LocalTime | Self::Instant | Self::Text),
        }
    }
}

impl ParquetSource {
    /// Opens the file.
    pub(super) fn open(path: &Path, schema: &TableSchema) -> Result<Self, TableError> {
        catch_panic(|| Self::try_open(path, schema)).unwrap_or_else(|| Err(damaged(path)))
    }

    fn try_open(path: &Path, schema: &TableSchema) -> Result<Self, TableError> {
        let broken = |error: parquet::errors::ParquetError| broken(path, error.to_string());
        let file = File::open(path).map_err(|source| TableError::Input { path: path.to_path_buf(), source })?;
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(broken)?;
        let names: Vec<String> = builder.schema().fields().iter().map(|field| field.name().clone()).collect();
        let from = path.display().to_string();
        let roots = find_columns(&from, &names, schema)?;
        let mut forms = Vec::with_capacity(roots.len());
        for (index, root) in roots.iter().enumerate() {
            let found = builder.schema().field(*root).data_type();
            // A caller without units names a declared column in their place.
            let declared = index.checked_sub(1).map(|index| &schema.columns[index].kind);
            let declared = declared.or_else(|| schema.find_column(&schema.unit_column).map(|(_, kind)| kind));
            let form = ColumnForm::from_type(found).filter(|form| match declared {
                Some(kind) => form.fits(kind),
                None => matches!(form, ColumnForm::Text | ColumnForm::Integer | ColumnForm::Unsigned),
            });
            forms.push(form.ok_or_else(|| TableError::Kind {
                from: from.clone(),
                column: names[*root].clone(),
                found: found.to_string(),
                declared: declared.map_or("text or integers for units", ColumnKind::label),
            })?);
        }
        // A batch has the projected columns in the order of the file, each once.
        let mut projection = roots.clone();
        projection.sort_unstable();
        projection.dedup();
        let places = roots.iter().map(|root| projection.partition_point(|other| other < root)).collect();
        let mask = ProjectionMask::roots(builder.parquet_schema(), projection);
        let reader = builder.with_projection(mask).with_batch_size(BATCH).build().map_err(broken)?;
        Ok(Self { path: path.to_path_buf(), reader, places, forms, batch: None, row: 0 })
    }

    /// Converts the columns of a batch to the forms in which they are read.
    fn convert(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>, TableError> {
        let convert = |(place, form): (&usize, &ColumnForm)| {
            let array = batch.column(*place);
            cast(array, &form.to_type(array.data_type())).map_err(|error| broken(&self.path, error.to_string()))
        };
        self.places.iter().zip(&self.forms).map(convert).collect()
    }
}

fn broken(path: &Path, reason: String) -> TableError {
    TableError::Format { path: path.to_path_buf(), format: "Parquet", reason }
}

/// Returns the error for a file whose decoder panicked.
fn damaged(path: &Path) -> TableError {
    broken(path, "it is damaged: its metadata are impossible".to_owned())
}

/// Returns the value of a row.
fn value(array: &ArrayRef, form: ColumnForm, row: usize) -> SourceValue {
    if array.is_null(row) {
        return SourceValue::Missing;
    }
    match form {
        ColumnForm::Text => to_text(array.as_string::<i64>().value(row)),
        ColumnForm::Boolean => SourceValue::Boolean(array.as_boolean().value(row)),
        ColumnForm::Integer => SourceValue::Integer(array.as_primitive::<Int64Type>().value(row)),
        ColumnForm::Unsigned => i64::try_from(array.as_primitive::<UInt64Type>().value(row))
            .map_or(SourceValue::LargeInteger, SourceValue::Integer),
        ColumnForm::Real => SourceValue::Real(array.as_primitive::<Float64Type>().value(row)),
        ColumnForm::Decimal => to_text(&array.as_primitive::<Decimal128Type>().value_as_string(row)),
        ColumnForm::Date => SourceValue::Date(i64::from(array.as_primitive::<Date32Type>().value(row))),
        ColumnForm::LocalTime => SourceValue::LocalTime(array.as_primitive::<TimestampSecondType>().value(row)),
        ColumnForm::Instant => SourceValue::Instant(array.as_primitive::<TimestampSecondType>().value(row)),
    }
}

impl RowSource for ParquetSource {
    fn next_row(&mut self, row: &mut SourceRow) -> Result<SourceStep, TableError> {
        let (columns, index) = loop {
            match self.batch.take() {
                Some((columns, index)) if columns.first().is_some_and(|column| index < column.len()) => {
                    break (columns, index);
                }
                _ => {}
            }
            match catch_panic(|| self.reader.next()).ok_or_else(|| damaged(&self.path))? {
                None => return Ok(SourceStep::End),
                Some(Ok(batch)) => {
                    let columns = catch_panic(|| self.convert(&batch)).ok_or_else(|| damaged(&self.path))??;
                    self.batch = Some((columns, 0));
                }
                Some(Err(error)) => return Err(broken(&self.path, error.to_string())),
            }
        };
        self.row += 1;
        row.unit = SourceValue::Missing;
        row.values.clear();
        for (place, (column, form)) in columns.iter().zip(&self.forms).enumerate() {
            let value = value(column, *form, index);
            if place == 0 { row.unit = value } else { row.values.push(value) }
        }
        self.batch = Some((columns, index + 1));
        Ok(SourceStep::Row)
    }

    fn line(&self) -> u64 {
        self.row
    }
}
