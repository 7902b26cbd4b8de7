//! Accounts that a finding has frozen.

use rusqlite::{Connection, OptionalExtension as _, params};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use undertone_api::id::LineageId;

use crate::store::{Store, StoreError};

/// A frozen account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountFreeze {
    /// The job whose audit froze it.
    pub job: String,
    /// The reason, with the figures.
    pub reason: String,
    /// The time of the freeze (RFC 3339).
    pub at: String,
}

/// Returns the freeze in force on a lineage.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn current_freeze(store: &Store, lineage: LineageId) -> Result<Option<AccountFreeze>, StoreError> {
    store.read(|db| {
        db.query_row(
            "SELECT frozen, job, reason, at FROM freeze WHERE lineage = ?1 ORDER BY id DESC LIMIT 1",
            params![lineage.to_string()],
            |row| {
                let frozen = AccountFreeze { job: row.get(1)?, reason: row.get(2)?, at: row.get(3)? };
                Ok(row.get::<_, bool>(0)?.then_some(frozen))
            },
        )
        .optional()
        .map(Option::flatten)
        .map_err(StoreError::sqlite("look for a freeze"))
    })
}

/// Lifts the freeze of a lineage, as decided at the terminal. Returns false when there was none.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn clear(store: &Store, lineage: LineageId, reason: &str, at: OffsetDateTime) -> Result<bool, StoreError> {
    let Some(frozen) = current_freeze(store, lineage)? else { return Ok(false) };
    store.write(|tx| note(tx, lineage, false, &frozen.job, reason, "terminal", at))?;
    tracing::warn!(lineage.id = %lineage, reason, "a frozen account was cleared at the terminal");
    Ok(true)
}

/// Appends a row to the freezes of a lineage.
pub(super) fn note(
    db: &Connection,
    lineage: LineageId,
    frozen: bool,
    job: &str,
    reason: &str,
    by: &str,
    at: OffsetDateTime,
) -> Result<(), StoreError> {
    let at = at.format(&Rfc3339).map_err(StoreError::row)?;
    db.execute(
        "INSERT INTO freeze (lineage, frozen, job, reason, by, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![lineage.to_string(), frozen, job, reason, by, at],
    )
    .map(|_| ())
    .map_err(StoreError::sqlite("note a freeze"))
}
