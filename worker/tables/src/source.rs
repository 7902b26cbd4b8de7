//! Sources of rows: CSV, Parquet and PostgreSQL.
//!
//! A source reads the declared columns only, in bounded memory, and row by row: a fault of one row rejects that row and
//! changes no other. To add a source: a module with a type that implements [`RowSource`], and its line in
//! [`SourceOptions`] and [`open_source`].

use std::path::PathBuf;

use undertone_api::table::TableSchema;

use crate::error::TableError;
use crate::quarantine::RejectReason;
use crate::value::{LONGEST_UNIT, SourceValue};

mod csv;
mod parquet;
pub mod postgres;

use postgres::PostgresOptions;

/// The longest row of CSV, bytes.
pub const LONGEST_ROW: usize = 1 << 20;

/// A row of a source: the value of the unit, and those of the declared columns in their order.
#[derive(Debug, Clone, Default)]
pub struct SourceRow {
    /// The unit.
    pub unit: SourceValue,
    /// The values.
    pub values: Vec<SourceValue>,
}

/// The outcome of a step through a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceStep {
    /// A row was read.
    Row,
    /// A row that cannot be used.
    Rejected(RejectReason),
    /// There are no more rows.
    End,
}

/// Reads the rows of one source. After an error there are no more rows.
pub trait RowSource {
    /// Reads the next row into `row`.
    ///
    /// # Errors
    /// [`TableError`] when the source fails as a whole.
    fn next_row(&mut self, row: &mut SourceRow) -> Result<SourceStep, TableError>;

    /// Returns the line or row of the last step, from 1.
    fn line(&self) -> u64;
}

/// The format of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// Values separated by a character, with a header; each row is one line.
    Csv {
        /// The character.
        delimiter: u8,
    },
    /// Parquet.
    Parquet,
}

/// The sources of a table.
#[derive(Debug, Clone)]
pub enum SourceOptions {
    /// Files, one after another.
    Files {
        /// Their paths.
        paths: Vec<PathBuf>,
        /// Their format; by the ending of each file if absent.
        format: Option<FileFormat>,
    },
    /// A query or a view of PostgreSQL.
    Postgres(Box<PostgresOptions>),
}

impl SourceOptions {
    /// Returns the number of sources.
    pub fn count(&self) -> usize {
        match self {
            Self::Files { paths, .. } => paths.len(),
            Self::Postgres(_) => 1,
        }
    }
}

/// Opens source number `index`.
///
/// # Errors
/// [`TableError`] when it cannot be opened, or lacks a declared column.
pub fn open_source(
    options: &SourceOptions,
    index: usize,
    schema: &TableSchema,
) -> Result<Box<dyn RowSource>, TableError> {
    match options {
        SourceOptions::Files { paths, format } => {
            let path = &paths[index];
            let ending = path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
            let by_ending = match ending.as_deref() {
                Some("csv") => Some(FileFormat::Csv { delimiter: b',' }),
                Some("tsv") => Some(FileFormat::Csv { delimiter: b'\t' }),
                Some("parquet") => Some(FileFormat::Parquet),
                _ => None,
            };
            match format.or(by_ending).ok_or_else(|| TableError::Ending(path.clone()))? {
                FileFormat::Csv { delimiter } => Ok(Box::new(csv::CsvSource::open(path, delimiter, schema)?)),
                FileFormat::Parquet => Ok(Box::new(parquet::ParquetSource::open(path, schema)?)),
            }
        }
        SourceOptions::Postgres(options) => Ok(Box::new(postgres::PostgresSource::open(options, schema)?)),
    }
}

/// Returns the names of the columns that a source must have: that of the units first.
fn list_columns(schema: &TableSchema) -> impl Iterator<Item = &str> {
    std::iter::once(schema.unit_column.as_str()).chain(schema.columns.iter().map(|column| column.name.as_str()))
}

/// Returns the places of the declared columns among the names of a source, as [`list_columns`] lists them. Names are
/// compared without regard to upper and lower case, because databases do so.
///
/// # Errors
/// [`TableError::Column`] for a missing column, [`TableError::Twice`] for one that is there twice.
fn find_columns(from: &str, names: &[String], schema: &TableSchema) -> Result<Vec<usize>, TableError> {
    list_columns(schema)
        .map(|column| {
            let mut places = names.iter().enumerate().filter(|(_, name)| name.eq_ignore_ascii_case(column));
            let missing = || TableError::Column { from: from.to_owned(), column: column.to_owned() };
            let (place, _) = places.next().ok_or_else(missing)?;
            match places.next() {
                None => Ok(place),
                Some(_) => Err(TableError::Twice { from: from.to_owned(), column: column.to_owned() }),
            }
        })
        .collect()
}

/// Returns a text of a source, if it is not longer than any value may be.
fn to_text(text: &str) -> SourceValue {
    if text.len() > LONGEST_UNIT { SourceValue::LongText } else { SourceValue::Text(text.to_owned()) }
}

#[cfg(test)]
mod tests;
