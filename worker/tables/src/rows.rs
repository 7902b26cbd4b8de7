//! The rows of a table as numbers for training: features and a label of each row, the rows of a unit together.
//!
//! The numbers of a row depend on its codes and on the declared columns alone
//! ([`undertone_api::job::dp_sgd::RowColumns`]). Rows without a target are left out, and with them units without such rows.

use undertone_api::job::dp_sgd::RowColumns;

use crate::dataset::TableReader;
use crate::error::TableError;
use crate::part::UNIT_BYTES;

/// The id of a unit of a table: a keyed hash.
pub type UnitId = [u8; UNIT_BYTES as usize];

/// The most inputs of all rows together: 8 GiB of numbers.
pub const MOST_NUMBERS: u64 = 1 << 31;

/// The labelled rows of a table, unit by unit.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelledRows {
    inputs: usize,
    features: Vec<f32>,
    labels: Vec<u16>,
    /// The number of rows up to the end of each unit.
    ends: Vec<usize>,
    /// The id of each unit.
    ids: Vec<UnitId>,
}

impl LabelledRows {
    /// Reads the labelled rows of a table. Of each unit at most `most` are used, the first in the keyed order.
    ///
    /// # Errors
    /// [`TableError::NoColumn`] or [`TableError::OtherSchema`] if the table lacks a column or declares it otherwise,
    /// [`TableError::TooManyNumbers`] if the rows have more than [`MOST_NUMBERS`] inputs, and a [`TableError::Dataset`] for
    /// a file that cannot be read.
    pub fn read(table: &TableReader, columns: &RowColumns, most: usize) -> Result<Self, TableError> {
        let places = table.find_columns(&columns.columns())?;
        let inputs = columns.inputs() as usize;
        check_size(&table.meta().name, table.meta().rows, inputs as u64)?;
        let mut rows = Self { inputs, features: Vec::new(), labels: Vec::new(), ends: Vec::new(), ids: Vec::new() };
        table.visit_units(&places, &mut |unit| {
            let before = rows.labels.len();
            for codes in unit.rows() {
                let Some((target, features)) = codes.split_last() else { continue };
                let Some(label) = columns.encode_target(*target) else { continue };
                if rows.labels.len() - before == most {
                    break;
                }
                rows.labels.push(label);
                columns.encode_features(features, &mut rows.features);
            }
            if rows.labels.len() > before {
                rows.ends.push(rows.labels.len());
                rows.ids.push(unit.id());
            }
            Ok::<_, TableError>(())
        })?;
        Ok(rows)
    }

    /// Returns the number of units with labelled rows.
    pub const fn units(&self) -> usize {
        self.ends.len()
    }

    /// Returns the id of a unit, for use at the site alone.
    ///
    /// # Panics
    /// If the number is not below [`Self::units`].
    pub fn id(&self, number: usize) -> &UnitId {
        &self.ids[number]
    }

    /// Returns the number of labelled rows.
    pub const fn rows(&self) -> usize {
        self.labels.len()
    }

    /// Returns the number of inputs of a row.
    pub const fn inputs(&self) -> usize {
        self.inputs
    }

    /// Returns the features `[rows, inputs]` and the labels `[rows]` of a unit.
    ///
    /// # Panics
    /// If the number is not below [`Self::units`].
    pub fn unit(&self, number: usize) -> (&[f32], &[u16]) {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        let end = self.ends[number];
        (&self.features[start * self.inputs..end * self.inputs], &self.labels[start..end])
    }
}

/// Returns the numbers of the units with a labelled row, ascending. Numbers count the units in the order of the table, from
/// 0. Memory: a number for each unit, less than [`LabelledRows`] has for its rows.
///
/// # Errors
/// As [`LabelledRows::read`].
pub fn list_labelled(table: &TableReader, columns: &RowColumns) -> Result<Vec<usize>, TableError> {
    table.find_columns(&columns.columns())?;
    check_size(&table.meta().name, table.meta().rows, columns.inputs().into())?;
    let place = table.find_columns(std::slice::from_ref(&columns.target))?;
    let mut labelled = Vec::new();
    let mut number = 0;
    table.visit_units(&place, &mut |unit| {
        let is_labelled =
            |codes: &[Option<i64>]| codes.first().is_some_and(|code| columns.encode_target(*code).is_some());
        if unit.rows().any(is_labelled) {
            labelled.push(number);
        }
        number += 1;
        Ok::<_, TableError>(())
    })?;
    Ok(labelled)
}

/// Checks that the numbers of all rows fit in memory.
fn check_size(name: &str, rows: u64, inputs: u64) -> Result<(), TableError> {
    if rows.saturating_mul(inputs) <= MOST_NUMBERS {
        return Ok(());
    }
    Err(TableError::TooManyNumbers { name: name.to_owned(), rows, inputs })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::fmt::Write as _;

    use undertone_api::job::dp_sgd::{NO_GRAM, RowColumns, TextEmbedding};
    use undertone_api::table::grams::select_code_bucket;
    use undertone_api::table::{ColumnKind, TableColumn, TableSchema};
    use undertone_worker_site::dataset_meta::META_FILE;
    use undertone_worker_site::progress::SilentProgress;

    use super::{LabelledRows, MOST_NUMBERS, check_size, list_labelled};
    use crate::add::{AddOptions, add};
    use crate::dataset::{Meta, TableReader};
    use crate::error::TableError;
    use crate::source::SourceOptions;
    use crate::value::LONGEST_UNIT;

    fn column(name: &str, kind: ColumnKind) -> TableColumn {
        TableColumn { name: name.to_owned(), kind }
    }

    fn columns() -> RowColumns {
        RowColumns {
            target: column("returns", ColumnKind::Boolean),
            features: vec![
                column("ward", ColumnKind::Category { values: vec!["a".to_owned(), "b".to_owned()] }),
                column("age", ColumnKind::Integer { least: 0, most: 100 }),
            ],
            rows_per_unit: 2,
            text: None,
        }
    }

    fn options(folder: &std::path::Path, path: std::path::PathBuf, schema: TableSchema) -> AddOptions {
        AddOptions {
            sources: SourceOptions::Files { paths: vec![path], format: None },
            schema,
            zone: None,
            output: folder.join("visits"),
            name: "visits".to_owned(),
            replace: false,
            created: String::new(),
            fresh_key: [7; 32],
        }
    }

    /// Adds a table of three patients with three rows each. The third has no target.
    fn table(folder: &std::path::Path) -> TableReader {
        let mut text = "patient,age,ward,returns\n".to_owned();
        for row in 0..9 {
            let (patient, age) = (row % 3, 50 * (row % 3));
            let target = ["true", "false", ""][row % 3];
            writeln!(text, "p{patient},{age},{},{target}", ["a", "b", "other"][row / 3]).unwrap();
        }
        let path = folder.join("visits.csv");
        std::fs::write(&path, text).unwrap();
        let columns = columns();
        // Another order than the job's.
        let schema = TableSchema {
            unit_column: "patient".to_owned(),
            columns: vec![columns.features[1].clone(), columns.target.clone(), columns.features[0].clone()],
            encoder: None,
        };
        add(&options(folder, path, schema), None, &SilentProgress).unwrap();
        TableReader::open(&folder.join("visits")).unwrap()
    }

    #[test]
    fn rows_of_a_unit_are_read_together_up_to_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let table = table(folder.path());
        for (most, rows) in [(1, 2), (2, 4), (3, 6), (9, 6)] {
            let read = LabelledRows::read(&table, &columns(), most).unwrap();
            assert_eq!(
                (read.units(), read.rows(), read.inputs()),
                (2, rows, 3),
                "patients without target are left out"
            );
            for unit in 0..2 {
                let (features, labels) = read.unit(unit);
                assert_eq!((features.len(), labels.len()), (3 * rows / 2, rows / 2));
                let age = if labels[0] == 1 { -1.0 } else { 0.0 };
                for row in features.chunks(3) {
                    assert!(
                        row[2].to_bits() == f32::to_bits(age) && matches!(row[..2], [1.0 | 0.0, 0.0] | [0.0, 1.0]),
                        "{row:?}"
                    );
                }
            }
        }
        let mut other = columns();
        other.features[1].kind = ColumnKind::Integer { least: 0, most: 99 };
        for refused in [LabelledRows::read(&table, &other, 1).map(drop), list_labelled(&table, &other).map(drop)] {
            assert!(matches!(refused, Err(TableError::OtherSchema { column, .. }) if column == "age"));
        }
        other.features[1].name = "weight".to_owned();
        for refused in [LabelledRows::read(&table, &other, 1).map(drop), list_labelled(&table, &other).map(drop)] {
            assert!(matches!(refused, Err(TableError::NoColumn { column, .. }) if column == "weight"));
        }
    }

    #[test]
    fn labelled_units_are_counted_in_the_order_of_the_table() {
        let folder = tempfile::tempdir().unwrap();
        let table = table(folder.path());
        let labelled = list_labelled(&table, &columns()).unwrap();
        let mut ids = Vec::new();
        table
            .visit_units(&[], &mut |unit| {
                ids.push(unit.id());
                Ok::<_, TableError>(())
            })
            .unwrap();
        let read = LabelledRows::read(&table, &columns(), 1).unwrap();
        assert_eq!((ids.len(), labelled.len()), (3, 2), "one patient has no target");
        for (place, number) in labelled.into_iter().enumerate() {
            assert_eq!(read.id(place), &ids[number]);
        }
    }

    /// The description is that of a table at the limit: it is refused before a row is read.
    #[test]
    fn units_of_a_table_beyond_the_memory_limit_are_not_listed() {
        let folder = tempfile::tempdir().unwrap();
        drop(table(folder.path()));
        let path = folder.path().join("visits").join(META_FILE);
        let change = |rows: u64| {
            let mut meta: Meta = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            (meta.rows, meta.parts[0].rows) = (rows, rows);
            std::fs::write(&path, serde_json::to_vec(&meta).unwrap()).unwrap();
            list_labelled(&TableReader::open(&folder.path().join("visits")).unwrap(), &columns())
        };
        let most = MOST_NUMBERS / 3;
        assert_eq!(change(most).unwrap().len(), 2);
        assert!(
            matches!(change(most + 1), Err(TableError::TooManyNumbers { rows, inputs: 3, .. }) if rows == most + 1)
        );
    }

    #[test]
    fn text_becomes_the_buckets_of_its_n_grams() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes.csv");
        let long = "x".repeat(LONGEST_UNIT + 1);
        std::fs::write(&path, format!("patient,note,returns\np1,Much better,yes\np2,,no\np3,{long},no\n")).unwrap();
        let note = column("note", ColumnKind::Text { most_grams: 4, characters: false });
        let rows = RowColumns {
            target: column("returns", ColumnKind::Boolean),
            features: vec![note.clone()],
            rows_per_unit: 1,
            text: Some(TextEmbedding { buckets: 1 << 16, width: 8 }),
        };
        let schema = TableSchema {
            unit_column: "patient".to_owned(),
            columns: vec![rows.target.clone(), note.clone()],
            encoder: None,
        };
        let report = add(&options(folder.path(), path, schema), None, &SilentProgress).unwrap();
        assert_eq!((report.rows, report.quarantine.summary()), (2, "1 (1 with a text that is too long)".to_owned()));
        let table = TableReader::open(&folder.path().join("visits")).unwrap();
        let read = LabelledRows::read(&table, &rows, 1).unwrap();
        assert_eq!((read.units(), read.inputs()), (2, 4));
        let order = if read.unit(0).1 == [1] { [0, 1] } else { [1, 0] };
        let [words, nothing] = order.map(|unit| read.unit(unit).0);
        let grams = note.kind.encode_text("much  BETTER").into_iter();
        let buckets = grams.map(|code| select_code_bucket(code, 1 << 16) as f32);
        let expected: Vec<f32> = buckets.chain([NO_GRAM]).collect();
        assert_eq!((words, nothing), (&expected[..], &[NO_GRAM; 4][..]));
        let mut other = rows;
        other.features[0].kind = ColumnKind::Text { most_grams: 4, characters: true };
        assert!(matches!(LabelledRows::read(&table, &other, 1), Err(TableError::OtherSchema { .. })));
    }

    #[test]
    fn rows_beyond_the_memory_limit_are_refused() {
        assert!(check_size("visits", MOST_NUMBERS / 8, 8).is_ok());
        let error = check_size("visits", MOST_NUMBERS / 8 + 1, 8).unwrap_err().to_string();
        assert!(error.contains("`visits`") && error.contains("268435457 rows"), "{error}");
        assert!(check_size("visits", u64::MAX, 2).is_err());
    }
}
