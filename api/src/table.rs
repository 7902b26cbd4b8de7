//! The schema of a table of rows: the facts about it that its steward declares and that are public.
//!
//! A schema is never computed from the rows. Every column has a range or a list of values, and every value of a row has
//! an integer **code** in that range ([`ColumnKind`]): a query compares, groups and adds codes, so that its result is
//! exact and does not depend on the order of rows.
//!
//! | kind | code |
//! |---|---|
//! | boolean | 0 or 1 |
//! | integer | the value, clamped to the range |
//! | real | the nearest multiple of the step, in steps, clamped to the range |
//! | category | the position of the value in the declared list; a value outside the list is missing |
//! | date | days since 1970-01-01, clamped to the range |
//! | key | its symbols as digits ([`keys`]); a text that is no key is missing |
//! | text | several: the hashes of its first n-grams ([`grams`]), with none in the remaining places |
//!
//! A missing value has no code.

mod check;
mod date;
pub mod grams;
pub mod keys;

use std::ops::Range;

use serde::{Deserialize, Serialize};

pub use check::{LONGEST_CATEGORY, LONGEST_NAME, MOST_CATEGORIES, MOST_CODE, MOST_COLUMNS, MOST_GRAMS};
pub use date::{CalendarDate, DateError};
pub use keys::LONGEST_KEY;

/// The kind of a column's values, with their public range.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum ColumnKind {
    /// True or false.
    Boolean,
    /// Integers of a range.
    Integer {
        /// The least value.
        least: i64,
        /// The greatest value.
        most: i64,
    },
    /// Real numbers of a range, rounded to a grid.
    Real {
        /// The least value.
        least: f64,
        /// The greatest value.
        most: f64,
        /// The step of the grid: values are rounded to its multiples.
        step: f64,
    },
    /// One of several texts.
    Category {
        /// The texts, each once. Their order is the order of the groups.
        values: Vec<String>,
    },
    /// Calendar dates of a range, without times.
    Date {
        /// The first date.
        first: CalendarDate,
        /// The last date.
        last: CalendarDate,
    },
    /// Short keys whose values are not declared, such as codes of diagnoses: letters of A to Z, digits, `.-_/+:#`, and
    /// blanks between them. For groups that a job chooses privately.
    Key {
        /// The most symbols of a key: 1 to 9. A longer text counts as missing.
        #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 9))]
        longest: u32,
    },
    /// Free texts, of which a table keeps hashed n-grams. For models of rows alone.
    Text {
        /// The most n-grams of a text that are kept, the first ones: 1 to 1,000.
        #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1000))]
        most_grams: u32,
        /// Whether runs of 3 to 5 characters are n-grams, in addition to words and pairs of neighbouring words.
        #[serde(default)]
        characters: bool,
    },
}

impl ColumnKind {
    /// Returns the least and the greatest code.
    pub fn code_range(&self) -> (i64, i64) {
        match self {
            Self::Boolean => (0, 1),
            Self::Integer { least, most } => (*least, *most),
            Self::Real { least, most, step } => (to_steps(*least, *step), to_steps(*most, *step)),
            Self::Category { values } => (0, values.len() as i64 - 1),
            Self::Date { first, last } => (first.days(), last.days()),
            Self::Key { longest } => (0, keys::count_codes(*longest) - 1),
            Self::Text { .. } => (0, MOST_CODE - 1),
        }
    }

    /// Returns the number of codes of a value: the most n-grams of a text, else 1.
    pub const fn code_count(&self) -> usize {
        match self {
            Self::Text { most_grams, .. } => *most_grams as usize,
            _ => 1,
        }
    }

    /// Returns the value of one step of the code: the step of a real column, else 1.
    pub const fn step(&self) -> f64 {
        match self {
            Self::Real { step, .. } => *step,
            _ => 1.0,
        }
    }

    /// Returns the name of the kind.
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Boolean => "boolean",
            Self::Integer { .. } => "integer",
            Self::Real { .. } => "real",
            Self::Category { .. } => "category",
            Self::Date { .. } => "date",
            Self::Key { .. } => "key",
            Self::Text { .. } => "text",
        }
    }

    /// Returns whether values can be added: booleans (as 0 and 1), integers and reals.
    pub const fn is_number(&self) -> bool {
        matches!(self, Self::Boolean | Self::Integer { .. } | Self::Real { .. })
    }

    /// Returns the code of a real number; `None` for NaN and for other kinds.
    pub fn encode_real(&self, value: f64) -> Option<i64> {
        let Self::Real { step, .. } = self else { return None };
        let (least, most) = self.code_range();
        (!value.is_nan()).then(|| to_steps(value, *step).clamp(least, most))
    }

    /// Returns the code of an integer; `None` for other kinds.
    pub fn encode_integer(&self, value: i64) -> Option<i64> {
        let (least, most) = self.code_range();
        matches!(self, Self::Integer { .. }).then(|| value.clamp(least, most))
    }

    /// Returns the code of a date; `None` for other kinds.
    pub fn encode_date(&self, date: CalendarDate) -> Option<i64> {
        let (least, most) = self.code_range();
        matches!(self, Self::Date { .. }).then(|| date.days().clamp(least, most))
    }

    /// Returns the code of a category; `None` for a text that is not declared and for other kinds.
    pub fn encode_category(&self, text: &str) -> Option<i64> {
        let Self::Category { values } = self else { return None };
        values.iter().position(|value| value == text).map(|position| position as i64)
    }

    /// Returns the code of a key; `None` for a text that is none and for other kinds.
    pub fn encode_key(&self, text: &str) -> Option<i64> {
        let Self::Key { longest } = self else { return None };
        keys::encode_key(text, *longest)
    }

    /// Returns whether a code is that of a key; false for other kinds.
    #[inline]
    pub fn is_key(&self, code: i64) -> bool {
        matches!(self, Self::Key { longest } if keys::is_key(code, *longest))
    }

    /// Returns the codes of the first n-grams of a text, at most [`Self::code_count`]; empty for other kinds.
    pub fn encode_text(&self, text: &str) -> Vec<i64> {
        let Self::Text { most_grams, characters } = self else { return Vec::new() };
        grams::encode_grams(text, *most_grams as usize, *characters)
    }

    /// Returns the value of a code as text, for display.
    pub fn display_code(&self, code: i64) -> String {
        match self {
            Self::Boolean => (code != 0).to_string(),
            Self::Integer { .. } | Self::Text { .. } => code.to_string(),
            Self::Real { step, .. } => display_number(code as f64 * step),
            Self::Category { values } => {
                usize::try_from(code).ok().and_then(|place| values.get(place)).cloned().unwrap_or_default()
            }
            Self::Key { longest } => keys::decode_key(code, *longest).unwrap_or_default(),
            Self::Date { .. } => {
                CalendarDate::from_days(code).map_or_else(|_| code.to_string(), |date| date.to_string())
            }
        }
    }
}

/// Returns a number without the digits that binary fractions add: 0.30000000000000004 is displayed as 0.3.
fn display_number(value: f64) -> String {
    let digits = format!("{value:.12}");
    digits.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Returns the nearest number of steps, within ±[`MOST_CODE`].
fn to_steps(value: f64, step: f64) -> i64 {
    let most = MOST_CODE as f64;
    libm::round(value / step).clamp(-most, most) as i64
}

/// A column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TableColumn {
    /// The name: lower-case letters, digits and underscores, beginning with a letter.
    pub name: String,
    /// The kind of its values.
    #[serde(flatten)]
    pub kind: ColumnKind,
}

/// The public facts about a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct TableSchema {
    /// The name of the column with the protected units (patients, persons). Its values stay at the site; a query can
    /// name it in `count(DISTINCT ...)`, not elsewhere.
    pub unit_column: String,
    /// The columns that queries can name: 1 to 256.
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 256))]
    pub columns: Vec<TableColumn>,
    /// The digest of the frozen encoder that computed columns of this table: 64 lower-case hexadecimal digits. Absent for a
    /// table without encoded columns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 64, max_length = 64))]
    pub encoder: Option<String>,
}

impl TableSchema {
    /// Returns the position and the kind of a column.
    pub fn find_column(&self, name: &str) -> Option<(usize, &ColumnKind)> {
        let position = self.columns.iter().position(|column| column.name == name)?;
        Some((position, &self.columns[position].kind))
    }

    /// Returns the number of codes of a row.
    pub fn code_count(&self) -> usize {
        self.columns.iter().map(|column| column.kind.code_count()).sum()
    }

    /// Returns the positions of the codes of the column at a position.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn code_positions(&self, position: usize) -> Range<usize> {
        let count = |column: &TableColumn| column.kind.code_count();
        let start: usize = self.columns[..position].iter().map(count).sum();
        start..start + count(&self.columns[position])
    }
}

#[cfg(test)]
mod tests;
