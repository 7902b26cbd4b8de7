//! CSV with a header. A row is one line, so that a quote that does not close rejects its own line and cannot take in
//! the rows of other units.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};
use undertone_api::table::TableSchema;

use super::{LONGEST_ROW, RowSource, SourceRow, SourceStep, find_columns, to_text};
use crate::error::TableError;
use crate::quarantine::RejectReason;
use crate::value::SourceValue;

/// The most columns of a file.
pub(crate) const MOST_FIELDS: usize = 4096;

/// A CSV file that is being read.
pub(super) struct CsvSource {
    path: PathBuf,
    file: BufReader<File>,
    parser: Reader,
    /// The number of fields of a row.
    width: usize,
    /// The field of the unit, and of each declared column.
    places: Vec<usize>,
    line: Vec<u8>,
    /// The fields of a row, one after another, and the end of each.
    output: Vec<u8>,
    ends: Vec<usize>,
    number: u64,
}

/// A line of the file.
enum Line {
    Whole,
    Long,
    End,
}

impl CsvSource {
    /// Opens the file and reads its header.
    pub(super) fn open(path: &Path, delimiter: u8, schema: &TableSchema) -> Result<Self, TableError> {
        let input = |source| TableError::Input { path: path.to_path_buf(), source };
        let file = File::open(path).map_err(input)?;
        let mut csv = Self {
            path: path.to_path_buf(),
            file: BufReader::with_capacity(1 << 18, file),
            parser: ReaderBuilder::new().delimiter(delimiter).build(),
            width: MOST_FIELDS,
            places: Vec::new(),
            line: Vec::new(),
            output: Vec::new(),
            ends: vec![0; MOST_FIELDS + 1],
            number: 0,
        };
        let format = |reason: &str| TableError::Format {
            path: path.to_path_buf(),
            format: "CSV with a header",
            reason: reason.to_owned(),
        };
        match csv.read_line().map_err(input)? {
            Line::End => return Err(format("it is empty")),
            Line::Long => return Err(format("its first line does not end in 1 MiB")),
            Line::Whole => {}
        }
        if csv.line.starts_with(b"\xef\xbb\xbf") {
            csv.line.drain(..3);
        }
        let fields = csv.parse().map_err(|reason| format(&format!("its header is a row {reason}")))?;
        let names: Option<Vec<String>> = (0..fields)
            .map(|place| std::str::from_utf8(csv.field(place)).ok().map(|name| name.trim().to_owned()))
            .collect();
        let names = names.ok_or_else(|| format("its header is not UTF-8"))?;
        csv.places = find_columns(&path.display().to_string(), &names, schema)?;
        csv.width = fields;
        Ok(csv)
    }

    /// Reads the next line that is not empty, at most [`LONGEST_ROW`] bytes of it.
    fn read_line(&mut self) -> std::io::Result<Line> {
        loop {
            self.line.clear();
            let mut part = (&mut self.file).take(LONGEST_ROW as u64 + 1);
            if part.read_until(b'\n', &mut self.line)? == 0 {
                return Ok(Line::End);
            }
            self.number += 1;
            if self.line.last() != Some(&b'\n') && self.line.len() > LONGEST_ROW {
                self.skip_line()?;
                return Ok(Line::Long);
            }
            while matches!(self.line.last(), Some(b'\n' | b'\r')) {
                self.line.pop();
            }
            if !self.line.is_empty() {
                return Ok(Line::Whole);
            }
        }
    }

    /// Skips the rest of a line, in bounded memory.
    fn skip_line(&mut self) -> std::io::Result<()> {
        loop {
            let buffer = self.file.fill_buf()?;
            if buffer.is_empty() {
                return Ok(());
            }
            if let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                self.file.consume(end + 1);
                return Ok(());
            }
            let length = buffer.len();
            self.file.consume(length);
        }
    }

    /// Parses the line and returns the number of its fields.
    fn parse(&mut self) -> Result<usize, RejectReason> {
        self.parser.reset();
        // A quote that closes leaves the parser able to end the record at the line break that follows.
        self.line.push(b'\n');
        self.output.resize(self.line.len(), 0);
        let (result, read, _, fields) = self.parser.read_record(&self.line, &mut self.output, &mut self.ends);
        match result {
            ReadRecordResult::Record if read == self.line.len() => Ok(fields),
            ReadRecordResult::OutputEndsFull => Err(RejectReason::Fields),
            _ => Err(RejectReason::Quotes),
        }
    }

    /// Returns a field of the row in `output`.
    fn field(&self, place: usize) -> &[u8] {
        let begin = if place == 0 { 0 } else { self.ends[place - 1] };
        &self.output[begin..self.ends[place]]
    }

    fn value(&self, place: usize) -> SourceValue {
        match std::str::from_utf8(self.field(place)) {
            Ok("") => SourceValue::Missing,
            Ok(text) => to_text(text),
            Err(_) => SourceValue::NoText,
        }
    }
}

impl RowSource for CsvSource {
    fn next_row(&mut self, row: &mut SourceRow) -> Result<SourceStep, TableError> {
        match self.read_line().map_err(|source| TableError::Input { path: self.path.clone(), source })? {
            Line::End => return Ok(SourceStep::End),
            Line::Long => return Ok(SourceStep::Rejected(RejectReason::LongRow)),
            Line::Whole => {}
        }
        match self.parse() {
            Ok(fields) if fields == self.width => {}
            Ok(_) => return Ok(SourceStep::Rejected(RejectReason::Fields)),
            Err(reason) => return Ok(SourceStep::Rejected(reason)),
        }
        row.values.clear();
        for (index, place) in self.places.iter().enumerate() {
            let value = self.value(*place);
            if index == 0 { row.unit = value } else { row.values.push(value) }
        }
        Ok(SourceStep::Row)
    }

    fn line(&self) -> u64 {
        self.number
    }
}
