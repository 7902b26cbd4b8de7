//! Tables: the example of the documentation, refreshed, registered, and recognized under another name.

use std::fs;
use std::path::Path;

use undertone_api::dataset::{DatasetContent, SizeClass};
use undertone_privacy::PrivacyUnit;

use super::data;
use crate::site::datasets::{LocalDataset, scan};
use crate::site::folder::Folder;
use crate::site::policy::Policy;
use crate::site::store::Store;
use crate::tables::source::LONGEST_ROW;

const PAGE: &str = include_str!("../../../../../docs/src/how-to/prepare-tables.md");
const ROWS: &str = "person_id;AGE;sex;weight;smoker;visit_date\n\
    1;41;female;70,5;no;2026-01-31\n2;130;male;80.04;yes;2026-01-31T23:30:00Z\n3;12;other;;;2014-05-05\n;1;male;;;\n";

/// Writes the schema of the documentation and the rows.
fn write(dir: &Path) {
    let (_, rest) = PAGE.split_once("```toml\n").unwrap();
    let (schema, _) = rest.split_once("```").unwrap();
    fs::write(dir.join("visits.toml"), schema).unwrap();
    fs::write(dir.join("visits.csv"), ROWS).unwrap();
}

const ADD: &str = "add-table --schema {}/visits.toml --input {}/visits.csv --delimiter ;";

fn datasets(dir: &Path) -> Vec<LocalDataset> {
    let folder = Folder::new(dir.join("site"));
    let store = Store::open_or_begin(&folder).unwrap();
    let (datasets, unusable) = scan(&folder, &store, &Policy::load_or_template(&folder.policy()).unwrap()).unwrap();
    assert!(unusable.is_empty(), "{unusable:?}");
    datasets
}

#[test]
fn table_of_the_documentation_is_added_and_registered() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write(dir);
    let report = data(dir, &format!("{ADD} --name visits --zone -02:00")).unwrap();
    for line in [
        "Rows read       4",
        "Rows            2",
        "Units           2",
        "Left out        2 (1 without a unit, 1 with a value that is no finite number)",
        "1 values of `sex`, which count as missing",
    ] {
        assert!(report.contains(line), "{report}");
    }
    let list = data(dir, "list --check").unwrap();
    assert!(list.lines().nth(1).is_some_and(|line| line.starts_with("visits  table  ")), "{list}");
    let local = datasets(dir).remove(0);
    let registration = local.registration();
    assert_eq!((registration.content, registration.records), (DatasetContent::Table, SizeClass(2)));
    assert_eq!((registration.users, &registration.units[..]), (Some(SizeClass(2)), &[PrivacyUnit::User][..]));
    let schema = registration.table.unwrap();
    assert_eq!((schema.unit_column.as_str(), schema.columns.len(), schema.check("table").len()), ("person_id", 5, 0));
    // A refresh continues the accounts, with a schema that may change.
    assert!(data(dir, &format!("{ADD} --name visits")).unwrap_err().contains("--replace"));
    let report = data(dir, &format!("{ADD} --name visits --replace")).unwrap();
    assert!(report.contains("1 with a time in a zone, and no --zone"), "{report}");
    assert_eq!(datasets(dir)[0].lineage, local.lineage);
    // The units are recognized under another name.
    assert!(data(dir, &format!("{ADD} --name other")).unwrap_err().contains("visits"));
    data(dir, &format!("{ADD} --name other --continues visits")).unwrap();
    assert_eq!(datasets(dir).iter().map(|local| local.lineage).collect::<Vec<_>>(), [local.lineage; 2]);
}

#[test]
fn wrong_arguments_of_a_table_name_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write(dir);
    let refused = |more: &str| data(dir, &format!("{ADD} --name visits {more}")).unwrap_err();
    assert!(refused("--unit patient").contains("--unit names `patient`"));
    assert!(refused("--visibility open").contains("private or public"));
    assert!(refused("--zone CET").contains("no offset from UTC"));
    assert!(refused("--postgres {}/visits.csv --view visits").contains("cannot be used with"));
    let postgres = "add-table --name visits --schema {}/visits.toml --postgres {}/visits.csv";
    assert!(data(dir, postgres).unwrap_err().contains("--query"));
    assert!(data(dir, &format!("{postgres} --view visits")).unwrap_err().contains("postgres://"));
    let schema = fs::read_to_string(dir.join("visits.toml")).unwrap();
    fs::write(dir.join("visits.toml"), schema.replace("unit = \"person_id\"", "")).unwrap();
    assert!(refused("").contains("--unit"));
    fs::write(dir.join("visits.toml"), schema.replace("least = 0\n", "least = 0\nquantile = 1\n")).unwrap();
    assert!(refused("").contains("--schema"));
    assert!(datasets(dir).is_empty());
    assert!(PAGE.contains("1 MiB") && LONGEST_ROW == 1 << 20);
}
