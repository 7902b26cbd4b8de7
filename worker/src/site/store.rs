//! The site's database, one SQLite file: what was spent, which jobs were seen and decided, what waits to be sent.
//!
//! Durability. `journal_mode=WAL` with `synchronous=FULL` makes SQLite sync the write-ahead log at every commit, before
//! the commit returns, and sync the folder when the log is created; this room also syncs the folder after it has made the
//! file. So a transaction that has returned survives a killed process and a loss of power, as far as the disk keeps its
//! word; `fullfsync` makes macOS keep it. Tables of record refuse `UPDATE` and `DELETE` by trigger. To add a table: a file
//! with its statement in `store/`, with the triggers if it is one of record, and its line in `STEPS`.

mod copy;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use super::folder::{FolderError, create_private, sync_folder};
use crate::fault;

/// How long one process waits for another's transaction (the daemon and `approve` at the terminal share the file).
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Why the database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The folder refuses.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// SQLite refuses.
    #[error("the site's database failed to {action}: check the disk; nothing is released while it fails")]
    Sqlite {
        /// What was tried, a verb.
        action: &'static str,
        /// Why not.
        #[source]
        source: rusqlite::Error,
    },
    /// A row is not what this worker writes.
    #[error("a row of the site's database cannot be read ({0}): restore the file from a backup; never edit it")]
    Row(String),
    /// Written by a newer worker.
    #[error(
        "{path} was written by a newer worker (schema {found}, this one reads {supported}): install that version; the ledger is left as it is"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// Ours.
        supported: i64,
    },
    /// A copy would take another file's place.
    #[error("{0} is there already: name a file that is not")]
    Exists(PathBuf),
    /// There are too many copies.
    #[error(
        "beside {0} lie more than 100 copies from before an upgrade: move them away, the worker is not started over them"
    )]
    Copies(PathBuf),
}

impl StoreError {
    pub(super) fn sqlite(action: &'static str) -> impl FnOnce(rusqlite::Error) -> Self {
        move |source| Self::Sqlite { action, source }
    }

    pub(super) fn row(error: impl std::fmt::Display) -> Self {
        Self::Row(error.to_string())
    }
}

/// A number as SQLite keeps it. Beyond 2⁶³ nothing is ever counted.
pub(super) fn sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The tables, step by step: a database of an older worker takes the steps it lacks. Steps are only ever added at the end.
const STEPS: &[&str] = &[
    include_str!("store/schema.sql"),
    include_str!("store/witness.sql"),
    include_str!("store/audit.sql"),
    include_str!("store/keeping.sql"),
    include_str!("store/hold.sql"),
    include_str!("store/release.sql"),
    include_str!("store/approval.sql"),
    include_str!("store/notice.sql"),
    include_str!("store/lineage.sql"),
];
/// Version of the tables.
const SCHEMA: i64 = STEPS.len() as i64;

/// The open database. Shared by threads; one of them at a time is inside.
#[derive(Debug)]
pub struct Store(Mutex<Connection>);

impl Store {
    /// Opens the database at `path`, and makes it when there is none.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be opened or is not ours.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let folder = path.parent().unwrap_or(Path::new("."));
        create_private(folder)?;
        let fresh = !path.exists();
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut db = Connection::open_with_flags(path, flags).map_err(StoreError::sqlite("open"))?;
        db.busy_timeout(PATIENCE).map_err(StoreError::sqlite("set its timeout"))?;
        for (pragma, value) in [
            ("journal_mode", "WAL"),
            ("synchronous", "FULL"),
            ("fullfsync", "ON"),
            ("foreign_keys", "ON"),
            ("recursive_triggers", "ON"),
        ] {
            db.pragma_update(None, pragma, value).map_err(StoreError::sqlite("set its durability"))?;
        }
        let found: i64 = db
            .pragma_query_value(None, "user_version", |row| row.get(0))
            .map_err(StoreError::sqlite("read its version"))?;
        if found > SCHEMA {
            return Err(StoreError::Newer { path: path.to_owned(), found, supported: SCHEMA });
        }
        if found < SCHEMA {
            if found > 0 {
                let kept = copy::keep_before(&db, path, found)?;
                tracing::info!(kept = %kept.display(), from = found, to = SCHEMA, "the site's database was kept as it is before its tables change");
            }
            let tx = db
                .transaction_with_behavior(TransactionBehavior::Immediate)
                .map_err(StoreError::sqlite("begin a transaction"))?;
            // Read again under the lock: another process may have been here first.
            let found: i64 = tx
                .pragma_query_value(None, "user_version", |row| row.get(0))
                .map_err(StoreError::sqlite("read its version"))?;
            for step in STEPS.iter().skip(usize::try_from(found).unwrap_or_default()) {
                tx.execute_batch(step).map_err(StoreError::sqlite("make its tables"))?;
            }
            tx.pragma_update(None, "user_version", SCHEMA).map_err(StoreError::sqlite("note its version"))?;
            tx.commit().map_err(StoreError::sqlite("make its tables"))?;
        }
        if fresh {
            restrict(path)?;
            sync_folder(folder)?;
        }
        Ok(Self(Mutex::new(db)))
    }

    fn db(&self) -> MutexGuard<'_, Connection> {
        // A thread that panicked inside left no transaction open: dropping one rolls it back.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the file grow to no more than `pages` pages from now on: a disk that is full, for the simulation.
    ///
    /// # Errors
    /// [`StoreError`] when SQLite refuses.
    pub fn bound(&self, pages: u32) -> Result<(), StoreError> {
        // The pragma answers with the number in force, so it is asked and not set.
        let set = self.db().query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()));
        set.map_err(StoreError::sqlite("bound its size"))
    }

    /// Reads.
    pub(crate) fn read<T, E: From<StoreError>>(&self, read: impl FnOnce(&Connection) -> Result<T, E>) -> Result<T, E> {
        read(&self.db())
    }

    /// Writes, all or nothing; durable when this returns.
    pub(crate) fn write<T, E: From<StoreError>>(
        &self,
        write: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut db = self.db();
        let tx = db
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(StoreError::sqlite("begin a transaction"))?;
        let done = write(&tx)?;
        failing(fault::BEFORE_WRITE)?;
        tx.commit().map_err(StoreError::sqlite("commit"))?;
        failing(fault::AFTER_WRITE)?;
        Ok(done)
    }
}

/// A point at which the simulation may have the disk fail, as SQLite would say it.
fn failing(point: &'static str) -> Result<(), StoreError> {
    fault::disk(point).map_err(|_| {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_FSYNC);
        StoreError::sqlite("commit")(rusqlite::Error::SqliteFailure(code, None))
    })
}

#[cfg(unix)]
fn restrict(path: &Path) -> Result<(), FolderError> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(FolderError::io("protect", path))
}

#[cfg(not(unix))]
fn restrict(_path: &Path) -> Result<(), FolderError> {
    Ok(())
}

/// Makes a database at `path` as workers before lineages left it, with these datasets registered; gives name, lineage and id of each.
#[cfg(test)]
pub(crate) fn before_lineages(path: &Path, names: &[&str]) -> Vec<(String, uuid::Uuid, uuid::Uuid)> {
    let steps: Vec<_> = STEPS.iter().take_while(|step| !step.contains("CREATE TABLE lineage_join")).collect();
    create_private(path.parent().expect("a folder")).expect("the folder is writable");
    let old = Connection::open(path).expect("the folder is writable");
    for step in &steps {
        old.execute_batch(step).expect("it was good when it landed");
    }
    old.pragma_update(None, "user_version", steps.len() as i64).expect("it is ours");
    let rows: Vec<_> = (1..)
        .zip(names)
        .map(|(n, name)| ((*name).to_owned(), uuid::Uuid::from_u128(n), uuid::Uuid::from_u128(100 + n)))
        .collect();
    for (name, lineage, dataset) in &rows {
        let pair = [name.clone(), lineage.to_string()];
        old.execute("INSERT INTO lineage (name, lineage) VALUES (?1, ?2)", pair).expect("a row");
        let pair = [lineage.to_string(), dataset.to_string()];
        old.execute("INSERT INTO registered (lineage, dataset) VALUES (?1, ?2)", pair).expect("a row");
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::{PATIENCE, SCHEMA, STEPS, Store, StoreError};

    #[test]
    fn every_commit_is_synced() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let store = Store::open(&dir.path().join("ledger.db")).expect("the folder is writable");
        let pragma = |name| {
            store.read(|db| {
                db.pragma_query_value(None, name, |row| row.get::<_, rusqlite::types::Value>(0))
                    .map_err(StoreError::sqlite("read"))
            })
        };
        assert_eq!(pragma("journal_mode").expect("it is open"), "wal".to_owned().into());
        // 2 is FULL: https://www.sqlite.org/pragma.html#pragma_synchronous
        assert_eq!(pragma("synchronous").expect("it is open"), 2_i64.into());
    }

    #[test]
    fn another_process_is_waited_for_as_long_as_is_said() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("ledger.db");
        let store = Store::open(&path).expect("the folder is writable");
        let waits = store.read(|db| {
            db.pragma_query_value(None, "busy_timeout", |row| row.get::<_, i64>(0)).map_err(StoreError::sqlite("read"))
        });
        assert_eq!(waits.expect("it is open"), PATIENCE.as_millis() as i64);
        // What waits is refused in words, and nothing is changed; without patience, so that the test has none either.
        let other = rusqlite::Connection::open(&path).expect("it is there");
        other.execute_batch("BEGIN IMMEDIATE").expect("nobody else writes");
        store
            .read(|db| db.busy_timeout(std::time::Duration::ZERO).map_err(StoreError::sqlite("set its timeout")))
            .expect("it is open");
        let insert = || {
            store.write(|tx| {
                tx.execute("INSERT INTO lineage (name, lineage) VALUES ('a', 'b')", [])
                    .map_err(StoreError::sqlite("write"))
            })
        };
        assert!(matches!(insert(), Err(StoreError::Sqlite { .. })));
        other.execute_batch("ROLLBACK").expect("it holds the lock");
        assert_eq!(insert().expect("nobody else writes"), 1);
    }

    #[test]
    fn tables_of_record_refuse_update_and_delete() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let store = Store::open(&dir.path().join("ledger.db")).expect("the folder is writable");
        let run = |sql: &str| store.write(|tx| tx.execute_batch(sql).map_err(StoreError::sqlite("run")));
        for (table, row, change) in [
            ("entry", "(sequence, payload, hash) VALUES (1, '{}', 'h')", "payload = 'x'"),
            ("receipt", "(sequence, payload, signature, digest) VALUES (1, '{}', 's', 'd')", "payload = 'x'"),
            ("published", "(sequence, payload, hash) VALUES (1, '{}', 'h')", "payload = 'x'"),
            ("acknowledged", "(receipt) VALUES (1)", "receipt = 2"),
            ("lineage", "(name, lineage) VALUES ('a', 'b')", "lineage = 'c'"),
            ("statement", "(job, dataset, payload, signature) VALUES ('a', 'b', '{}', 's')", "payload = 'x'"),
            (
                "freeze",
                "(id, lineage, frozen, job, reason, by, at) VALUES (1, 'a', 1, 'b', 'c', 'd', 'e')",
                "frozen = 0",
            ),
            (
                "manifest",
                "(job, dataset, digest, payload, signature, seen_at) VALUES ('a', 'b', 'c', 'd', 'e', 'f')",
                "digest = 'x'",
            ),
            (
                "decision",
                "(job, dataset, manifest, approve, by, reason, at) VALUES ('a', 'b', 'c', 0, 'e', '', 'f')",
                "approve = 1",
            ),
            ("alarm", "(problem, evidence, at) VALUES ('a', '{}', 'c')", "problem = 'x'"),
            ("cleared", "(alarm, reason, receipts, at) VALUES (1, 'b', 0, 'd')", "reason = 'x'"),
            (
                "head",
                "(epoch, size, payload, signature, consistency, seen_at) VALUES (0, 1, '{}', 's', '', 'f')",
                "payload = 'x'",
            ),
            (
                "countersignature",
                "(epoch, receipt, payload, signature, seen_at) VALUES (0, 1, '{}', 's', 'f')",
                "payload = 'x'",
            ),
            ("proof", "(epoch, receipt, head, position, leaf, inclusion) VALUES (0, 1, 1, 0, '{}', '')", "leaf = 'x'"),
            ("lacking", "(epoch, receipt) VALUES (1, 1)", "receipt = 2"),
            ("key_change", "(number, payload, by_old, by_new) VALUES (1, '{}', 'a', 'b')", "payload = 'x'"),
            ("approval_key", "(fingerprint, pinned, key, label, at) VALUES ('a', 1, '{}', 'b', 'c')", "pinned = 0"),
            ("credential_notice", "(id, text, at, seen_at) VALUES ('a', 'b', 'c', 'd')", "text = 'x'"),
            (
                "steward_approval",
                "(job, dataset, manifest, fingerprint, approval, at) VALUES ('a', 'b', 'c', 'd', '{}', 'f')",
                "approval = 'x'",
            ),
            ("restored", "(backup_at, receipts, at) VALUES ('a', 1, 'b')", "receipts = 2"),
            ("reconciled", "(restored, receipts, imported, at) VALUES (1, 1, 0, 'b')", "imported = 2"),
            ("withheld", "(job, dataset, at) VALUES ('a', 'b', 'c')", "at = 'x'"),
            ("lineage_join", "(name, lineage, continues, at) VALUES ('a', 'b', 'c', 'd')", "lineage = 'x'"),
            ("lineage_elsewhere", "(lineage, name, worker, at) VALUES ('a', 'b', 'c', 'd')", "worker = 'x'"),
            ("organization_key", "(id, secret, at) VALUES ('a', x'00', 'c')", "secret = x'01'"),
        ] {
            run(&format!("INSERT INTO {table} {row}")).expect(table);
            assert!(run(&format!("UPDATE {table} SET {change}")).is_err(), "{table}");
            assert!(run(&format!("DELETE FROM {table}")).is_err(), "{table}");
            // Rows that the database numbers itself do not collide.
            let numbered = matches!(table, "decision" | "alarm" | "restored" | "reconciled" | "approval_key");
            // REPLACE deletes before it inserts; recursive triggers make that fire too.
            assert!(run(&format!("INSERT OR REPLACE INTO {table} {row}")).is_err() || numbered, "{table}");
        }
    }

    #[test]
    fn a_database_of_an_older_worker_takes_the_steps_it_lacks() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("ledger.db");
        let old = rusqlite::Connection::open(&path).expect("the folder is writable");
        old.execute_batch(super::STEPS[0]).expect("the first tables");
        old.execute_batch("INSERT INTO lineage (name, lineage) VALUES ('a', 'b')").expect("a row");
        old.pragma_update(None, "user_version", 1).expect("its version");
        drop(old);
        let store = Store::open(&path).expect("it is brought up to date");
        let count = |table: &str| {
            let sql = format!("SELECT count(*) FROM {table}");
            store.read(|db| db.query_row(&sql, [], |row| row.get::<_, i64>(0)).map_err(StoreError::sqlite("read")))
        };
        assert_eq!(count("lineage").expect("kept"), 1);
        assert_eq!(count("freeze").expect("made"), 0);
        assert!(Store::open(&path).is_ok(), "a second time there is nothing to do");
    }

    #[test]
    fn a_database_of_every_earlier_version_is_brought_up_to_this_one_with_its_rows() {
        for version in 0..STEPS.len() {
            let dir = tempfile::tempdir().expect("a temporary folder");
            let path = dir.path().join("ledger.db");
            let old = rusqlite::Connection::open(&path).expect("the folder is writable");
            for step in &STEPS[..version] {
                old.execute_batch(step).expect("it was good when it landed");
            }
            old.pragma_update(None, "user_version", version as i64).expect("it is ours");
            if version > 0 {
                old.execute("INSERT INTO acknowledged (receipt) VALUES (7)", []).expect("it has its tables");
            }
            drop(old);
            for _ in 0..2 {
                let store = Store::open(&path).expect("it can be brought up");
                let read = |sql: &str| {
                    store.read(|db| {
                        db.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(StoreError::sqlite("read"))
                    })
                };
                assert_eq!(read("SELECT COUNT(*) FROM acknowledged").expect("it is there"), i64::from(version > 0));
                assert_eq!(read("SELECT COUNT(*) FROM proof").expect("it is there"), 0);
                assert_eq!(read("PRAGMA user_version").expect("it is there"), SCHEMA);
            }
        }
    }

    #[test]
    fn receipt_of_an_older_worker_without_a_vector_is_lost() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("ledger.db");
        let old = rusqlite::Connection::open(&path).expect("the folder is writable");
        STEPS[..5].iter().for_each(|step| old.execute_batch(step).expect("it was good when it landed"));
        old.pragma_update(None, "user_version", 5).expect("it is ours");
        for (sequence, round) in [(1, 1), (2, 2), (3, 2)] {
            let payload = format!(r#"{{"job":"a","dataset":"b","series":"private","round":{round}}}"#);
            let row = (sequence, payload, format!("digest {sequence}"));
            old.execute("INSERT INTO receipt (sequence, payload, signature, digest) VALUES (?1, ?2, '', ?3)", row)
                .expect("it is a receipt");
        }
        let sent = "INSERT INTO vector (job, dataset, series, round, digest, length, receipt) VALUES ('a', 'b', 'private', 1, 'd', 3, 1)";
        old.execute(sent, []).expect("it has its tables");
        drop(old);
        let store = Store::open(&path).expect("it is brought up to date");
        let rows: Vec<(i64, i64, i64)> = store
            .read(|db| {
                db.prepare("SELECT round, receipt, lost FROM vector ORDER BY round")
                    .and_then(|mut rows| {
                        rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect()
                    })
                    .map_err(StoreError::sqlite("read"))
            })
            .expect("it is open");
        assert_eq!(rows, [(1, 1, 0), (2, 3, 1)]);
    }

    #[test]
    fn a_database_of_a_newer_worker_is_left_alone() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("ledger.db");
        let store = Store::open(&path).expect("the folder is writable");
        store
            .write(|tx| tx.pragma_update(None, "user_version", SCHEMA + 1).map_err(StoreError::sqlite("raise")))
            .expect("it is ours");
        assert!(matches!(Store::open(&path), Err(StoreError::Newer { .. })));
    }
}
