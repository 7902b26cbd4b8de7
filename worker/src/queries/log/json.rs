//! JSON Lines: an object a line, of which only the mapped keys are looked at.

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::{Columns, FIELDS, Field, LONGEST_ROW, LogError, Next, Place, Raw, Reason, Source, excerpt};

/// A file of JSON Lines that is being read.
pub(super) struct JsonLines {
    path: PathBuf,
    file: BufReader<File>,
    names: [Option<String>; FIELDS],
    row: Vec<u8>,
    next: Place,
    line: u64,
}

impl JsonLines {
    /// Opens the file and goes to `place`.
    pub(super) fn open(path: &Path, columns: &Columns, place: Place) -> Result<Self, LogError> {
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

    /// Reads a line, or as much of it as is held; false at the end of the file.
    fn read(&mut self) -> std::io::Result<bool> {
        self.row.clear();
        let mut read = (&mut self.file).take(LONGEST_ROW as u64 + 1).read_until(b'\n', &mut self.row)?;
        if read == 0 {
            return Ok(false);
        }
        while self.row.last() != Some(&b'\n') {
            // Too long, or the last line of the file: to its end, without holding it.
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

impl Source for JsonLines {
    fn next(&mut self, raw: &mut Raw) -> Result<Next, LogError> {
        loop {
            if !self.read().map_err(|source| LogError::refused(&self.path, source))? {
                return Ok(Next::End);
            }
            self.line = self.next.line;
            if self.row.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let bad = |reason, row: &[u8]| Ok(Next::Bad(reason, excerpt(row)));
            if self.row.len() > LONGEST_ROW {
                return bad(Reason::Row, &self.row);
            }
            let Ok(text) = std::str::from_utf8(&self.row) else { return bad(Reason::Encoding, &self.row) };
            raw.clear();
            let mut parser = serde_json::Deserializer::from_str(text);
            let object = Object { names: &self.names, raw };
            let read = object.deserialize(&mut parser).and_then(|fault| parser.end().map(|()| fault));
            return match read {
                Ok(None) => Ok(Next::Row),
                Ok(Some(reason)) => bad(reason, &self.row),
                Err(_) => bad(Reason::Json, &self.row),
            };
        }
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

/// Takes the mapped keys of an object; gives what is wrong with them.
struct Object<'a> {
    names: &'a [Option<String>; FIELDS],
    raw: &'a mut Raw,
}

impl<'de> DeserializeSeed<'de> for Object<'_> {
    type Value = Option<Reason>;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<Self::Value, D::Error> {
        parser.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object<'_> {
    type Value = Option<Reason>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut fault, mut seen) = (None, [false; FIELDS]);
        while let Some(places) = map.next_key_seed(Key(self.names))? {
            // One key may serve for two columns: a user who is also a subset, say.
            if places == [false; FIELDS] {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let value = map.next_value::<serde_json::Value>()?;
            for place in (0..FIELDS).filter(|place| places[*place]) {
                if std::mem::replace(&mut seen[place], true) || take(&value, place, self.raw).is_none() {
                    fault = Some(Reason::Type);
                }
            }
        }
        Ok(fault)
    }
}

/// Writes a value to its place; `None` if it is of a type that the place does not take.
fn take(value: &serde_json::Value, place: usize, raw: &mut Raw) -> Option<()> {
    use serde_json::Value;
    match value {
        Value::Null => {}
        Value::String(text) => raw.room(place).push_str(text),
        // A query is text. Ids, labels and counts may be whole numbers.
        Value::Number(number) if place != Field::Text as usize && !number.is_f64() => {
            raw.room(place).push_str(&number.to_string());
        }
        Value::Bool(value) if place == Field::Label as usize || place == Field::Subset as usize => {
            raw.room(place).push_str(if *value { "true" } else { "false" });
        }
        _ => return None,
    }
    Some(())
}

/// Which places a key stands for.
struct Key<'a>(&'a [Option<String>; FIELDS]);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = [bool; FIELDS];

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<Self::Value, D::Error> {
        parser.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = [bool; FIELDS];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: de::Error>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.each_ref().map(|name| name.as_deref() == Some(key)))
    }
}
