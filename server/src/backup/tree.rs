//! Lists the files of the data folder that belong to a backup: keys, certificates and other files that the server
//! generated, but not the database, the objects or incomplete files.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::{BackupError, file_error};

/// File extensions that are excluded: the database is another member; locks and incomplete files are worthless.
const NOT: [&str; 7] = ["sqlite", "sqlite-wal", "sqlite-shm", "lock", "part", "pid", "log"];

/// Returns the files that belong to a backup, by name.
pub(super) fn files(data_dir: &Path, database: Option<&Path>) -> Result<Vec<PathBuf>, BackupError> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(data_dir).map_err(file_error(data_dir))? {
        let entry = entry.map_err(file_error(data_dir))?;
        let path = entry.path();
        let is_included = entry.file_type().map_err(file_error(&path))?.is_file()
            && !NOT.iter().any(|end| path.extension() == Some(OsStr::new(end)))
            && database != Some(&path);
        if is_included {
            all.push(path);
        }
    }
    all.sort();
    Ok(all)
}
