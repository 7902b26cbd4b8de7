//! Sums of stored tables: in any slices, on any threads, of unchanged files alone.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cell::Cell;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::json;
use undertone_api::job::analytics::{Spec, VectorLayout};
use undertone_api::table::{ColumnKind, TableColumn, TableSchema};
use undertone_worker_site::dataset_meta::{DatasetError, META_FILE};
use undertone_worker_site::progress::SilentProgress;

use super::super::{AggregateSum, MOST_UNITS, sum_in_slices, sum_units};
use crate::add::{AddOptions, MOST_UNIT_ROWS, add};
use crate::dataset::{Meta, ROWS_FOLDER, TablePart, TableReader, UnverifiedTable, digest_parts, read_meta};
use crate::error::TableError;
use crate::source::SourceOptions;

/// Returns a job whose limits depend on the order of rows.
fn spec() -> Spec {
    serde_json::from_value(json!({
        "unit": "user",
        "participants": [{ "dataset": "00000000-0000-0000-0000-000000000001" }],
        "columns": [
            { "name": "age", "kind": "integer", "least": 0, "most": 100 },
            { "name": "ward", "kind": "category", "values": ["a", "b", "c"] },
        ],
        "queries": [
            { "name": "wards", "group_by": [{ "by": "values", "column": "ward" }], "limits": { "rows": 3, "groups": 2 },
              "aggregates": [{ "aggregate": "count" }, { "aggregate": "mean", "column": "age" }] },
            { "name": "all", "aggregates": [{ "aggregate": "count_units" }, { "aggregate": "sum", "column": "age" }] },
        ],
        "noise_multiplier": 1.0,
    }))
    .unwrap()
}

fn layout() -> VectorLayout {
    spec().layout().unwrap()
}

/// Adds a table of units with so many rows each, named by a letter and a number.
fn add_table(folder: &Path, name: &str, rows: impl Iterator<Item = u64>) -> PathBuf {
    let mut text = "patient,age,ward\n".to_owned();
    for (unit, rows) in rows.enumerate() {
        for row in 0..rows {
            let ward = ["a", "b", "c", ""][((unit as u64 + row * row) % 4) as usize];
            writeln!(text, "{name}{unit},{},{ward}", (row * 7 + unit as u64) % 101).unwrap();
        }
    }
    let source = folder.join(format!("{name}.csv"));
    std::fs::write(&source, text).unwrap();
    let columns: Vec<TableColumn> = spec().columns;
    let options = AddOptions {
        sources: SourceOptions::Files { paths: vec![source], format: None },
        schema: TableSchema { unit_column: "patient".to_owned(), columns, encoder: None },
        zone: None,
        output: folder.join("data").join(name),
        name: name.to_owned(),
        replace: false,
        created: String::new(),
        fresh_key: [7; 32],
    };
    add(&options, None, &SilentProgress).unwrap();
    options.output
}

fn write_meta(folder: &Path, meta: &Meta) {
    std::fs::write(folder.join(META_FILE), serde_json::to_vec(meta).unwrap()).unwrap();
}

/// Adds the part of another table to a table.
fn append_part(folder: &Path, other: &Path) {
    let mut meta = read_meta(folder).unwrap();
    let other_meta = read_meta(other).unwrap();
    let part = TablePart { name: "000001.parquet".to_owned(), ..other_meta.parts[0].clone() };
    let source = other.join(ROWS_FOLDER).join(&other_meta.parts[0].name);
    std::fs::copy(source, folder.join(ROWS_FOLDER).join(&part.name)).unwrap();
    meta.parts.push(part);
    meta.rows += other_meta.rows;
    meta.units += other_meta.units;
    meta.digest = digest_parts(&meta.parts);
    write_meta(folder, &meta);
}

/// Returns the sum of the defined contributions, unit by unit.
fn define_sum(folder: &Path) -> Vec<i64> {
    let table = TableReader::open(folder).unwrap();
    let layout = layout();
    let mut steps = vec![0_i64; layout.length()];
    let columns = table.find_columns(&spec().columns).unwrap();
    let visit = &mut |unit: &crate::units::UnitRows| {
        for (place, own) in layout.contribute_steps(0, unit.rows()) {
            steps[place] += own;
        }
        Ok::<_, DatasetError>(())
    };
    table.visit_units(&columns, visit).unwrap();
    steps
}

fn sum(folder: &Path) -> Result<Vec<i64>, TableError> {
    let table = UnverifiedTable::open(folder).unwrap();
    sum_units(&table, &spec().columns, &AggregateSum::new(&layout(), 0), &|| Ok(()))
}

#[test]
fn sum_is_the_same_in_any_slices_and_threads() {
    let folder = tempfile::tempdir().unwrap();
    // Units across the ends of row groups, and one as long as a row group.
    let rows = (0..30_000).map(|unit| match unit {
        7 => MOST_UNIT_ROWS,
        _ if unit % 1_000 == 500 => 2_000,
        _ => unit % 6,
    });
    let table = add_table(folder.path(), "p", rows);
    let other = add_table(folder.path(), "q", (0..500).map(|unit| unit % 4));
    append_part(&table, &other);
    let meta = read_meta(&table).unwrap();
    assert!(meta.rows > 3 << 16 && meta.parts.len() == 2, "several row groups in one of two parts");
    let expected = define_sum(&table);
    assert_eq!(sum(&table).unwrap(), expected);
    let empty = AggregateSum::new(&layout(), 0);
    for slices in [1, 2, 3, 4, 7, 100] {
        for threads in [1, 2, 5] {
            let table = UnverifiedTable::open(&table).unwrap();
            let check = &|| Ok::<_, TableError>(());
            let steps = sum_in_slices(&table, &spec().columns, &empty, (threads, slices), check).unwrap();
            assert_eq!(steps, expected, "{slices} slices on {threads} threads");
        }
    }
}

#[test]
fn changed_byte_anywhere_ends_the_pass() {
    let folder = tempfile::tempdir().unwrap();
    let table = add_table(folder.path(), "p", (0..400).map(|unit| unit % 5));
    let expected = sum(&table).unwrap();
    let part = table.join(ROWS_FOLDER).join("000000.parquet");
    let bytes = std::fs::read(&part).unwrap();
    for place in (0..bytes.len()).step_by(bytes.len() / 40).chain([bytes.len() - 1]) {
        let mut changed = bytes.clone();
        changed[place] ^= 0x40;
        std::fs::write(&part, changed).unwrap();
        let error = sum(&table).unwrap_err();
        assert!(matches!(error, TableError::Dataset(DatasetError::Digest { .. })), "byte {place}: {error}");
    }
    std::fs::write(&part, &bytes[..bytes.len() - 1]).unwrap();
    assert!(matches!(UnverifiedTable::open(&table), Err(DatasetError::Length { .. })));
    std::fs::write(&part, &bytes).unwrap();
    assert_eq!(sum(&table).unwrap(), expected);
}

#[test]
fn counts_that_differ_from_the_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let table = add_table(folder.path(), "p", (0..40).map(|unit| 1 + unit % 5));
    let meta = read_meta(&table).unwrap();
    for units in [meta.units - 1, meta.units + 1] {
        write_meta(&table, &Meta { units, ..meta.clone() });
        let error = sum(&table).unwrap_err();
        assert!(matches!(error, TableError::Dataset(DatasetError::Damaged { .. })), "{error}");
    }
    let mut longer = meta.clone();
    longer.rows += 1;
    longer.parts[0].rows += 1;
    write_meta(&table, &longer);
    assert!(sum(&table).unwrap_err().to_string().contains("counts of rows and units"));
    write_meta(&table, &Meta { units: MOST_UNITS + 1, ..meta });
    assert!(matches!(sum(&table), Err(TableError::TooManyUnits(_))));
}

#[test]
fn column_of_another_kind_and_a_stopped_job_end_the_pass() {
    let folder = tempfile::tempdir().unwrap();
    let path = add_table(folder.path(), "p", (0..40).map(|unit| 1 + unit % 5));
    let table = UnverifiedTable::open(&path).unwrap();
    let empty = AggregateSum::new(&layout(), 0);
    let mut columns = spec().columns;
    columns[0].kind = ColumnKind::Boolean;
    let refused = sum_units(&table, &columns, &empty, &|| Ok::<_, TableError>(()));
    assert!(matches!(refused, Err(TableError::OtherSchema { column, .. }) if column == "age"));
    let checks = Cell::new(0);
    let stopped = sum_units(&table, &spec().columns, &empty, &|| {
        checks.set(checks.get() + 1);
        Err(TableError::Schema("the job was cancelled".to_owned()))
    });
    assert!(matches!(stopped, Err(TableError::Schema(_))) && checks.get() == 1);
}
