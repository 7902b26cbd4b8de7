//! The site's Ed25519 key: generated here, stored here, never sent. The site signs receipts, decisions and its presence
//! with it.

use std::fs;
use std::path::{Path, PathBuf};

use ed25519_dalek::{SigningKey, VerifyingKey};
use undertone_api::signed::{Document, Signed, SignedError};
use zeroize::Zeroizing;

use super::clock;
use super::folder::{FolderError, write_durably};

/// Reasons why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read or written.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The operating system returned no randomness.
    #[error("the operating system gave no randomness for a key")]
    Entropy(#[source] std::io::Error),
    /// The file does not contain a key.
    #[error("{0} is not a site key (64 hex digits): restore it from a backup, or enrol a new worker")]
    Malformed(PathBuf),
    /// Other users can read the file.
    #[error(
        "{path} can be read by others (mode {mode:o}): make it yours alone with `chmod 600`, and ask whether it was copied"
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
}

/// The site's key. Its `Debug` form shows the public half only.
#[derive(Clone)]
pub struct SiteKey(SigningKey);

impl std::fmt::Debug for SiteKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SiteKey({})", self.public_hex())
    }
}

impl SiteKey {
    /// Reads the key at `path`, or generates one there.
    ///
    /// # Errors
    /// [`KeyError`] when the file does not contain a key, can be read by others, or cannot be written.
    pub fn load_or_make(path: &Path) -> Result<Self, KeyError> {
        if path.exists() {
            return Self::load(path);
        }
        let seed = Zeroizing::new(clock::entropy::<32>().map_err(KeyError::Entropy)?);
        let text = Zeroizing::new(format!("{}\n", hex::encode(*seed)));
        write_durably(path, text.as_bytes())?;
        Ok(Self(SigningKey::from_bytes(&seed)))
    }

    /// Reads the key at `path`.
    ///
    /// # Errors
    /// [`KeyError`] when the file is missing, does not contain a key, or can be read by others.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        let text = Zeroizing::new(fs::read_to_string(path).map_err(FolderError::io("read", path))?);
        check_mode(path)?;
        let bytes = hex::decode(text.trim()).map(Zeroizing::new).map_err(|_| KeyError::Malformed(path.to_owned()))?;
        let seed: [u8; 32] = bytes.as_slice().try_into().map_err(|_| KeyError::Malformed(path.to_owned()))?;
        let seed = Zeroizing::new(seed);
        Ok(Self(SigningKey::from_bytes(&seed)))
    }

    /// Signs a document.
    ///
    /// # Errors
    /// [`SignedError::Payload`] when it has no JSON form.
    pub fn sign<D: Document>(&self, document: &D) -> Result<Signed, SignedError> {
        Signed::new(document, &self.0)
    }

    /// Returns the key that signs the site's messages of a masked round.
    pub(crate) const fn signing_key(&self) -> &SigningKey {
        &self.0
    }

    /// Returns the public key.
    pub fn public(&self) -> VerifyingKey {
        self.0.verifying_key()
    }

    /// Returns the public key, hex.
    pub fn public_hex(&self) -> String {
        hex::encode(self.public().to_bytes())
    }
}

#[cfg(unix)]
fn check_mode(path: &Path) -> Result<(), KeyError> {
    use std::os::unix::fs::PermissionsExt;
    let mode = fs::metadata(path).map_err(FolderError::io("inspect", path))?.permissions().mode() & 0o777;
    let others = mode & 0o077;
    if others == 0 { Ok(()) } else { Err(KeyError::Exposed { path: path.to_owned(), mode }) }
}

#[cfg(not(unix))]
fn check_mode(_path: &Path) -> Result<(), KeyError> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{KeyError, SiteKey};

    #[test]
    fn key_is_created_once_and_then_loaded() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("key");
        let key = SiteKey::load_or_make(&path).expect("the folder is writable");
        let read = SiteKey::load_or_make(&path).expect("it was just made");
        assert_eq!(key.public(), read.public());
    }

    #[cfg(unix)]
    #[test]
    fn key_that_others_can_read_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("key");
        SiteKey::load_or_make(&path).expect("the folder is writable");
        let mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode));
        assert_eq!(std::fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o600);
        mode(0o640).expect("it is ours");
        assert!(matches!(SiteKey::load(&path), Err(KeyError::Exposed { mode: 0o640, .. })));
    }

    #[test]
    fn debug_output_hides_the_secret() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("key");
        let key = SiteKey::load_or_make(&path).expect("the folder is writable");
        let secret = std::fs::read_to_string(&path).expect("it is there");
        assert!(!format!("{key:?}").contains(secret.trim()));
    }
}
