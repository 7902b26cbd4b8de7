//! The folder with the files of inputs. A path of a row stays below it.

use std::path::{Component, Path, PathBuf};

use crate::error::{EncoderError, RowError};

/// A folder, resolved once.
#[derive(Debug, Clone)]
pub(crate) struct InputFolder(PathBuf);

impl InputFolder {
    /// Opens the folder that `--folder` names.
    pub(crate) fn open(path: &Path) -> Result<Self, EncoderError> {
        let failed = |source| EncoderError::File { argument: "--folder", path: path.to_owned(), source };
        let resolved = path.canonicalize().map_err(failed)?;
        if !resolved.is_dir() {
            return Err(failed(std::io::ErrorKind::NotADirectory.into()));
        }
        Ok(Self(resolved))
    }

    /// Returns the place of a file below the folder, with its links resolved.
    ///
    /// # Errors
    /// [`RowError::Path`] for an absolute path, one with `..`, and a link out of the folder. [`RowError::File`] if it is
    /// no file.
    pub(crate) fn find(&self, path: &str) -> Result<PathBuf, RowError> {
        let path = Path::new(path.trim());
        let is_below = |part: Component| matches!(part, Component::Normal(_) | Component::CurDir);
        if path.as_os_str().is_empty() || !path.components().all(is_below) {
            return Err(RowError::Path);
        }
        let resolved = self.0.join(path).canonicalize().map_err(|_| RowError::File)?;
        if !resolved.starts_with(&self.0) {
            return Err(RowError::Path);
        }
        if resolved.is_file() { Ok(resolved) } else { Err(RowError::File) }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::fs;

    use super::InputFolder;
    use crate::error::{EncoderError, RowError};

    #[test]
    fn path_out_of_the_folder_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("inner");
        fs::create_dir_all(inner.join("more")).unwrap();
        fs::write(inner.join("more/a.wav"), "a").unwrap();
        fs::write(dir.path().join("b.wav"), "b").unwrap();
        std::os::unix::fs::symlink("../b.wav", inner.join("out.wav")).unwrap();
        std::os::unix::fs::symlink("more/a.wav", inner.join("in.wav")).unwrap();
        let folder = InputFolder::open(&inner).unwrap();
        let place = inner.canonicalize().unwrap().join("more/a.wav");
        for path in ["more/a.wav", "./more/a.wav", " more/a.wav ", "in.wav"] {
            assert_eq!(folder.find(path), Ok(place.clone()), "{path}");
        }
        let absolute = place.display().to_string();
        for path in ["../b.wav", "more/../../b.wav", "more/../more/a.wav", &absolute, "/etc/passwd", "out.wav", "", " "]
        {
            assert_eq!(folder.find(path), Err(RowError::Path), "{path}");
        }
        for path in ["none.wav", "more", "more/a.wav/b", "a\0b"] {
            assert_eq!(folder.find(path), Err(RowError::File), "{path:?}");
        }
        assert!(matches!(InputFolder::open(&inner.join("more/a.wav")), Err(EncoderError::File { .. })));
    }
}
