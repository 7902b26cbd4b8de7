//! Alarms: the server contradicted itself, or this site's ledger. The evidence is stored, and nothing leaves the site
//! until a person at its terminal has examined it and given a reason to continue.

use rusqlite::{Connection, OptionalExtension, Row, params};
use time::OffsetDateTime;

use crate::clock::format_time;
use crate::store::{Store, StoreError};

/// An alarm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerAlarm {
    /// Its number at this site.
    pub id: i64,
    /// The contradiction, in words.
    pub problem: String,
    /// The documents that prove it, as JSON.
    pub evidence: String,
    /// The time at which it was raised (RFC 3339).
    pub at: String,
    /// The clearing; `None` while the alarm is open.
    pub cleared: Option<AlarmClearing>,
}

/// The end of an alarm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlarmClearing {
    /// The reason, in a steward's words.
    pub reason: String,
    /// The time (RFC 3339).
    pub at: String,
}

const ALARMS: &str = "SELECT alarm.id, alarm.problem, alarm.evidence, alarm.at, cleared.reason, cleared.at
     FROM alarm LEFT JOIN cleared ON cleared.alarm = alarm.id";

fn alarm(row: &Row<'_>) -> rusqlite::Result<ServerAlarm> {
    let clearing = match (row.get(4)?, row.get(5)?) {
        (Some(reason), Some(at)) => Some(AlarmClearing { reason, at }),
        _ => None,
    };
    Ok(ServerAlarm { id: row.get(0)?, problem: row.get(1)?, evidence: row.get(2)?, at: row.get(3)?, cleared: clearing })
}

/// Returns every alarm, oldest first.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn all(db: &Connection) -> Result<Vec<ServerAlarm>, StoreError> {
    let read = StoreError::sqlite("read alarms");
    let rows = db
        .prepare(&format!("{ALARMS} ORDER BY alarm.id"))
        .and_then(|mut statement| statement.query_map([], alarm)?.collect::<rusqlite::Result<Vec<_>>>());
    rows.map_err(read)
}

/// Returns the oldest open alarm; `None` when there is none.
///
/// # Errors
/// [`StoreError`] when the database fails; nothing may leave then either.
pub fn open(db: &Connection) -> Result<Option<ServerAlarm>, StoreError> {
    db.query_row(&format!("{ALARMS} WHERE cleared.alarm IS NULL ORDER BY alarm.id LIMIT 1"), [], alarm)
        .optional()
        .map_err(StoreError::sqlite("look for alarms"))
}

/// Raises an alarm; it is on disk when this returns, and from then on nothing leaves.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn raise(store: &Store, problem: &str, evidence: &str, at: OffsetDateTime) -> Result<(), StoreError> {
    store.write(|tx| {
        tx.execute(
            "INSERT INTO alarm (problem, evidence, at) VALUES (?1, ?2, ?3)",
            params![problem, evidence, format_time(at)],
        )
        .map(|_| ())
        .map_err(StoreError::sqlite("raise an alarm"))
    })
}

/// Clears every open alarm for `reason`, and begins a new epoch: the server's present log is accepted, and every
/// receipt must be proved again to be in it. Returns the number of cleared alarms.
///
/// # Errors
/// [`StoreError`] when the database fails; all of them stay open then.
pub fn clear(store: &Store, reason: &str, at: OffsetDateTime) -> Result<usize, StoreError> {
    store.write(|tx| {
        tx.execute(
            "INSERT INTO cleared (alarm, reason, receipts, at)
             SELECT id, ?1, (SELECT COALESCE(MAX(sequence), 0) FROM receipt), ?2 FROM alarm
             WHERE id NOT IN (SELECT alarm FROM cleared)",
            params![reason, format_time(at)],
        )
        .map_err(StoreError::sqlite("clear an alarm"))
    })
}

/// Returns the epoch in force, and the number of the last receipt that the server may have lost: the last one before
/// the latest clearing or restoration.
pub(super) fn epoch(db: &Connection) -> Result<(i64, u64), StoreError> {
    db.query_row("SELECT epoch, lost FROM witness_epoch", [], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? as u64)))
        .map_err(StoreError::sqlite("read the epoch"))
}
