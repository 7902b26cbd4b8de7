//! A query log of six users in every format, with rows damaged in every possible way.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use parquet::arrow::ArrowWriter;
use undertone_privacy::PrivacyUnit;

use super::{DataKind, NeighbourSet, OptionCase, PreparedRows, Refused, Tried};
use crate::queries::dataset::user::{KEY, UserHasher};
use crate::queries::dataset::{KEY_FILE, Reader, Subset};

/// The expectations for the options of query logs. Arguments that name logs are used alone; others go with the CSV.
pub(super) const CASES: &[(&str, OptionCase)] = &[
    ("queries", Tried(&["--queries {}/log.csv {}/more.csv", "--queries {}/log.parquet --user-column user"])),
    (
        "format",
        Tried(&[
            "--format csv",
            "--format tsv --queries {}/log.tsv --user-column user",
            "--format jsonl --queries {}/log.jsonl --user-column user",
            "--format parquet --queries {}/log.parquet --count-column count",
        ]),
    ),
    ("delimiter", Tried(&["--queries {}/log.tsv --format csv --delimiter \\t --user-column user"])),
    ("header", Tried(&["--queries {}/bare.csv --header text,user,count,subset --user-column user"])),
    ("text-column", Tried(&["--text-column subset --user-column user"])),
    ("user-column", Tried(&["--user-column user"])),
    ("count-column", Tried(&["--count-column count --user-column user"])),
    ("label-column", Refused("--label-column subset", "--labels")),
    (
        "labels",
        Tried(&[
            "--label-column subset --labels test,train --user-column user",
            "--label-column subset --labels other",
        ]),
    ),
    ("subset-column", Tried(&["--subset-column subset --test-subset test --user-column user"])),
    ("test-subset", Tried(&["--subset-column subset --test-subset test"])),
    ("train-subset", Tried(&["--subset-column subset --train-subset train --user-column user"])),
    ("form", Tried(&["--form nfc", "--form nfkc --user-column user", "--form keep"])),
    ("case", Tried(&["--case lower --user-column user", "--case keep"])),
    ("punctuation", Tried(&["--punctuation drop --user-column user", "--punctuation keep"])),
    ("digits", Tried(&["--digits zero --user-column user", "--digits keep"])),
    ("blanks", Tried(&["--blanks single --user-column user", "--blanks keep"])),
    ("longest-query", Tried(&["--longest-query 12 --user-column user"])),
    ("hold-out", Tried(&["--hold-out 0.5", "--hold-out 0.5 --user-column user"])),
    ("name", Tried(&["--visibility private"])),
    ("continues", Tried(&["--continues first --user-column user"])),
    ("output", Tried(&["--output {}/{name}"])),
    ("replace", Tried(&["--replace --user-column user"])),
    ("visibility", Tried(&["--visibility private", "--visibility open --user-column user"])),
];

/// A row: its user, its text, its count and its subset. The text identifies the row.
struct QuerySample(&'static str, &'static str, &'static str, &'static str);

/// Odd rows stand between the others: no user, no text, no count, too long, characters merged by normalization.
const SAMPLES: [QuerySample; 13] = [
    QuerySample("u1", "Where is my card?", "1", "train"),
    QuerySample("u1", "\u{feff}line\u{200b}", "2", "test"),
    QuerySample("", "no user", "1", "train"),
    QuerySample("u2", "card 17", "3", "train"),
    QuerySample("u2", "  ", "1", "train"),
    QuerySample("u2", "caf\u{e9} 5\" pipe", "1", "train"),
    QuerySample("u3", "a query that is longer than most", "1", "other"),
    QuerySample("u3", "no count", "many", "train"),
    QuerySample("u4", "half a row", "", ""),
    QuerySample("u5", "ＷＩＤＥ letters", "1000000000", "test"),
    QuerySample("u5", "tab, comma", "1", "train"),
    QuerySample("u6", "loan 18", "1", "train"),
    QuerySample("u6", "last", "2", "train"),
];

/// Makes the data with and without each row and user.
pub(super) fn write_neighbours(dir: &Path) -> NeighbourSet {
    NeighbourSet::new(
        dir,
        &SAMPLES,
        &[(PrivacyUnit::Record, |sample| sample.1.to_owned()), (PrivacyUnit::User, |sample| sample.0.to_owned())],
        write,
    )
}

/// Writes the log in every format.
fn write(dir: &Path, samples: &[&QuerySample]) {
    fs::create_dir_all(dir).unwrap();
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let separated = |separator: &str| {
        let row = |QuerySample(user, text, count, subset): &&QuerySample| match *count {
            // One field is missing.
            "" => [&quoted(text), *user].join(separator) + "\n",
            _ => [&quoted(text), *user, count, subset].join(separator) + "\n",
        };
        samples.iter().map(row).collect::<String>()
    };
    let object = |QuerySample(user, text, count, subset): &&QuerySample| match *count {
        "" => "{\"text\":\"half\n".to_owned(),
        _ => serde_json::json!({ "text": text, "user": user, "count": count, "subset": subset }).to_string() + "\n",
    };
    let head = ["text", "user", "count", "subset"];
    for (name, text) in [
        ("log.csv", head.join(",") + "\n" + &separated(",")),
        ("log.tsv", head.join("\t") + "\n" + &separated("\t")),
        ("bare.csv", separated(",")),
        ("log.jsonl", samples.iter().map(object).collect()),
        // Other queries of the same users.
        ("more.csv", head.join(",") + "\n" + &separated(",").to_uppercase().replace("CARD", "LOAN")),
    ] {
        fs::write(dir.join(name), text).unwrap();
    }
    let texts = |field: fn(&QuerySample) -> &str| {
        Arc::new(samples.iter().map(|sample| Some(field(sample))).collect::<StringArray>()) as ArrayRef
    };
    let counts: UInt64Array = samples.iter().map(|sample| sample.2.parse::<u64>().ok()).collect();
    let batch = RecordBatch::try_from_iter([
        ("text", texts(|sample| sample.1)),
        ("user", texts(|sample| sample.0)),
        ("count", Arc::new(counts) as ArrayRef),
        ("subset", texts(|sample| sample.3)),
    ])
    .unwrap();
    let out = fs::File::create(dir.join("log.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(out, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

/// A row: its text, count, user, label and part. Users are identified by name, independent of the dataset's key.
type QueryRow = (String, u64, Option<&'static str>, Option<u16>, bool);

pub(super) struct QueryData;

impl DataKind for QueryData {
    type Row = QueryRow;

    fn command(&self, arguments: &str) -> String {
        let log = if arguments.contains("--queries") { "" } else { "--queries {}/log.csv" };
        format!("{log} {arguments}")
    }

    fn read(&self, dataset: &Path) -> PreparedRows<QueryRow> {
        let reader = Reader::open(dataset).unwrap();
        let key = fs::read_to_string(dataset.join(KEY_FILE)).ok();
        let key = key.map(|key| <[u8; KEY]>::try_from(hex::decode(key.trim()).unwrap()).unwrap());
        let users = key.map(|key| UserHasher::new(&key));
        let name = |hash: u128| {
            let users = users.as_ref().unwrap();
            SAMPLES.iter().map(|sample| sample.0).find(|name| users.hash_id(name) == hash).unwrap_or("unknown")
        };
        let mut rows = Vec::new();
        for subset in [Subset::Train, Subset::Test] {
            for row in reader.rows(subset) {
                let row = row.unwrap();
                rows.push((row.text, row.count, row.user.map(name), row.label, subset == Subset::Test));
            }
        }
        rows.sort();
        PreparedRows { rows, units: reader.meta().units.clone() }
    }

    /// No option names a row or a user.
    fn is_of(&self, _row: &QueryRow, _unit: PrivacyUnit, _name: &str) -> bool {
        false
    }
}

/// One user's row leaves a quote open, and another user's row begins with a quote. Under RFC 4180 both are one row, of
/// the second user. In private logs such a line is refused; in public logs it is read by that rule.
#[test]
fn unclosed_quote_in_a_private_log_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let log = "text,user\nplain,u0\n\"open,u1\n\"theirs\",u2\nmore,u3\n";
    fs::write(dir.path().join("log.csv"), log).unwrap();
    let prepare = |name: &str, arguments: &str| {
        let log = "--queries {}/log.csv --user-column user";
        super::data_at(
            &dir.path().join("site"),
            dir.path(),
            &format!("prepare {log} --name {name} --output {{}}/{name} {arguments}"),
        )
    };
    let message = prepare("ward", "").unwrap_err();
    assert!(message.contains("1 rows") && message.contains("line 3") && message.contains("JSON Lines"), "{message}");
    assert!(!dir.path().join("ward").exists());
    prepare("public", "--visibility public").unwrap();
    let rows = QueryData.read(&dir.path().join("public")).rows;
    assert!(rows.iter().any(|row| row.0.starts_with("open,u1")), "{rows:?}");
    // Without the open quote all rows are read, and the second user's row is separate.
    fs::write(dir.path().join("log.csv"), log.replace("\"open,u1\n", "")).unwrap();
    assert!(prepare("ward", "").unwrap().contains("3 kept"));
}
