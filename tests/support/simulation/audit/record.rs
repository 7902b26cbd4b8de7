//! Tables of record: rows are added, and never changed or removed.

use std::collections::BTreeMap;

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::super::Failed;

/// The known rows of some tables.
#[derive(Default)]
pub(crate) struct TableRecord {
    /// Rows by table, as a multiset: a known row must stay for ever.
    seen: BTreeMap<&'static str, BTreeMap<String, u32>>,
}

impl TableRecord {
    /// Compares a table with its known rows.
    ///
    /// # Errors
    /// When a known row is missing.
    pub(crate) fn follows(&mut self, table: &'static str, rows: Vec<String>) -> Result<(), String> {
        let mut now: BTreeMap<String, u32> = BTreeMap::new();
        for row in rows {
            *now.entry(row).or_default() += 1;
        }
        let before = self.seen.entry(table).or_default();
        if before.iter().any(|(row, count)| now.get(row).is_none_or(|present| present < count)) {
            return Err(format!("a row of the table of record `{table}` was changed or removed"));
        }
        *before = now;
        Ok(())
    }
}

/// Returns the rows of an SQLite query, with every value as text: blobs in hex, null as "".
pub(crate) fn rows(db: &Connection, sql: &str) -> Result<Vec<Vec<String>>, Failed> {
    let mut statement = db.prepare_cached(sql)?;
    let width = statement.column_count();
    let mut rows = statement.query([])?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        let text = |column| {
            Ok::<_, rusqlite::Error>(match row.get_ref(column)? {
                ValueRef::Null => String::new(),
                ValueRef::Integer(number) => number.to_string(),
                ValueRef::Real(number) => number.to_string(),
                ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
                ValueRef::Blob(bytes) => hex::encode(bytes),
            })
        };
        all.push((0..width).map(text).collect::<Result<_, _>>()?);
    }
    Ok(all)
}

/// Returns a number that changes when another connection has committed to this database.
pub(crate) fn version(db: &Connection) -> Result<i64, Failed> {
    Ok(db.query_row("PRAGMA data_version", [], |row| row.get(0))?)
}
