//! Reads a site's query logs: CSV, JSON Lines, Parquet; row by row, from any position, in constant memory.
//!
//! A `LogSource` returns each row's mapped columns as text. It reports why a row is unusable, and continues after it.
//! [`super::prepare`] decides how to normalize a text and which rows to keep. A row longer than [`LONGEST_ROW`] is
//! skipped without being held in memory. To add a format: a variant of [`LogFormat`], its file, its line in `open`.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

mod csv;
mod json;
mod table;

/// The longest row that is read, bytes.
pub const LONGEST_ROW: usize = 1 << 20;
/// The largest count of a row: larger than any real count, and so small that no sum of counts overflows.
pub const LARGEST_COUNT: u64 = 1_000_000_000;
/// Longest excerpt of a bad row in a report, characters.
const EXCERPT: usize = 200;

/// The format of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// Comma-separated fields, or fields with a configured delimiter, with quotes where necessary (RFC 4180); UTF-8, a
    /// header first.
    Csv,
    /// As [`LogFormat::Csv`], between tabs.
    Tsv,
    /// One object per line, UTF-8.
    #[serde(rename = "jsonl")]
    JsonLines,
    /// Parquet, any compression.
    Parquet,
}

impl LogFormat {
    /// Returns the format for a file's extension.
    pub fn from_path(path: &Path) -> Option<Self> {
        let end = path.extension()?.to_str()?.to_ascii_lowercase();
        Some(match end.as_str() {
            "csv" => Self::Csv,
            "tsv" | "tab" => Self::Tsv,
            "jsonl" | "ndjson" => Self::JsonLines,
            "parquet" => Self::Parquet,
            _ => return None,
        })
    }
}

/// The meaning of a log's columns, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnMap {
    /// The query.
    pub text: String,
    /// The protected person or session: a user, a patient, a session; the unit that a job is to protect as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The number of occurrences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<String>,
    /// The label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The row's subset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subset: Option<String>,
}

impl ColumnMap {
    /// Maps the text column alone.
    pub fn text(name: &str) -> Self {
        Self { text: name.to_owned(), user: None, count: None, label: None, subset: None }
    }

    /// Returns the log's column name for each field of a [`RawRow`].
    fn names(&self) -> [Option<&str>; FIELDS] {
        [Some(&self.text), self.user.as_deref(), self.count.as_deref(), self.label.as_deref(), self.subset.as_deref()]
    }
}

/// Fields of a [`RawRow`].
const FIELDS: usize = 5;

/// The meaning of a column, and its index in a [`RawRow`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogField {
    Text,
    User,
    Count,
    Label,
    Subset,
}

/// One row's mapped columns, as text; the buffers are reused.
#[derive(Debug, Clone, Default)]
pub(super) struct RawRow {
    fields: [(bool, String); FIELDS],
}

impl RawRow {
    /// Returns the text of a column; `None` if the row has none there.
    pub(super) fn get(&self, field: LogField) -> Option<&str> {
        let (there, text) = &self.fields[field as usize];
        there.then_some(text)
    }

    fn clear(&mut self) {
        for (there, text) in &mut self.fields {
            *there = false;
            text.clear();
        }
    }

    /// Marks a field as present, and returns its buffer.
    fn buffer(&mut self, place: usize) -> &mut String {
        let (there, text) = &mut self.fields[place];
        *there = true;
        text
    }
}

/// Why a row is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RejectReason {
    /// More or fewer fields than the header.
    Fields,
    /// Not UTF-8.
    Encoding,
    /// Not one JSON object.
    Json,
    /// A value of another type than its column has, or a key that is there twice.
    Type,
    /// Without a query.
    Missing,
    /// Longer than a row may be.
    Row,
    /// A quote that does not close on its line, in a log whose rows are lines.
    Lines,
    /// The normalized query is empty.
    Empty,
    /// The query is longer than the configured limit.
    Long,
    /// The count is not a whole number, or not between 1 and [`LARGEST_COUNT`].
    Count,
    /// No user, in a log that has users.
    User,
    /// An impossible label.
    Label,
}

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fields => "with more or fewer fields than the header",
            Self::Encoding => "not UTF-8",
            Self::Json => "not one JSON object",
            Self::Type => "with a value of another type, or a key twice",
            Self::Missing => "without a query",
            Self::Row => "longer than 1 MiB (a quote that does not close?)",
            Self::Lines => "whose quotes do not close on their line",
            Self::Empty => "whose query is empty once normalized",
            Self::Long => "with a longer query than asked for",
            Self::Count => "with a count that is not 1 to 1000000000",
            Self::User => "without a user",
            Self::Label => "with an impossible label",
        })
    }
}

/// The result of reading one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NextRow {
    /// A row, stored in the [`RawRow`].
    Row,
    /// An unusable row, with its beginning.
    Bad(RejectReason, String),
    /// The end of the log.
    End,
}

/// A position in a log, from which another process can continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct LogPosition {
    /// Bytes before the position, or rows for Parquet.
    pub(super) at: u64,
    /// The next line, or the next row, from 0.
    pub(super) line: u64,
}

/// A log that is being read.
pub(super) trait LogSource {
    /// Reads the next row into `raw`.
    fn next(&mut self, raw: &mut RawRow) -> Result<NextRow, LogError>;

    /// Returns the position of the next row.
    fn place(&self) -> LogPosition;

    /// Returns the beginning of the last row: its line, or its row, from 1.
    fn line(&self) -> u64;

    /// Returns the approximate number of bytes that are read, for progress.
    fn bytes_read(&self) -> u64;
}

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file system refused.
    #[error("cannot read the log {path}: check --queries")]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// The file's extension names no format.
    #[error("{0}: its name does not end in .csv, .tsv, .jsonl, .ndjson or .parquet: set --format")]
    Format(PathBuf),
    /// There is no such column.
    #[error("{path} has no column {asked:?}: it has {}; set {option}", there.join(", "))]
    Column {
        /// The file.
        path: PathBuf,
        /// The requested column.
        asked: String,
        /// The option with the request.
        option: &'static str,
        /// The existing columns.
        there: Vec<String>,
    },
    /// A column that occurs twice, or has an unsuitable type.
    #[error("{path}, column {column:?}: {reason}")]
    Strange {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
        /// The fault.
        reason: String,
    },
    /// The content does not match the format.
    #[error("{path} cannot be read as {what}: {reason}")]
    Broken {
        /// The file.
        path: PathBuf,
        /// The expected format.
        what: &'static str,
        /// The evidence.
        reason: String,
    },
}

impl LogError {
    fn refused(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.to_path_buf(), source }
    }

    pub(super) fn io(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::refused(path, source)
    }
}

/// Options for reading logs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadOptions {
    /// The format, if the files' names do not determine it.
    pub format: Option<LogFormat>,
    /// The delimiter of CSV, if it is not the format's own.
    pub delimiter: Option<u8>,
    /// The names of the columns of CSV without a header.
    pub header: Option<Vec<String>>,
    /// The meaning of the columns.
    pub columns: ColumnMap,
    /// Whether a row of CSV is one line. Otherwise a quote that does not close includes the following lines, of any
    /// user, up to the next quote.
    #[serde(default)]
    pub rows_are_lines: bool,
}

impl ReadOptions {
    /// Takes the formats from the files' names, with headers; rows of CSV may span several lines.
    pub fn new(columns: ColumnMap) -> Self {
        Self { format: None, delimiter: None, header: None, columns, rows_are_lines: false }
    }

    /// Returns the format of a file.
    ///
    /// # Errors
    /// [`LogError::Format`] if neither its name nor an option determines it.
    pub fn format_of(&self, path: &Path) -> Result<LogFormat, LogError> {
        self.format.or_else(|| LogFormat::from_path(path)).ok_or_else(|| LogError::Format(path.to_path_buf()))
    }
}

/// Opens a log at `place`, and checks that it has the columns.
pub(super) fn open(path: &Path, reading: &ReadOptions, place: LogPosition) -> Result<Box<dyn LogSource>, LogError> {
    let delimiter = |usual| reading.delimiter.unwrap_or(usual);
    Ok(match reading.format_of(path)? {
        LogFormat::Csv => Box::new(csv::CsvLog::open(path, reading, delimiter(b','), place)?),
        LogFormat::Tsv => Box::new(csv::CsvLog::open(path, reading, delimiter(b'\t'), place)?),
        LogFormat::JsonLines => Box::new(json::JsonLines::open(path, &reading.columns, place)?),
        LogFormat::Parquet => Box::new(table::ParquetLog::open(path, &reading.columns, place)?),
    })
}

/// Maps the columns: returns the index of the existing column for each field of a [`RawRow`].
fn find(path: &Path, there: &[String], columns: &ColumnMap) -> Result<[Option<usize>; FIELDS], LogError> {
    const OPTIONS: [&str; FIELDS] =
        ["--text-column", "--user-column", "--count-column", "--label-column", "--subset-column"];
    let mut places = [None; FIELDS];
    for ((place, asked), option) in places.iter_mut().zip(columns.names()).zip(OPTIONS) {
        let Some(name) = asked else { continue };
        let mut matches = there.iter().enumerate().filter(|(_, column)| *column == name).map(|(at, _)| at);
        *place = matches.next();
        if place.is_none() {
            let path = path.to_path_buf();
            let asked = name.to_owned();
            let there = there.to_vec();
            return Err(LogError::Column { path, asked, option, there });
        }
        if matches.next().is_some() {
            let reason = "there are two of this name: rename one".to_owned();
            return Err(LogError::Strange { path: path.to_path_buf(), column: name.to_owned(), reason });
        }
    }
    Ok(places)
}

/// Returns the beginning of a row, for a report.
pub(super) fn excerpt(row: &[u8]) -> String {
    let head = &row[..row.len().min(4 * EXCERPT)];
    let text = String::from_utf8_lossy(head);
    text.trim_end_matches(['\r', '\n']).chars().take(EXCERPT).collect()
}

#[cfg(test)]
mod tests;
