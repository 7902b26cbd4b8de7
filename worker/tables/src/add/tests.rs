#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use undertone_api::table::{ColumnKind, TableColumn, TableSchema};
use undertone_worker_site::dataset_meta::DatasetError;
use undertone_worker_site::progress::SilentProgress;

use super::{AddOptions, AddReport, MOST_UNIT_ROWS, add, add_encoded};
use crate::dataset::TableReader;
use crate::encode::{RowEncoder, read_number};
use crate::error::TableError;
use crate::quarantine::RejectReason;
use crate::source::SourceOptions;
use crate::value::SourceValue;

fn options(folder: &Path, text: &str) -> AddOptions {
    let path = folder.join("in.csv");
    std::fs::write(&path, text).unwrap();
    let column = |name: &str, kind| TableColumn { name: name.to_owned(), kind };
    let sexes = ColumnKind::Category { values: vec!["f".to_owned(), "m".to_owned()] };
    AddOptions {
        sources: SourceOptions::Files { paths: vec![path], format: None },
        schema: TableSchema {
            unit_column: "patient".to_owned(),
            columns: vec![column("sex", sexes), column("age", ColumnKind::Integer { least: 0, most: 120 })],
            encoder: None,
        },
        zone: None,
        output: folder.join("data/ward"),
        name: "ward".to_owned(),
        replace: false,
        created: String::new(),
        fresh_key: [7; 32],
    }
}

fn added(options: &AddOptions) -> AddReport {
    add(options, None, &SilentProgress).unwrap()
}

/// Returns the rows of each unit of the columns at these positions.
fn units(folder: &Path, columns: &[usize]) -> Vec<Vec<Vec<Option<i64>>>> {
    let mut units = Vec::new();
    let reader = TableReader::open(folder).unwrap();
    reader
        .visit_units(columns, &mut |unit| {
            units.push(unit.rows().map(<[_]>::to_vec).collect());
            Ok::<_, DatasetError>(())
        })
        .unwrap();
    units
}

#[test]
fn rows_are_stored_by_unit_and_bad_ones_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let text =
        "patient,sex,age\np1,f,41\np2,m,200\np1,x,42\n,f,1\np3,f,NaN\np3,f,99999999999999999999\np4,\"f,2\n p2 ,,-1\n";
    let options = options(folder.path(), text);
    let report = added(&options);
    assert_eq!((report.rows, report.units, report.surplus, report.quarantine.read), (4, 2, 0, 8));
    let counts: Vec<_> = report.quarantine.rejected.iter().map(|(reason, rows)| (*reason, rows.rows)).collect();
    assert_eq!(counts, [(RejectReason::NoUnit, 1), (RejectReason::Quotes, 1), (RejectReason::Integer, 2)]);
    assert_eq!(report.quarantine.undeclared["sex"], 1);
    let mut units = units(&options.output, &[1, 0]);
    for unit in &mut units {
        unit.sort();
    }
    units.sort();
    assert_eq!(
        units,
        [[vec![Some(0), None], vec![Some(120), Some(1)]], [vec![Some(41), Some(0)], vec![Some(42), None]]]
    );
    // The report names places and no values; the description has no quarantined rows.
    let text = std::fs::read_to_string(options.output.join("report.json")).unwrap();
    assert!(text.contains("\"line\": 6") && !text.contains("NaN") && !text.contains("p3"), "{text}");
    assert!(format!("{report}").contains("2 with a value that is no integer"), "{report}");
}

#[test]
fn keyed_order_ignores_the_order_in_the_file_and_survives_a_refresh() {
    let folder = tempfile::tempdir().unwrap();
    let lines: Vec<String> = (0..60).map(|n| format!("p{},f,{}\n", n % 3, n)).collect();
    let head = "patient,sex,age\n".to_owned();
    let first = options(folder.path(), &(head.clone() + &lines.concat()));
    added(&first);
    let before = units(&first.output, &[1]);
    let ages: Vec<i64> = before[0].iter().filter_map(|row| row[0]).collect();
    assert!(
        !ages.is_sorted() && !ages.is_sorted_by(|a, b| a >= b),
        "neither the file's order nor the values': {ages:?}"
    );
    let backwards: Vec<String> = lines.iter().rev().cloned().collect();
    let second =
        AddOptions { replace: true, fresh_key: [8; 32], ..options(folder.path(), &(head + &backwards.concat())) };
    added(&second);
    assert_eq!(units(&second.output, &[1]), before, "the key stays");
    // With another key other rows come first.
    let other = AddOptions { output: folder.path().join("data/other"), name: "other".to_owned(), ..second };
    added(&other);
    assert_ne!(units(&other.output, &[1]), before);
}

#[test]
fn unit_of_a_hundred_thousand_rows_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let mut text = "patient,sex,age\nq,f,1\n".to_owned();
    text.extend((0..=MOST_UNIT_ROWS).map(|n| format!("p,f,{}\n", n % 100)));
    let options = options(folder.path(), &text);
    let report = added(&options);
    assert_eq!((report.rows, report.units, report.surplus), (MOST_UNIT_ROWS + 1, 2, 1));
    let mut counts: Vec<usize> = units(&options.output, &[]).iter().map(Vec::len).collect();
    counts.sort_unstable();
    assert_eq!(counts, [1, 1 << 16]);
}

#[test]
fn failed_addition_keeps_the_table_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let good = options(folder.path(), "patient,sex,age\np1,f,41\n");
    added(&good);
    assert!(matches!(add(&good, None, &SilentProgress), Err(TableError::Dataset(DatasetError::Exists(_)))));
    let refused = |options: &AddOptions| add(options, None, &SilentProgress).unwrap_err().to_string();
    let again = AddOptions { replace: true, ..options(folder.path(), "patient,sex,age\n,f,41\n") };
    assert!(refused(&again).contains("none of the 1 rows") && refused(&again).contains("1 without a unit"));
    let mut other = again.clone();
    other.schema.unit_column = "person".to_owned();
    assert!(refused(&other).contains("keep `unit`"));
    other.schema.columns[1].kind = ColumnKind::Integer { least: 5, most: 4 };
    assert!(refused(&other).contains("--schema: schema.columns.1"));
    let names: Vec<PathBuf> =
        std::fs::read_dir(folder.path().join("data")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!((names, units(&good.output, &[1])), (vec![good.output.clone()], vec![vec![vec![Some(41)]]]));
}

#[test]
fn changed_file_is_refused_and_a_replaced_table_does_not_mix() {
    let folder = tempfile::tempdir().unwrap();
    let first = options(folder.path(), "patient,sex,age\np1,f,41\n");
    added(&first);
    let reader = TableReader::open(&first.output).unwrap();
    added(&AddOptions { replace: true, ..options(folder.path(), "patient,sex,age\np1,f,42\np2,f,43\n") });
    let mut ages = Vec::new();
    let visit = &mut |unit: &crate::units::UnitRows| {
        ages.extend(unit.rows().map(|row| row[0]));
        Ok::<_, DatasetError>(())
    };
    reader.visit_units(&[1], visit).unwrap();
    assert_eq!(ages, [Some(41)], "the open table is the one before");
    // A job that declares a column otherwise is refused, by name.
    let mut columns = first.schema.columns.clone();
    assert_eq!(reader.find_columns(&columns[1..]).unwrap(), [1]);
    columns[1].kind = ColumnKind::Integer { least: 0, most: 121 };
    let message = reader.find_columns(&columns).unwrap_err().to_string();
    assert!(message.contains("`age`") && message.contains("`ward`"), "{message}");
    let part = first.output.join("rows/000000.parquet");
    let mut bytes = std::fs::read(&part).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&part, bytes).unwrap();
    assert!(matches!(TableReader::open(&first.output), Err(DatasetError::Digest { .. })));
}

/// Computes the sum and the difference of two columns of the source.
struct SumEncoder;

impl RowEncoder for SumEncoder {
    fn source_columns(&self) -> Vec<TableColumn> {
        let kind = ColumnKind::Real { least: -1.0, most: 1.0, step: 1.0 };
        ["left", "right"].map(|name| TableColumn { name: name.to_owned(), kind: kind.clone() }).to_vec()
    }

    fn width(&self) -> usize {
        2
    }

    fn encode(&self, values: &[SourceValue]) -> Result<Vec<f32>, RejectReason> {
        let numbers: Vec<f64> = values.iter().map(read_number).collect::<Result<_, _>>()?;
        Ok(vec![(numbers[0] + numbers[1]) as f32, (numbers[0] - numbers[1]) as f32])
    }
}

#[test]
fn computed_columns_are_rounded_and_their_faults_reject_the_row() {
    let folder = tempfile::tempdir().unwrap();
    let mut options =
        options(folder.path(), "right,patient,left,age\n0.26,p1,0.5,41\n,p2,1,42\nx,p3,1,43\n900,p4,-3,44\n");
    let kind = ColumnKind::Real { least: -10.0, most: 10.0, step: 0.5 };
    options.schema.columns.remove(0);
    options.schema.columns.extend(["f_0", "f_1"].map(|name| TableColumn { name: name.to_owned(), kind: kind.clone() }));
    options.schema.encoder = Some("ab".repeat(32));
    let report = add_encoded(&options, &SumEncoder, None, &SilentProgress).unwrap();
    let counts: Vec<_> = report.quarantine.rejected.iter().map(|(reason, rows)| (*reason, rows.rows)).collect();
    assert_eq!(counts, [(RejectReason::Real, 1), (RejectReason::NoInput, 1)]);
    let mut rows = units(&options.output, &[0, 1, 2]).concat();
    rows.sort();
    // 0.76 and 0.24 in steps of 0.5, and a sum and a difference beyond the range.
    assert_eq!(rows, [[41, 2, 0], [44, 20, -20]].map(|row| row.map(Some).to_vec()));
    // Another encoder may replace it, and the meta states which one.
    let other = AddOptions {
        replace: true,
        schema: TableSchema { encoder: Some("cd".repeat(32)), ..options.schema.clone() },
        ..options.clone()
    };
    add_encoded(&other, &SumEncoder, None, &SilentProgress).unwrap();
    assert_eq!(TableReader::open(&options.output).unwrap().meta().schema.encoder, other.schema.encoder);
}
