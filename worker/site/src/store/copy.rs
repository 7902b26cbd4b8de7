//! Copies of the database, complete and consistent while others write it: before its tables change, and for a backup.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::{SCHEMA, Store, StoreError, read_version};
use crate::folder::{FolderError, sync_folder};

/// The highest number of copies of one version beside the database.
const MOST: u32 = 100;

impl Store {
    /// Writes a copy of the database to `path`, complete and durable when this returns. Other processes may write the
    /// database meanwhile. The copy is readable by its owner only.
    ///
    /// # Errors
    /// [`StoreError`] when `path` exists, or the disk fails.
    pub fn copy_to(&self, path: &Path) -> Result<(), StoreError> {
        self.read(|db| copy(db, path))
    }
}

impl Store {
    /// Returns whether the database at `path` belongs to an older worker and would be upgraded when it is opened.
    /// Changes nothing.
    ///
    /// # Errors
    /// [`StoreError`] when it is not a site's database, or belongs to a newer worker.
    pub fn is_older(path: &Path) -> Result<bool, StoreError> {
        let version = read_version(path)?;
        if version > SCHEMA {
            return Err(StoreError::Newer { path: path.to_owned(), found: version, supported: SCHEMA });
        }
        if version == 0 {
            return Err(StoreError::Empty(path.to_owned()));
        }
        Ok(version < SCHEMA)
    }

    /// Sets the database's version, for tests.
    ///
    /// # Errors
    /// [`StoreError`] when SQLite returns an error.
    #[cfg(any(test, feature = "testing"))]
    pub fn set_version(&self, version: i64) -> Result<(), StoreError> {
        self.read(|db| db.pragma_update(None, "user_version", version).map_err(StoreError::sqlite("set its version")))
    }
}

/// Copies the database beside `path` before its tables change from `version`.
pub(super) fn keep_before(db: &Connection, path: &Path, version: i64) -> Result<PathBuf, StoreError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let candidate = |number: u32| {
        let number = if number == 1 { String::new() } else { format!(".{number}") };
        path.with_file_name(format!("{name}.before-v{}{number}", version + 1))
    };
    let free = (1..=MOST).map(candidate).find(|candidate| !candidate.exists());
    let target = free.ok_or_else(|| StoreError::Copies(path.to_owned()))?;
    copy(db, &target)?;
    Ok(target)
}

fn copy(db: &Connection, path: &Path) -> Result<(), StoreError> {
    let part = path.with_file_name(format!(".{}.part", path.file_name().unwrap_or_default().to_string_lossy()));
    if path.exists() {
        return Err(StoreError::Exists(path.to_owned()));
    }
    // Remove the remains of an interrupted copy.
    if part.exists() {
        fs::remove_file(&part).map_err(FolderError::io("remove", &part))?;
    }
    let copied = copy_into(db, &part, path);
    if copied.is_err() {
        // A full disk may hold a part of the copy. The error of the copy is reported, not that of the removal.
        let _ = fs::remove_file(&part);
    }
    copied?;
    Ok(sync_folder(path.parent().unwrap_or(Path::new(".")))?)
}

/// Writes the copy beside its target, readable by its owner only from the first byte, and renames it.
fn copy_into(db: &Connection, part: &Path, path: &Path) -> Result<(), StoreError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    // SQLite accepts an existing empty file.
    let file = options.open(part).map_err(FolderError::io("create", part))?;
    db.execute("VACUUM INTO ?1", [part.to_string_lossy()]).map_err(StoreError::sqlite("copy itself"))?;
    file.sync_all().map_err(FolderError::io("sync", part))?;
    Ok(fs::rename(part, path).map_err(FolderError::io("rename", part))?)
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::super::{SCHEMA, STEPS, Store, StoreError};

    fn version(path: &std::path::Path) -> i64 {
        let db = Connection::open(path).expect("it is a database");
        db.pragma_query_value(None, "user_version", |row| row.get(0)).expect("it has a version")
    }

    /// Provokes an error after the file was created, as on a full disk: SQLite rejects the statement in a transaction.
    #[test]
    fn failed_copy_leaves_nothing() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let db = Connection::open(dir.path().join("ledger.db")).expect("the folder is writable");
        db.execute_batch("CREATE TABLE one (n INTEGER); BEGIN").expect("it is ours");
        super::copy(&db, &dir.path().join("copy.db")).expect_err("a transaction is open");
        let names: Vec<_> =
            std::fs::read_dir(dir.path()).expect("it is there").map(|item| item.expect("read").file_name()).collect();
        assert!(names.iter().all(|name| !name.to_string_lossy().contains("copy")), "{names:?}");
    }

    #[cfg(unix)]
    #[test]
    fn copy_is_its_owners_alone() {
        use std::os::unix::fs::PermissionsExt as _;

        let dir = tempfile::tempdir().expect("a temporary folder");
        let store = Store::create(&dir.path().join("ledger.db")).expect("the folder is writable");
        store.copy_to(&dir.path().join("copy.db")).expect("copied");
        let mode = std::fs::metadata(dir.path().join("copy.db")).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn database_is_copied_before_its_tables_change() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("ledger.db");
        let first_copy = dir.path().join("ledger.db.before-v2");
        for round in 1..=2 {
            let old = Connection::open(&path).expect("the folder is writable");
            old.execute_batch(STEPS[0]).expect("the first tables");
            old.execute("INSERT INTO lineage (name, lineage) VALUES ('a', ?1)", [round.to_string()]).expect("a row");
            old.pragma_update(None, "user_version", 1).expect("its version");
            drop(old);
            Store::create(&path).expect("it is brought up to date");
            assert_eq!(version(&path), SCHEMA);
            let copy = if round == 1 { first_copy.clone() } else { dir.path().join("ledger.db.before-v2.2") };
            assert_eq!(version(&copy), 1);
            let db = Connection::open(&copy).expect("it is a database");
            let line: String = db.query_row("SELECT lineage FROM lineage", [], |row| row.get(0)).expect("kept");
            assert_eq!(line, round.to_string());
            #[cfg(unix)]
            {
                use std::os::unix::fs::PermissionsExt as _;
                let mode = std::fs::metadata(&copy).expect("it is there").permissions().mode();
                assert_eq!(mode & 0o777, 0o600);
            }
            for file in ["ledger.db", "ledger.db-wal", "ledger.db-shm"] {
                drop(std::fs::remove_file(dir.path().join(file)));
            }
        }
    }

    #[test]
    fn new_database_leaves_no_copy_behind() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        Store::create(&dir.path().join("ledger.db")).expect("the folder is writable");
        let names: Vec<_> = std::fs::read_dir(dir.path()).expect("it is there").collect();
        let copies = names.iter().flatten().filter(|item| item.file_name().to_string_lossy().contains("before"));
        assert_eq!(copies.count(), 0);
    }

    #[test]
    fn copy_never_takes_the_place_of_another_file() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let store = Store::create(&dir.path().join("ledger.db")).expect("the folder is writable");
        let copy = dir.path().join("copy.db");
        store.copy_to(&copy).expect("nothing is there");
        assert!(matches!(store.copy_to(&copy), Err(StoreError::Exists(_))));
        assert_eq!(version(&copy), SCHEMA);
    }
}
