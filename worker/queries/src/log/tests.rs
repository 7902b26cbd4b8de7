#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray, StringDictionaryBuilder};
use arrow::datatypes::Int16Type;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use super::*;

/// The result of a row.
type RowResult = Result<Vec<Option<String>>, RejectReason>;

fn columns() -> ColumnMap {
    let name = |name: &str| Some(name.to_owned());
    ColumnMap { text: "q".to_owned(), user: name("who"), count: name("n"), label: name("what"), subset: None }
}

/// Reads all rows from `place` on, each with its line and the position after it.
fn rows(path: &Path, reading: &ReadOptions, place: LogPosition) -> Vec<(u64, RowResult, LogPosition)> {
    let mut source = open(path, reading, place).unwrap();
    let mut raw = RawRow::default();
    let mut rows = Vec::new();
    loop {
        let row_result = match source.next(&mut raw).unwrap() {
            NextRow::End => return rows,
            NextRow::Bad(reason, _) => Err(reason),
            NextRow::Row => Ok([LogField::Text, LogField::User, LogField::Count, LogField::Label]
                .map(|field| raw.get(field).map(str::to_owned))
                .to_vec()),
        };
        rows.push((source.line(), row_result, source.place()));
    }
}

fn read_rows(path: &Path, reading: &ReadOptions) -> Vec<(u64, RowResult)> {
    rows(path, reading, LogPosition::default()).into_iter().map(|(line, row_result, _)| (line, row_result)).collect()
}

fn row(values: [&str; 4]) -> Vec<Option<String>> {
    values.map(|value| Some(value.to_owned())).to_vec()
}

fn file(dir: &tempfile::TempDir, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::write(&path, content).unwrap();
    path
}

/// Writes three rows in every format; Parquet with a dictionary, with numbers, and with three groups.
fn write_same_rows(dir: &tempfile::TempDir) -> Vec<PathBuf> {
    let parquet = dir.path().join("a.parquet");
    let mut labels = StringDictionaryBuilder::<Int16Type>::new();
    labels.extend(["x", "y", "x"].map(Some));
    let batch = RecordBatch::try_from_iter([
        ("n", Arc::new(Int32Array::from(vec![1, 20, 3])) as ArrayRef),
        ("what", Arc::new(labels.finish()) as ArrayRef),
        ("other", Arc::new(Int32Array::from(vec![0, 0, 0])) as ArrayRef),
        ("who", Arc::new(Int32Array::from(vec![7, 8, 7])) as ArrayRef),
        ("q", Arc::new(StringArray::from(vec!["one, two", "say \"hi\"", "two\nlines"])) as ArrayRef),
    ])
    .unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(1)).build();
    let out = std::fs::File::create(&parquet).unwrap();
    let mut writer = ArrowWriter::try_new(out, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    vec![
        file(
            dir,
            "a.csv",
            "\u{feff}who,q,n,what\r\n7,\"one, two\",1,x\r\n\r\n8,\"say \"\"hi\"\"\",20,y\r\n7,\"two\nlines\",3,x",
        ),
        file(
            dir,
            "a.tsv",
            "who\tq\tn\twhat\n7\tone, two\t1\tx\n8\t\"say \"\"hi\"\"\"\t20\ty\n7\t\"two\nlines\"\t3\tx\n",
        ),
        file(
            dir,
            "a.jsonl",
            "{\"q\":\"one, two\",\"who\":7,\"n\":1,\"what\":\"x\",\"other\":[{\"q\":1}]}\n\n\
             {\"n\":\"20\",\"what\":\"y\",\"q\":\"say \\\"hi\\\"\",\"who\":\"8\"}\n{\"q\":\"two\\nlines\",\"who\":7,\"n\":3,\"what\":\"x\"}",
        ),
        parquet,
    ]
}

#[test]
fn every_format_reads_the_same_rows() {
    let dir = tempfile::tempdir().unwrap();
    let expected = [["one, two", "7", "1", "x"], ["say \"hi\"", "8", "20", "y"], ["two\nlines", "7", "3", "x"]]
        .map(|values| Ok(row(values)));
    for path in write_same_rows(&dir) {
        let rows: Vec<RowResult> =
            read_rows(&path, &ReadOptions::new(columns())).into_iter().map(|(_, row_result)| row_result).collect();
        assert_eq!(rows, expected, "{}", path.display());
    }
}

#[test]
fn reading_resumes_from_any_row() {
    let dir = tempfile::tempdir().unwrap();
    let reading = ReadOptions::new(columns());
    let broken = file(&dir, "b.csv", "q,who,n,what\na,1,1,x\nb,1\n\n\"c,1,1,x\nd,1,1,x\ne,1,1,x\n");
    for path in write_same_rows(&dir).into_iter().chain([broken]) {
        let all = rows(&path, &reading, LogPosition::default());
        assert!(all.len() >= 3);
        for (n, (_, _, place)) in all.iter().enumerate() {
            assert_eq!(rows(&path, &reading, *place), all[n + 1..], "{} after row {n}", path.display());
        }
    }
}

#[test]
fn bad_csv_row_is_rejected_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let long = "z".repeat(LONGEST_ROW);
    let mut log = b"q,who,n,what\na,1,1,x\nb,1,1\nc,1,1,x,y\n\n\xff,1,1,x\n".to_vec();
    log.extend(format!("{long},1,1,x\nd \"quoted\",1,1,x\n\"e,1,1,x\nf,1,1,x\ng,1,1,x\n").bytes());
    let expected = [
        (2, Ok(row(["a", "1", "1", "x"]))),
        (3, Err(RejectReason::Fields)),
        (4, Err(RejectReason::Fields)),
        (6, Err(RejectReason::Encoding)),
        (7, Err(RejectReason::Row)),
        (8, Ok(row(["d \"quoted\"", "1", "1", "x"]))),
        // An unclosed quote includes the rest; its line is lost, and no other.
        (9, Err(RejectReason::Fields)),
        (10, Ok(row(["f", "1", "1", "x"]))),
        (11, Ok(row(["g", "1", "1", "x"]))),
    ];
    assert_eq!(read_rows(&file(&dir, "a.csv", &log), &ReadOptions::new(columns())), expected);
    // The same with so many following lines that the quoted row would exceed the limit.
    let tail = "t,1,1,x\n".repeat(LONGEST_ROW / 8 + 10);
    let log = format!("q,who,n,what\n\"e,1,1,x\n{tail}");
    let rows = read_rows(&file(&dir, "b.csv", log), &ReadOptions::new(columns()));
    assert_eq!(rows[0], (2, Err(RejectReason::Row)));
    assert_eq!((rows.len(), rows.last().unwrap().0), (LONGEST_ROW / 8 + 11, (LONGEST_ROW / 8 + 12) as u64));
    assert!(rows[1..].iter().all(|(_, row_result)| *row_result == Ok(row(["t", "1", "1", "x"]))));
}

/// Each line ends in a quote that the next one closes and opens again. If rows were read to their limit, every line
/// would be read once for each line before the limit.
#[test]
fn csv_row_with_surplus_fields_is_cut_short() {
    let dir = tempfile::tempdir().unwrap();
    let log = format!("q,who,n,what\n{}", "a\",\"x\n".repeat(20_000));
    let rows = read_rows(&file(&dir, "a.csv", log), &ReadOptions::new(columns()));
    let all_but_the_last = &rows[..19_990];
    assert!(
        all_but_the_last.iter().all(|(_, row_result)| *row_result == Err(RejectReason::Fields)),
        "none is taken for endless"
    );
    assert_eq!(all_but_the_last.last().map(|(line, _)| *line), Some(19_991), "each line by itself");
}

#[test]
fn parquet_row_over_the_limit_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.parquet");
    let long = "z".repeat(LONGEST_ROW);
    let batch = RecordBatch::try_from_iter([
        ("q", Arc::new(StringArray::from(vec!["a", long.as_str(), "b"])) as ArrayRef),
        ("who", Arc::new(StringArray::from(vec!["u", "v", "w"])) as ArrayRef),
    ])
    .unwrap();
    let mut writer = ArrowWriter::try_new(std::fs::File::create(&path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let columns = ColumnMap { user: Some("who".to_owned()), ..ColumnMap::text("q") };
    let good = |text: &str, user: &str| Ok(vec![Some(text.to_owned()), Some(user.to_owned()), None, None]);
    assert_eq!(
        read_rows(&path, &ReadOptions::new(columns)),
        [(1, good("a", "u")), (2, Err(RejectReason::Row)), (3, good("b", "w"))]
    );
}

#[test]
fn bad_json_line_is_rejected_alone() {
    let dir = tempfile::tempdir().unwrap();
    let long = format!("{{\"q\":\"{}\"}}", "z".repeat(LONGEST_ROW));
    let mut log =
        b"{\"q\":\"a\"}\nnothing\n[\"q\"]\n{\"q\":\"b\"} {}\n{\"q\":1}\n{\"q\":\"c\",\"q\":\"d\"}\n\xff\n".to_vec();
    log.extend(
        format!("{long}\n{{\"q\":\"e\",\"who\":null,\"n\":1.5}}\n{{\"q\":null,\"what\":true}}\n{{\"q\":\"f\"").bytes(),
    );
    let only = |text: &str| Ok(vec![Some(text.to_owned()), None, None, None]);
    let expected = [
        (1, only("a")),
        (2, Err(RejectReason::Json)),
        (3, Err(RejectReason::Json)),
        (4, Err(RejectReason::Json)),
        (5, Err(RejectReason::Type)),
        (6, Err(RejectReason::Type)),
        (7, Err(RejectReason::Encoding)),
        (8, Err(RejectReason::Row)),
        (9, Err(RejectReason::Type)),
        (10, Ok(vec![None, None, None, Some("true".to_owned())])),
        (11, Err(RejectReason::Json)),
    ];
    assert_eq!(read_rows(&file(&dir, "a.jsonl", log), &ReadOptions::new(columns())), expected);
}

#[test]
fn parquet_count_out_of_range_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.parquet");
    let batch = RecordBatch::try_from_iter([
        ("q", Arc::new(StringArray::from(vec![Some("a"), Some("b"), None])) as ArrayRef),
        ("n", Arc::new(Int32Array::from(vec![1, -1, 2])) as ArrayRef),
    ])
    .unwrap();
    let mut writer = ArrowWriter::try_new(std::fs::File::create(&path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let columns = ColumnMap { count: Some("n".to_owned()), ..ColumnMap::text("q") };
    let row = |text: Option<&str>, n: &str| Ok(vec![text.map(str::to_owned), None, Some(n.to_owned()), None]);
    let expected = [(1, row(Some("a"), "1")), (2, Err(RejectReason::Count)), (3, row(None, "2"))];
    assert_eq!(read_rows(&path, &ReadOptions::new(columns)), expected);
    let wrong = ColumnMap { count: Some("q".to_owned()), ..ColumnMap::text("n") };
    let refused = open(&path, &ReadOptions::new(wrong), LogPosition::default()).err().unwrap().to_string();
    assert!(refused.contains("\"n\"") && refused.contains("text"), "{refused}");
}

#[test]
fn mismatched_log_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let refused =
        |path: &Path, reading: &ReadOptions| open(path, reading, LogPosition::default()).err().unwrap().to_string();
    let plain = ReadOptions::new(columns());
    let path = file(&dir, "a.csv", "q,who,n\n");
    let message = refused(&path, &plain);
    assert!(
        message.contains("no column \"what\"") && message.contains("q, who, n") && message.contains("--label-column"),
        "{message}"
    );
    let twice = refused(&file(&dir, "b.csv", "q,who,n,what,q\n"), &plain);
    assert!(twice.contains("two of this name"), "{twice}");
    assert!(refused(&file(&dir, "c.csv", ""), &plain).contains("empty"));
    assert!(refused(&file(&dir, "d.parquet", "q\n"), &plain).contains("as Parquet"));
    assert!(refused(&file(&dir, "e.log", "q\n"), &plain).contains("--format"));
    assert!(refused(&dir.path().join("none.csv"), &plain).contains("none.csv"));
    let options = ReadOptions {
        format: Some(LogFormat::Csv),
        delimiter: Some(b';'),
        header: Some(["q", "who", "n", "what"].map(str::to_owned).to_vec()),
        columns: columns(),
        rows_are_lines: false,
    };
    let path = file(&dir, "f.log", "a;1;2;x\nb;1;2;x\n");
    assert_eq!(read_rows(&path, &options), [(1, Ok(row(["a", "1", "2", "x"]))), (2, Ok(row(["b", "1", "2", "x"])))]);
}

#[test]
fn excerpt_is_short_text() {
    assert_eq!(excerpt(b"a\xff\r\n"), "a\u{fffd}");
    assert_eq!(excerpt("\u{e9}".repeat(5000).as_bytes()).chars().count(), EXCERPT);
}

/// An open quote, with the row that it includes where rows may have several lines.
#[test]
fn open_quote_rejects_one_line_where_rows_are_lines() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir, "a.csv", "q,who,n,what\n\"open,1,1,x\n\"b\",2,1,x\na \"c\",3,1,x\n\"d,\"\"e\",4,1,x\n");
    let several = ReadOptions::new(columns());
    assert_eq!(read_rows(&path, &several)[0], (2, Ok(row(["open,1,1,x\nb\"", "2", "1", "x"]))));
    let lines = ReadOptions { rows_are_lines: true, ..several };
    assert_eq!(
        read_rows(&path, &lines),
        [
            (2, Err(RejectReason::Lines)),
            (3, Ok(row(["b", "2", "1", "x"]))),
            (4, Ok(row(["a \"c\"", "3", "1", "x"]))),
            (5, Ok(row(["d,\"e", "4", "1", "x"]))),
        ]
    );
    // For any continuation of the row: too many fields, or no end within the limit.
    for rest in ["\",1,1,x,1,1,1\nz,9,1,x\n".to_owned(), "w,1,1,x\n".repeat(LONGEST_ROW / 4)] {
        let path = file(&dir, "b.csv", format!("q,who,n,what\n\"open\n{rest}"));
        assert_eq!(read_rows(&path, &lines)[0], (2, Err(RejectReason::Lines)));
    }
}
