//! The pinned certificates of the site's server: the enrolment's, until the server has signed others. The file holds
//! the server's signed statement and is verified at every read, so that editing it has no effect.

use std::fs;

use ed25519_dalek::VerifyingKey;
use undertone_api::signed::{CertificatePins, Signed};

use super::folder::{Folder, FolderError, write_durably};

/// Reasons why the certificates cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PinsError {
    /// The file cannot be read or written.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The file is not signed by the server.
    #[error("{0} is not what this site's server has signed: remove it, and the worker asks the server again")]
    Forged(std::path::PathBuf),
}

/// Returns the server's latest statement; `None` when there has been none since the enrolment.
///
/// # Errors
/// [`PinsError`] when the file cannot be read or was not signed by `server_key`.
pub fn load(folder: &Folder, server_key: &VerifyingKey) -> Result<Option<CertificatePins>, PinsError> {
    let path = folder.pins();
    if !path.exists() {
        return Ok(None);
    }
    let text = fs::read_to_string(&path).map_err(FolderError::io("read", &path))?;
    let signed: Option<Signed> = serde_json::from_str(&text).ok();
    let pins = signed.and_then(|signed| signed.open::<CertificatePins>(server_key).ok());
    pins.map(Some).ok_or(PinsError::Forged(path))
}

/// Stores the server's statement; the caller has verified it.
///
/// # Errors
/// [`FolderError`] when the disk fails.
pub fn keep(folder: &Folder, signed: &Signed) -> Result<(), FolderError> {
    // Two strings always have a JSON form.
    write_durably(&folder.pins(), &serde_json::to_vec_pretty(signed).unwrap_or_default())
}

/// Returns the fingerprints in `pins` that can be decoded.
pub fn fingerprints(pins: &CertificatePins) -> Vec<[u8; 32]> {
    let bytes = |text: &str| hex::decode(text).ok().and_then(|bytes| bytes.try_into().ok());
    pins.certificates.iter().filter_map(|pinned| bytes(&pinned.sha256)).collect()
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;
    use undertone_api::signed::{CertificatePins, PinnedCertificate, Signed};

    use super::{PinsError, fingerprints, keep, load};
    use crate::folder::Folder;
    use crate::testing::server_key;

    #[test]
    fn unsigned_pins_are_not_read() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let folder = Folder::new(dir.path());
        let key = server_key();
        assert!(load(&folder, &key.verifying_key()).expect("there is nothing to read").is_none());
        let pins = CertificatePins {
            challenge: "00".to_owned(),
            certificates: vec![PinnedCertificate { sha256: "ab".repeat(32), until: None }],
            at: OffsetDateTime::UNIX_EPOCH,
        };
        keep(&folder, &Signed::new(&pins, &key).expect("JSON")).expect("the folder is writable");
        let read = load(&folder, &key.verifying_key()).expect("it is signed").expect("it is there");
        assert_eq!((fingerprints(&read), read), (vec![[0xab; 32]], pins));
        let text = std::fs::read_to_string(folder.pins()).expect("it is there");
        std::fs::write(folder.pins(), text.replace("abab", "acac")).expect("the folder is writable");
        assert!(matches!(load(&folder, &key.verifying_key()), Err(PinsError::Forged(_))));
    }
}
