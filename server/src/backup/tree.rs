//! The files of the data folder that are kept: keys, certificates and whatever else the server made for itself, but for the
//! database, the objects, and what is only half written.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::{BackupError, at};

/// Ends of names that are not kept: another member holds the database, locks and halves are worth nothing.
const NOT: [&str; 7] = ["sqlite", "sqlite-wal", "sqlite-shm", "lock", "part", "pid", "log"];

/// The files that are kept, in the order of their names.
pub(super) fn files(data_dir: &Path, database: Option<&Path>) -> Result<Vec<PathBuf>, BackupError> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(data_dir).map_err(at(data_dir))? {
        let entry = entry.map_err(at(data_dir))?;
        let path = entry.path();
        let kept = entry.file_type().map_err(at(&path))?.is_file()
            && !NOT.iter().any(|end| path.extension() == Some(OsStr::new(end)))
            && database != Some(&path);
        if kept {
            all.push(path);
        }
    }
    all.sort();
    Ok(all)
}
