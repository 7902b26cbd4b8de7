//! The keyed hashes of units and rows: HMAC-SHA-256 under the table's own key, truncated.
//!
//! The key is drawn when a table is first added, is kept by later versions of the table, and never leaves its folder.
//! Without the key nobody can choose rows that come first, so neither the order in a file nor the values decide which
//! rows of a unit count. Any two of n units collide with a probability of n²/2¹²⁹; such units are bounded together.

use std::path::Path;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use undertone_worker_site::dataset_meta::DatasetError;
use undertone_worker_site::folder::write_durably;
use zeroize::Zeroizing;

use crate::error::TableError;

/// The file of the key.
pub const KEY_FILE: &str = "key";
/// Bytes of a key.
pub const KEY: usize = 32;

/// Hashes units and rows of one table.
#[derive(Clone)]
pub struct TableKey {
    bytes: Zeroizing<[u8; KEY]>,
    mac: Hmac<Sha256>,
}

impl TableKey {
    /// Returns the hashes under `bytes`.
    ///
    /// # Panics
    /// Never: HMAC takes keys of any length.
    pub fn new(bytes: [u8; KEY]) -> Self {
        Self { bytes: Zeroizing::new(bytes), mac: Hmac::new_from_slice(&bytes).expect("HMAC takes keys of any length") }
    }

    /// Reads the key of the table in `folder`; `None` if there is none.
    ///
    /// # Errors
    /// [`DatasetError`] when it cannot be read or is no key.
    pub fn read(folder: &Path) -> Result<Option<Self>, DatasetError> {
        let path = folder.join(KEY_FILE);
        match std::fs::read_to_string(&path) {
            Ok(text) => {
                let bytes = hex::decode(text.trim()).ok().and_then(|bytes| bytes.try_into().ok());
                let damaged = || DatasetError::Damaged { path, reason: "it is not a key".to_owned() };
                bytes.map(|bytes| Some(Self::new(bytes))).ok_or_else(damaged)
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(DatasetError::io("read", &path)(error)),
        }
    }

    /// Writes the key into `folder`.
    ///
    /// # Errors
    /// [`TableError`] when the disk refuses.
    pub fn write(&self, folder: &Path) -> Result<(), TableError> {
        let text = Zeroizing::new(hex::encode(self.bytes.as_slice()) + "\n");
        Ok(write_durably(&folder.join(KEY_FILE), text.as_bytes())?)
    }

    /// Returns the hash of a unit's id; blanks around the id are ignored.
    pub fn hash_unit(&self, id: &str) -> u128 {
        let code = self.mac.clone().chain_update("unit\0").chain_update(id.trim()).finalize().into_bytes();
        let mut first = [0; 16];
        first.copy_from_slice(&code[..16]);
        u128::from_be_bytes(first)
    }

    /// Returns the place of a row among those of its unit. Equal rows have equal places.
    pub fn place_row(&self, unit: u128, cells: &[u8]) -> u64 {
        let mac = self.mac.clone().chain_update("row\0").chain_update(unit.to_be_bytes()).chain_update(cells);
        let code = mac.finalize().into_bytes();
        let mut first = [0; 8];
        first.copy_from_slice(&code[..8]);
        u64::from_be_bytes(first)
    }
}

#[cfg(test)]
mod tests {
    use super::TableKey;

    #[test]
    fn hashes_depend_on_the_key_the_unit_and_the_row() {
        let (one, two) = (TableKey::new([1; 32]), TableKey::new([2; 32]));
        assert_eq!(one.hash_unit("p-7"), one.hash_unit(" p-7 "));
        assert_ne!(one.hash_unit("p-7"), one.hash_unit("P-7"), "ids are not normalized");
        assert_ne!(one.hash_unit("p-7"), two.hash_unit("p-7"));
        assert_ne!(one.place_row(1, b"a"), two.place_row(1, b"a"));
        assert_ne!(one.place_row(1, b"a"), one.place_row(2, b"a"));
        assert_ne!(one.place_row(1, b"a"), one.place_row(1, b"b"));
        assert_eq!(one.place_row(1, b"a"), one.place_row(1, b"a"));
    }

    #[test]
    fn key_is_read_back_and_a_damaged_one_is_refused() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        assert!(TableKey::read(folder.path()).expect("the folder can be read").is_none());
        let key = TableKey::new([7; 32]);
        key.write(folder.path()).expect("the folder is writable");
        let again = TableKey::read(folder.path()).expect("it is a key").expect("it is there");
        assert_eq!(again.hash_unit("p-7"), key.hash_unit("p-7"));
        std::fs::write(folder.path().join(super::KEY_FILE), "seven").expect("the folder is writable");
        assert!(TableKey::read(folder.path()).is_err());
    }
}
