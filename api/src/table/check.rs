//! The limits of a schema, checked where a table is declared and where it is registered.

use std::collections::HashSet;

use super::{ColumnKind, LONGEST_KEY, TableColumn, TableSchema};
use crate::problem::Violation;

/// The most columns of a table.
pub const MOST_COLUMNS: usize = 256;
/// The most declared values of a column of categories.
pub const MOST_CATEGORIES: usize = 1_000;
/// The most n-grams that all texts of a row have together.
pub const MOST_GRAMS: usize = 1_000;
/// The longest name of a column, in bytes.
pub const LONGEST_NAME: usize = 64;
/// The longest declared value, in bytes.
pub const LONGEST_CATEGORY: usize = 200;
/// The greatest absolute code: integers up to it are exact in 64-bit floating point.
pub const MOST_CODE: i64 = 1 << 52;

impl TableSchema {
    /// Returns every violation of the limits, with field paths that begin with `path`.
    pub fn check(&self, path: &str) -> Vec<Violation> {
        let mut violations = Vec::new();
        let mut say = |field: String, text: String| violations.push(Violation::new(format!("{path}.{field}"), text));
        if !(1..=MOST_COLUMNS).contains(&self.columns.len()) {
            say("columns".to_owned(), format!("1 to {MOST_COLUMNS} columns, not {}", self.columns.len()));
        }
        if !is_name(&self.unit_column) {
            say("unit_column".to_owned(), describe_name());
        }
        let mut names = HashSet::from([self.unit_column.as_str()]);
        for (index, column) in self.columns.iter().enumerate() {
            if !is_name(&column.name) {
                say(format!("columns.{index}.name"), describe_name());
            }
            if !names.insert(&column.name) {
                say(
                    format!("columns.{index}.name"),
                    "each column, and the column of units, has its own name".to_owned(),
                );
            }
            if let Some((field, text)) = column.find_problem() {
                say(format!("columns.{index}.{field}"), text);
            }
        }
        if self.encoder.as_deref().is_some_and(|digest| !is_sha256(digest)) {
            say("encoder".to_owned(), "the digest of an encoder: 64 lower-case hexadecimal digits".to_owned());
        }
        let texts = self.columns.iter().filter(|column| matches!(column.kind, ColumnKind::Text { .. }));
        let grams: usize = texts.map(|column| column.kind.code_count().min(MOST_GRAMS)).sum();
        if grams > MOST_GRAMS {
            say("columns".to_owned(), format!("texts with at most {MOST_GRAMS} n-grams together, not {grams}"));
        }
        violations
    }
}

impl TableColumn {
    /// Returns the field and the message of the first violation.
    pub(crate) fn find_problem(&self) -> Option<(&'static str, String)> {
        match &self.kind {
            ColumnKind::Boolean => None,
            ColumnKind::Integer { least, most } => {
                let is_valid = least < most && *least >= -MOST_CODE && *most <= MOST_CODE;
                (!is_valid).then(|| ("least", "`least` below `most`, both within ±2^52".to_owned()))
            }
            ColumnKind::Real { least, most, step } => {
                let is_finite = least.is_finite() && most.is_finite() && step.is_finite();
                if !is_finite || least >= most {
                    return Some(("least", "finite numbers with `least` below `most`".to_owned()));
                }
                let steps = least.abs().max(most.abs()) / step;
                let is_valid =
                    *step > 0.0 && steps <= MOST_CODE as f64 && self.kind.code_range().0 < self.kind.code_range().1;
                (!is_valid).then(|| {
                    ("step", "greater than 0, at most the width of the range, and at least 2^-52 of it".to_owned())
                })
            }
            ColumnKind::Category { values } => check_values(values),
            ColumnKind::Date { first, last } => {
                (first >= last).then(|| ("first", "`first` must be before `last`".to_owned()))
            }
            ColumnKind::Key { longest } => {
                (!(1..=LONGEST_KEY).contains(longest)).then(|| ("longest", format!("1 to {LONGEST_KEY} symbols")))
            }
            ColumnKind::Text { .. } => {
                let is_valid = (1..=MOST_GRAMS).contains(&self.kind.code_count());
                (!is_valid).then(|| ("most_grams", format!("1 to {MOST_GRAMS}")))
            }
        }
    }
}

fn check_values(values: &[String]) -> Option<(&'static str, String)> {
    if !(1..=MOST_CATEGORIES).contains(&values.len()) {
        return Some(("values", format!("1 to {MOST_CATEGORIES} values, not {}", values.len())));
    }
    if values.iter().any(|value| value.is_empty() || value.len() > LONGEST_CATEGORY) {
        return Some(("values", format!("each value has 1 to {LONGEST_CATEGORY} bytes")));
    }
    let unique: HashSet<&String> = values.iter().collect();
    (unique.len() < values.len()).then(|| ("values", "each value is declared once".to_owned()))
}

fn is_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase();
    name.len() <= LONGEST_NAME
        && name.bytes().next().is_some_and(is_letter)
        && name.bytes().all(|byte| is_letter(byte) || byte.is_ascii_digit() || byte == b'_')
}

fn is_sha256(digest: &str) -> bool {
    digest.len() == 64 && digest.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn describe_name() -> String {
    format!("1 to {LONGEST_NAME} lower-case letters, digits and underscores, beginning with a letter")
}
