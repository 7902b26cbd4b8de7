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
        let Some(name) = target.file_name() else {
            return Err(DatasetError::Foreign { path: target.to_path_buf(), reason: "it has no name to create" });
        };
        let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::create_dir_all(parent).map_err(DatasetError::io("create", parent))?;
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".partial-{}", uuid::Uuid::now_v7().simple()));
        let path = parent.join(hidden);
        fs::create_dir(&path).map_err(DatasetError::io("create", &path))?;
        Ok(Self { path, published: false })
    }

    /// Where to write.
    pub(crate) fn path(&self) -> &Path {
        &self.path
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
            match target.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                Some(parent) => File::open(parent)?.sync_all(),
                None => File::open(".")?.sync_all(),
            }
        };
        rename().map_err(DatasetError::io("create", target))?;
        self.published = true;
        Ok(())
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
