#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray, StringDictionaryBuilder};
use datafusion::arrow::datatypes::Int16Type;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::properties::WriterProperties;

use super::*;

/// What a source tells of a row.
type Told = Result<Vec<Option<String>>, Reason>;

fn columns() -> Columns {
    let name = |name: &str| Some(name.to_owned());
    Columns { text: "q".to_owned(), user: name("who"), count: name("n"), label: name("what"), subset: None }
}

/// All rows from `place` on, each with its line and the place behind it.
fn rows(path: &Path, reading: &Reading, place: Place) -> Vec<(u64, Told, Place)> {
    let mut source = open(path, reading, place).unwrap();
    let (mut raw, mut rows) = (Raw::default(), Vec::new());
    loop {
        let told = match source.next(&mut raw).unwrap() {
            Next::End => return rows,
            Next::Bad(reason, _) => Err(reason),
            Next::Row => Ok([Field::Text, Field::User, Field::Count, Field::Label]
                .map(|field| raw.get(field).map(str::to_owned))
                .to_vec()),
        };
        rows.push((source.line(), told, source.place()));
    }
}

fn told(path: &Path, reading: &Reading) -> Vec<(u64, Told)> {
    rows(path, reading, Place::default()).into_iter().map(|(line, told, _)| (line, told)).collect()
}

fn row(values: [&str; 4]) -> Vec<Option<String>> {
    values.map(|value| Some(value.to_owned())).to_vec()
}

fn file(dir: &tempfile::TempDir, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::write(&path, content).unwrap();
    path
}

/// Three rows in every format; Parquet with a dictionary, with numbers, and with three groups.
fn same(dir: &tempfile::TempDir) -> Vec<PathBuf> {
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
fn every_format_tells_the_same_rows() {
    let dir = tempfile::tempdir().unwrap();
    let expected = [["one, two", "7", "1", "x"], ["say \"hi\"", "8", "20", "y"], ["two\nlines", "7", "3", "x"]]
        .map(|values| Ok(row(values)));
    for path in same(&dir) {
        let rows: Vec<Told> = told(&path, &Reading::new(columns())).into_iter().map(|(_, told)| told).collect();
        assert_eq!(rows, expected, "{}", path.display());
    }
}

#[test]
fn reading_goes_on_from_any_row_as_if_it_had_not_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let reading = Reading::new(columns());
    let broken = file(&dir, "b.csv", "q,who,n,what\na,1,1,x\nb,1\n\n\"c,1,1,x\nd,1,1,x\ne,1,1,x\n");
    for path in same(&dir).into_iter().chain([broken]) {
        let all = rows(&path, &reading, Place::default());
        assert!(all.len() >= 3);
        for (n, (_, _, place)) in all.iter().enumerate() {
            assert_eq!(rows(&path, &reading, *place), all[n + 1..], "{} after row {n}", path.display());
        }
    }
}

#[test]
fn a_bad_row_of_csv_costs_that_row_and_its_line_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let long = "z".repeat(LONGEST_ROW);
    let mut log = b"q,who,n,what\na,1,1,x\nb,1,1\nc,1,1,x,y\n\n\xff,1,1,x\n".to_vec();
    log.extend(format!("{long},1,1,x\nd \"quoted\",1,1,x\n\"e,1,1,x\nf,1,1,x\ng,1,1,x\n").bytes());
    let expected = [
        (2, Ok(row(["a", "1", "1", "x"]))),
        (3, Err(Reason::Fields)),
        (4, Err(Reason::Fields)),
        (6, Err(Reason::Encoding)),
        (7, Err(Reason::Row)),
        (8, Ok(row(["d \"quoted\"", "1", "1", "x"]))),
        // A quote that never closes swallows the rest; its line is lost, and no other.
        (9, Err(Reason::Fields)),
        (10, Ok(row(["f", "1", "1", "x"]))),
        (11, Ok(row(["g", "1", "1", "x"]))),
    ];
    assert_eq!(told(&file(&dir, "a.csv", &log), &Reading::new(columns())), expected);
    // The same where so much follows that the quote's row would never fit.
    let tail = "t,1,1,x\n".repeat(LONGEST_ROW / 8 + 10);
    let log = format!("q,who,n,what\n\"e,1,1,x\n{tail}");
    let rows = told(&file(&dir, "b.csv", log), &Reading::new(columns()));
    assert_eq!(rows[0], (2, Err(Reason::Row)));
    assert_eq!((rows.len(), rows.last().unwrap().0), (LONGEST_ROW / 8 + 11, (LONGEST_ROW / 8 + 12) as u64));
    assert!(rows[1..].iter().all(|(_, told)| *told == Ok(row(["t", "1", "1", "x"]))));
}

/// Each line ends in a quote that the next one closes and opens anew: read to the limits of a row, every line would be read
/// as often as there are lines before the limit.
#[test]
fn a_row_of_too_many_fields_is_not_read_to_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let log = format!("q,who,n,what\n{}", "a\",\"x\n".repeat(20_000));
    let rows = told(&file(&dir, "a.csv", log), &Reading::new(columns()));
    let all_but_the_last = &rows[..19_990];
    assert!(all_but_the_last.iter().all(|(_, told)| *told == Err(Reason::Fields)), "none is taken for endless");
    assert_eq!(all_but_the_last.last().map(|(line, _)| *line), Some(19_991), "each line by itself");
}

#[test]
fn a_row_of_parquet_is_no_longer_than_any_other() {
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
    let columns = Columns { user: Some("who".to_owned()), ..Columns::text("q") };
    let good = |text: &str, user: &str| Ok(vec![Some(text.to_owned()), Some(user.to_owned()), None, None]);
    assert_eq!(told(&path, &Reading::new(columns)), [(1, good("a", "u")), (2, Err(Reason::Row)), (3, good("b", "w"))]);
}

#[test]
fn a_bad_line_of_json_costs_that_line() {
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
        (2, Err(Reason::Json)),
        (3, Err(Reason::Json)),
        (4, Err(Reason::Json)),
        (5, Err(Reason::Type)),
        (6, Err(Reason::Type)),
        (7, Err(Reason::Encoding)),
        (8, Err(Reason::Row)),
        (9, Err(Reason::Type)),
        (10, Ok(vec![None, None, None, Some("true".to_owned())])),
        (11, Err(Reason::Json)),
    ];
    assert_eq!(told(&file(&dir, "a.jsonl", log), &Reading::new(columns())), expected);
}

#[test]
fn a_count_that_parquet_cannot_hold_is_a_bad_row() {
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
    let columns = Columns { count: Some("n".to_owned()), ..Columns::text("q") };
    let row = |text: Option<&str>, n: &str| Ok(vec![text.map(str::to_owned), None, Some(n.to_owned()), None]);
    let expected = [(1, row(Some("a"), "1")), (2, Err(Reason::Count)), (3, row(None, "2"))];
    assert_eq!(told(&path, &Reading::new(columns)), expected);
    let wrong = Columns { count: Some("q".to_owned()), ..Columns::text("n") };
    let refused = open(&path, &Reading::new(wrong), Place::default()).err().unwrap().to_string();
    assert!(refused.contains("\"n\"") && refused.contains("text"), "{refused}");
}

#[test]
fn a_log_that_is_not_what_it_should_be_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |path: &Path, reading: &Reading| open(path, reading, Place::default()).err().unwrap().to_string();
    let plain = Reading::new(columns());
    let path = file(&dir, "a.csv", "q,who,n\n");
    let said = refused(&path, &plain);
    assert!(
        said.contains("no column \"what\"") && said.contains("q, who, n") && said.contains("--label-column"),
        "{said}"
    );
    let twice = refused(&file(&dir, "b.csv", "q,who,n,what,q\n"), &plain);
    assert!(twice.contains("two of this name"), "{twice}");
    assert!(refused(&file(&dir, "c.csv", ""), &plain).contains("empty"));
    assert!(refused(&file(&dir, "d.parquet", "q\n"), &plain).contains("as Parquet"));
    assert!(refused(&file(&dir, "e.log", "q\n"), &plain).contains("--format"));
    assert!(refused(&dir.path().join("none.csv"), &plain).contains("none.csv"));
    let named = Reading {
        format: Some(Format::Csv),
        delimiter: Some(b';'),
        header: Some(["q", "who", "n", "what"].map(str::to_owned).to_vec()),
        columns: columns(),
        rows_are_lines: false,
    };
    let path = file(&dir, "f.log", "a;1;2;x\nb;1;2;x\n");
    assert_eq!(told(&path, &named), [(1, Ok(row(["a", "1", "2", "x"]))), (2, Ok(row(["b", "1", "2", "x"])))]);
}

#[test]
fn an_excerpt_is_short_and_text() {
    assert_eq!(excerpt(b"a\xff\r\n"), "a\u{fffd}");
    assert_eq!(excerpt("\u{e9}".repeat(5000).as_bytes()).chars().count(), EXCERPT);
}

/// An open quote, with the row that it takes in where rows may have several lines.
#[test]
fn where_rows_are_lines_an_open_quote_costs_its_line_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir, "a.csv", "q,who,n,what\n\"open,1,1,x\n\"b\",2,1,x\na \"c\",3,1,x\n\"d,\"\"e\",4,1,x\n");
    let several = Reading::new(columns());
    assert_eq!(told(&path, &several)[0], (2, Ok(row(["open,1,1,x\nb\"", "2", "1", "x"]))));
    let lines = Reading { rows_are_lines: true, ..several };
    assert_eq!(
        told(&path, &lines),
        [
            (2, Err(Reason::Lines)),
            (3, Ok(row(["b", "2", "1", "x"]))),
            (4, Ok(row(["a \"c\"", "3", "1", "x"]))),
            (5, Ok(row(["d,\"e", "4", "1", "x"]))),
        ]
    );
    // However the row goes on: too many fields, or no end within the limit.
    for rest in ["\",1,1,x,1,1,1\nz,9,1,x\n".to_owned(), "w,1,1,x\n".repeat(LONGEST_ROW / 4)] {
        let path = file(&dir, "b.csv", format!("q,who,n,what\n\"open\n{rest}"));
        assert_eq!(told(&path, &lines)[0], (2, Err(Reason::Lines)));
    }
}
