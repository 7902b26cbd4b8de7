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
use time::OffsetDateTime;

use super::books::BooksError;
use super::folder::{Folder, FolderError, create_private, sync_folder};
use super::keys::{KeyError, SiteKey};
use super::ledger::rows;
use super::ledger::verify::verify;
use super::store::{Store, StoreError};
use crate::config::ConfigError;
use archive::BackupMetadata;

pub use super::ledger::recovery::{list_recoveries, mark_restored, pending_restore};

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
        mark_restored(&store, &about.at, rows::length(&store)?, now)?;
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
