//! The hidden work folder of a preparation, reopened after an interruption.
//!
//! Next to the target, `.<name>.preparing/` holds: `lock`, held while a process works there; `state.json`, the
//! progress; `dataset/`, the dataset under construction; `fingerprints.json`, of the rows that are read, for a site's
//! dataset; and, during a replacement, `replaced/`, the previous dataset. Order: first the rows become durable, then
//! the state that counts them, at the end the description, and then the folder is renamed.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::PrepareError;
use super::journal::JournalState;
use super::report::PrepareReport;
use crate::dataset::part::PartWriter;
use crate::dataset::user::{self, KEY, folder_error};
use crate::dataset::{Meta, ROWS_FOLDER};
use crate::log::ColumnMap;
use undertone_worker_site::dataset_meta::{DatasetError, META_FILE, REPORT_FILE};
use undertone_worker_site::fault;
use undertone_worker_site::folder::{create_private, sync_folder, write_durably};
use undertone_worker_site::lineage::LineageMarker;

/// The file of fingerprints.
const FINGERPRINTS: &str = "fingerprints.json";

/// The folder of a preparation, locked against others.
#[derive(Debug)]
pub(super) struct WorkFolder {
    target: PathBuf,
    folder: PathBuf,
    lock: File,
}

impl WorkFolder {
    /// Opens the folder, or creates it. Restores a dataset whose replacement was interrupted.
    pub(super) fn open(target: &Path) -> Result<Self, PrepareError> {
        let Some(name) = target.file_name() else {
            let reason = "it has no name to create";
            return Err(DatasetError::Foreign { path: target.to_path_buf(), reason }.into());
        };
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(".preparing");
        let folder = parent(target).join(hidden);
        create_private(&folder).map_err(folder_error)?;
        let path = folder.join("lock");
        let open = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let lock = open.map_err(DatasetError::io("open", &path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(PrepareError::Busy(target.to_path_buf())),
            Err(TryLockError::Error(source)) => return Err(DatasetError::io("lock", &path)(source).into()),
        }
        let work = Self { target: target.to_path_buf(), folder, lock };
        if work.replaced().is_dir() && target.symlink_metadata().is_err() {
            fs::rename(work.replaced(), target).map_err(DatasetError::io("create", target))?;
        }
        Ok(work)
    }

    fn dataset(&self) -> PathBuf {
        self.folder.join("dataset")
    }

    fn rows(&self) -> PathBuf {
        self.dataset().join(ROWS_FOLDER)
    }

    fn replaced(&self) -> PathBuf {
        self.folder.join("replaced")
    }

    fn state_file(&self) -> PathBuf {
        self.folder.join("state.json")
    }

    /// Returns the progress of the preparation with fingerprint `of`; `None` if it has not begun, has another
    /// fingerprint, or is damaged.
    pub(super) fn state(&self, of: &str) -> Result<Option<JournalState>, DatasetError> {
        let path = self.state_file();
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(DatasetError::io("read", &path)(error)),
        };
        let state = serde_json::from_slice(&text).ok().filter(|state: &JournalState| state.of == of);
        let Some(state) = state else { return Ok(None) };
        let there = |path: PathBuf| path.metadata().map(|file| file.len()).ok();
        let whole = |part: &crate::dataset::DatasetPart| there(self.rows().join(&part.name)) == Some(part.bytes);
        if !self.rows().is_dir() || !state.parts.iter().all(whole) {
            return Ok(None);
        }
        // Removes a part that was incomplete at the interruption.
        for file in fs::read_dir(self.rows()).map_err(DatasetError::io("read", &self.rows()))? {
            let file = file.map_err(DatasetError::io("read", &self.rows()))?;
            let name = file.file_name();
            if !state.parts.iter().any(|part| name.to_str() == Some(part.name.as_str())) {
                fs::remove_file(file.path()).map_err(DatasetError::io("remove", &file.path()))?;
            }
        }
        Ok(Some(state))
    }

    /// Starts again, and discards the content of the folder.
    pub(super) fn begin(&self, of: &str, labels: &[String]) -> Result<JournalState, DatasetError> {
        for path in [self.state_file(), self.folder.join(FINGERPRINTS)] {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(DatasetError::io("remove", &path)(error));
                }
                _ => {}
            }
        }
        if self.dataset().is_dir() {
            fs::remove_dir_all(self.dataset()).map_err(DatasetError::io("remove", &self.dataset()))?;
        }
        create_private(&self.rows()).map_err(folder_error)?;
        let state = JournalState::new(of, labels);
        self.save(&state)?;
        Ok(state)
    }

    /// Returns the key of user ids; stores `fresh` if there is none yet.
    pub(super) fn key(&self, fresh: [u8; KEY]) -> Result<[u8; KEY], DatasetError> {
        user::key(&self.dataset(), fresh)
    }

    /// Creates a part.
    pub(super) fn part(&self, n: usize, columns: &ColumnMap) -> Result<PartWriter, DatasetError> {
        PartWriter::create(&self.rows(), n, columns.user.is_some(), columns.label.is_some())
    }

    /// Makes the progress durable.
    pub(super) fn save(&self, state: &JournalState) -> Result<(), DatasetError> {
        let text = serde_json::to_vec(state).expect("a state is text and whole numbers, with text keys");
        write_durably(&self.state_file(), &text).map_err(folder_error)
    }

    /// Returns the fingerprints of the rows that are read; empty if there are none.
    pub(super) fn fingerprints(&self) -> Vec<u8> {
        fs::read(self.folder.join(FINGERPRINTS)).unwrap_or_default()
    }

    /// Makes the fingerprints durable, before the state that counts their rows. A row that is read twice has one
    /// fingerprint.
    pub(super) fn save_fingerprints(&self, saved: &[u8]) -> Result<(), DatasetError> {
        write_durably(&self.folder.join(FINGERPRINTS), saved).map_err(folder_error)
    }

    /// Writes into the dataset the accounts that it is charged to.
    pub(super) fn mark(&self, marker: &LineageMarker) -> Result<(), DatasetError> {
        write_durably(&self.dataset().join(LineageMarker::FILE), &marker.to_json()).map_err(folder_error)
    }

    /// Writes the description, moves the dataset to its place, and removes the work folder.
    pub(super) fn publish(self, meta: &Meta, report: &PrepareReport, replace: bool) -> Result<(), DatasetError> {
        let write =
            |name: &str, text: String| write_durably(&self.dataset().join(name), text.as_bytes()).map_err(folder_error);
        write(REPORT_FILE, pretty(report))?;
        write(META_FILE, pretty(meta))?;
        let io = DatasetError::io;
        let target = &self.target;
        if target.symlink_metadata().is_ok() {
            if !replace {
                return Err(DatasetError::Exists(target.clone()));
            }
            if !target.join(META_FILE).is_file() {
                return Err(DatasetError::Foreign { path: target.clone(), reason: "it has no meta.json" });
            }
            if self.replaced().is_dir() {
                fs::remove_dir_all(self.replaced()).map_err(io("remove", &self.replaced()))?;
            }
            fs::rename(target, self.replaced()).map_err(io("replace", target))?;
        }
        fault::disk(fault::BEFORE_SYNC).map_err(io("create", target))?;
        fs::rename(self.dataset(), target).map_err(io("create", target))?;
        sync_folder(parent(target)).map_err(folder_error)?;
        fault::disk(fault::AFTER_SYNC).map_err(io("create", target))?;
        self.forget()
    }

    /// Removes the folder and its content.
    pub(super) fn forget(self) -> Result<(), DatasetError> {
        fs::remove_dir_all(&self.folder).map_err(DatasetError::io("remove", &self.folder))
    }
}

impl Drop for WorkFolder {
    /// Unlocks the folder explicitly. The lock belongs to the open file, which a concurrently started child process
    /// also holds until it replaces its image; closing alone would keep the folder locked until then.
    fn drop(&mut self) {
        let _ = self.lock.unlock();
    }
}

fn pretty(value: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(value).expect("plain text and finite numbers, with text keys");
    text + "\n"
}

fn parent(target: &Path) -> &Path {
    target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
