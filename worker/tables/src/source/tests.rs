#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, Float64Array, Int32Array, RecordBatch, StringArray, TimestampMicrosecondArray, UInt64Array,
};
use parquet::arrow::ArrowWriter;
use undertone_api::table::{CalendarDate, ColumnKind, TableColumn, TableSchema};

use super::{FileFormat, LONGEST_ROW, SourceOptions, SourceRow, SourceStep, open_source};
use crate::error::TableError;
use crate::quarantine::RejectReason;
use crate::value::{LONGEST_UNIT, SourceValue};

fn schema(columns: &[(&str, ColumnKind)]) -> TableSchema {
    let columns = columns.iter().map(|(name, kind)| TableColumn { name: (*name).to_owned(), kind: kind.clone() });
    TableSchema { unit_column: "patient".to_owned(), columns: columns.collect(), encoder: None }
}

fn ages() -> TableSchema {
    schema(&[("age", ColumnKind::Integer { least: 0, most: 120 })])
}

/// A step with its line and its row.
type ReadStep = (SourceStep, u64, Vec<SourceValue>);

/// Reads all rows of a file; a step has its line, and a row its values, the unit first.
fn read(path: &Path, schema: &TableSchema) -> Result<Vec<ReadStep>, TableError> {
    let options = SourceOptions::Files { paths: vec![path.to_path_buf()], format: None };
    let mut source = open_source(&options, 0, schema)?;
    let mut steps = Vec::new();
    let mut row = SourceRow::default();
    loop {
        let step = source.next_row(&mut row)?;
        let values = if step == SourceStep::Row {
            std::iter::once(&row.unit).chain(&row.values).cloned().collect()
        } else {
            Vec::new()
        };
        if step == SourceStep::End {
            return Ok(steps);
        }
        steps.push((step, source.line(), values));
    }
}

fn csv(folder: &Path, bytes: &[u8]) -> PathBuf {
    let path = folder.join("in.csv");
    std::fs::write(&path, bytes).unwrap();
    path
}

fn text(text: &str) -> SourceValue {
    SourceValue::Text(text.to_owned())
}

#[test]
fn faulty_line_of_csv_rejects_itself_alone() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = b"\xef\xbb\xbfAge,site,Patient\r\n41,\"a, \"\"b\"\"\",p1\r\n\r\n42,\"open,p2\n43,x,p3\n44,x\n45,x,p4,more\n46,\xff,p5\n,\"\",\xff\n47,,p6";
    let steps = read(&csv(folder.path(), bytes), &ages()).unwrap();
    let rejected = |reason, line| (SourceStep::Rejected(reason), line, Vec::new());
    let row = |line, values: [SourceValue; 2]| (SourceStep::Row, line, values.to_vec());
    assert_eq!(
        steps,
        [
            row(2, [text("p1"), text("41")]),
            rejected(RejectReason::Quotes, 4),
            row(5, [text("p3"), text("43")]),
            rejected(RejectReason::Fields, 6),
            rejected(RejectReason::Fields, 7),
            row(8, [text("p5"), text("46")]),
            row(9, [SourceValue::NoText, SourceValue::Missing]),
            row(10, [text("p6"), text("47")]),
        ]
    );
}

#[test]
fn megabyte_lines_and_texts_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = b"patient,age\n".to_vec();
    // The longest row, without its line break, and one byte more.
    for length in [LONGEST_ROW, LONGEST_ROW + 1, 3 * LONGEST_ROW] {
        bytes.extend(std::iter::repeat_n(b'9', length - b",p1".len()).chain(*b",p1\n"));
    }
    bytes.extend(std::iter::repeat_n(b'u', LONGEST_UNIT).chain(*b",1\n"));
    let steps = read(&csv(folder.path(), &bytes), &ages()).unwrap();
    let kinds: Vec<SourceStep> = steps.iter().map(|step| step.0).collect();
    let long = SourceStep::Rejected(RejectReason::LongRow);
    assert_eq!(kinds, [SourceStep::Row, long, long, SourceStep::Row]);
    assert_eq!(steps[0].2, [SourceValue::LongText, text("p1")], "the text is not kept");
    assert_eq!(steps[3].2, [text(&"u".repeat(LONGEST_UNIT)), text("1")]);
}

#[test]
fn source_without_a_declared_column_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let message = |text: &str| read(&csv(folder.path(), text.as_bytes()), &ages()).unwrap_err().to_string();
    assert!(message("patient,years\n1,2\n").contains("no column `age`"));
    assert!(message("patient,age,AGE\n1,2,3\n").contains("two columns `age`"));
    assert!(message("").contains("it is empty"));
    assert!(message("\"patient,age\n1,2\n").contains("quote"));
    std::fs::rename(folder.path().join("in.csv"), folder.path().join("in.txt")).unwrap();
    assert!(read(&folder.path().join("in.txt"), &ages()).unwrap_err().to_string().contains("--format"));
    let options = SourceOptions::Files { paths: vec![folder.path().join("in.txt")], format: Some(FileFormat::Parquet) };
    assert!(open_source(&options, 0, &ages()).err().unwrap().to_string().contains("no Parquet"));
}

/// Writes a Parquet file of these columns.
fn parquet(folder: &Path, columns: Vec<(&str, ArrayRef)>) -> PathBuf {
    let path = folder.join("in.parquet");
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut writer = ArrowWriter::try_new(std::fs::File::create(&path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    path
}

#[test]
fn parquet_reads_the_declared_columns_in_their_types() {
    let folder = tempfile::tempdir().unwrap();
    let date = |text| CalendarDate::parse(text).unwrap();
    let visit = ColumnKind::Date { first: date("2000-01-01"), last: date("2030-01-01") };
    let schema = schema(&[
        ("visit", visit.clone()),
        ("weight", ColumnKind::Real { least: 0.0, most: 300.0, step: 0.1 }),
        ("age", ColumnKind::Integer { least: 0, most: 120 }),
    ]);
    let times = TimestampMicrosecondArray::from(vec![Some(1_769_896_800_000_001), None]);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("age", Arc::new(UInt64Array::from(vec![Some(u64::MAX), Some(7)]))),
        ("unused", Arc::new(BinaryArray::from(vec![&b"x"[..], b"y"]))),
        ("weight", Arc::new(Float64Array::from(vec![f64::NAN, 70.25]))),
        ("patient", Arc::new(Int32Array::from(vec![3, -4]))),
        ("visit", Arc::new(times.with_timezone("+05:00"))),
    ];
    let steps = read(&parquet(folder.path(), columns), &schema).unwrap();
    let [first, second] = [&steps[0].2, &steps[1].2];
    assert_eq!(first[..2], [SourceValue::Integer(3), SourceValue::Instant(1_769_896_800)]);
    assert!(matches!(first[2], SourceValue::Real(value) if value.is_nan()) && first[3] == SourceValue::LargeInteger);
    let values = [SourceValue::Integer(-4), SourceValue::Missing, SourceValue::Real(70.25), SourceValue::Integer(7)];
    assert_eq!((second[..].to_vec(), steps[1].1), (values.to_vec(), 2));
    // A type that cannot hold the declared values is refused before the first row.
    let columns: Vec<(&str, ArrayRef)> =
        vec![("patient", Arc::new(StringArray::from(vec!["a"]))), ("visit", Arc::new(Float64Array::from(vec![1.0])))];
    let schema = super::tests::schema(&[("visit", visit)]);
    let message = read(&parquet(folder.path(), columns), &schema).unwrap_err().to_string();
    assert!(message.contains("`visit`") && message.contains("Float64") && message.contains("date"), "{message}");
    std::fs::write(folder.path().join("in.parquet"), b"PAR1 is not all PAR1").unwrap();
    assert!(matches!(read(&folder.path().join("in.parquet"), &schema), Err(TableError::Format { .. })));
}
