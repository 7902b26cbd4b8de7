//! Records of a ledger that was restored from a backup, and of its comparison with the server's receipts.

use rusqlite::{Connection, OptionalExtension as _, Transaction, params};
use time::OffsetDateTime;
use undertone_api::id::{DatasetId, JobId};

use crate::clock::format_time;
use crate::store::{Store, StoreError, sql};

/// The result of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportSummary {
    /// The number of receipts before the import.
    pub before: u64,
    /// The number of imported receipts.
    pub missing: u64,
    /// The jobs of the imported receipts.
    pub jobs: Vec<JobId>,
}

/// Marks the ledger as restored from a backup: nothing leaves until it is compared.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn mark_restored(store: &Store, backup_at: &str, receipts: u64, at: OffsetDateTime) -> Result<(), StoreError> {
    store.write(|tx| {
        tx.execute(
            "INSERT INTO restored (backup_at, receipts, at) VALUES (?1, ?2, ?3)",
            params![backup_at, sql(receipts), format_time(at)],
        )
        .map(|_| ())
        .map_err(StoreError::sqlite("note that it was restored"))?;
        withhold(tx, at)
    })
}

/// Records that open reservations of this ledger are never returned: the ledger is an older copy, and releases unknown
/// to it may have been paid from them.
pub(super) fn withhold(tx: &Transaction<'_>, at: OffsetDateTime) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO withheld (job, dataset, at)
         SELECT DISTINCT job, json_extract(payload, '$.dataset'), ?1 FROM entry AS reserved
         WHERE kind = 'reserve' AND NOT EXISTS (SELECT 1 FROM entry
             WHERE kind = 'settle' AND job = reserved.job
                 AND json_extract(payload, '$.dataset') = json_extract(reserved.payload, '$.dataset'))
         ON CONFLICT DO NOTHING",
        [format_time(at)],
    )
    .map(|_| ())
    .map_err(StoreError::sqlite("note what is not given back"))
}

/// Returns whether a job's reservation is never returned.
pub(super) fn is_withheld(db: &Connection, job: JobId, dataset: DatasetId) -> Result<bool, StoreError> {
    db.query_row(
        "SELECT EXISTS (SELECT 1 FROM withheld WHERE job = ?1 AND dataset = ?2)",
        params![job.to_string(), dataset.to_string()],
        |row| row.get(0),
    )
    .map_err(StoreError::sqlite("see what is not given back"))
}

/// Returns the time of the backup from which this ledger was restored; `None` once it is compared.
pub(super) fn unchecked_backup(db: &Connection) -> Result<Option<String>, StoreError> {
    db.query_row(
        "SELECT backup_at FROM restored WHERE id > (SELECT COALESCE(MAX(restored), 0) FROM reconciled)
         ORDER BY id DESC LIMIT 1",
        [],
        |row| row.get(0),
    )
    .optional()
    .map_err(StoreError::sqlite("see whether it was restored"))
}

/// Records that the ledger was compared with the server's receipts. Records nothing when nothing was imported and no
/// restore is pending.
pub(super) fn record_comparison(
    tx: &Transaction<'_>,
    before: u64,
    imported: u64,
    at: OffsetDateTime,
) -> Result<(), StoreError> {
    if imported == 0 && unchecked_backup(tx)?.is_none() {
        return Ok(());
    }
    tx.execute(
        "INSERT INTO reconciled (restored, receipts, imported, at)
         VALUES ((SELECT COALESCE(MAX(id), 0) FROM restored), ?1, ?2, ?3)",
        params![sql(before), sql(imported), format_time(at)],
    )
    .map(|_| ())
    .map_err(StoreError::sqlite("note that it was compared"))
}

/// Returns the times at which receipts were imported from the server (RFC 3339), with their numbers: the ledger had
/// been an older copy.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn list_recoveries(db: &Connection) -> Result<Vec<(String, u64)>, StoreError> {
    db.prepare("SELECT at, imported FROM reconciled WHERE imported > 0 ORDER BY id")
        .and_then(|mut statement| {
            statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? as u64)))?.collect()
        })
        .map_err(StoreError::sqlite("read what came back"))
}

/// Returns the time of the backup from which this ledger was restored, until it is compared with the server's receipts.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn pending_restore(store: &Store) -> Result<Option<String>, StoreError> {
    store.read(unchecked_backup)
}
