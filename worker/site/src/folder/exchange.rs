//! Replaces one folder by another: a crash on the way leaves either the old or the new folder, complete.
//!
//! The file system exchanges two names in one step. Where it has no such step (some network file systems), there are
//! two steps, and a crash between them leaves the old folder hidden beside its place. [`recover`] then moves it back if
//! the place is empty, and removes it otherwise. Call it before any other access to the place.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{FolderError, sync_folder};
use crate::fault;

/// Puts the folder `new` at `place`. Afterwards the previous folder is at the path `new`, for the caller to remove; if
/// `place` was empty, that path is empty too. Both paths must be on one disk.
///
/// # Errors
/// [`FolderError::Io`] when the file system returns an error. The previous folder is then still at `place`, or at `new`
/// if the new name is not durable. Neither may be removed before the next exchange.
pub fn exchange(new: &Path, place: &Path) -> Result<(), FolderError> {
    fault::point(fault::BEFORE_PLACE);
    if place.symlink_metadata().is_err() {
        fs::rename(new, place).map_err(FolderError::io("rename", new))?;
    } else if !at_once(new, place).map_err(FolderError::io("replace", place))? {
        in_steps(new, place).map_err(FolderError::io("replace", place))?;
    }
    fault::disk(fault::BEFORE_SYNC).map_err(FolderError::io("sync", place))?;
    sync_folder(above(place))?;
    fault::point(fault::AFTER_PLACE);
    Ok(())
}

/// Restores the folder that [`exchange`] had moved out of `place` when it crashed between two steps. Removes the
/// replaced folder after a later crash, so that it does not reappear when `place` is emptied.
///
/// # Errors
/// [`FolderError::Io`] when the file system returns an error.
pub fn recover(place: &Path) -> Result<(), FolderError> {
    let aside = aside(place);
    if aside.symlink_metadata().is_err() {
        return Ok(());
    }
    if place.symlink_metadata().is_ok() {
        fs::remove_dir_all(&aside).map_err(FolderError::io("remove", &aside))?;
    } else {
        fs::rename(&aside, place).map_err(FolderError::io("rename", &aside))?;
    }
    sync_folder(above(place))
}

/// Exchanges two names in one step; returns false where the file system does not support this.
#[cfg(any(target_os = "linux", target_vendor = "apple"))]
fn at_once(new: &Path, place: &Path) -> io::Result<bool> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    match renameat_with(CWD, new, CWD, place, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(true),
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
fn at_once(_new: &Path, _place: &Path) -> io::Result<bool> {
    Ok(false)
}

fn in_steps(new: &Path, place: &Path) -> io::Result<()> {
    let aside = aside(place);
    if let Err(error) = fs::remove_dir_all(&aside)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    fs::rename(place, &aside)?;
    fault::point(fault::BEFORE_PLACE);
    if let Err(error) = fs::rename(new, place) {
        fs::rename(&aside, place)?;
        return Err(error);
    }
    fault::point(fault::AFTER_PLACE);
    fs::rename(&aside, new)
}

/// Returns the hidden path of a folder while another takes its place.
fn aside(place: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(place.file_name().unwrap_or_default());
    name.push(".replaced");
    place.with_file_name(name)
}

fn above(place: &Path) -> &Path {
    place.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may fail")]

    use std::fs;
    use std::path::Path;

    use super::{FolderError, at_once, exchange, in_steps, recover};
    use crate::fault::{self, FailureKind, FailurePlan};

    /// Creates a folder with a file of the given content.
    fn folder(at: &Path, said: &str) {
        fs::create_dir(at).unwrap();
        fs::write(at.join("file"), said).unwrap();
    }

    fn read_text(at: &Path) -> Option<String> {
        fs::read_to_string(at.join("file")).ok()
    }

    type Way = fn(&Path, &Path) -> Result<(), FolderError>;

    fn slowly(new: &Path, place: &Path) -> Result<(), FolderError> {
        in_steps(new, place).map_err(FolderError::io("replace", place))
    }

    #[test]
    fn two_folders_change_places_and_one_takes_a_free_place() {
        for exchange in [exchange as Way, slowly] {
            let dir = tempfile::tempdir().unwrap();
            let (new, place) = (dir.path().join("new"), dir.path().join("place"));
            folder(&new, "new");
            folder(&place, "old");
            exchange(&new, &place).unwrap();
            assert_eq!((read_text(&place).as_deref(), read_text(&new).as_deref()), (Some("new"), Some("old")));
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "nothing else is left");
        }
        let dir = tempfile::tempdir().unwrap();
        let (new, place) = (dir.path().join("new"), dir.path().join("place"));
        folder(&new, "new");
        exchange(&new, &place).unwrap();
        assert_eq!((read_text(&place).as_deref(), new.exists()), (Some("new"), false));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_disk_exchanges_two_names_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let (new, place) = (dir.path().join("new"), dir.path().join("place"));
        folder(&new, "new");
        folder(&place, "old");
        assert!(at_once(&new, &place).unwrap());
        assert_eq!(read_text(&place).as_deref(), Some("new"));
    }

    #[test]
    fn crash_between_both_steps_recovers_the_old_folder() {
        let dir = tempfile::tempdir().unwrap();
        let (new, place) = (dir.path().join("new"), dir.path().join("place"));
        folder(&new, "new");
        folder(&place, "old");
        fault::plan(Some(FailurePlan { accident: FailureKind::Crash, after: 1 }));
        assert!(std::panic::catch_unwind(|| in_steps(&new, &place)).is_err(), "it was planned");
        assert!(!place.exists());
        recover(&place).unwrap();
        assert_eq!((read_text(&place).as_deref(), read_text(&new).as_deref()), (Some("old"), Some("new")));
        // Without an interrupted exchange, recovery changes nothing.
        recover(&place).unwrap();
        exchange(&new, &place).unwrap();
        recover(&place).unwrap();
        assert_eq!(read_text(&place).as_deref(), Some("new"));
    }

    #[test]
    fn crash_after_both_steps_does_not_bring_the_old_folder_back() {
        let dir = tempfile::tempdir().unwrap();
        let (new, place) = (dir.path().join("new"), dir.path().join("place"));
        folder(&new, "new");
        folder(&place, "old");
        fault::plan(Some(FailurePlan { accident: FailureKind::Crash, after: 2 }));
        assert!(std::panic::catch_unwind(|| in_steps(&new, &place)).is_err(), "it was planned");
        assert_eq!((read_text(&place).as_deref(), new.exists()), (Some("new"), false));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "the old one lies aside");
        recover(&place).unwrap();
        assert_eq!(read_text(&place).as_deref(), Some("new"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        fs::remove_dir_all(&place).unwrap();
        recover(&place).unwrap();
        assert!(!place.exists(), "what somebody removed on purpose is not put back");
    }
}
