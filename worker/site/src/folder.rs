//! The site's folder: the paths of all files of a worker, and atomic writes to them.
//!
//! ```text
//! config.toml   which server, pinned; who this worker is       policy.toml   the site's own rules
//! key           the site's Ed25519 key, 0600                   ledger.db     what was spent, and what is going on
//! data/<name>/  prepared datasets                              work/<job>/<dataset>/  a running job's files
//! pins.json     the server's certificates, in its own hand     key.next, key-change.json   a key that is to follow
//! server-keys.json   the server's root key, and how far its certificates have come
//! lock          held by the running daemon                     ledger.db.before-vN   as it was before an upgrade
//! transcripts/<job>/   what recordings say, and what came of the job: for nobody but this site
//! speech/       recordings that anybody may have, of which dummies are made, and what was heard in them
//! models/       model files that jobs name by their digest, for evaluation and as initial models
//! personal/     models that were fine-tuned on this site's data: they never leave
//! spoken.jsonl  which pieces of them were set aside for jobs: they are never heard again
//! ```

mod exchange;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use undertone_api::id::{DatasetId, JobId};

use crate::fault;

pub use exchange::{exchange, recover};

/// Reasons why the site's folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The file system returned an error.
    #[error("cannot {action} {path}: check that this user may, and that the disk has room")]
    Io {
        /// The attempted action, a verb.
        action: &'static str,
        /// The path of the action.
        path: PathBuf,
        /// The error.
        #[source]
        source: io::Error,
    },
    /// Another process has locked the site.
    #[error("another worker is at work in {0}: stop it first (one site has one ledger and one writer)")]
    Locked(PathBuf),
    /// A name that could point outside the folder.
    #[error(
        "`{0}` cannot be a dataset's name: use 1 to 100 letters, digits, `-`, `_` and `.`, not starting with a dot"
    )]
    Name(String),
}

impl FolderError {
    /// Adds the action and the path to an error of the file system.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { action, path, source }
    }
}

/// The paths of a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder(PathBuf);

/// The right to write the site's ledger: the holder is the site's only writer. Released when dropped, or when the
/// process ends.
#[derive(Debug)]
pub struct SiteLock(File);

impl Drop for SiteLock {
    /// Unlocks explicitly, because the lock belongs to the open file. A child process started meanwhile shares that
    /// file until it executes its own program, so closing alone would leave the site locked until then.
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

impl Folder {
    /// Returns the site at `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self(root.into())
    }

    /// Returns the folder itself.
    pub fn root(&self) -> &Path {
        &self.0
    }

    /// Returns the path of `config.toml`.
    pub fn config(&self) -> PathBuf {
        self.0.join("config.toml")
    }

    /// Returns the path of `policy.toml`.
    pub fn policy(&self) -> PathBuf {
        self.0.join("policy.toml")
    }

    /// Returns the path of `key`.
    pub fn key(&self) -> PathBuf {
        self.0.join("key")
    }

    /// Returns the path of `key.next`: the successor key, until the server has accepted it.
    pub fn next_key(&self) -> PathBuf {
        self.0.join("key.next")
    }

    /// Returns the path of `key-change.json`: the change signed by the old and the new key, until it is in force.
    pub fn key_change(&self) -> PathBuf {
        self.0.join("key-change.json")
    }

    /// Returns the path of `pins.json`: the server's certificates, as signed by the server.
    pub fn pins(&self) -> PathBuf {
        self.0.join("pins.json")
    }

    /// Returns the path of `server-keys.json`: the server's keys that the site has seen.
    pub fn server_keys(&self) -> PathBuf {
        self.0.join("server-keys.json")
    }

    /// Returns the path of `ledger.db`.
    pub fn ledger(&self) -> PathBuf {
        self.0.join("ledger.db")
    }

    /// Returns the folder of all datasets.
    pub fn datasets(&self) -> PathBuf {
        self.0.join("data")
    }

    /// Returns the folder of the model files that jobs name by their digest.
    pub fn models(&self) -> PathBuf {
        self.0.join("models")
    }

    /// Returns the folder of the models that were fine-tuned on this site's data and never leave it.
    pub fn personal(&self) -> PathBuf {
        self.0.join("personal")
    }

    /// Returns the folder of one dataset.
    ///
    /// # Errors
    /// [`FolderError::Name`] when the name could point to another folder.
    pub fn dataset(&self, name: &str) -> Result<PathBuf, FolderError> {
        check_name(name)?;
        Ok(self.datasets().join(name))
    }

    /// Returns the folder of all running jobs.
    pub fn all_work(&self) -> PathBuf {
        self.0.join("work")
    }

    /// Returns the folder of a running job's part.
    pub fn work(&self, job: JobId, dataset: DatasetId) -> PathBuf {
        self.all_work().join(job.to_string()).join(dataset.to_string())
    }

    /// Returns the folder of a job's transcripts.
    pub fn transcripts(&self, job: JobId) -> PathBuf {
        self.0.join("transcripts").join(job.to_string())
    }

    /// Returns the folder of recorded speech for dummies.
    pub fn speech(&self) -> PathBuf {
        self.0.join("speech")
    }

    /// Returns the path of `spoken.jsonl`: the reserved pieces of recorded speech.
    pub fn piece_journal(&self) -> PathBuf {
        self.0.join("spoken.jsonl")
    }

    /// Creates the folder, readable by its owner only.
    ///
    /// # Errors
    /// [`FolderError::Io`] when the file system returns an error.
    pub fn create(&self) -> Result<(), FolderError> {
        create_private(&self.0)
    }

    /// Locks the site for this process.
    ///
    /// # Errors
    /// [`FolderError::Locked`] when another process holds the lock.
    pub fn lock(&self) -> Result<SiteLock, FolderError> {
        self.create()?;
        let path = self.0.join("lock");
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(FolderError::io("open", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(SiteLock(file)),
            Err(TryLockError::WouldBlock) => Err(FolderError::Locked(self.0.clone())),
            Err(TryLockError::Error(source)) => Err(FolderError::io("lock", &path)(source)),
        }
    }
}

/// Checks that a text can be the name of a dataset, and therefore of a folder.
///
/// # Errors
/// [`FolderError::Name`] otherwise.
pub fn check_name(name: &str) -> Result<(), FolderError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let fits = (1..=100).contains(&name.len()) && !name.starts_with('.') && name.chars().all(plain);
    if fits { Ok(()) } else { Err(FolderError::Name(name.to_owned())) }
}

/// Creates a folder and its parents; new ones are readable by their owner only.
///
/// # Errors
/// [`FolderError`] when the file system returns an error.
pub fn create_private(path: &Path) -> Result<(), FolderError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(FolderError::io("create", path))
}

/// Writes a file atomically and durably: writes beside the target, syncs, renames, and syncs the folder so that the
/// name is durable too. The file is readable by its owner only.
///
/// # Errors
/// [`FolderError`] when the file system returns an error.
pub fn write_durably(path: &Path, content: &[u8]) -> Result<(), FolderError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    create_private(folder)?;
    let beside = hidden(path);
    let mut options = OpenOptions::new();
    options.create(true).truncate(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&beside).map_err(FolderError::io("create", &beside))?;
    file.write_all(content).map_err(FolderError::io("write", &beside))?;
    fault::disk(fault::BEFORE_SYNC).map_err(FolderError::io("sync", &beside))?;
    file.sync_all().map_err(FolderError::io("sync", &beside))?;
    fs::rename(&beside, path).map_err(FolderError::io("rename", &beside))?;
    sync_folder(folder)?;
    fault::disk(fault::AFTER_SYNC).map_err(FolderError::io("sync", path))
}

/// Returns the temporary path at which a file is written before it is renamed to `path`.
pub fn hidden(path: &Path) -> PathBuf {
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(path.file_name().unwrap_or_default());
    hidden.push(".new");
    path.with_file_name(hidden)
}

/// Syncs a folder, so that the names in it survive a power failure.
///
/// # Errors
/// [`FolderError`] when the file system returns an error.
pub fn sync_folder(folder: &Path) -> Result<(), FolderError> {
    File::open(folder).and_then(|file| file.sync_all()).map_err(FolderError::io("sync", folder))
}

#[cfg(test)]
mod tests {
    use super::{Folder, FolderError, check_name, write_durably};

    #[test]
    fn one_site_has_one_writer() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let folder = Folder::new(dir.path());
        let lock = folder.lock().expect("nobody holds it");
        assert!(matches!(folder.lock(), Err(FolderError::Locked(_))));
        drop(lock);
        assert!(folder.lock().is_ok());
    }

    #[test]
    fn dataset_name_never_leaves_the_folder() {
        for name in ["", ".", "..", ".hidden", "a/b", "a\\b", "../x", "a b", "é"] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        for name in ["an4-public", "LibriSpeech_3331", "v1.2"] {
            assert!(check_name(name).is_ok(), "{name:?}");
        }
    }

    #[test]
    fn file_is_replaced_atomically_without_leftovers() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("file");
        for content in ["first and longer", "second"] {
            write_durably(&path, content.as_bytes()).expect("the folder is writable");
            assert_eq!(std::fs::read_to_string(&path).expect("it is there"), content);
        }
        assert_eq!(std::fs::read_dir(dir.path()).expect("it is there").count(), 1);
    }
}
