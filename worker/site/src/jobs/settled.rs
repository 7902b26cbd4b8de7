//! The final manifests of jobs whose proposals left terms to the parties.

use rusqlite::{OptionalExtension as _, params};
use time::OffsetDateTime;
use undertone_api::id::JobId;
use undertone_api::signed::Signed;

use crate::clock::format_time;
use crate::store::{Store, StoreError};

/// Records the final manifest of a job whose proposal left terms to the parties. Returns the digest of the recorded one
/// if it is another: a job has one final manifest.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn remember_settled(
    store: &Store,
    job: JobId,
    signed: &Signed,
    at: OffsetDateTime,
) -> Result<Option<String>, StoreError> {
    let digest = signed.digest();
    let first: String = store.write(|tx| {
        tx.execute(
            "INSERT INTO settled_manifest (job, digest, payload, signature, seen_at) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (job) DO NOTHING",
            params![job.to_string(), digest, signed.payload, signed.signature, format_time(at)],
        )
        .and_then(|_| {
            tx.query_row("SELECT digest FROM settled_manifest WHERE job = ?1", [job.to_string()], |row| row.get(0))
        })
        .map_err(StoreError::sqlite("note a final manifest"))
    })?;
    Ok((first != digest).then_some(first))
}

/// Returns the digest of a job's final manifest; `None` if this site has seen none, or the job left no terms open.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn settled_manifest(store: &Store, job: JobId) -> Result<Option<String>, StoreError> {
    store.read(|db| {
        db.query_row("SELECT digest FROM settled_manifest WHERE job = ?1", [job.to_string()], |row| row.get(0))
            .optional()
            .map_err(StoreError::sqlite("look for a final manifest"))
    })
}
