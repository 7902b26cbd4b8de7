//! Fuzzes the readers of query logs. Every format returns rows or an error, from any position, and never holds more
//! than one bounded row.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use undertone_fuzz::Target;

use super::log::{self, ColumnMap, LONGEST_ROW, LogError, LogField, LogPosition, NextRow, RawRow, ReadOptions};

/// More rows than an input of 1 MiB can have where each row takes a byte. A few bytes of Parquet may state any number
/// of equal rows; the test reads no more of them than this.
const MOST_ROWS: usize = 1 << 20;

fn reading() -> ReadOptions {
    let name = |name: &str| Some(name.to_owned());
    ReadOptions::new(ColumnMap { text: "q".to_owned(), user: name("who"), count: name("n"), label: None, subset: None })
}

/// Reads a log from `place` to its end. Returns the positions after its first rows.
fn rows(path: &Path, reading: &ReadOptions, place: LogPosition) -> Result<Vec<LogPosition>, LogError> {
    let mut source = log::open(path, reading, place)?;
    let mut raw = RawRow::default();
    let mut places = Vec::new();
    let mut rows = 0;
    loop {
        match source.next(&mut raw)? {
            NextRow::End => return Ok(places),
            NextRow::Bad(_, beginning) => assert!(beginning.chars().count() <= 200, "{}", beginning.len()),
            NextRow::Row => {
                let fields =
                    [LogField::Text, LogField::User, LogField::Count].map(|field| raw.get(field).map_or(0, str::len));
                assert!(fields.iter().all(|bytes| *bytes <= LONGEST_ROW), "{fields:?}");
            }
        }
        rows += 1;
        if rows > MOST_ROWS {
            assert!(path.ends_with("a.parquet"), "more rows than there can be");
            return Ok(places);
        }
        if places.len() < 3 {
            places.push(source.place());
        }
    }
}

/// Reads the whole log, and again from the positions after its first rows. A text that was read once can be read again.
/// The check excludes Parquet, because the reader skips damaged pages when it starts behind them.
fn read(path: &Path, reading: &ReadOptions) {
    for place in rows(path, reading, LogPosition::default()).unwrap_or_default() {
        let again = rows(path, reading, place);
        assert!(again.is_ok() || path.ends_with("a.parquet"), "it was read from its beginning: {again:?}");
    }
}

fn try_format(name: &'static str, inputs: u32, file: &str, seeds: Vec<Vec<u8>>, words: &[&str]) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path: PathBuf = dir.path().join(file);
    let reading: ReadOptions = reading();
    for seed in &seeds {
        std::fs::write(&path, seed).expect("the folder is writable");
        let read = rows(&path, &reading, LogPosition::default());
        assert!(read.as_ref().is_ok_and(|places| !places.is_empty()), "{name}: a good log is changed: {read:?}");
    }
    Target::new(name, inputs).seeds(seeds).words(words).run(|bytes| {
        std::fs::write(&path, bytes).expect("the folder is writable");
        read(&path, &reading);
    });
}

#[test]
fn csv_reader_survives_any_log() {
    let plain = "who,q,n\r\n7,\"one, two\",1\r\n\r\n8,\"say \"\"hi\"\"\",20\r\n7,\"two\nlines\",3\r\n";
    let open = "\u{feff}q,who,n\na,1,1\nb,1\n\"c,1,1\nd \"quoted\",1,1\n";
    let words = ["\"", "\"\"", ",\"", "\",", "\",\"", "\r\n", ",,,,"];
    try_format("worker.queries_csv", 1_500, "a.csv", vec![plain.into(), open.into()], &words);
}

#[test]
fn json_lines_reader_survives_any_log() {
    let plain = "{\"q\":\"one, two\",\"who\":7,\"n\":1,\"other\":[{\"q\":1}]}\n\n{\"n\":\"20\",\"q\":\"say \\\"hi\\\"\",\"who\":\"8\"}\n";
    let one = "{\"q\":\"one\",\"who\":7,\"n\":1}";
    let words = ["\"q\":", "\"who\":null", "[[[[", "{\"q\":", "\\ud83d\\ude00", "1e999", "}\n{"];
    try_format("worker.queries_json", 1_500, "a.jsonl", vec![plain.into(), one.into()], &words);
}

/// Returns a log of three groups of rows, plain or compressed.
fn parquet(dir: &Path, compression: Compression) -> Vec<u8> {
    let path = dir.join("seed.parquet");
    let texts: Vec<String> = (0..60).map(|row| format!("how do I renew card {}", row % 7)).collect();
    let users: Vec<i64> = (0..60).map(|row| row % 11).collect();
    let batch = RecordBatch::try_from_iter([
        ("q", Arc::new(StringArray::from(texts)) as ArrayRef),
        ("who", Arc::new(Int64Array::from(users.clone())) as ArrayRef),
        ("n", Arc::new(Int64Array::from(users)) as ArrayRef),
    ])
    .expect("columns of one length");
    let properties =
        WriterProperties::builder().set_max_row_group_row_count(Some(20)).set_compression(compression).build();
    let file = std::fs::File::create(&path).expect("the folder is writable");
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).expect("a writer");
    writer.write(&batch).expect("written");
    writer.close().expect("closed");
    std::fs::read(&path).expect("it was just written")
}

#[test]
fn parquet_reader_survives_any_log() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let seeds = [Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::ZSTD(ZstdLevel::default())];
    let seeds: Vec<Vec<u8>> = seeds.map(|compression| parquet(dir.path(), compression)).to_vec();
    try_format("worker.queries_parquet", 1_200, "a.parquet", seeds, &["PAR1"]);
}
