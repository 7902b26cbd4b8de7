//! A folder that is there whole or not at all.
//!
//! Everything grows in a hidden folder beside its place and is renamed at the end: a dataset, a synthesized corpus.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::DatasetError;

/// The hidden folder a dataset, or a corpus, grows in; removed when dropped, renamed when published.
#[derive(Debug)]
pub(crate) struct Staging {
    path: PathBuf,
    published: bool,
}

impl Staging {
    /// Makes a hidden folder beside `target`, on the same file system, so that a rename is enough.
    pub(crate) fn beside(target: &Path) -> Result<Self, DatasetError> {
        let path = hidden(target, "partial")?;
        fs::create_dir_all(parent(target)).map_err(DatasetError::io("create", parent(target)))?;
        fs::create_dir(&path).map_err(DatasetError::io("create", &path))?;
        Ok(Self { path, published: false })
    }

    /// Where to write.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes one text file, in a folder below if its name has one, and makes it durable.
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

    /// As [`Staging::publish`], but what is at `target` makes room. Who has it open keeps what was there; a crash between
    /// the two renames leaves the old folder hidden beside its place.
    pub(crate) fn replace(self, target: &Path) -> Result<(), DatasetError> {
        if target.symlink_metadata().is_err() {
            return self.publish(target);
        }
        let old = hidden(target, "replaced")?;
        fs::rename(target, &old).map_err(DatasetError::io("replace", target))?;
        self.publish(target).inspect_err(|_| {
            // Back to where it was: the caller is told of the failure that led here.
            drop(fs::rename(&old, target));
        })?;
        fs::remove_dir_all(&old).map_err(DatasetError::io("remove", &old))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if !self.published {
            // Best effort: what remains is hidden and read by nothing.
            drop(fs::remove_dir_all(&self.path));
        }
    }
}

/// A fresh hidden name beside `target`.
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
