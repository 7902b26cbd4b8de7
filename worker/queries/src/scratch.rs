//! The folder of private rows during a count: readable by its owner only, and deleted afterwards.
//!
//! Dropping the value deletes the folder, also on the way out of an error. After a crash it is deleted at the next use
//! of the gate in the same work folder, and at the worker's start ([`sweep`]). A file that needs no name has none, so
//! that the system always deletes it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use undertone_worker_site::folder::{FolderError, create_private};

/// The folder's name in a work folder.
const NAME: &str = "private-rows";

/// A folder for private rows.
pub struct ScratchFolder(PathBuf);

impl ScratchFolder {
    /// Makes an empty folder in the work folder `work`, and first deletes the remains of an earlier process.
    ///
    /// # Errors
    /// [`FolderError`] when the file system refuses.
    pub fn new(work: &Path) -> Result<Self, FolderError> {
        let folder = work.join(NAME);
        remove(&folder)?;
        create_private(&folder)?;
        Ok(Self(folder))
    }

    /// Returns the path, for engines that spill under names of their own.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// Creates a file of this name, readable by its owner only.
    pub(super) fn create_named(&self, name: &str) -> io::Result<(PathBuf, File)> {
        let path = self.0.join(name);
        let mut options = OpenOptions::new();
        options.create_new(true).read(true).write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Ok((path.clone(), options.open(&path)?))
    }

    /// Creates a file and unlinks its name: the system deletes it when it is closed, also after a crash.
    pub(super) fn create_nameless(&self) -> io::Result<File> {
        let (path, file) = self.create_named("nameless")?;
        fs::remove_file(path)?;
        Ok(file)
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.0) {
            tracing::error!(%error, "cannot delete private rows; the worker's next start deletes them");
        }
    }
}

/// Deletes the folders that crashed gates left below `work`, the folder of all jobs' work folders
/// (`work/<job>/<dataset>`), at any depth. Call it before any job runs. Returns the number of deleted folders.
///
/// # Errors
/// [`FolderError`] when the file system refuses.
pub fn sweep(work: &Path) -> Result<usize, FolderError> {
    let mut swept = 0;
    let entries = match fs::read_dir(work) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(FolderError::io("read", work)(error)),
    };
    for entry in entries {
        let entry = entry.map_err(FolderError::io("read", work))?;
        let path = entry.path();
        // Links are not followed, because their targets belong to others.
        if !entry.file_type().map_err(FolderError::io("read", &path))?.is_dir() {
            continue;
        }
        if entry.file_name() == NAME {
            remove(&path)?;
            swept += 1;
        } else {
            swept += sweep(&path)?;
        }
    }
    Ok(swept)
}

fn remove(folder: &Path) -> Result<(), FolderError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(FolderError::io("delete", folder)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a temporary folder can be written")]

    use std::io::{Read as _, Seek as _, Write as _};

    use super::{NAME, ScratchFolder, sweep};

    #[test]
    fn dropped_scratch_folder_is_deleted() {
        let work = tempfile::tempdir().unwrap();
        let scratch = ScratchFolder::new(work.path()).unwrap();
        scratch.create_named("rows").unwrap().1.write_all(b"private").unwrap();
        std::fs::create_dir(scratch.folder().join("below")).unwrap();
        drop(scratch);
        assert_eq!(std::fs::read_dir(work.path()).unwrap().count(), 0);
    }

    #[test]
    fn sweep_deletes_crashed_folders_only() {
        let site = tempfile::tempdir().unwrap();
        let work = site.path().join("work/job/dataset");
        let crashed = || {
            let scratch = ScratchFolder::new(&work).unwrap();
            scratch.create_named("rows").unwrap().1.write_all(b"private").unwrap();
            std::mem::forget(scratch);
        };
        crashed();
        std::fs::write(work.join("checkpoint"), "kept").unwrap();
        let next = ScratchFolder::new(&work).unwrap();
        assert_eq!(std::fs::read_dir(next.folder()).unwrap().count(), 0);
        std::mem::forget(next);
        crashed();
        assert_eq!(sweep(&site.path().join("work")).unwrap(), 1);
        assert!(!work.join(NAME).exists() && work.join("checkpoint").exists());
        assert_eq!(sweep(&site.path().join("no such folder")).unwrap(), 0);
    }

    #[test]
    fn nameless_file_reads_back_without_a_name() {
        let work = tempfile::tempdir().unwrap();
        let scratch = ScratchFolder::new(work.path()).unwrap();
        let mut one = scratch.create_nameless().unwrap();
        let mut two = scratch.create_nameless().unwrap();
        one.write_all(b"private").unwrap();
        two.write_all(b"other").unwrap();
        assert_eq!(std::fs::read_dir(scratch.folder()).unwrap().count(), 0);
        one.rewind().unwrap();
        let mut back = String::new();
        one.read_to_string(&mut back).unwrap();
        assert_eq!(back, "private");
    }

    #[cfg(unix)]
    #[test]
    fn scratch_files_are_readable_by_owner_only() {
        use std::os::unix::fs::PermissionsExt as _;
        let work = tempfile::tempdir().unwrap();
        let scratch = ScratchFolder::new(work.path()).unwrap();
        let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(scratch.folder()), 0o700);
        let (path, _file) = scratch.create_named("rows").unwrap();
        assert_eq!(mode(&path), 0o600);
    }
}
