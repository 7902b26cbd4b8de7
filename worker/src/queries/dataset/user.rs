//! The hash that stands for a user: HMAC-SHA-256 under the dataset's own key, its first 128 bits.
//!
//! Rows of one user can be told to be of one user; who it is cannot be read from them, nor found by trying ids, without the
//! key. The key is drawn when a preparation begins, goes on with it after a break, and never leaves the dataset's folder.
//! Two of n users fall together with a chance of n²/2¹²⁹: for 10⁹ users, less than one in 10²⁰.

use std::path::Path;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::KEY_FILE;
use crate::site::folder::{FolderError, write_durably};
use crate::speech::dataset::DatasetError;

/// Bytes of a key.
pub(crate) const KEY: usize = 32;

/// Hashes ids of users.
#[derive(Clone)]
pub(crate) struct Users(Hmac<Sha256>);

impl Users {
    pub(crate) fn new(key: &[u8; KEY]) -> Self {
        Self(Hmac::new_from_slice(key).expect("HMAC takes keys of any length"))
    }

    /// The user of that id; blanks around it do not count.
    pub(crate) fn of(&self, id: &str) -> u128 {
        let code = self.0.clone().chain_update(id.trim()).finalize().into_bytes();
        let mut first = [0; 16];
        first.copy_from_slice(&code[..16]);
        u128::from_be_bytes(first)
    }
}

/// The key in `folder`, or, where there is none, `fresh`, which is then put there.
pub(crate) fn key(folder: &Path, fresh: [u8; KEY]) -> Result<[u8; KEY], DatasetError> {
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

/// A refusal of the file system, as datasets tell it.
pub(crate) fn folder_error(error: FolderError) -> DatasetError {
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
    use super::{KEY, Users};

    #[test]
    fn a_user_is_a_hash_under_the_key_and_under_no_other() {
        // RFC 4231, test case 2, cut to 128 bits.
        let jefe = Users(hmac::KeyInit::new_from_slice(b"Jefe").expect("any key"));
        assert_eq!(jefe.of("what do ya want for nothing?"), 0x5bdc_c146_bf60_754e_6a04_2426_0895_75c7);
        let (one, two) = (Users::new(&[1; KEY]), Users::new(&[2; KEY]));
        assert_eq!(one.of("ward-7"), one.of(" ward-7\t"));
        assert_ne!(one.of("ward-7"), two.of("ward-7"));
        assert_ne!(one.of("ward-7"), one.of("Ward-7"), "ids are not normalized");
    }
}
