//! The user of each utterance, by a table of the site: patients, callers, sessions, or any other column.
//!
//! The table is separated by commas, or by tabs if its name ends in `.tsv`: a header, then a row for each utterance,
//! whose id is in the first column. Fields may be in double quotes (RFC 4180). An invalid row is an error and is not
//! skipped, and so is an utterance without a row: an utterance that is assigned to a unit of its own by mistake has
//! less protection than its user was promised.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};

/// The table and its relevant column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitTable {
    /// The file.
    pub path: PathBuf,
    /// The name of the column.
    pub column: String,
}

/// Reasons why a table cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UnitsError {
    /// The file cannot be read.
    #[error("cannot read the table of units {path}: check --units")]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The column does not exist.
    #[error("{path} has no column {asked:?} beside the ids in its first: --unit-column is one of {}", there.join(", "))]
    Column {
        /// The file.
        path: PathBuf,
        /// The requested column.
        asked: String,
        /// The existing columns, without the first.
        there: Vec<String>,
    },
    /// A row is invalid.
    #[error("{path}, line {line}: {reason}")]
    Row {
        /// The file.
        path: PathBuf,
        /// The line at which the row begins, from 1.
        line: usize,
        /// The problem.
        reason: String,
    },
    /// Utterances without a unit.
    #[error(
        "{missing} of the {chosen} recordings chosen have no row in {path} (first {first}): give each its {column}, or leave \
         them out with --speakers or --subset"
    )]
    Missing {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
        /// Number of such utterances.
        missing: usize,
        /// Number of chosen recordings.
        chosen: usize,
        /// One of them.
        first: String,
    },
}

/// The unit of every utterance of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UserTable {
    by_id: BTreeMap<String, String>,
}

impl UserTable {
    /// Reads a table.
    ///
    /// # Errors
    /// [`UnitsError`] with the file, the line and the problem.
    pub(super) fn read(table: &UnitTable) -> Result<Self, UnitsError> {
        let UnitTable { path, column } = table;
        let bytes = std::fs::read(path).map_err(|source| UnitsError::Io { path: path.clone(), source })?;
        let at = |line| move |reason: String| UnitsError::Row { path: path.clone(), line, reason };
        let text = std::str::from_utf8(&bytes).map_err(|error| {
            let line = bytes[..error.valid_up_to()].split(|byte| *byte == b'\n').count();
            at(line)("not UTF-8: save the table as UTF-8".to_owned())
        })?;
        let mut rows =
            TableRows { rest: text.strip_prefix('\u{feff}').unwrap_or(text), separator: separator(path), line: 1 };
        let header = rows.next().map_or_else(
            || Err(at(1)("the table is empty".to_owned())),
            |row| row.map_err(|(line, reason)| at(line)(reason)),
        )?;
        let there: Vec<String> = header.1.iter().skip(1).cloned().collect();
        let place = there
            .iter()
            .position(|name| name == column)
            .map(|place| place + 1)
            .ok_or_else(|| UnitsError::Column { path: path.clone(), asked: column.clone(), there: there.clone() })?;
        let mut by_id = BTreeMap::new();
        for row in rows {
            let (line, mut fields) = row.map_err(|(line, reason)| at(line)(reason))?;
            if fields.len() != header.1.len() {
                let reason = format!("{} fields where the header has {}", fields.len(), header.1.len());
                return Err(at(line)(reason));
            }
            let unit = std::mem::take(&mut fields[place]);
            let id = std::mem::take(&mut fields[0]);
            if id.is_empty() || unit.is_empty() {
                let reason = format!("utterance {id:?} has the {column} {unit:?}: neither may be empty");
                return Err(at(line)(reason));
            }
            match by_id.entry(id) {
                Entry::Occupied(known) if *known.get() != unit => {
                    let reason =
                        format!("utterance {} has the {column} {} and {unit}: it has one", known.key(), known.get());
                    return Err(at(line)(reason));
                }
                Entry::Occupied(_) => {}
                Entry::Vacant(place) => {
                    place.insert(unit);
                }
            }
        }
        Ok(Self { by_id })
    }

    /// Returns the unit of an utterance.
    pub(super) fn user(&self, id: &str) -> Option<&str> {
        self.by_id.get(id).map(String::as_str)
    }

    /// Checks that each chosen recording has a unit.
    ///
    /// # Errors
    /// [`UnitsError::Missing`] with the number of recordings without a unit, and the first of them.
    pub(super) fn cover<'a>(&self, table: &UnitTable, ids: impl Iterator<Item = &'a str>) -> Result<(), UnitsError> {
        let (mut chosen, mut missing, mut first) = (0, 0, None);
        for id in ids {
            chosen += 1;
            if self.user(id).is_none() {
                missing += 1;
                first.get_or_insert_with(|| id.to_owned());
            }
        }
        let UnitTable { path, column } = table.clone();
        first.map_or(Ok(()), |first| Err(UnitsError::Missing { path, column, missing, chosen, first }))
    }
}

fn separator(path: &Path) -> char {
    if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("tsv")) { '\t' } else { ',' }
}

/// The nonblank rows of a table, each with its first line number; fields are trimmed.
struct TableRows<'a> {
    rest: &'a str,
    separator: char,
    line: usize,
}

type Row = (usize, Vec<String>);

impl Iterator for TableRows<'_> {
    type Item = Result<Row, (usize, String)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.rest.is_empty() {
                return None;
            }
            let line = self.line;
            match self.row() {
                Ok(fields) if fields.iter().all(String::is_empty) => {}
                Ok(fields) => return Some(Ok((line, fields))),
                Err(reason) => {
                    self.rest = "";
                    return Some(Err((line, reason)));
                }
            }
        }
    }
}

impl TableRows<'_> {
    fn row(&mut self) -> Result<Vec<String>, String> {
        let mut fields = Vec::new();
        loop {
            let blank = |c: char| c == ' ' || c == '\r';
            let start = self.rest.trim_start_matches(blank);
            let (field, after) = if let Some(quoted) = start.strip_prefix('"') {
                let (field, after) = closing(quoted)?;
                self.line += field.matches('\n').count();
                (field.trim().to_owned(), after.trim_start_matches(blank))
            } else {
                let end = start.find([self.separator, '\n']).unwrap_or(start.len());
                (start[..end].trim().to_owned(), &start[end..])
            };
            fields.push(field);
            let mut after = after.chars();
            let next = after.next();
            self.rest = after.as_str();
            match next {
                Some(c) if c == self.separator => {}
                Some('\n') => {
                    self.line += 1;
                    return Ok(fields);
                }
                None => return Ok(fields),
                Some(c) => return Err(format!("{c:?} after a closing quote")),
            }
        }
    }
}

/// Returns the text up to the closing quote; a doubled quote represents itself.
fn closing(text: &str) -> Result<(String, &str), String> {
    let (mut field, mut rest) = (String::new(), text);
    loop {
        let (part, after) = rest.split_once('"').ok_or("a quote is not closed")?;
        field.push_str(part);
        match after.strip_prefix('"') {
            Some(more) => {
                field.push('"');
                rest = more;
            }
            None => return Ok((field, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn read(name: &str, content: impl AsRef<[u8]>, column: &str) -> Result<UserTable, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        UserTable::read(&UnitTable { path, column: column.to_owned() }).map_err(|error| error.to_string())
    }

    #[test]
    fn a_table_as_people_save_it_is_read() {
        let plain = "id,ward,patient\na-1,7,P1\na-2,7,P2\n";
        let units = read("u.csv", plain, "patient").unwrap();
        assert_eq!((units.user("a-1"), units.user("a-2"), units.user("a-3")), (Some("P1"), Some("P2"), None));
        let saved = "\u{feff}id, ward ,patient\r\n\"a-1\",\"7, east\", P1 \r\n\r\na-2,\"say \"\"7\"\"\",P2";
        assert_eq!(read("u.csv", saved, "patient").unwrap(), units);
        assert_eq!(read("u.tsv", plain.replace(',', "\t"), "patient").unwrap(), units);
        let broken = read("u.csv", "id,patient\n\"a\n1\",P1\nb,\n", "patient").unwrap_err();
        assert!(broken.contains("line 4"), "a line feed within quotes counts: {broken}");
    }

    #[test]
    fn repeated_row_is_accepted_if_equal() {
        assert!(read("u.csv", "id,u\na,1\na,1\n", "u").is_ok());
        let refused = read("u.csv", "id,u\na,1\nb,2\na,2\n", "u").unwrap_err();
        assert!(refused.contains("line 4") && refused.contains("1 and 2"), "{refused}");
    }

    #[test]
    fn every_kind_of_bad_table_is_named_with_its_line() {
        for (content, expected) in [
            ("", "line 1: the table is empty"),
            ("id;patient\na;1\n", "no column \"patient\""),
            ("patient\na\n", "no column \"patient\""),
            ("id,patient\na,1\nb\n", "line 3: 1 fields where the header has 2"),
            ("id,patient\na,1\nb,\n", "line 3: utterance \"b\" has the patient \"\""),
            ("id,patient\n,1\n", "line 2: utterance \"\""),
            ("id,patient\na,\"1\n", "line 2: a quote is not closed"),
            ("id,patient\na,\"1\"2\n", "line 2: '2' after a closing quote"),
        ] {
            let refused = read("u.csv", content, "patient").unwrap_err();
            assert!(refused.contains(expected), "{refused} is not about {expected}");
        }
        let refused = read("u.csv", b"id,patient\na,1\n\xFF,2\n", "patient").unwrap_err();
        assert!(refused.contains("line 3: not UTF-8"), "{refused}");
        assert!(read("u.csv", "id,ward,bed\n", "patient").unwrap_err().contains("one of ward, bed"));
        let missing = UnitTable { path: PathBuf::from("/nowhere/u.csv"), column: "u".to_owned() };
        assert!(UserTable::read(&missing).unwrap_err().to_string().contains("--units"));
    }

    #[test]
    fn an_utterance_without_a_unit_is_an_error_that_counts_them() {
        let units = read("u.csv", "id,patient\na,1\n", "patient").unwrap();
        let table = UnitTable { path: "u.csv".into(), column: "patient".to_owned() };
        assert!(units.cover(&table, ["a"].into_iter()).is_ok());
        let refused = units.cover(&table, ["a", "b", "c"].into_iter()).unwrap_err().to_string();
        assert!(refused.contains("2 of the 3") && refused.contains("first b"), "{refused}");
    }
}
