//! JSON Lines: one object per line; only the mapped keys are read.

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::{
    ColumnMap, FIELDS, LONGEST_ROW, LogError, LogField, LogPosition, LogSource, NextRow, RawRow, RejectReason, excerpt,
};

/// A file of JSON Lines that is being read.
pub(super) struct JsonLines {
    path: PathBuf,
    file: BufReader<File>,
    names: [Option<String>; FIELDS],
    row: Vec<u8>,
    next: LogPosition,
    line: u64,
}

impl JsonLines {
    /// Opens the file and moves to `place`.
    pub(super) fn open(path: &Path, columns: &ColumnMap, place: LogPosition) -> Result<Self, LogError> {
        let io = LogError::io(path);
        let mut file = BufReader::with_capacity(1 << 18, File::open(path).map_err(&io)?);
        file.seek(SeekFrom::Start(place.at)).map_err(&io)?;
        let mut next = place;
        if place.at == 0 && file.fill_buf().map_err(&io)?.starts_with("\u{feff}".as_bytes()) {
            file.consume(3);
            next.at = 3;
        }
        let names = columns.names().map(|name| name.map(str::to_owned));
        Ok(Self { path: path.to_path_buf(), file, names, row: Vec::new(), next, line: 0 })
    }

    /// Reads a line up to the limit of a row; returns false at the end of the file.
    fn read(&mut self) -> std::io::Result<bool> {
        self.row.clear();
        let mut read = (&mut self.file).take(LONGEST_ROW as u64 + 1).read_until(b'\n', &mut self.row)?;
        if read == 0 {
            return Ok(false);
        }
        while self.row.last() != Some(&b'\n') {
            // Too long, or the last line of the file: reads to its end, without holding it.
            let input = self.file.fill_buf()?;
            if input.is_empty() {
                break;
            }
            let end = input.iter().position(|byte| *byte == b'\n');
            let skipped = end.map_or(input.len(), |end| end + 1);
            self.file.consume(skipped);
            read += skipped;
            if end.is_some() {
                break;
            }
        }
        self.next.at += read as u64;
        self.next.line += 1;
        Ok(true)
    }
}

impl LogSource for JsonLines {
    fn next(&mut self, raw: &mut RawRow) -> Result<NextRow, LogError> {
        loop {
            if !self.read().map_err(|source| LogError::refused(&self.path, source))? {
                return Ok(NextRow::End);
            }
            self.line = self.next.line;
            if self.row.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let bad = |reason, row: &[u8]| Ok(NextRow::Bad(reason, excerpt(row)));
            if self.row.len() > LONGEST_ROW {
                return bad(RejectReason::Row, &self.row);
            }
            let Ok(text) = std::str::from_utf8(&self.row) else { return bad(RejectReason::Encoding, &self.row) };
            raw.clear();
            let mut parser = serde_json::Deserializer::from_str(text);
            let object = ObjectSeed { names: &self.names, raw };
            let read = object.deserialize(&mut parser).and_then(|fault| parser.end().map(|()| fault));
            return match read {
                Ok(None) => Ok(NextRow::Row),
                Ok(Some(reason)) => bad(reason, &self.row),
                Err(_) => bad(RejectReason::Json, &self.row),
            };
        }
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

/// Reads the mapped keys of an object; its value is their fault.
struct ObjectSeed<'a> {
    names: &'a [Option<String>; FIELDS],
    raw: &'a mut RawRow,
}

impl<'de> DeserializeSeed<'de> for ObjectSeed<'_> {
    type Value = Option<RejectReason>;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<Self::Value, D::Error> {
        parser.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ObjectSeed<'_> {
    type Value = Option<RejectReason>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut fault, mut seen) = (None, [false; FIELDS]);
        while let Some(places) = map.next_key_seed(KeySeed(self.names))? {
            // One key may serve for two columns, such as a user column that is also the subset.
            if places == [false; FIELDS] {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let value = map.next_value::<serde_json::Value>()?;
            for place in (0..FIELDS).filter(|place| places[*place]) {
                if std::mem::replace(&mut seen[place], true) || take(&value, place, self.raw).is_none() {
                    fault = Some(RejectReason::Type);
                }
            }
        }
        Ok(fault)
    }
}

/// Writes a value to its field; returns `None` if the field does not accept its type.
fn take(value: &serde_json::Value, place: usize, raw: &mut RawRow) -> Option<()> {
    use serde_json::Value;
    match value {
        Value::Null => {}
        Value::String(text) => raw.buffer(place).push_str(text),
        // A query is text. Ids, labels and counts may be whole numbers.
        Value::Number(number) if place != LogField::Text as usize && !number.is_f64() => {
            raw.buffer(place).push_str(&number.to_string());
        }
        Value::Bool(value) if place == LogField::Label as usize || place == LogField::Subset as usize => {
            raw.buffer(place).push_str(if *value { "true" } else { "false" });
        }
        _ => return None,
    }
    Some(())
}

/// Reads a key; its value is the fields that it maps to.
struct KeySeed<'a>(&'a [Option<String>; FIELDS]);

impl<'de> DeserializeSeed<'de> for KeySeed<'_> {
    type Value = [bool; FIELDS];

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<Self::Value, D::Error> {
        parser.deserialize_str(self)
    }
}

impl Visitor<'_> for KeySeed<'_> {
    type Value = [bool; FIELDS];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: de::Error>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.each_ref().map(|name| name.as_deref() == Some(key)))
    }
}
