//! Frozen encoders: the encoding of the documentation, a CSV with features that become a table, and refusals.

use std::fs;
use std::path::Path;

use undertone_api::dataset::DatasetContent;
use undertone_worker_encoder::fixtures::{embedding, linear};

use super::data;
use crate::site::dataset_meta::DatasetError;
use crate::site::datasets::scan;
use crate::site::folder::Folder;
use crate::site::policy::Policy;
use crate::site::store::Store;
use crate::tables::dataset::TableReader;

const PAGE: &str = include_str!("../../../../../docs/src/how-to/train-on-tables.md");
const ROWS: &str = "patient,age,pulse,returns\n1,0.5,2,yes\n1,1,1,no\n2,,1,no\n3,900,1,yes\n4,old,1,no\n5,-1,0,\n";
const ENCODING: &str = r#"
unit = "patient"

[[columns]]
name = "returns"
kind = "boolean"

[encoder]
prefix = "f"
least = -50.0
most = 50.0
step = 0.25

[encoder.input]
kind = "numbers"
columns = ["age", "pulse"]
"#;
const ENCODE: &str = "encode --model {}/encoder.onnx --encoding {}/encoding.toml --input {}/rows.csv";

/// Writes a graph of two numbers and three features, an encoding and rows.
fn write(dir: &Path) {
    linear(2, 3, &[1.0, 2.0, 3.0, 10.0, 20.0, 30.0]).save(dir);
    fs::write(dir.join("encoding.toml"), ENCODING).unwrap();
    fs::write(dir.join("rows.csv"), ROWS).unwrap();
}

/// Returns the codes of the rows of a dataset, sorted.
fn read_rows(dir: &Path, name: &str, columns: &[usize]) -> Vec<Vec<Option<i64>>> {
    let mut rows = Vec::new();
    let table = TableReader::open(&dir.join("site/data").join(name)).unwrap();
    table
        .visit_units(columns, &mut |unit| {
            rows.extend(unit.rows().map(<[_]>::to_vec));
            Ok::<_, DatasetError>(())
        })
        .unwrap();
    rows.sort();
    rows
}

/// Returns the digest of the encoder that a report states.
fn find_digest(report: &str) -> &str {
    report.lines().find_map(|line| line.strip_prefix("Encoder         ")).unwrap()
}

#[test]
fn encoded_table_has_the_features_of_each_row() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write(dir);
    let report = data(dir, &format!("{ENCODE} --name features")).unwrap();
    for line in [
        "Features        3",
        "Rows read       6",
        "Rows            4",
        "Left out        2 (1 with a value that is no finite number, 1 without an input of the encoder)",
    ] {
        assert!(report.contains(line), "{report}");
    }
    // In steps of 0.25, within ±50, after the label.
    let rows = read_rows(dir, "features", &[0, 1, 2, 3]);
    let expected = [[None, Some(-4), Some(-8), Some(-12)], [Some(0), Some(44), Some(88), Some(132)]];
    let others = [[1, 82, 164, 200], [1, 200, 200, 200]].map(|row| row.map(Some));
    assert_eq!(rows, [expected, others].concat());
    // The same rows in another order become the same table.
    let (head, rest) = ROWS.split_once('\n').unwrap();
    let backwards: Vec<&str> = rest.lines().rev().collect();
    fs::write(dir.join("rows.csv"), format!("{head}\n{}\n", backwards.join("\n"))).unwrap();
    data(dir, &format!("{ENCODE} --name features --replace")).unwrap();
    assert_eq!(read_rows(dir, "features", &[0, 1, 2, 3]), rows);
    let list = data(dir, "list --check").unwrap();
    assert!(list.contains("features  table ") && list.contains(find_digest(&report)), "{list}");
}

#[test]
fn replacement_by_another_encoder_continues_the_accounts() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write(dir);
    let first = data(dir, &format!("{ENCODE} --name features")).unwrap();
    let registration = || {
        let folder = Folder::new(dir.join("site"));
        let store = Store::open_or_begin(&folder).unwrap();
        let (mut datasets, _) = scan(&folder, &store, &Policy::load_or_template(&folder.policy()).unwrap()).unwrap();
        let local = datasets.remove(0);
        (local.lineage, local.registration())
    };
    let (lineage, before) = registration();
    let schema = before.table.unwrap();
    assert_eq!((before.content, schema.check("table")), (DatasetContent::Table, Vec::new()));
    assert_eq!(schema.encoder.as_deref(), Some(find_digest(&first)));
    let names: Vec<&str> = schema.columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["returns", "f_0", "f_1", "f_2"]);
    linear(2, 3, &[0.5; 6]).save(dir);
    let second = data(dir, &format!("{ENCODE} --name features --replace")).unwrap();
    let (continued, after) = registration();
    assert_ne!(find_digest(&second), find_digest(&first));
    assert_eq!((continued, after.table.unwrap().encoder.as_deref()), (lineage, Some(find_digest(&second))));
}

#[test]
fn encoding_of_the_documentation_encodes_texts() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (_, rest) = PAGE.split_once("## Frozen encoders").unwrap();
    let (_, rest) = rest.split_once("```toml\n").unwrap();
    let (encoding, _) = rest.split_once("```").unwrap();
    fs::write(dir.join("encoding.toml"), encoding).unwrap();
    fs::write(dir.join("vocab.txt"), "[PAD]\n[UNK]\n[CLS]\n[SEP]\nlow\n##er\nhigh\n,\n").unwrap();
    fs::write(dir.join("rows.csv"), "person_id,returns,note\n1,no,Lower\n2,yes,high high\n3,no,\n").unwrap();
    embedding().save(dir);
    let report = data(dir, &format!("{ENCODE} --name notes")).unwrap();
    assert!(report.contains("1 without an input of the encoder"), "{report}");
    // The means of the tokens 2, 4, 5, 3 and of 2, 6, 6, 3, in steps of 0.001, within ±4.
    let rows = [[0, 3_500, -3_500], [1, 4_000, -4_000]].map(|row| row.map(Some).to_vec());
    assert_eq!(read_rows(dir, "notes", &[0, 1, 2]), rows);
}

#[test]
fn paths_of_rows_stay_below_the_folder() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write(dir);
    let (head, _) = ENCODING.split_once("[encoder.input]").unwrap();
    let audio = "[encoder.input]\nkind = \"audio\"\ncolumn = \"path\"\nrate = 16000\nseconds = 0.000125\n";
    fs::write(dir.join("encoding.toml"), format!("{head}{audio}")).unwrap();
    fs::create_dir(dir.join("sounds")).unwrap();
    for name in ["sounds/a.wav", "b.wav"] {
        fs::write(dir.join(name), crate::speech::wav::write(&[0.5; 800])).unwrap();
    }
    fs::write(dir.join("rows.csv"), "patient,returns,path\n1,no,a.wav\n2,no,../b.wav\n3,no,c.wav\n").unwrap();
    assert!(data(dir, &format!("{ENCODE} --name sounds")).unwrap_err().contains("--folder"));
    let report = data(dir, &format!("{ENCODE} --name sounds --folder {{}}/sounds")).unwrap();
    assert!(report.contains("1 with a path that leaves --folder"), "{report}");
    assert!(report.contains("1 with a file that is missing, damaged or too large"), "{report}");
    // Two samples of 0.5 reach the graph of two numbers.
    assert_eq!(read_rows(dir, "sounds", &[1]), [[Some(22)]]);
}

#[test]
fn wrong_encoding_or_graph_is_refused_before_rows_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write(dir);
    let refused = || data(dir, &format!("{ENCODE} --name features")).unwrap_err();
    let change = |from: &str, to: &str| fs::write(dir.join("encoding.toml"), ENCODING.replace(from, to)).unwrap();
    change("unit = \"patient\"", "");
    assert!(refused().contains("--unit"));
    change("step = 0.25", "step = 200.0");
    assert!(refused().contains("table.columns.1.step"));
    change("prefix = \"f\"", "prefix = \"F\"");
    assert!(refused().contains("table.columns.1.name"));
    change("columns = [\"age\"", "columns = [\"returns\"");
    assert!(refused().contains("source.columns.1.name"), "a column is kept or encoded");
    change("columns = [\"age\", ", "columns = [");
    assert!(refused().contains("[1, 1] is expected"));
    change("kind = \"numbers\"", "kind = \"video\"");
    assert!(refused().contains("--encoding"));
    change("", "");
    let mut graph = linear(2, 1, &[1.0; 2]);
    graph.0.node[0].op_type = Some("RandomUniformLike".to_owned());
    graph.save(dir);
    assert!(refused().contains("random"));
    fs::remove_file(dir.join("encoder.onnx")).unwrap();
    assert!(refused().contains("check --model"));
    assert!(!dir.join("site/data").exists());
}
