//! A folder that appears complete or not at all.
//!
//! A dataset or a synthesized corpus is written to a hidden folder next to its target, which is renamed at the end.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::DatasetError;

/// The hidden folder of an unfinished dataset or corpus; removed on drop, renamed on publication.
#[derive(Debug)]
pub(crate) struct StagingFolder {
    path: PathBuf,
    published: bool,
}

impl StagingFolder {
    /// Creates a hidden folder next to `target`, on the same file system, so that a rename is sufficient.
    pub(crate) fn create_for(target: &Path) -> Result<Self, DatasetError> {
        let path = hidden(target, "partial")?;
        fs::create_dir_all(parent(target)).map_err(DatasetError::io("create", parent(target)))?;
        fs::create_dir(&path).map_err(DatasetError::io("create", &path))?;
        Ok(Self { path, published: false })
    }

    /// Returns the path of the hidden folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes one text file, in a subfolder if its name has one, and makes it durable.
    pub(crate) fn write_text(&self, name: &str, text: &str) -> Result<(), DatasetError> {
        let path = self.path.join(name);
        let write = || {
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            let mut file = File::create_new(&path)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()
        };
        write().map_err(DatasetError::io("write", &path))
    }

    /// Writes one JSON file and makes it durable.
    pub(crate) fn write_json(&self, name: &str, value: &impl serde::Serialize) -> Result<(), DatasetError> {
        let path = self.path.join(name);
        let write = || {
            let mut file = File::create_new(&path)?;
            serde_json::to_writer_pretty(&mut file, value)?;
            file.write_all(b"\n")?;
            file.sync_all()
        };
        write().map_err(DatasetError::io("write", &path))
    }

    /// Renames the folder to `target`, which must not exist, and makes the rename durable.
    pub(crate) fn publish(mut self, target: &Path) -> Result<(), DatasetError> {
        if target.symlink_metadata().is_ok() {
            return Err(DatasetError::Exists(target.to_path_buf()));
        }
        let rename = || {
            File::open(&self.path)?.sync_all()?;
            fs::rename(&self.path, target)?;
            File::open(parent(target))?.sync_all()
        };
        rename().map_err(DatasetError::io("create", target))?;
        self.published = true;
        Ok(())
    }

    /// Publishes as [`StagingFolder::publish`] does, but replaces the content of `target`. Processes that have the old
    /// content open keep it. A crash between the two renames leaves the old folder hidden next to its place.
    pub(crate) fn replace(self, target: &Path) -> Result<(), DatasetError> {
        if target.symlink_metadata().is_err() {
            return self.publish(target);
        }
        let old = hidden(target, "replaced")?;
        fs::rename(target, &old).map_err(DatasetError::io("replace", target))?;
        self.publish(target).inspect_err(|_| {
            // Restores the old folder; the caller receives the error of the publication.
            drop(fs::rename(&old, target));
        })?;
        fs::remove_dir_all(&old).map_err(DatasetError::io("remove", &old))
    }
}

impl Drop for StagingFolder {
    fn drop(&mut self) {
        if !self.published {
            // Best effort: the remaining folder is hidden, and no code reads it.
            drop(fs::remove_dir_all(&self.path));
        }
    }
}

/// Returns a fresh hidden path next to `target`.
fn hidden(target: &Path, why: &str) -> Result<PathBuf, DatasetError> {
    let Some(name) = target.file_name() else {
        return Err(DatasetError::Foreign { path: target.to_path_buf(), reason: "it has no name to create" });
    };
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{why}-{}", uuid::Uuid::now_v7().simple()));
    Ok(parent(target).join(hidden))
}

fn parent(target: &Path) -> &Path {
    target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
