//! Where private rows lie while they are counted: a folder that its owner alone may read, and that is gone afterwards.
//!
//! It goes when it is dropped, also on the way out of an error. After a crash it goes when the gate is next asked in the same work
//! folder, and at the worker's start ([`sweep`]). What needs no name gets none, and is gone whatever happens.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::site::folder::{FolderError, create_private};

/// Its name in a work folder.
const NAME: &str = "private-rows";

/// The folder.
pub struct Scratch(PathBuf);

impl Scratch {
    /// An empty one in the work folder `work`; whatever an earlier life left there is deleted first.
    ///
    /// # Errors
    /// [`FolderError`] when the file system refuses.
    pub fn new(work: &Path) -> Result<Self, FolderError> {
        let folder = work.join(NAME);
        remove(&folder)?;
        create_private(&folder)?;
        Ok(Self(folder))
    }

    /// The folder itself, for those that spill under names of their own.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// A new file of this name, readable by its owner only.
    pub(super) fn named(&self, name: &str) -> io::Result<(PathBuf, File)> {
        let path = self.0.join(name);
        let mut options = OpenOptions::new();
        options.create_new(true).read(true).write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Ok((path.clone(), options.open(&path)?))
    }

    /// A new file that has lost its name: the system deletes it when it is closed, also by a crash.
    pub(super) fn nameless(&self) -> io::Result<File> {
        let (path, file) = self.named("nameless")?;
        fs::remove_file(path)?;
        Ok(file)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.0) {
            tracing::error!(%error, "private rows could not be deleted; they go at the worker's next start");
        }
    }
}

/// Deletes what crashed gates left below `work`, the folder of all jobs' work folders (`work/<job>/<dataset>`), or in a folder
/// of any depth below it. To be called before any job runs. Gives how many there were.
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
        // A link is not followed: what lies behind it is not ours.
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

    use super::{NAME, Scratch, sweep};

    #[test]
    fn nothing_is_left_when_it_is_dropped() {
        let work = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(work.path()).unwrap();
        scratch.named("rows").unwrap().1.write_all(b"private").unwrap();
        std::fs::create_dir(scratch.folder().join("below")).unwrap();
        drop(scratch);
        assert_eq!(std::fs::read_dir(work.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_a_crash_left_is_gone_at_the_next_start_and_other_work_stays() {
        let site = tempfile::tempdir().unwrap();
        let work = site.path().join("work/job/dataset");
        let crashed = || {
            let scratch = Scratch::new(&work).unwrap();
            scratch.named("rows").unwrap().1.write_all(b"private").unwrap();
            std::mem::forget(scratch);
        };
        crashed();
        std::fs::write(work.join("checkpoint"), "kept").unwrap();
        let next = Scratch::new(&work).unwrap();
        assert_eq!(std::fs::read_dir(next.folder()).unwrap().count(), 0);
        std::mem::forget(next);
        crashed();
        assert_eq!(sweep(&site.path().join("work")).unwrap(), 1);
        assert!(!work.join(NAME).exists() && work.join("checkpoint").exists());
        assert_eq!(sweep(&site.path().join("no such folder")).unwrap(), 0);
    }

    #[test]
    fn a_nameless_file_can_be_read_back_and_nobody_else_finds_it() {
        let work = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(work.path()).unwrap();
        let (mut one, mut two) = (scratch.nameless().unwrap(), scratch.nameless().unwrap());
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
    fn only_the_owner_may_look() {
        use std::os::unix::fs::PermissionsExt as _;
        let work = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(work.path()).unwrap();
        let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(scratch.folder()), 0o700);
        let (path, _file) = scratch.named("rows").unwrap();
        assert_eq!(mode(&path), 0o600);
    }
}
