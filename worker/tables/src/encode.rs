//! Columns that an encoder computes from other columns of the source, between the source and the codes of a row.
//!
//! [`crate::add::add_encoded`] stores the declared columns of the source, and after them the computed ones. The computed
//! numbers of a row are values of declared kinds like any others: they are clamped and rounded to their grid.

use undertone_api::table::{TableColumn, TableSchema};

use crate::quarantine::RejectReason;
use crate::value::SourceValue;

/// Computes columns of a row from that row alone.
pub trait RowEncoder {
    /// Returns the columns of the source that it reads, with a kind that their values fit.
    fn source_columns(&self) -> Vec<TableColumn>;

    /// Returns the number of columns that it computes: the last ones of the table.
    fn width(&self) -> usize;

    /// Returns the computed numbers of a row, whose values are those of [`Self::source_columns`].
    ///
    /// # Errors
    /// The reason why the row cannot be used.
    fn encode(&self, values: &[SourceValue]) -> Result<Vec<f32>, RejectReason>;
}

/// Returns the schema of the source of an encoded table: the columns that are not computed, and those that the encoder
/// reads.
pub fn to_source_schema(schema: &TableSchema, encoder: &dyn RowEncoder) -> TableSchema {
    let stored = schema.columns.len().saturating_sub(encoder.width());
    let columns = schema.columns.iter().take(stored).cloned().chain(encoder.source_columns()).collect();
    TableSchema { unit_column: schema.unit_column.clone(), columns, encoder: None }
}

/// Returns the number of a value.
///
/// # Errors
/// The reason why its row cannot be used; [`RejectReason::NoInput`] for a missing value.
pub fn read_number(value: &SourceValue) -> Result<f64, RejectReason> {
    let number = match value {
        SourceValue::Missing => return Err(RejectReason::NoInput),
        SourceValue::Text(text) if text.trim().is_empty() => return Err(RejectReason::NoInput),
        SourceValue::Text(text) => text.trim().parse().map_err(|_| RejectReason::Real)?,
        SourceValue::Boolean(value) => f64::from(u8::from(*value)),
        SourceValue::Integer(value) => *value as f64,
        SourceValue::Real(value) => *value,
        SourceValue::LongText => return Err(RejectReason::LongText),
        SourceValue::NoText => return Err(RejectReason::Encoding),
        _ => return Err(RejectReason::Real),
    };
    if number.is_finite() { Ok(number) } else { Err(RejectReason::Real) }
}

/// Returns the text of a value, without white space around it.
///
/// # Errors
/// The reason why its row cannot be used; [`RejectReason::NoInput`] for a missing or empty text.
pub fn read_text(value: &SourceValue) -> Result<&str, RejectReason> {
    match value {
        SourceValue::Text(text) if !text.trim().is_empty() => Ok(text.trim()),
        SourceValue::Missing | SourceValue::Text(_) => Err(RejectReason::NoInput),
        SourceValue::LongText => Err(RejectReason::LongText),
        _ => Err(RejectReason::Encoding),
    }
}

#[cfg(test)]
mod tests {
    use super::{read_number, read_text};
    use crate::quarantine::RejectReason;
    use crate::value::SourceValue;

    #[test]
    fn values_become_numbers_or_texts_or_reasons() {
        let text = |text: &str| SourceValue::Text(text.to_owned());
        for (value, number) in
            [(text(" -1.5e2 "), -150.0), (SourceValue::Integer(7), 7.0), (SourceValue::Boolean(true), 1.0)]
        {
            assert_eq!(read_number(&value), Ok(number), "{value:?}");
        }
        for (value, reason) in [
            (SourceValue::Missing, RejectReason::NoInput),
            (text("  "), RejectReason::NoInput),
            (text("seven"), RejectReason::Real),
            (text("inf"), RejectReason::Real),
            (SourceValue::Real(f64::NAN), RejectReason::Real),
            (SourceValue::Date(1), RejectReason::Real),
            (SourceValue::LongText, RejectReason::LongText),
        ] {
            assert_eq!(read_number(&value), Err(reason), "{value:?}");
        }
        assert_eq!(read_text(&text(" a.wav ")), Ok("a.wav"));
        assert_eq!(read_text(&text("")), Err(RejectReason::NoInput));
        assert_eq!(read_text(&SourceValue::Integer(1)), Err(RejectReason::Encoding));
        assert_eq!(read_text(&SourceValue::NoText), Err(RejectReason::Encoding));
    }
}
