//! Reads a site's query logs as they are: CSV, JSON Lines, Parquet; row by row, from any place, in constant memory.
//!
//! A `Source` gives each row's mapped columns as text, says of a row that cannot be one why not, and goes on behind it. What
//! a text becomes, and which rows are kept, is [`super::prepare`]'s to decide. A row longer than [`LONGEST_ROW`] is passed
//! over without being held. To add a format: a variant of [`Format`], its file, its line in `open`.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

mod csv;
mod json;
mod table;

/// The longest row that is read, bytes.
pub const LONGEST_ROW: usize = 1 << 20;
/// The largest count of a row. So large that nobody meets it, so small that no sum of counts overflows.
pub const LARGEST_COUNT: u64 = 1_000_000_000;
/// As much of a bad row as a report shows, characters.
const EXCERPT: usize = 200;

/// How a log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Fields between commas, or what is named instead, with quotes where they are needed (RFC 4180); UTF-8, a header first.
    Csv,
    /// As [`Format::Csv`], between tabs.
    Tsv,
    /// An object a line, UTF-8.
    #[serde(rename = "jsonl")]
    JsonLines,
    /// Parquet, any compression.
    Parquet,
}

impl Format {
    /// What the end of a file's name says.
    pub fn of(path: &Path) -> Option<Self> {
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

/// Which columns of a log mean what, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Columns {
    /// The query.
    pub text: String,
    /// Whose it is: a user, a patient, a session; whoever a job is to protect as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// How often it occurred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<String>,
    /// Its label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The subset it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subset: Option<String>,
}

impl Columns {
    /// The text alone.
    pub fn text(name: &str) -> Self {
        Self { text: name.to_owned(), user: None, count: None, label: None, subset: None }
    }

    /// What each place of a [`Raw`] is called in the log.
    fn names(&self) -> [Option<&str>; FIELDS] {
        [Some(&self.text), self.user.as_deref(), self.count.as_deref(), self.label.as_deref(), self.subset.as_deref()]
    }
}

/// Places of a [`Raw`].
const FIELDS: usize = 5;

/// What a column means, and its place in a [`Raw`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Text,
    User,
    Count,
    Label,
    Subset,
}

/// One row's mapped columns, as text; the room is used again and again.
#[derive(Debug, Clone, Default)]
pub(super) struct Raw {
    fields: [(bool, String); FIELDS],
}

impl Raw {
    /// The text of a column; `None` where the row has none there.
    pub(super) fn get(&self, field: Field) -> Option<&str> {
        let (there, text) = &self.fields[field as usize];
        there.then_some(text)
    }

    fn clear(&mut self) {
        for (there, text) in &mut self.fields {
            *there = false;
            text.clear();
        }
    }

    /// The room of a place, which is then there.
    fn room(&mut self, place: usize) -> &mut String {
        let (there, text) = &mut self.fields[place];
        *there = true;
        text
    }
}

/// Why a row is passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// More or fewer fields than the header.
    Fields,
    /// Not UTF-8.
    Encoding,
    /// Not one JSON object.
    Json,
    /// A value of another type than its column has, or a key that is there twice.
    Type,
    /// No query.
    Missing,
    /// Longer than a row may be.
    Row,
    /// A quote that does not close on its line, in a log whose rows are lines.
    Lines,
    /// Nothing is left of the query once it is normalized.
    Empty,
    /// The query is longer than asked for.
    Long,
    /// A count that is no whole number, or not between 1 and [`LARGEST_COUNT`].
    Count,
    /// No user, in a log that has users.
    User,
    /// A label that cannot be one.
    Label,
}

impl fmt::Display for Reason {
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

/// What a source came upon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    /// A row: it is in the [`Raw`].
    Row,
    /// A row that cannot be one, and how it begins.
    Bad(Reason, String),
    /// The end of the log.
    End,
}

/// How far a source is; what follows can be read from here in another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Place {
    /// Bytes before it, or rows for Parquet.
    pub(super) at: u64,
    /// The line, or the row, that comes next, from 0.
    pub(super) line: u64,
}

/// A log that is being read.
pub(super) trait Source {
    /// Reads the next row into `raw`.
    fn next(&mut self, raw: &mut Raw) -> Result<Next, LogError>;

    /// Where the next row is.
    fn place(&self) -> Place;

    /// Where the row that was just given began: its line, or its row, from 1.
    fn line(&self) -> u64;

    /// How much of the file lies behind, bytes; roughly, for progress.
    fn done(&self) -> u64;
}

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file system refused.
    #[error("cannot read the log {path}: check --queries")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Its name says nothing.
    #[error("{0}: its name does not end in .csv, .tsv, .jsonl, .ndjson or .parquet: say what it is with --format")]
    Format(PathBuf),
    /// There is no such column.
    #[error("{path} has no column {asked:?}: it has {}; say which is which with {option}", there.join(", "))]
    Column {
        /// The file.
        path: PathBuf,
        /// The one asked for.
        asked: String,
        /// The option that asked.
        option: &'static str,
        /// Those there are.
        there: Vec<String>,
    },
    /// A column twice, or of a type that cannot be what it should.
    #[error("{path}, column {column:?}: {reason}")]
    Strange {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
        /// What is wrong.
        reason: String,
    },
    /// It is not what its name says.
    #[error("{path} cannot be read as {what}: {reason}")]
    Broken {
        /// The file.
        path: PathBuf,
        /// What it should be.
        what: &'static str,
        /// What gave it away.
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

/// How logs are read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// Their format, where their names do not say it.
    pub format: Option<Format>,
    /// What stands between fields of CSV, where it is not the format's own.
    pub delimiter: Option<u8>,
    /// The names of the columns of CSV without a header.
    pub header: Option<Vec<String>>,
    /// Which columns mean what.
    pub columns: Columns,
    /// Whether a row of CSV is a line. Otherwise a quote that does not close takes in the lines that follow, whosever they are,
    /// up to the next quote.
    #[serde(default)]
    pub rows_are_lines: bool,
}

impl Reading {
    /// By the files' names, with headers; rows of CSV may have several lines.
    pub fn new(columns: Columns) -> Self {
        Self { format: None, delimiter: None, header: None, columns, rows_are_lines: false }
    }

    /// The format of a file.
    ///
    /// # Errors
    /// [`LogError::Format`] if neither its name nor an option says it.
    pub fn format_of(&self, path: &Path) -> Result<Format, LogError> {
        self.format.or_else(|| Format::of(path)).ok_or_else(|| LogError::Format(path.to_path_buf()))
    }
}

/// Opens a log at `place`; looks whether it has the columns.
pub(super) fn open(path: &Path, reading: &Reading, place: Place) -> Result<Box<dyn Source>, LogError> {
    let delimiter = |usual| reading.delimiter.unwrap_or(usual);
    Ok(match reading.format_of(path)? {
        Format::Csv => Box::new(csv::Csv::open(path, reading, delimiter(b','), place)?),
        Format::Tsv => Box::new(csv::Csv::open(path, reading, delimiter(b'\t'), place)?),
        Format::JsonLines => Box::new(json::JsonLines::open(path, &reading.columns, place)?),
        Format::Parquet => Box::new(table::Table::open(path, &reading.columns, place)?),
    })
}

/// Finds the mapped columns among those there are: for each place of a [`Raw`], which of them.
fn find(path: &Path, there: &[String], columns: &Columns) -> Result<[Option<usize>; FIELDS], LogError> {
    const OPTIONS: [&str; FIELDS] =
        ["--text-column", "--user-column", "--count-column", "--label-column", "--subset-column"];
    let mut places = [None; FIELDS];
    for ((place, asked), option) in places.iter_mut().zip(columns.names()).zip(OPTIONS) {
        let Some(asked) = asked else { continue };
        let mut found = there.iter().enumerate().filter(|(_, name)| *name == asked).map(|(at, _)| at);
        *place = found.next();
        if place.is_none() {
            let (path, asked, there) = (path.to_path_buf(), asked.to_owned(), there.to_vec());
            return Err(LogError::Column { path, asked, option, there });
        }
        if found.next().is_some() {
            let reason = "there are two of this name: rename one".to_owned();
            return Err(LogError::Strange { path: path.to_path_buf(), column: asked.to_owned(), reason });
        }
    }
    Ok(places)
}

/// How a row begins, for a report.
pub(super) fn excerpt(row: &[u8]) -> String {
    let head = &row[..row.len().min(4 * EXCERPT)];
    let text = String::from_utf8_lossy(head);
    text.trim_end_matches(['\r', '\n']).chars().take(EXCERPT).collect()
}

#[cfg(test)]
mod tests;
