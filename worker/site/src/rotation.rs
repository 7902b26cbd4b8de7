//! Rotation of the site's key: the new key is generated here, signed by the previous one, sent to the server, and only
//! then in force.
//!
//! A change is prepared (`key.next` and `key-change.json`, both durable), sent until the server accepts it, then
//! recorded, and the new key replaces `key`. After a crash in between, the process resumes: sending the same change
//! again has no effect. A key changes only between jobs, so that all signatures for one job use one key.

use std::fs;
use std::path::{Path, PathBuf};

use ed25519_dalek::VerifyingKey;
use rusqlite::{Connection, params};
use time::OffsetDateTime;
use undertone_api::id::WorkerId;
use undertone_api::signed::{KeyChange, KeyRotation, RotationError, Signed, SignedError, SiteKeys};

use super::books::{BooksError, LedgerBooks};
use super::folder::{Folder, FolderError, sync_folder, write_durably};
use super::keys::{KeyError, SiteKey};
use super::ledger::rows::no_receipt;
use super::store::{Store, StoreError};

/// Reasons why a key is not changed.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// A job's part runs, or the server has not received its outcome.
    #[error(
        "{0} jobs run at this site or have not told their end, and all that is signed for a job has one key: wait for them, or cancel them, then change the key"
    )]
    Busy(u64),
    /// The folder cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A key cannot be read or made.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The ledger is inconsistent.
    #[error(transparent)]
    LedgerBooks(#[from] BooksError),
    /// The documents do not match the existing keys.
    #[error("{0} does not fit the keys beside it: restore the site from a backup, or enrol a new worker")]
    Unfit(PathBuf),
    /// The change is invalid.
    #[error(transparent)]
    Rotation(#[from] RotationError),
    /// A key could not sign.
    #[error("the change could not be signed")]
    Signing(#[from] SignedError),
}

/// Returns the changes of the site's key, oldest first.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn rotations(db: &Connection) -> Result<Vec<KeyRotation>, StoreError> {
    let row = |row: &rusqlite::Row<'_>| {
        let payload: String = row.get(0)?;
        Ok(KeyRotation {
            by_old: Signed { payload: payload.clone(), signature: row.get(1)? },
            by_new: Signed { payload, signature: row.get(2)? },
        })
    };
    db.prepare("SELECT payload, by_old, by_new FROM key_change ORDER BY number")
        .and_then(|mut statement| statement.query_map([], row)?.collect())
        .map_err(StoreError::sqlite("read the changes of the key"))
}

/// Returns every key of the site; `newest` is in force.
///
/// # Errors
/// [`ChangeError`] when the recorded changes are invalid or lead to another key.
pub fn keys(db: &Connection, newest: &VerifyingKey) -> Result<SiteKeys, ChangeError> {
    Ok(SiteKeys::leading_to(*newest, &rotations(db)?)?)
}

/// Returns the time since which the key is in force: its last change, otherwise the file's modification time.
///
/// # Errors
/// [`ChangeError`] when neither can be read.
pub fn since(folder: &Folder, store: &Store) -> Result<OffsetDateTime, ChangeError> {
    if let Some(last) = store.read(rotations)?.last() {
        return Ok(last.open()?.at);
    }
    let path = folder.key();
    let changed = fs::metadata(&path).and_then(|file| file.modified()).map_err(FolderError::io("inspect", &path))?;
    Ok(changed.into())
}

/// Returns the number of runs and decisions that block a change, because the server has not acknowledged them.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn busy(store: &Store) -> Result<u64, StoreError> {
    let sql = "SELECT (SELECT COUNT(*) FROM run WHERE told = 0)
        + (SELECT COUNT(*) FROM decision WHERE id NOT IN (SELECT decision FROM told))";
    store.read(|db| {
        db.query_row(sql, [], |row| row.get::<_, i64>(0))
            .map(|count| count as u64)
            .map_err(StoreError::sqlite("look for jobs"))
    })
}

/// Returns whether a change was begun and is not in force.
pub fn is_pending(folder: &Folder) -> bool {
    folder.key_change().exists()
}

/// Returns the pending change, or prepares a new one. The caller holds the site's lock.
///
/// # Errors
/// [`ChangeError::Busy`] while jobs run, and other errors of reading and writing. A pending change remains.
pub fn prepare(
    folder: &Folder,
    store: &Store,
    worker: WorkerId,
    now: OffsetDateTime,
) -> Result<KeyRotation, ChangeError> {
    if is_pending(folder) {
        return pending(&folder.key_change());
    }
    let jobs = busy(store)?;
    if jobs > 0 {
        return Err(ChangeError::Busy(jobs));
    }
    let old = SiteKey::load(&folder.key())?;
    let next = folder.next_key();
    // A next key without a change was never sent to the server.
    if next.exists() {
        fs::remove_file(&next).map_err(FolderError::io("remove", &next))?;
    }
    let new = SiteKey::load_or_make(&next)?;
    let (known, books) = (store.read(|db| keys(db, &old.public()))?, store.read(LedgerBooks::read)?);
    let change = KeyChange {
        worker,
        number: known.changes() as u32 + 1,
        old: old.public_hex(),
        new: new.public_hex(),
        receipts: books.receipts.sequence,
        last: if books.receipts.sequence == 0 { no_receipt() } else { books.receipts.hash },
        at: now,
    };
    let rotation = KeyRotation { by_old: old.sign(&change)?, by_new: new.sign(&change)? };
    let text = serde_json::to_vec_pretty(&rotation).map_err(StoreError::row)?;
    write_durably(&folder.key_change(), &text)?;
    Ok(rotation)
}

/// Puts a change that the server has accepted in force: the new key replaces the old one, which is removed. The caller
/// holds the site's lock. Returns the change.
///
/// # Errors
/// [`ChangeError`]. In that case the change is still pending, and may be finished later.
pub fn finish(folder: &Folder, store: &Store, rotation: &KeyRotation) -> Result<KeyChange, ChangeError> {
    let change = rotation.open()?;
    let (key, next) = (folder.key(), folder.next_key());
    let of = |path: &Path| -> Result<Option<String>, ChangeError> {
        Ok(if path.exists() { Some(SiteKey::load(path)?.public_hex()) } else { None })
    };
    match (of(&key)?, of(&next)?) {
        (Some(old), Some(new)) if old == change.old && new == change.new => {
            record(store, rotation, &change)?;
            fs::rename(&next, &key).map_err(FolderError::io("rename", &next))?;
            sync_folder(folder.root())?;
        }
        // The key is already in place; only the record is missing.
        (Some(new), None) if new == change.new => record(store, rotation, &change)?,
        _ => return Err(ChangeError::Unfit(folder.key_change())),
    }
    let note = folder.key_change();
    fs::remove_file(&note).map_err(FolderError::io("remove", &note))?;
    sync_folder(folder.root())?;
    Ok(change)
}

/// Discards a change that the server has rejected permanently: the present key stays. The caller holds the site's lock.
///
/// # Errors
/// [`FolderError`] when the disk fails.
pub fn discard(folder: &Folder) -> Result<(), FolderError> {
    // Remove the change first: a next key without one was never sent.
    for path in [folder.key_change(), folder.next_key()] {
        if path.exists() {
            fs::remove_file(&path).map_err(FolderError::io("remove", &path))?;
        }
    }
    sync_folder(folder.root())
}

fn record(store: &Store, rotation: &KeyRotation, change: &KeyChange) -> Result<(), StoreError> {
    store.write(|tx| {
        tx.execute(
            "INSERT INTO key_change (number, payload, by_old, by_new) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (number) DO NOTHING",
            params![change.number, rotation.by_old.payload, rotation.by_old.signature, rotation.by_new.signature],
        )
        .map(|_| ())
        .map_err(StoreError::sqlite("note a change of the key"))
    })
}

fn pending(path: &Path) -> Result<KeyRotation, ChangeError> {
    let text = fs::read_to_string(path).map_err(FolderError::io("read", path))?;
    let rotation: KeyRotation = serde_json::from_str(&text).map_err(|_| ChangeError::Unfit(path.to_owned()))?;
    rotation.open()?;
    Ok(rotation)
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;
    use undertone_api::dataset::Visibility;
    use undertone_privacy::Event;

    use super::{ChangeError, finish, is_pending, keys, prepare};
    use crate::folder::Folder;
    use crate::keys::SiteKey;
    use crate::ledger::verify::verify;
    use crate::store::Store;
    use crate::testing::{OURS, WORKER, gaussian, ledger_at, release_context, stored_release};

    const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

    fn site() -> (tempfile::TempDir, Folder, Store) {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let folder = Folder::new(dir.path());
        SiteKey::load_or_make(&folder.key()).expect("the folder is writable");
        let store = Store::create(&folder.ledger()).expect("the folder is writable");
        (dir, folder, store)
    }

    fn public(folder: &Folder) -> String {
        SiteKey::load(&folder.key()).expect("there is one").public_hex()
    }

    #[test]
    fn receipts_of_both_keys_verify_after_a_change() {
        let (_dir, folder, store) = site();
        let release = |rounds: std::ops::Range<u32>| {
            let ledger = ledger_at(&folder);
            for round in rounds {
                ledger
                    .publish(
                        &release_context(gaussian(4.0), 10),
                        Visibility::Open,
                        &Event::NonPrivate,
                        &stored_release(&release_context(gaussian(4.0), 10), "open", round),
                    )
                    .expect("the data are open");
            }
        };
        release(1..3);
        let rotation = prepare(&folder, &store, WORKER, NOW).expect("nothing runs");
        let change = finish(&folder, &store, &rotation).expect("the server has taken it");
        assert_eq!((change.receipts, change.new), (2, public(&folder)));
        release(3..5);
        let key = SiteKey::load(&folder.key()).expect("there is one").public();
        let verified = store.read(|db| verify(db, &key)).expect("old and new receipts hold");
        assert_eq!(verified.receipts, 4);
        let all = store.read(|db| keys(db, &key)).expect("they lead to the key in force");
        assert_ne!(all.key_of_receipt(2), all.key_of_receipt(3));
        assert!(store.read(|db| verify(db, all.key_of_receipt(1))).is_err(), "the old key is not in force any more");
    }

    #[test]
    fn interrupted_key_change_is_resumed_unchanged() {
        let (_dir, folder, store) = site();
        let old = public(&folder);
        let first = prepare(&folder, &store, WORKER, NOW).expect("nothing runs");
        let again = prepare(&folder, &store, WORKER, NOW).expect("it was begun");
        assert_eq!(first, again, "the server hears the same twice");
        assert_eq!(public(&folder), old, "until the server has taken it, the old key is in force");
        // The process dies after the key is in place and before the change file is removed.
        let note = std::fs::read(folder.key_change()).expect("it is there");
        finish(&folder, &store, &first).expect("the server has taken it");
        std::fs::write(folder.key_change(), note).expect("the folder is writable");
        assert!(is_pending(&folder));
        let rotation = prepare(&folder, &store, WORKER, NOW).expect("it was begun");
        finish(&folder, &store, &rotation).expect("there is nothing left to do");
        assert!(!is_pending(&folder) && public(&folder) != old && !folder.next_key().exists());
    }

    #[test]
    fn key_never_changes_under_a_running_job() {
        let (_dir, folder, store) = site();
        crate::jobs::record_start(&store, crate::testing::JOB, OURS, "lease").expect("it is new");
        assert!(matches!(prepare(&folder, &store, WORKER, NOW), Err(ChangeError::Busy(1))));
        assert!(!is_pending(&folder));
    }
}
