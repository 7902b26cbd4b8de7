//! The rows that cannot be used: they are left out, counted by reason, and never leave the site.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The most places that are listed for a reason.
const MOST_PLACES: usize = 10;

/// The reason why a row is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RejectReason {
    /// The row has no unit.
    NoUnit,
    /// The id of the unit is longer than [`LONGEST_UNIT`](crate::value::LONGEST_UNIT).
    LongUnit,
    /// The row is longer than [`LONGEST_ROW`](crate::source::LONGEST_ROW).
    LongRow,
    /// A text is longer than any value of its column may be.
    LongText,
    /// The row has another number of fields than the header.
    Fields,
    /// A quote of the row does not close on its line.
    Quotes,
    /// A text is not UTF-8.
    Encoding,
    /// A value is no boolean.
    Boolean,
    /// A value is no integer of 64 bits.
    Integer,
    /// A value is no number, or is NaN or infinite.
    Real,
    /// A value is no date of the years 1 to 9999.
    Date,
    /// A time names a zone, and no zone is declared for its dates.
    Zone,
    /// The row lacks an input of the encoder.
    NoInput,
    /// The path of a file leaves the folder of the inputs.
    InputPath,
    /// The file of an input is missing, damaged or beyond a limit.
    InputFile,
    /// The graph of the encoder cannot be run on the input.
    EncoderGraph,
    /// A number that the encoder computed is NaN or infinite.
    EncoderOutput,
}

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoUnit => "without a unit",
            Self::LongUnit => "with a unit's id that is too long",
            Self::LongRow => "that are too long",
            Self::LongText => "with a text that is too long",
            Self::Fields => "with another number of fields than the header",
            Self::Quotes => "with a quote that does not close on its line",
            Self::Encoding => "with text that is not UTF-8",
            Self::Boolean => "with a value that is no boolean",
            Self::Integer => "with a value that is no integer of 64 bits",
            Self::Real => "with a value that is no finite number",
            Self::Date => "with a value that is no date",
            Self::Zone => "with a time in a zone, and no --zone",
            Self::NoInput => "without an input of the encoder",
            Self::InputPath => "with a path that leaves --folder",
            Self::InputFile => "with a file that is missing, damaged or too large",
            Self::EncoderGraph => "with an input that the graph refuses",
            Self::EncoderOutput => "with encoded numbers that are not finite",
        })
    }
}

/// A row that was left out: its place and its column, and no value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RejectedRow {
    /// The number of its source, from 0.
    pub source: usize,
    /// Its line or row there, from 1.
    pub line: u64,
    /// The column with the fault; absent if the row as a whole has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<String>,
}

/// The rows that were left out for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RejectedRows {
    /// Their number.
    pub rows: u64,
    /// The places of the first of them.
    pub first: Vec<RejectedRow>,
}

/// The counts of an addition, for the site only.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Quarantine {
    /// All rows of the sources.
    pub read: u64,
    /// The rows that were left out.
    pub rejected: BTreeMap<RejectReason, RejectedRows>,
    /// Texts outside the declared values of a column, which count as missing, by column.
    pub undeclared: BTreeMap<String, u64>,
}

impl Quarantine {
    /// Counts a row that is left out.
    pub fn reject(&mut self, reason: RejectReason, row: RejectedRow) {
        let entry = self.rejected.entry(reason).or_default();
        entry.rows += 1;
        if entry.first.len() < MOST_PLACES {
            entry.first.push(row);
        }
    }

    /// Counts a text that its column does not declare.
    pub fn note_undeclared(&mut self, column: &str) {
        match self.undeclared.get_mut(column) {
            Some(count) => *count += 1,
            None => {
                self.undeclared.insert(column.to_owned(), 1);
            }
        }
    }

    /// Returns the number of rows that were left out.
    pub fn rejected_rows(&self) -> u64 {
        self.rejected.values().map(|rows| rows.rows).sum()
    }

    /// Returns the number of rows that were left out, with their reasons, as text: `none`, or `3 (2 no unit, 1 no date)`.
    pub fn summary(&self) -> String {
        let parts: Vec<String> = self.rejected.iter().map(|(reason, rows)| format!("{} {reason}", rows.rows)).collect();
        if parts.is_empty() { "none".to_owned() } else { format!("{} ({})", self.rejected_rows(), parts.join(", ")) }
    }
}
