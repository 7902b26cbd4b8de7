//! The hash that stands for a user: HMAC-SHA-256 under the dataset's own key, its first 128 bits.
//!
//! Rows of one user can be linked to each other. Without the key, the user's id can neither be read from them nor found
//! by trying ids. The key is drawn when a preparation begins, survives an interruption, and never leaves the dataset's
//! folder. The probability that any two of n users collide is n²/2¹²⁹: for 10⁹ users, less than one in 10²⁰.

use std::path::Path;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::KEY_FILE;
use undertone_worker_site::dataset_meta::DatasetError;
use undertone_worker_site::folder::{FolderError, write_durably};

/// Bytes of a key.
pub const KEY: usize = 32;

/// Hashes ids of users.
#[derive(Clone)]
pub struct UserHasher(Hmac<Sha256>);

impl UserHasher {
    /// Hashes with the dataset's own key.
    ///
    /// # Panics
    /// Never: HMAC takes keys of any length.
    pub fn new(key: &[u8; KEY]) -> Self {
        Self(Hmac::new_from_slice(key).expect("HMAC takes keys of any length"))
    }

    /// Hashes the id of a user; blanks around the id are ignored.
    pub fn hash_id(&self, id: &str) -> u128 {
        let code = self.0.clone().chain_update(id.trim()).finalize().into_bytes();
        let mut first = [0; 16];
        first.copy_from_slice(&code[..16]);
        u128::from_be_bytes(first)
    }
}

/// Returns the key in `folder`; if there is none, writes `fresh` there and returns it.
///
/// # Errors
/// [`DatasetError`] when the key cannot be read or written, or is malformed.
pub fn key(folder: &Path, fresh: [u8; KEY]) -> Result<[u8; KEY], DatasetError> {
    let path = folder.join(KEY_FILE);
    match std::fs::read_to_string(&path) {
        Ok(text) => {
            let bytes = hex::decode(text.trim()).ok().and_then(|bytes| bytes.try_into().ok());
            bytes.ok_or_else(|| DatasetError::Damaged { path, reason: "it is not a key".to_owned() })
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            write_durably(&path, (hex::encode(fresh) + "\n").as_bytes()).map_err(folder_error)?;
            Ok(fresh)
        }
        Err(error) => Err(DatasetError::io("read", &path)(error)),
    }
}

/// Converts an error of the file system to a [`DatasetError`].
pub fn folder_error(error: FolderError) -> DatasetError {
    match error {
        FolderError::Io { action, path, source } => DatasetError::Io { action, path, source },
        other => DatasetError::Io {
            action: "use",
            path: std::path::PathBuf::new(),
            source: std::io::Error::other(other.to_string()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::{KEY, UserHasher};

    #[test]
    fn user_hash_depends_on_the_key() {
        // RFC 4231, test case 2, truncated to 128 bits.
        let jefe = UserHasher(hmac::KeyInit::new_from_slice(b"Jefe").expect("any key"));
        assert_eq!(jefe.hash_id("what do ya want for nothing?"), 0x5bdc_c146_bf60_754e_6a04_2426_0895_75c7);
        let one = UserHasher::new(&[1; KEY]);
        let two = UserHasher::new(&[2; KEY]);
        assert_eq!(one.hash_id("ward-7"), one.hash_id(" ward-7\t"));
        assert_ne!(one.hash_id("ward-7"), two.hash_id("ward-7"));
        assert_ne!(one.hash_id("ward-7"), one.hash_id("Ward-7"), "ids are not normalized");
    }
}
