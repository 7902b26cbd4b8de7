#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use super::fixture::prepared;
use super::*;

const LOG: &str = "text,session,count,intent,split
Call the Nurse,s1,2,call,train
call  the nurse,s2,1,call,test
where am i?,s1,5,,train
";

fn replace(folder: &Path, from: &str, to: &str) {
    let path = folder.join(META_FILE);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(&path, text.replace(from, to)).unwrap();
}

#[test]
fn rows_read_back_with_hashed_users() {
    let dir = tempfile::tempdir().unwrap();
    let reader = prepared(dir.path(), "ward", LOG);
    let rows = |subset| reader.rows(subset).collect::<Result<Vec<Row>, _>>().unwrap();
    let train = rows(Subset::Train);
    let test = rows(Subset::Test);
    let summary = |row: &Row| (row.text.clone(), row.count, row.label);
    let expected = [("call the nurse".to_owned(), 2, Some(0)), ("where am i?".to_owned(), 5, None)];
    assert_eq!(train.iter().map(summary).collect::<Vec<_>>(), expected);
    assert_eq!(test.iter().map(summary).collect::<Vec<_>>(), [("call the nurse".to_owned(), 1, Some(0))]);
    assert_eq!(train[0].user, train[1].user);
    assert_ne!(train[0].user, test[0].user);
    assert!(train.iter().chain(&test).all(|row| row.user.is_some()));
    let meta = reader.meta();
    assert_eq!((meta.train.rows, meta.train.occurrences, meta.train.users, meta.train.texts), (2, 7, 1, 2));
    assert_eq!((meta.test.rows, meta.test.occurrences, meta.labels.as_slice()), (1, 1, ["call".to_owned()].as_slice()));
    assert!(meta.units.is_empty(), "labels are numbered over all rows: {:?}", meta.units);
}

#[test]
fn digest_matches_sha256sum() {
    let dir = tempfile::tempdir().unwrap();
    let reader = prepared(dir.path(), "ward", LOG);
    let path = dir.path().join("ward").join(ROWS_FOLDER).join("000000.parquet");
    let line = format!("{}  000000.parquet\n", hex::encode(Sha256::digest(fs::read(path).unwrap())));
    assert_eq!(reader.meta().digest, hex::encode(Sha256::digest(line)));
}

#[cfg(unix)]
#[test]
fn dataset_is_readable_by_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    prepared(dir.path(), "ward", LOG);
    let folder = dir.path().join("ward");
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder), mode(&folder.join(ROWS_FOLDER))), (0o700, 0o700));
    for file in ["rows/000000.parquet", "meta.json", "report.json", "key"] {
        assert_eq!(mode(&folder.join(file)), 0o600, "{file}");
    }
}

#[test]
fn damaged_dataset_is_refused_by_file_name() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("ward");
    let again = || {
        drop(fs::remove_dir_all(&folder));
        prepared(dir.path(), "ward", LOG);
    };
    let refused = |what: &str| {
        let message = Reader::open(&folder).unwrap_err().to_string();
        assert!(message.contains(what), "{message}");
    };
    let part = folder.join(ROWS_FOLDER).join("000000.parquet");
    again();
    let mut bytes = fs::read(&part).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&part, &bytes).unwrap();
    refused("has changed since");
    fs::write(&part, &bytes[1..]).unwrap();
    refused("truncated");
    fs::remove_file(&part).unwrap();
    refused("000000.parquet");
    for (from, to, what) in [
        ("\"digest\": \"", "\"digest\": \"0", "digest"),
        ("\"rows\": 2,", "\"rows\": 3,", "counts"),
        ("\"format\": 1", "\"format\": 2", "version 2"),
        ("\"queries\"", "\"speech\"", "does not hold queries"),
        ("000000.parquet", "../../x.parquet", "not its own"),
    ] {
        again();
        replace(&folder, from, to);
        refused(what);
    }
    fs::remove_file(folder.join(META_FILE)).unwrap();
    refused(META_FILE);
}
