//! Some of the units of a table as a table of their own, for a rehearsal on public data.

use std::fs;
use std::path::Path;

use undertone_worker_site::dataset_meta::{DatasetError, META_FILE};
use undertone_worker_site::folder::{FolderError, create_private, hidden, sync_folder};

use crate::dataset::{ROWS_FOLDER, TableReader};
use crate::error::TableError;
use crate::writer::{TableWriter, remove_folder, write_json};

/// Writes the units with the given numbers as the table `name` in `output`, which must not exist. Numbers count the units
/// in the order of `table`, from 0, and ascend; others are ignored.
///
/// The schema and the rows are those of `table`, in its order, so the same units give the same bytes. A subset has no key,
/// because the key of a table never leaves its folder: it is read, and no version follows it. Memory: one batch of rows,
/// the rows of one unit, and one group of rows of the written file. After a crash nothing is under the name.
///
/// # Errors
/// [`TableError`] when `table` cannot be read or the disk refuses.
pub fn write_subset(table: &TableReader, name: &str, output: &Path, numbers: &[usize]) -> Result<(), TableError> {
    let growing = hidden(output);
    remove_folder(&growing)?;
    let rows_folder = growing.join(ROWS_FOLDER);
    create_private(&rows_folder)?;
    let schema = &table.meta().schema;
    let mut writer = TableWriter::new(&rows_folder, schema.code_count());
    let columns: Vec<usize> = (0..schema.code_count()).collect();
    let mut chosen = numbers.iter().copied().peekable();
    let mut number = 0;
    table.visit_units(&columns, &mut |unit| {
        if chosen.next_if_eq(&number).is_some() {
            let id = u128::from_be_bytes(unit.id());
            unit.rows().try_for_each(|codes| writer.push(id, codes.iter().copied()))?;
        }
        number += 1;
        Ok::<_, DatasetError>(())
    })?;
    let meta = writer.finish()?.describe(name, schema, &table.meta().created);
    sync_folder(&rows_folder)?;
    write_json(&growing.join(META_FILE), &meta)?;
    fs::rename(&growing, output).map_err(FolderError::io("rename", &growing))?;
    Ok(sync_folder(output.parent().unwrap_or(Path::new(".")))?)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::collections::BTreeSet;
    use std::path::Path;

    use undertone_api::table::{ColumnKind, TableColumn, TableSchema};
    use undertone_worker_site::dataset_meta::DatasetError;
    use undertone_worker_site::progress::SilentProgress;

    use super::write_subset;
    use crate::add::{AddOptions, add};
    use crate::dataset::TableReader;
    use crate::key::KEY_FILE;
    use crate::source::SourceOptions;

    /// The patients of the table; patient n has n % 3 + 1 rows.
    const PATIENTS: usize = 30;

    fn table(folder: &Path) -> TableReader {
        let path = folder.join("visits.csv");
        let rows = (0..PATIENTS).flat_map(|n| (0..=n % 3).map(move |row| format!("p{n},{},{}\n", n + row, row)));
        let text: String = std::iter::once("patient,age,note\n".to_owned()).chain(rows).collect();
        std::fs::write(&path, text).unwrap();
        let column = |name: &str, kind| TableColumn { name: name.to_owned(), kind };
        let options = AddOptions {
            sources: SourceOptions::Files { paths: vec![path], format: None },
            schema: TableSchema {
                unit_column: "patient".to_owned(),
                columns: vec![
                    column("age", ColumnKind::Integer { least: 0, most: 100 }),
                    column("note", ColumnKind::Text { most_grams: 2, characters: false }),
                ],
                encoder: Some("a".repeat(64)),
            },
            zone: None,
            output: folder.join("visits"),
            name: "visits".to_owned(),
            replace: false,
            created: "2026-01-01T00:00:00Z".to_owned(),
            fresh_key: [7; 32],
        };
        add(&options, None, &SilentProgress).unwrap();
        TableReader::open(&options.output).unwrap()
    }

    type UnitContent = ([u8; 16], Vec<Vec<Option<i64>>>);

    fn units(table: &TableReader) -> Vec<UnitContent> {
        let columns: Vec<usize> = (0..table.meta().schema.code_count()).collect();
        let mut units = Vec::new();
        table
            .visit_units(&columns, &mut |unit| {
                units.push((unit.id(), unit.rows().map(<[_]>::to_vec).collect()));
                Ok::<_, DatasetError>(())
            })
            .unwrap();
        units
    }

    #[test]
    fn subset_has_the_rows_and_the_schema_of_its_units() {
        let folder = tempfile::tempdir().unwrap();
        let table = table(folder.path());
        let all = units(&table);
        let chosen: Vec<usize> = (0..PATIENTS).filter(|n| n % 4 == 1).chain([PATIENTS + 7]).collect();
        let output = folder.path().join("parts/part-1");
        write_subset(&table, "part-1", &output, &chosen).unwrap();
        let subset = TableReader::open(&output).unwrap();
        let expected: Vec<_> = chosen.iter().filter_map(|n| all.get(*n).cloned()).collect();
        assert_eq!(units(&subset), expected);
        let meta = subset.meta();
        assert_eq!((&*meta.name, &meta.schema, &meta.created), ("part-1", &table.meta().schema, &table.meta().created));
        let rows: usize = expected.iter().map(|(_, rows)| rows.len()).sum();
        assert_eq!((meta.units, meta.rows), (expected.len() as u64, rows as u64));
        assert!(!output.join(KEY_FILE).exists(), "the key stays with the table");
        assert_eq!(std::fs::read_dir(output.parent().unwrap()).unwrap().count(), 1, "nothing is left over");
    }

    #[test]
    fn same_units_give_the_same_bytes_and_complements_share_none() {
        let folder = tempfile::tempdir().unwrap();
        let table = table(folder.path());
        let write = |name: &str, is_chosen: fn(&usize) -> bool| {
            let numbers: Vec<usize> = (0..PATIENTS).filter(is_chosen).collect();
            let output = folder.path().join(name);
            write_subset(&table, name, &output, &numbers).unwrap();
            TableReader::open(&output).unwrap()
        };
        let even = write("even", |n| n % 2 == 0);
        let again = write("again", |n| n % 2 == 0);
        let odd = write("odd", |n| n % 2 == 1);
        assert_eq!(even.meta().digest, again.meta().digest);
        let ids = |table: &TableReader| units(table).into_iter().map(|(id, _)| id).collect::<BTreeSet<_>>();
        assert!(ids(&even).is_disjoint(&ids(&odd)) && ids(&even).len() + ids(&odd).len() == PATIENTS);
    }
}
