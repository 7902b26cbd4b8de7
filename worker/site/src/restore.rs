//! Backups of a site and their restoration: ledger, key, policy, configuration and the descriptions of its datasets,
//! without the data.
//!
//! A restored ledger may lack spending. So it is marked before it is put in place: nothing leaves until the running
//! worker has compared it with the server's receipts and imported the missing ones as spent
//! ([`crate::ledger::Ledger::import`]). To add a file to backups: its line in `FILES`.

mod archive;

use std::fs::{self, File, OpenOptions};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use age::secrecy::SecretString;
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use time::OffsetDateTime;
use undertone_api::id::{DatasetId, JobId};

use super::books::BooksError;
use super::folder::{Folder, FolderError, create_private, sync_folder};
use super::keys::{KeyError, SiteKey};
use super::ledger::{import, verify};
use super::store::{Store, StoreError, sql};
use crate::clock::format_time;
use crate::config::ConfigError;
use archive::BackupMetadata;

/// The files of a backup besides the ledger and the descriptions of datasets: names in the site's folder.
const FILES: [&str; 8] = [
    "config.toml",
    "policy.toml",
    "key",
    "key.next",
    "key-change.json",
    "pins.json",
    "server-keys.json",
    "spoken.jsonl",
];
/// The ledger's name in the site's folder.
const LEDGER: &str = "ledger.db";
/// The first bytes of an `age` file.
const SEALED: &[u8] = b"age-encryption.org/v1";

/// Reasons why a site is not backed up or restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// A file cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The key cannot be read.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The ledger in the backup fails verification.
    #[error("the ledger in the backup does not hold, so it is not put in place: take another backup")]
    Ledger(#[from] BooksError),
    /// The target file exists.
    #[error("{0} is there already: name a file that is not")]
    Exists(PathBuf),
    /// The folder already contains a site.
    #[error(
        "{0} holds a site already: restore into another folder with --site, or give --replace, which moves what is here aside"
    )]
    Occupied(PathBuf),
    /// The backup is sealed, and no passphrase was given.
    #[error("the backup is sealed: give its passphrase with --passphrase-file")]
    Sealed,
    /// The passphrase is wrong.
    #[error("the backup cannot be opened with this passphrase")]
    Passphrase,
    /// The file is not a complete backup of a site.
    #[error("{path} is no whole backup of a site: {problem}")]
    Broken {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
}

/// The content of a backup, in numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupSummary {
    /// The number of receipts in its ledger.
    pub receipts: u64,
    /// Digest of the last receipt; empty without one.
    pub last: String,
    /// The number of described datasets.
    pub datasets: u64,
    /// The time of the backup (RFC 3339).
    pub at: String,
    /// The folder to which the previous site was moved.
    pub replaced: Option<PathBuf>,
}

/// Writes a backup of the site to `file`, sealed when there is a passphrase; the worker may run meanwhile.
///
/// # Errors
/// [`RestoreError`]. In that case there is no file.
pub fn backup(
    folder: &Folder,
    file: &Path,
    passphrase: Option<SecretString>,
    now: OffsetDateTime,
) -> Result<BackupSummary, RestoreError> {
    if file.exists() {
        return Err(RestoreError::Exists(file.to_owned()));
    }
    let staged = folder.root().join(".backup.db");
    if staged.exists() {
        fs::remove_file(&staged).map_err(FolderError::io("remove", &staged))?;
    }
    let part = file.with_file_name(format!(".{}.part", file.file_name().unwrap_or_default().to_string_lossy()));
    let outcome = Store::open(&folder.ledger())?.copy_to(&staged).map_err(RestoreError::from).and_then(|()| {
        let mut options = OpenOptions::new();
        options.create(true).truncate(true).write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let out = options.open(&part).map_err(FolderError::io("create", &part))?;
        let about = archive::write(folder, &staged, &out, passphrase, now)?;
        out.sync_all().map_err(FolderError::io("sync", &part))?;
        fs::rename(&part, file).map_err(FolderError::io("rename", &part))?;
        sync_folder(file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")))?;
        Ok(about.summary())
    });
    for left in [&staged, &part] {
        if left.exists() {
            fs::remove_file(left).map_err(FolderError::io("remove", left))?;
        }
    }
    outcome
}

/// Restores a backup into an empty folder, or, with `replace`, in place of an existing site, which is moved aside. The
/// ledger is verified first and marked: nothing leaves until the worker has compared it with the server's receipts.
/// `check_config` validates the configuration in the given folder.
///
/// # Errors
/// [`RestoreError`]. In that case the existing site is unchanged.
pub fn restore(
    folder: &Folder,
    file: &Path,
    passphrase: Option<SecretString>,
    replace: bool,
    now: OffsetDateTime,
    check_config: impl FnOnce(&Folder) -> Result<(), ConfigError>,
) -> Result<BackupSummary, RestoreError> {
    let _lock = folder.lock()?;
    let occupied = [folder.config(), folder.key(), folder.ledger()].iter().any(|path| path.exists());
    if occupied && !replace {
        return Err(RestoreError::Occupied(folder.root().to_owned()));
    }
    let staged = Folder::new(folder.root().join(".restoring"));
    clear(staged.root())?;
    create_private(staged.root())?;
    let about = archive::read(open_backup(file, passphrase)?, staged.root()).map_err(|problem| match problem {
        archive::ReadError::Folder(error) => RestoreError::Folder(error),
        archive::ReadError::Broken(problem) => RestoreError::Broken { path: file.to_owned(), problem },
    })?;
    check_config(&staged)?;
    let key = SiteKey::load(&staged.key())?.public();
    {
        let store = Store::open(&staged.ledger())?;
        store.read(|db| verify(db, &key))?;
        mark_restored(&store, &about.at, import::length(&store)?, now)?;
    }
    let replaced = if occupied { Some(move_aside(folder, now)?) } else { None };
    // The ledger comes last: without it no site can run.
    let placed = FILES.into_iter().chain([archive::DESCRIPTIONS, LEDGER]);
    for name in placed {
        let from = staged.root().join(name);
        if from.exists() {
            let to = folder.root().join(name);
            clear(&to)?;
            fs::rename(&from, &to).map_err(FolderError::io("rename", &from))?;
        }
    }
    sync_folder(folder.root())?;
    clear(staged.root())?;
    Ok(BackupSummary { replaced, ..about.summary() })
}

/// Returns the unsealed content of the backup.
fn open_backup(file: &Path, passphrase: Option<SecretString>) -> Result<Box<dyn Read>, RestoreError> {
    let read = |path: &Path| File::open(path).map_err(FolderError::io("read", path));
    let mut begin = Vec::new();
    let head = read(file)?.take(SEALED.len() as u64).read_to_end(&mut begin);
    head.map_err(FolderError::io("read", file))?;
    let whole = BufReader::new(read(file)?);
    match (begin == SEALED, passphrase) {
        (false, _) => Ok(Box::new(whole)),
        (true, None) => Err(RestoreError::Sealed),
        (true, Some(passphrase)) => {
            let broken = |problem: String| RestoreError::Broken { path: file.to_owned(), problem };
            let sealed = age::Decryptor::new_buffered(whole).map_err(|error| broken(error.to_string()))?;
            let identity = age::scrypt::Identity::new(passphrase);
            let open = sealed.decrypt(std::iter::once(&identity as &dyn age::Identity));
            Ok(Box::new(open.map_err(|_| RestoreError::Passphrase)?))
        }
    }
}

/// Moves the existing site into a subfolder of its own.
fn move_aside(folder: &Folder, now: OffsetDateTime) -> Result<PathBuf, FolderError> {
    let to = folder.root().join(format!("replaced-{}", now.unix_timestamp()));
    create_private(&to)?;
    let log = ["ledger.db-wal", "ledger.db-shm"];
    for name in FILES.into_iter().chain([LEDGER]).chain(log).chain([archive::DESCRIPTIONS]) {
        let from = folder.root().join(name);
        if from.exists() {
            fs::rename(&from, to.join(name)).map_err(FolderError::io("rename", &from))?;
        }
    }
    sync_folder(&to)?;
    sync_folder(folder.root())?;
    Ok(to)
}

fn clear(path: &Path) -> Result<(), FolderError> {
    let removed = if path.is_dir() {
        fs::remove_dir_all(path)
    } else if path.exists() {
        fs::remove_file(path)
    } else {
        Ok(())
    };
    removed.map_err(FolderError::io("remove", path))
}

impl BackupMetadata {
    fn summary(&self) -> BackupSummary {
        let Self { receipts, last, datasets, at, .. } = self.clone();
        BackupSummary { receipts, last, datasets, at, replaced: None }
    }
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
