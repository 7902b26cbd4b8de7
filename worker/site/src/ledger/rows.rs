//! The rows of the ledger and of its receipts, as they are written and looked up.

use rusqlite::{Connection, OptionalExtension as _, Transaction, params};
use sha2::{Digest, Sha256};

use crate::books::{ChainHead, LedgerEntry};
use crate::store::{Store, StoreError, sql};

/// Returns the number of receipts in the ledger of `store`; the server's later receipts are missing here.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn length(store: &Store) -> Result<u64, StoreError> {
    store.read(|db| {
        db.query_row("SELECT COALESCE(MAX(sequence), 0) FROM receipt", [], |row| row.get::<_, i64>(0))
            .map(|length| length as u64)
            .map_err(StoreError::sqlite("count receipts"))
    })
}

/// Returns the digest of a receipt by number, if the ledger has it.
pub(crate) fn receipt_digest(db: &Connection, number: u64) -> Result<Option<String>, StoreError> {
    db.query_row("SELECT digest FROM receipt WHERE sequence = ?1", [sql(number)], |row| row.get(0))
        .optional()
        .map_err(StoreError::sqlite("look for a receipt"))
}

/// Returns the digest that precedes the first receipt: SHA-256 of the empty string.
pub(crate) fn no_receipt() -> String {
    hex::encode(Sha256::digest([]))
}

/// Appends a row to the ledger, and returns its new head.
pub(super) fn insert_entry(
    tx: &Transaction<'_>,
    head: &ChainHead,
    entry: &LedgerEntry,
) -> Result<ChainHead, StoreError> {
    insert_row(tx, "INSERT INTO entry (sequence, payload, hash) VALUES (?1, ?2, ?3)", head, entry)
}

/// Appends a row by `statement`, and returns the new head of its chain.
pub(super) fn insert_row(
    tx: &Transaction<'_>,
    statement: &str,
    head: &ChainHead,
    row: &impl serde::Serialize,
) -> Result<ChainHead, StoreError> {
    let payload = serde_json::to_string(row).map_err(StoreError::row)?;
    let head = head.advance(&payload);
    tx.execute(statement, params![sql(head.sequence), payload, head.hash])
        .map_err(StoreError::sqlite("write a row of the ledger"))?;
    Ok(head)
}
