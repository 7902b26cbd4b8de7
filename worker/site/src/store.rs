//! The site's database, one SQLite file: spending, seen and decided jobs, and documents to be sent.
//!
//! Durability. `journal_mode=WAL` with `synchronous=FULL` makes SQLite sync the write-ahead log at every commit, before
//! the commit returns, and sync the folder when the log is created. This module also syncs the folder after it has
//! created the file. So a transaction that has returned survives a killed process and a power failure, provided that
//! the disk honours syncs; `fullfsync` ensures that on macOS. Tables of record refuse `UPDATE` and `DELETE` by trigger.
//! To add a table: a file with its statement in `store/`, with the triggers if it is one of record, and its line in
//! `STEPS`.

mod copy;
mod disk;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use super::folder::{Folder, FolderError, create_private, sync_folder};
use crate::fault;

pub use disk::is_disk_failure;

/// The time that one process waits for another's transaction (the daemon and `approve` at the terminal share the file).
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Reasons why the database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The folder cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// SQLite returned an error.
    #[error("the site's database failed to {action}: check the disk; nothing is released while it fails")]
    Sqlite {
        /// The attempted action, a verb.
        action: &'static str,
        /// The error.
        #[source]
        source: rusqlite::Error,
    },
    /// A row has an unexpected form.
    #[error("a row of the site's database cannot be read ({0}): restore the file from a backup; never edit it")]
    Row(String),
    /// The file does not exist.
    #[error(
        "there is no ledger at {0}: restore the site from a backup (`undertone-worker restore`); what a ledger says was spent stays \
         spent, so none is ever made for a site that had one"
    )]
    Missing(PathBuf),
    /// The file has no tables.
    #[error(
        "{0} is empty: restore the site from a backup (`undertone-worker restore`); an empty file is no ledger, whatever became of \
         its content"
    )]
    Empty(PathBuf),
    /// The file was written by a newer worker.
    #[error(
        "{path} was written by a newer worker (schema {found}, this one reads {supported}): install that version; the ledger is left as it is"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema version.
        found: i64,
        /// The supported schema version.
        supported: i64,
    },
    /// The target of a copy exists.
    #[error("{0} is there already: name a file that is not")]
    Exists(PathBuf),
    /// Too many copies exist.
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

/// Converts a number to SQLite's integer. No count ever exceeds 2⁶³.
pub(super) fn sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The schema, in steps: a database of an older worker receives the missing ones. Steps are only ever appended.
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
    include_str!("store/peer.sql"),
    include_str!("store/restoration.sql"),
    include_str!("store/position.sql"),
    include_str!("store/departure.sql"),
    include_str!("store/terms.sql"),
    include_str!("store/peer_pin.sql"),
];
/// Version of the tables.
const SCHEMA: i64 = STEPS.len() as i64;

/// The open database. Threads share it; one of them at a time uses it.
#[derive(Debug)]
pub struct Store(Mutex<Connection>);

impl Store {
    /// Opens the database at `path`, which must exist: a lost ledger is never replaced by an empty one.
    ///
    /// # Errors
    /// [`StoreError::Missing`] and [`StoreError::Empty`] with the remedy, or [`StoreError`] when the file cannot be
    /// opened or is not a site's database.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        check_tables(path)?;
        // The file may vanish after the check, or an empty one may take its place: neither becomes a ledger.
        let missing = |error| if path.exists() { error } else { StoreError::Missing(path.to_owned()) };
        let db = connect(path, OpenFlags::empty()).map_err(missing)?;
        if schema_version(&db)? == 0 {
            return Err(StoreError::Empty(path.to_owned()));
        }
        Self::with_tables(db, path)
    }

    /// Opens the database of a site. Creates it only if the site is not enrolled yet, for its first prepared data.
    ///
    /// # Errors
    /// The errors of [`Store::open`] for an enrolled site.
    pub fn open_or_begin(site: &Folder) -> Result<Self, StoreError> {
        if site.config().exists() { Self::open(&site.ledger()) } else { Self::create(&site.ledger()) }
    }

    /// Opens the database at `path`, and creates it if it does not exist. Only for sites that are being enrolled or are
    /// not enrolled yet.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be opened or is not a site's database.
    pub fn create(path: &Path) -> Result<Self, StoreError> {
        let folder = path.parent().unwrap_or(Path::new("."));
        create_private(folder)?;
        let is_new = !path.exists();
        let store = Self::with_tables(connect(path, OpenFlags::SQLITE_OPEN_CREATE)?, path)?;
        if is_new {
            restrict(path)?;
            sync_folder(folder)?;
        }
        Ok(store)
    }

    /// Sets the durability of the open database at `path`, and brings its tables up to date.
    fn with_tables(mut db: Connection, path: &Path) -> Result<Self, StoreError> {
        for (pragma, value) in [
            ("journal_mode", "WAL"),
            ("synchronous", "FULL"),
            ("fullfsync", "ON"),
            ("foreign_keys", "ON"),
            ("recursive_triggers", "ON"),
        ] {
            db.pragma_update(None, pragma, value).map_err(StoreError::sqlite("set its durability"))?;
        }
        let version = schema_version(&db)?;
        if version > SCHEMA {
            return Err(StoreError::Newer { path: path.to_owned(), found: version, supported: SCHEMA });
        }
        if version < SCHEMA {
            if version > 0 {
                let copy = copy::keep_before(&db, path, version)?;
                tracing::info!(kept = %copy.display(), from = version, to = SCHEMA, "the site's database was kept as it is before its tables change");
            }
            let tx = db
                .transaction_with_behavior(TransactionBehavior::Immediate)
                .map_err(StoreError::sqlite("begin a transaction"))?;
            // Read the version again under the lock: another process may have upgraded the database first.
            let version = schema_version(&tx)?;
            for step in STEPS.iter().skip(usize::try_from(version).unwrap_or_default()) {
                tx.execute_batch(step).map_err(StoreError::sqlite("make its tables"))?;
            }
            tx.pragma_update(None, "user_version", SCHEMA).map_err(StoreError::sqlite("note its version"))?;
            tx.commit().map_err(StoreError::sqlite("make its tables"))?;
        }
        Ok(Self(Mutex::new(db)))
    }

    fn db(&self) -> MutexGuard<'_, Connection> {
        // A panicked thread leaves no open transaction: dropping one rolls it back.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Limits the file to `pages` pages: a full disk, for the simulation.
    ///
    /// # Errors
    /// [`StoreError`] when SQLite returns an error.
    pub fn bound(&self, pages: u32) -> Result<(), StoreError> {
        // The pragma returns the value in force, so it is run as a query.
        let set = self.db().query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()));
        set.map_err(StoreError::sqlite("bound its size"))
    }

    /// Runs a read.
    ///
    /// # Errors
    /// The errors of `read`.
    pub fn read<T, E: From<StoreError>>(&self, read: impl FnOnce(&Connection) -> Result<T, E>) -> Result<T, E> {
        read(&self.db())
    }

    /// Writes to the file as a local attacker could, for tests of other crates.
    ///
    /// # Errors
    /// The errors of `write`, or [`StoreError`] when the database fails.
    #[cfg(any(test, feature = "testing"))]
    pub fn write_in_test<T, E: From<StoreError>>(
        &self,
        write: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.write(write)
    }

    /// Runs a write transaction, all or nothing; durable when this returns.
    pub(crate) fn write<T, E: From<StoreError>>(
        &self,
        write: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut db = self.db();
        let tx = db
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(StoreError::sqlite("begin a transaction"))?;
        let result = write(&tx)?;
        failing(fault::BEFORE_WRITE)?;
        tx.commit().map_err(StoreError::sqlite("commit"))?;
        failing(fault::AFTER_WRITE)?;
        Ok(result)
    }
}

/// Checks that there is a database with tables. Creates nothing.
fn check_tables(path: &Path) -> Result<(), StoreError> {
    if !path.exists() {
        return Err(StoreError::Missing(path.to_owned()));
    }
    if read_version(path)? == 0 { Err(StoreError::Empty(path.to_owned())) } else { Ok(()) }
}

/// Returns the schema version of the database at `path`: 0 without tables. Creates and changes nothing.
fn read_version(path: &Path) -> Result<i64, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags).map_err(StoreError::sqlite("open"))?;
    db.busy_timeout(PATIENCE).map_err(StoreError::sqlite("set its timeout"))?;
    schema_version(&db)
}

/// Connects to the file at `path` for writing, with `more` flags. Without `SQLITE_OPEN_CREATE` a missing file is an error.
fn connect(path: &Path, more: OpenFlags) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | more;
    let db = Connection::open_with_flags(path, flags).map_err(StoreError::sqlite("open"))?;
    db.busy_timeout(PATIENCE).map_err(StoreError::sqlite("set its timeout"))?;
    Ok(db)
}

fn schema_version(db: &Connection) -> Result<i64, StoreError> {
    db.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(StoreError::sqlite("read its version"))
}

/// Passes a failpoint at which the simulation may make the disk fail, with the error that SQLite would return.
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

/// Creates a database at `path` in the form of workers before lineages, with these datasets registered. Returns name,
/// lineage and id of each.
///
/// # Panics
/// If the file cannot be created.
#[cfg(any(test, feature = "testing"))]
pub fn before_lineages(path: &Path, names: &[&str]) -> Vec<(String, uuid::Uuid, uuid::Uuid)> {
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
mod tests;
