//! Synthetic queries on disk, in each format.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringBuilder};
use arrow::datatypes::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use serde::Serialize;

use super::{QueryGenerator, SyntheticQuery, TELL};
use crate::log::LogFormat;
use undertone_worker_site::progress::ProgressReporter;

/// The columns of a log.
pub(super) const COLUMNS: [&str; 4] = ["session", "text", "intent", "split"];
/// Rows of a Parquet batch.
const BATCH: u64 = 1 << 16;

/// Writes all rows; returns the number of malformed ones.
pub(super) fn all(
    generator: &mut QueryGenerator,
    format: LogFormat,
    path: &Path,
    progress: &dyn ProgressReporter,
) -> io::Result<u64> {
    let file = File::create(path)?;
    match format {
        LogFormat::Csv => separated(generator, b',', file, progress),
        LogFormat::Tsv => separated(generator, b'\t', file, progress),
        LogFormat::JsonLines => json(generator, file, progress),
        LogFormat::Parquet => parquet(generator, file, progress),
    }
}

fn split(query: &SyntheticQuery<'_>) -> &'static str {
    if query.test { "test" } else { "train" }
}

/// Writes the session's name to `buffer`.
fn session<'a>(query: &SyntheticQuery<'_>, buffer: &'a mut String) -> &'a str {
    use std::fmt::Write as _;
    buffer.clear();
    // Writing to a string cannot fail.
    let _ = write!(buffer, "s{:07}", query.session);
    buffer
}

fn tell(row: u64, rows: u64, progress: &dyn ProgressReporter) {
    if row.is_multiple_of(TELL) {
        progress.advance(TELL);
    } else if row == rows {
        progress.advance(rows % TELL);
    }
}

fn separated(
    generator: &mut QueryGenerator,
    delimiter: u8,
    file: File,
    progress: &dyn ProgressReporter,
) -> io::Result<u64> {
    let mut file = BufWriter::with_capacity(1 << 18, file);
    let mut buffer = String::new();
    let mut broken = 0;
    let writer = |file| ::csv::WriterBuilder::new().delimiter(delimiter).flexible(true).from_writer(file);
    let mut out = writer(&mut file);
    out.write_record(COLUMNS)?;
    for row in 1..=generator.config.rows {
        let breaks = generator.breaks();
        broken += u64::from(breaks.is_some());
        let query = generator.draw();
        let session = session(&query, &mut buffer);
        match breaks {
            None => out.write_record([session, query.text, query.intent, split(&query)])?,
            // A missing field, bytes that are not UTF-8, and an empty query.
            Some(0) => out.write_record([session, query.text, query.intent])?,
            Some(1) => out.write_record([session.as_bytes(), b"\xff\xfe", query.intent.as_bytes(), b"train"])?,
            Some(_) => out.write_record([session, "  ", query.intent, split(&query)])?,
        }
        tell(row, generator.config.rows, progress);
    }
    out.flush()?;
    drop(out);
    durable(file)?;
    Ok(broken)
}

fn json(generator: &mut QueryGenerator, file: File, progress: &dyn ProgressReporter) -> io::Result<u64> {
    /// A line.
    #[derive(Serialize)]
    struct JsonLine<'a> {
        session: &'a str,
        text: &'a str,
        intent: &'a str,
        split: &'a str,
    }
    let mut out = BufWriter::with_capacity(1 << 18, file);
    let mut buffer = String::new();
    let mut broken = 0;
    for row in 1..=generator.config.rows {
        let breaks = generator.breaks();
        broken += u64::from(breaks.is_some());
        let query = generator.draw();
        match breaks {
            // An incomplete object, a text of another type, and an empty query.
            Some(0) => out.write_all(b"{\"session\":")?,
            Some(1) => out.write_all(b"{\"session\":\"s\",\"text\":17}")?,
            _ => {
                let text = if breaks.is_some() { " " } else { query.text };
                let session = session(&query, &mut buffer);
                serde_json::to_writer(
                    &mut out,
                    &JsonLine { session, text, intent: query.intent, split: split(&query) },
                )?;
            }
        }
        out.write_all(b"\n")?;
        tell(row, generator.config.rows, progress);
    }
    durable(out)?;
    Ok(broken)
}

fn parquet(generator: &mut QueryGenerator, file: File, progress: &dyn ProgressReporter) -> io::Result<u64> {
    let schema = Arc::new(Schema::new(COLUMNS.map(|name| Field::new(name, DataType::Utf8, false)).to_vec()));
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(1 << 18))
        .build();
    let mut out = ArrowWriter::try_new(BufWriter::new(file), schema.clone(), Some(properties))?;
    let mut buffer = String::new();
    let rows = generator.config.rows;
    let mut columns: [StringBuilder; 4] = Default::default();
    for row in 1..=rows {
        let query = generator.draw();
        let values = [session(&query, &mut buffer), query.text, query.intent, split(&query)];
        for (column, value) in columns.iter_mut().zip(values) {
            column.append_value(value);
        }
        if row.is_multiple_of(BATCH) || row == rows {
            let arrays = columns.each_mut().map(|column| Arc::new(column.finish()) as ArrayRef);
            let batch = RecordBatch::try_new(schema.clone(), arrays.to_vec()).map_err(io::Error::other)?;
            out.write(&batch)?;
        }
        tell(row, rows, progress);
    }
    durable(out.into_inner()?)?;
    Ok(0)
}

fn durable(out: BufWriter<File>) -> io::Result<()> {
    out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
}
