//! CSV, by the parser below the `csv` crate, so that rows are bounded and a stray quote invalidates a row and not the
//! file.
//!
//! An invalid row is skipped up to the end of its first line: the following lines inside an unclosed quote are read
//! again as rows. Such a line may also contain a quote, so that both together look like a valid row. Where rows must
//! not affect each other, a row is therefore one line ([`ReadOptions::rows_are_lines`]).

use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use super::{
    FIELDS, LONGEST_ROW, LogError, LogPosition, LogSource, NextRow, RawRow, ReadOptions, RejectReason, excerpt, find,
};

/// More columns than real logs have.
const MOST_COLUMNS: usize = 4096;

/// A CSV file that is being read.
pub(super) struct CsvLog {
    path: PathBuf,
    file: BufReader<File>,
    parser: Reader,
    /// Columns of a row.
    width: usize,
    places: [Option<usize>; FIELDS],
    /// The fields of a row, one after another, and the end of each.
    output: Vec<u8>,
    ends: Vec<usize>,
    next: LogPosition,
    line: u64,
    rows_are_lines: bool,
}

/// The result of the parser.
enum CsvRecord {
    /// A row with its numbers of bytes and fields, and the number of lines before its last.
    Row {
        bytes: usize,
        fields: usize,
        lines: u64,
    },
    /// A row without an end, with the number of lines read.
    Endless {
        lines: u64,
    },
    /// A row with more fields than columns, read up to these bytes and lines.
    Wide {
        bytes: usize,
        lines: u64,
    },
    End,
}

impl CsvLog {
    /// Opens the file, reads its header, and moves to `place`.
    pub(super) fn open(
        path: &Path,
        reading: &ReadOptions,
        delimiter: u8,
        place: LogPosition,
    ) -> Result<Self, LogError> {
        let io = LogError::io(path);
        let mut csv = Self {
            path: path.to_path_buf(),
            file: BufReader::with_capacity(1 << 18, File::open(path).map_err(&io)?),
            parser: ReaderBuilder::new().delimiter(delimiter).build(),
            width: 0,
            places: [None; FIELDS],
            output: vec![0; LONGEST_ROW],
            ends: vec![0; MOST_COLUMNS],
            next: LogPosition::default(),
            line: 0,
            rows_are_lines: reading.rows_are_lines,
        };
        let header = match &reading.header {
            Some(header) => header.clone(),
            None => csv.header()?,
        };
        csv.places = find(path, &header, &reading.columns)?;
        csv.width = header.len();
        // The parser stops at the first surplus field. Reading such rows to their end would take quadratic time in a
        // file where every line leaves a quote open.
        csv.ends = vec![0; csv.width + 1];
        if place != LogPosition::default() {
            csv.file.seek(SeekFrom::Start(place.at)).map_err(&io)?;
            csv.next = place;
            csv.parser.reset();
        }
        Ok(csv)
    }

    fn header(&mut self) -> Result<Vec<String>, LogError> {
        let path = self.path.clone();
        let broken = |reason: &str| LogError::Broken { path, what: "CSV", reason: reason.to_owned() };
        match self.record().map_err(|source| LogError::refused(&self.path, source))? {
            CsvRecord::End => Err(broken("it is empty")),
            CsvRecord::Endless { .. } => Err(broken("its first line does not end in 1 MiB: is it another format?")),
            CsvRecord::Wide { .. } => Err(broken("its first line has more than 4,096 fields: is it another format?")),
            CsvRecord::Row { fields, .. } => {
                let names =
                    (0..fields).map(|at| std::str::from_utf8(self.field(at)).map(|name| name.trim().to_owned()));
                names.collect::<Result<_, _>>().map_err(|_| broken("its header is not UTF-8"))
            }
        }
    }

    /// Returns a field of the row in `output`.
    fn field(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.output[start..self.ends[at]]
    }

    /// Reads the next row into `output`.
    fn record(&mut self) -> std::io::Result<CsvRecord> {
        self.skip_empty_lines()?;
        self.line = self.next.line + 1;
        let (mut bytes, mut fields, mut lines, mut last) = (0, 0, 0, 0);
        loop {
            let input = self.file.fill_buf()?;
            let (result, read, written, ended) =
                self.parser.read_record(input, &mut self.output[bytes..], &mut self.ends[fields..]);
            lines += newlines(&input[..read]);
            last = input[..read].last().copied().unwrap_or(last);
            self.file.consume(read);
            self.next.at += read as u64;
            bytes += written;
            fields += ended;
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull => {
                    self.next.line += lines;
                    return Ok(CsvRecord::Endless { lines });
                }
                ReadRecordResult::OutputEndsFull => {
                    self.next.line += lines;
                    return Ok(CsvRecord::Wide { bytes, lines });
                }
                ReadRecordResult::Record => {
                    self.next.line += lines;
                    return Ok(CsvRecord::Row { bytes, fields, lines: lines - u64::from(last == b'\n') });
                }
                ReadRecordResult::End => return Ok(CsvRecord::End),
            }
        }
    }

    /// Skips empty lines. The parser would skip them too, but count them to the row after them.
    fn skip_empty_lines(&mut self) -> std::io::Result<()> {
        loop {
            let input = self.file.fill_buf()?;
            let empty = input.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            if empty == 0 {
                return Ok(());
            }
            self.next.line += newlines(&input[..empty]);
            self.next.at += empty as u64;
            self.file.consume(empty);
        }
    }

    /// Rejects the line that begins at `start`; `bytes` of its row are in `output`.
    fn pass_over(&mut self, start: LogPosition, reason: RejectReason, bytes: usize) -> Result<NextRow, LogError> {
        let beginning = excerpt(&self.output[..bytes]);
        self.skip_line(start).map_err(|source| LogError::refused(&self.path, source))?;
        Ok(NextRow::Bad(reason, beginning))
    }

    /// Moves to the line after the one that begins at `start`.
    fn skip_line(&mut self, start: LogPosition) -> std::io::Result<()> {
        self.file.seek(SeekFrom::Start(start.at))?;
        self.next = start;
        loop {
            let input = self.file.fill_buf()?;
            if input.is_empty() {
                break;
            }
            let end = input.iter().position(|byte| *byte == b'\n');
            let skipped = end.map_or(input.len(), |end| end + 1);
            self.next.at += skipped as u64;
            self.file.consume(skipped);
            if end.is_some() {
                self.next.line += 1;
                break;
            }
        }
        self.parser.reset();
        Ok(())
    }
}

fn newlines(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |lines, byte| lines + u64::from(*byte == b'\n'))
}

impl LogSource for CsvLog {
    fn next(&mut self, raw: &mut RawRow) -> Result<NextRow, LogError> {
        self.skip_empty_lines().map_err(|source| LogError::refused(&self.path, source))?;
        let start = self.next;
        let (bytes, fields, lines) = match self.record().map_err(|source| LogError::refused(&self.path, source))? {
            CsvRecord::End => return Ok(NextRow::End),
            CsvRecord::Endless { lines } => {
                let reason = if self.rows_are_lines && lines > 0 { RejectReason::Lines } else { RejectReason::Row };
                return self.pass_over(start, reason, self.output.len());
            }
            CsvRecord::Wide { bytes, lines } => {
                let reason = if self.rows_are_lines && lines > 0 { RejectReason::Lines } else { RejectReason::Fields };
                return self.pass_over(start, reason, bytes);
            }
            CsvRecord::Row { bytes, lines, .. } if self.rows_are_lines && lines > 0 => {
                return self.pass_over(start, RejectReason::Lines, bytes);
            }
            CsvRecord::Row { bytes, fields, lines } => (bytes, fields, lines),
        };
        if fields != self.width {
            let beginning = excerpt(&self.output[..bytes]);
            if lines > 0 {
                self.skip_line(start).map_err(|source| LogError::refused(&self.path, source))?;
            }
            return Ok(NextRow::Bad(RejectReason::Fields, beginning));
        }
        raw.clear();
        for place in 0..FIELDS {
            let Some(column) = self.places[place] else { continue };
            match std::str::from_utf8(self.field(column)) {
                Ok(field) => raw.buffer(place).push_str(field),
                Err(_) => return Ok(NextRow::Bad(RejectReason::Encoding, excerpt(&self.output[..bytes]))),
            }
        }
        Ok(NextRow::Row)
    }

    fn place(&self) -> LogPosition {
        self.next
    }

    fn line(&self) -> u64 {
        self.line
    }

    fn bytes_read(&self) -> u64 {
        self.next.at
    }
}
