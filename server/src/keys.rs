//! The server's own secrets, made at first start and kept in the data folder, readable by its owner only.

use std::io::{self, Write as _};
use std::path::Path;

use ed25519_dalek::{SigningKey, VerifyingKey};

use crate::ctx::Random;

/// Signs and checks access tokens (HMAC-SHA-256).
#[derive(Clone)]
pub struct TokenKey(pub(crate) [u8; 32]);

/// Seals the secrets of members' second factors (XChaCha20-Poly1305).
#[derive(Clone)]
pub struct FactorKey(pub(crate) [u8; 32]);

/// The key that signs manifests: `signing.key` in the data folder.
///
/// # Errors
/// When the file cannot be read or made, or is not 32 bytes of hex.
pub fn signing_key(data_dir: &Path, random: &Random) -> io::Result<SigningKey> {
    Ok(SigningKey::from_bytes(&read_or_make(&data_dir.join("signing.key"), random)?))
}

/// The public half of the key that signs manifests, heads and countersignatures; `None` when the data folder has none, and none
/// is made.
///
/// # Errors
/// When the file cannot be read, or is not 32 bytes of hex.
pub fn verifying_key(data_dir: &Path) -> io::Result<Option<VerifyingKey>> {
    let path = data_dir.join("signing.key");
    Ok(read(&path)?.map(|key| SigningKey::from_bytes(&key).verifying_key()))
}

/// The key of the access tokens: `token.key` in the data folder. Removing the file ends every access token.
///
/// # Errors
/// As [`signing_key`].
pub fn token_key(data_dir: &Path, random: &Random) -> io::Result<TokenKey> {
    Ok(TokenKey(read_or_make(&data_dir.join("token.key"), random)?))
}

/// The key under which second factors are stored: `factor.key` in the data folder. Without it no code can be checked, so it
/// belongs into every backup and to every replica; removing it locks out everybody who has a second factor.
///
/// # Errors
/// As [`signing_key`].
pub fn factor_key(data_dir: &Path, random: &Random) -> io::Result<FactorKey> {
    Ok(FactorKey(read_or_make(&data_dir.join("factor.key"), random)?))
}

/// The key of the access tokens, when a folder has it; none is made.
///
/// # Errors
/// As [`verifying_key`].
pub(crate) fn kept_token_key(data_dir: &Path) -> io::Result<Option<TokenKey>> {
    Ok(read(&data_dir.join("token.key"))?.map(TokenKey))
}

/// The key of second factors, when a folder has it; none is made.
///
/// # Errors
/// As [`verifying_key`].
pub(crate) fn kept_factor_key(data_dir: &Path) -> io::Result<Option<FactorKey>> {
    Ok(read(&data_dir.join("factor.key"))?.map(FactorKey))
}

fn read_or_make(path: &Path, random: &Random) -> io::Result<[u8; 32]> {
    if let Some(key) = read(path)? {
        return Ok(key);
    }
    let key = random.bytes();
    write_secret(path, hex::encode(key).as_bytes())?;
    Ok(key)
}

fn read(path: &Path) -> io::Result<Option<[u8; 32]>> {
    match std::fs::read_to_string(path) {
        Ok(text) => hex::decode(text.trim()).ok().and_then(|bytes| bytes.try_into().ok()).map(Some).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, format!("{} is not a key: 64 hex digits", path.display()))
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes a file that only its owner can read, whole or not at all.
///
/// # Errors
/// When the disk says no.
pub(crate) fn write_secret(path: &Path, content: &[u8]) -> io::Result<()> {
    let part = path.with_extension("part");
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&part)?;
    file.write_all(content)?;
    file.sync_all()?;
    std::fs::rename(part, path)
}

#[cfg(test)]
mod tests {
    use super::{signing_key, verifying_key};
    use crate::ctx::Random;

    #[test]
    fn a_key_is_made_once_and_is_its_owners() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let first = signing_key(dir.path(), &Random::seeded(1)).expect("made");
        let second = signing_key(dir.path(), &Random::seeded(2)).expect("read");
        assert_eq!(first.to_bytes(), second.to_bytes());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(dir.path().join("signing.key")).expect("there").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn looking_for_a_key_makes_none() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        assert_eq!(verifying_key(dir.path()).expect("looked"), None);
        let made = signing_key(dir.path(), &Random::seeded(1)).expect("made");
        assert_eq!(verifying_key(dir.path()).expect("looked"), Some(made.verifying_key()));
    }

    #[test]
    fn a_broken_key_file_is_refused_rather_than_replaced() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(dir.path().join("signing.key"), "not a key").expect("written");
        assert!(signing_key(dir.path(), &Random::seeded(1)).is_err());
    }
}
