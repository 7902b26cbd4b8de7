//! The numbers of a report as a Parquet file, for programs that read tables.
//!
//! One row for each number, in the order of the CSV of the same report. Ends of intervals and values of dates count days
//! since 1970-01-01, as `is_date` states. The same report gives the same bytes.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use undertone_api::job::analytics::{Report, ResultLine};

/// The encoder refused a column.
#[derive(Debug, thiserror::Error)]
#[error("cannot encode the numbers of the report as Parquet: {0}")]
pub struct NumbersFileError(#[from] ParquetError);

/// Returns the file: the columns `query`, `group`, `aggregate`, `number` (texts), `is_date`, `value` (null where noise
/// hides the number), `low`, `high`, `noise`, and `sampling` (null where it is unknown).
///
/// # Errors
/// [`NumbersFileError`] when the encoder refuses a column.
pub fn encode_numbers(report: &Report) -> Result<Vec<u8>, NumbersFileError> {
    let lines: Vec<ResultLine<'_>> = report.lines().collect();
    let texts = |find: fn(&ResultLine<'_>) -> String| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(lines.iter().map(find)))
    };
    let reals = |find: fn(&ResultLine<'_>) -> Option<f64>| -> ArrayRef {
        Arc::new(lines.iter().map(find).collect::<Float64Array>())
    };
    let are_dates: Vec<bool> = lines.iter().map(|line| line.aggregate.is_date).collect();
    let columns: [(&str, bool, ArrayRef); 10] = [
        ("query", false, texts(|line| line.query.to_owned())),
        ("group", false, texts(|line| line.group.clone())),
        ("aggregate", false, texts(|line| line.aggregate.label.clone())),
        ("number", false, texts(|line| line.number.label.clone())),
        ("is_date", false, Arc::new(BooleanArray::from(are_dates))),
        ("value", true, reals(|line| line.number.value)),
        ("low", false, reals(|line| Some(line.number.low))),
        ("high", false, reals(|line| Some(line.number.high))),
        ("noise", false, reals(|line| Some(line.number.noise))),
        ("sampling", true, reals(|line| line.number.sampling)),
    ];
    let field = |(name, is_nullable, column): &(&str, bool, ArrayRef)| {
        let kind: DataType = column.data_type().clone();
        Field::new(*name, kind, *is_nullable)
    };
    let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
    let arrays = columns.into_iter().map(|(.., column)| column).collect();
    let batch = RecordBatch::try_new(Arc::clone(&schema), arrays).map_err(ParquetError::from)?;
    let compression = Compression::ZSTD(ZstdLevel::default());
    let properties = WriterProperties::builder().set_compression(compression).build();
    let mut writer = ArrowWriter::try_new(Vec::new(), schema, Some(properties))?;
    writer.write(&batch)?;
    Ok(writer.into_inner()?)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::io::Write as _;

    use arrow::array::AsArray as _;
    use arrow::datatypes::Float64Type;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
    use undertone_api::job::analytics::Report;

    use super::encode_numbers;

    /// A hidden count of one group and a median date of another.
    fn report() -> Report {
        serde_json::from_value(serde_json::json!({ "sites": 2, "queries": [{
            "name": "visits",
            "keys": ["sex"],
            "cells": [
                { "groups": ["f"], "aggregates": [
                    { "label": "count(*)", "numbers": [{ "low": 0.0, "high": 12.5, "noise": 6.25 }] },
                ] },
                { "groups": ["m"], "aggregates": [{
                    "label": "quantiles(visit)",
                    "numbers": [
                        { "label": "0.5", "value": 19723.0, "low": 19720.0, "high": 19730.0, "noise": 2.5, "sampling": 1.5 },
                    ],
                    "is_date": true,
                }] },
            ],
        }] }))
        .unwrap()
    }

    #[test]
    fn numbers_are_read_back_with_their_places() {
        let file = encode_numbers(&report()).unwrap();
        assert_eq!(file, encode_numbers(&report()).unwrap(), "the same report gives the same bytes");
        let mut stored = tempfile::tempfile().unwrap();
        stored.write_all(&file).unwrap();
        let batches: Vec<_> = ParquetRecordBatchReader::try_new(stored, 64).unwrap().collect();
        let [Ok(batch)] = &batches[..] else { panic!("one batch of rows: {batches:?}") };
        let text = |column: &str, row| batch.column_by_name(column).unwrap().as_string::<i32>().value(row).to_owned();
        let place = |row| ["query", "group", "aggregate", "number"].map(|column| text(column, row));
        assert_eq!(place(0), ["visits", "sex=f", "count(*)", ""]);
        assert_eq!(place(1), ["visits", "sex=m", "quantiles(visit)", "0.5"]);
        let reals = |column: &str| -> Vec<Option<f64>> {
            batch.column_by_name(column).unwrap().as_primitive::<Float64Type>().iter().collect()
        };
        assert_eq!(reals("value"), [None, Some(19_723.0)], "a hidden number is missing");
        assert_eq!(reals("high"), [Some(12.5), Some(19_730.0)]);
        assert_eq!(reals("sampling"), [None, Some(1.5)]);
        let are_dates = batch.column_by_name("is_date").unwrap().as_boolean();
        assert!(!are_dates.value(0) && are_dates.value(1));
    }
}
