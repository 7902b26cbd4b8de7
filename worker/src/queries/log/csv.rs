//! CSV, by the parser below the `csv` crate, so that a row can be bounded and a stray quote costs a row and not the file.
//!
//! A row that does not hold is passed over up to the end of its first line: where a quote that does not close swallowed the
//! lines that follow, they are read again as rows. A swallowed line may also hold a quote, so that both together look like a
//! good row. So where rows must not touch each other, a row is a line ([`Reading::rows_are_lines`]).

use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use super::{FIELDS, LONGEST_ROW, LogError, Next, Place, Raw, Reading, Reason, Source, excerpt, find};

/// More columns than any log has.
const MOST_COLUMNS: usize = 4096;

/// A CSV file that is being read.
pub(super) struct Csv {
    path: PathBuf,
    file: BufReader<File>,
    parser: Reader,
    /// Columns of a row.
    width: usize,
    places: [Option<usize>; FIELDS],
    /// The fields of a row, one after another, and where each ends.
    output: Vec<u8>,
    ends: Vec<usize>,
    next: Place,
    line: u64,
    rows_are_lines: bool,
}

/// What the parser came upon.
enum Record {
    /// A row of so many bytes and fields, of which so many lines lie before its last.
    Row {
        bytes: usize,
        fields: usize,
        lines: u64,
    },
    /// A row that does not end, of which so many lines were read.
    Endless {
        lines: u64,
    },
    /// A row that has more fields than there are columns, read so far: so many bytes and lines.
    Wide {
        bytes: usize,
        lines: u64,
    },
    End,
}

impl Csv {
    /// Opens the file, reads its header, and goes to `place`.
    pub(super) fn open(path: &Path, reading: &Reading, delimiter: u8, place: Place) -> Result<Self, LogError> {
        let io = LogError::io(path);
        let mut csv = Self {
            path: path.to_path_buf(),
            file: BufReader::with_capacity(1 << 18, File::open(path).map_err(&io)?),
            parser: ReaderBuilder::new().delimiter(delimiter).build(),
            width: 0,
            places: [None; FIELDS],
            output: vec![0; LONGEST_ROW],
            ends: vec![0; MOST_COLUMNS],
            next: Place::default(),
            line: 0,
            rows_are_lines: reading.rows_are_lines,
        };
        let header = match &reading.header {
            Some(header) => header.clone(),
            None => csv.header()?,
        };
        csv.places = find(path, &header, &reading.columns)?;
        csv.width = header.len();
        // A row of one field too many need not be read to its end: where every line leaves a quote open, that would be as many
        // lines, for every line.
        csv.ends = vec![0; csv.width + 1];
        if place != Place::default() {
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
            Record::End => Err(broken("it is empty")),
            Record::Endless { .. } => Err(broken("its first line does not end in 1 MiB: is it another format?")),
            Record::Wide { .. } => Err(broken("its first line has more than 4,096 fields: is it another format?")),
            Record::Row { fields, .. } => {
                let names =
                    (0..fields).map(|at| std::str::from_utf8(self.field(at)).map(|name| name.trim().to_owned()));
                names.collect::<Result<_, _>>().map_err(|_| broken("its header is not UTF-8"))
            }
        }
    }

    /// A field of the row in `output`.
    fn field(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.output[start..self.ends[at]]
    }

    /// Reads the next row into `output`.
    fn record(&mut self) -> std::io::Result<Record> {
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
                    return Ok(Record::Endless { lines });
                }
                ReadRecordResult::OutputEndsFull => {
                    self.next.line += lines;
                    return Ok(Record::Wide { bytes, lines });
                }
                ReadRecordResult::Record => {
                    self.next.line += lines;
                    return Ok(Record::Row { bytes, fields, lines: lines - u64::from(last == b'\n') });
                }
                ReadRecordResult::End => return Ok(Record::End),
            }
        }
    }

    /// Goes past line ends: the parser would pass over them too, but count them to the row behind them.
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

    /// Passes over the line that begins at `start`; `bytes` of its row are in `output`.
    fn pass_over(&mut self, start: Place, reason: Reason, bytes: usize) -> Result<Next, LogError> {
        let beginning = excerpt(&self.output[..bytes]);
        self.skip_line(start).map_err(|source| LogError::refused(&self.path, source))?;
        Ok(Next::Bad(reason, beginning))
    }

    /// Goes to the line after the one that begins at `start`.
    fn skip_line(&mut self, start: Place) -> std::io::Result<()> {
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

impl Source for Csv {
    fn next(&mut self, raw: &mut Raw) -> Result<Next, LogError> {
        self.skip_empty_lines().map_err(|source| LogError::refused(&self.path, source))?;
        let start = self.next;
        let (bytes, fields, lines) = match self.record().map_err(|source| LogError::refused(&self.path, source))? {
            Record::End => return Ok(Next::End),
            Record::Endless { lines } => {
                let reason = if self.rows_are_lines && lines > 0 { Reason::Lines } else { Reason::Row };
                return self.pass_over(start, reason, self.output.len());
            }
            Record::Wide { bytes, lines } => {
                let reason = if self.rows_are_lines && lines > 0 { Reason::Lines } else { Reason::Fields };
                return self.pass_over(start, reason, bytes);
            }
            Record::Row { bytes, lines, .. } if self.rows_are_lines && lines > 0 => {
                return self.pass_over(start, Reason::Lines, bytes);
            }
            Record::Row { bytes, fields, lines } => (bytes, fields, lines),
        };
        if fields != self.width {
            let beginning = excerpt(&self.output[..bytes]);
            if lines > 0 {
                self.skip_line(start).map_err(|source| LogError::refused(&self.path, source))?;
            }
            return Ok(Next::Bad(Reason::Fields, beginning));
        }
        raw.clear();
        for place in 0..FIELDS {
            let Some(column) = self.places[place] else { continue };
            match std::str::from_utf8(self.field(column)) {
                Ok(field) => raw.room(place).push_str(field),
                Err(_) => return Ok(Next::Bad(Reason::Encoding, excerpt(&self.output[..bytes]))),
            }
        }
        Ok(Next::Row)
    }

    fn place(&self) -> Place {
        self.next
    }

    fn line(&self) -> u64 {
        self.line
    }

    fn done(&self) -> u64 {
        self.next.at
    }
}
