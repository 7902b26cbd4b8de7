//! The server's own secrets, generated at first start and stored in the data folder, readable by its owner only.
//!
//! `token.key` and `factor.key` are rings: files of several keys, of which one is in force ([`ring`]). `live` reads them again while
//! the server runs. [`online`] has the keys that sign documents, [`ceremony`] the steps by which a root certifies them, `external`
//! the program or hardware module that signs with keys which are not here.

pub mod ceremony;
mod external;
mod live;
pub mod online;
pub mod ring;

use std::io::{self, Write as _};
use std::path::Path;

use ed25519_dalek::{SigningKey, VerifyingKey};
use undertone_api::signed::public_key;

use self::ring::KeyRing;
use crate::ctx::random::Random;

pub use external::ExternalSigner;
pub use live::{FactorKeys, LiveKeys, TokenKeys};
pub use online::ServerSigner;

/// The file of the token keys, in the data folder. Removing it invalidates every access token.
pub const TOKEN_FILE: &str = "token.key";
/// The file of the keys that encrypt second factors, in the data folder. Without it no code can be verified, so it
/// belongs to every backup and every replica; removing it locks out all members with a second factor.
pub const FACTOR_FILE: &str = "factor.key";
/// The file of the server's first key, in the data folder: 64 hex digits, or `public` and the public half of a key that an external
/// signer holds.
const FIRST_FILE: &str = "signing.key";
/// The word before the public half of a key that is not here.
const PUBLIC_WORD: &str = "public ";

/// A private key, or the public half of one that an external signer holds.
#[derive(Clone)]
pub(crate) enum PrivateKey {
    /// Its bytes are here.
    Held(SigningKey),
    /// An external signer has it.
    External(VerifyingKey),
}

impl PrivateKey {
    /// Returns the public half.
    pub(crate) fn verifying_key(&self) -> VerifyingKey {
        match self {
            Self::Held(key) => key.verifying_key(),
            Self::External(key) => *key,
        }
    }
}

/// Makes the server's first key in the data folder, or reads it. It signs until a root has certified others.
///
/// # Errors
/// If the file cannot be read or created, or is not 32 bytes of hex.
pub fn signing_key(data_dir: &Path, random: &Random) -> io::Result<SigningKey> {
    match first_key(data_dir)? {
        Some(PrivateKey::Held(key)) => Ok(key),
        Some(PrivateKey::External(_)) => {
            Err(io::Error::other(format!("{} is held by an external signer", data_dir.join(FIRST_FILE).display())))
        }
        None => Ok(SigningKey::from_bytes(&make(&data_dir.join(FIRST_FILE), random)?)),
    }
}

/// Names a key of an external signer as the server's first one.
///
/// # Errors
/// When the file cannot be written.
fn place_external_key(data_dir: &Path, key: &VerifyingKey) -> io::Result<()> {
    let line = [PUBLIC_WORD, &hex::encode(key.as_bytes())].concat();
    write_secret(&data_dir.join(FIRST_FILE), line.as_bytes())
}

/// Returns the server's first key; `None` if the data folder has none. It creates no key.
///
/// # Errors
/// As [`verifying_key`].
pub(crate) fn first_key(data_dir: &Path) -> io::Result<Option<PrivateKey>> {
    let path = data_dir.join(FIRST_FILE);
    let Some(text) = read_text(&path)? else { return Ok(None) };
    let key = match text.trim().strip_prefix(PUBLIC_WORD) {
        Some(public) => public_key(public.trim()).ok().map(PrivateKey::External),
        None => parse_secret(&text).map(|secret| PrivateKey::Held(SigningKey::from_bytes(&secret))),
    };
    key.map(Some).ok_or_else(|| not_a_key(&path))
}

/// Returns the public half of the server's first key, which verifies manifests, heads and countersignatures; `None` if
/// the data folder has none. It creates no key.
///
/// # Errors
/// When the file cannot be read, or holds something else.
pub fn verifying_key(data_dir: &Path) -> io::Result<Option<VerifyingKey>> {
    Ok(first_key(data_dir)?.map(|key| key.verifying_key()))
}

/// Returns the token keys of a folder, if it has any. It creates no keys.
///
/// # Errors
/// As [`read_ring`].
pub fn find_token_keys(data_dir: &Path) -> io::Result<Option<TokenKeys>> {
    Ok(read_ring(&data_dir.join(TOKEN_FILE))?.map(|ring| TokenKeys(ring.into())))
}

/// Returns the keys of second factors of a folder, if it has any. It creates no keys.
///
/// # Errors
/// As [`read_ring`].
pub fn find_factor_keys(data_dir: &Path) -> io::Result<Option<FactorKeys>> {
    Ok(read_ring(&data_dir.join(FACTOR_FILE))?.map(|ring| FactorKeys(ring.into())))
}

/// Reads the keys of a file; `None` if the file does not exist.
///
/// # Errors
/// If the file cannot be read, is readable by other users, or has another content.
pub fn read_ring(path: &Path) -> io::Result<Option<KeyRing>> {
    let Some(text) = read_text(path)? else { return Ok(None) };
    let ring = KeyRing::parse(&text).map_err(|error| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{} is not a key file: {error}", path.display()))
    })?;
    Ok(Some(ring))
}

fn load_or_make_ring(path: &Path, random: &Random) -> io::Result<KeyRing> {
    if let Some(ring) = read_ring(path)? {
        return Ok(ring);
    }
    Ok(KeyRing::from_secret(make(path, random)?))
}

fn make(path: &Path, random: &Random) -> io::Result<[u8; 32]> {
    let key = random.bytes();
    write_secret(path, hex::encode(key).as_bytes())?;
    Ok(key)
}

fn parse_secret(text: &str) -> Option<[u8; 32]> {
    hex::decode(text.trim()).ok()?.try_into().ok()
}

fn not_a_key(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{} is not a key: 64 hex digits", path.display()))
}

fn read_text(path: &Path) -> io::Result<Option<String>> {
    check_mode(path)?;
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Refuses a key that users other than its owner can read or write, because it may be known to them.
#[cfg(unix)]
fn check_mode(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;

    let mode = match std::fs::metadata(path) {
        Ok(metadata) => metadata.permissions().mode() & 0o777,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if mode.trailing_zeros() >= 6 {
        return Ok(());
    }
    let path = path.display();
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!("{path} has mode {mode:o}, so other users of this machine can use the key: run `chmod 600 {path}`"),
    ))
}

#[cfg(not(unix))]
fn check_mode(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Writes a complete file that only its owner can read, or none.
///
/// # Errors
/// If the disk fails.
pub fn write_secret(path: &Path, content: &[u8]) -> io::Result<()> {
    let part = path.with_extension("part");
    // The remaining file of a crashed server may have another mode.
    match std::fs::remove_file(&part) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
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
    use crate::ctx::random::Random;

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
        let key = signing_key(dir.path(), &Random::seeded(1)).expect("made");
        assert_eq!(verifying_key(dir.path()).expect("looked"), Some(key.verifying_key()));
    }

    #[test]
    fn a_broken_key_file_is_refused_rather_than_replaced() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(dir.path().join("signing.key"), "not a key").expect("written");
        assert!(signing_key(dir.path(), &Random::seeded(1)).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn key_that_others_can_read_is_refused_with_the_command() {
        use std::os::unix::fs::PermissionsExt as _;

        use super::LiveKeys;

        let dir = tempfile::tempdir().expect("a temporary folder");
        let random = Random::seeded(1);
        let read = |name: &str| match name {
            "signing.key" => signing_key(dir.path(), &random).map(drop),
            _ => LiveKeys::load(dir.path(), &random).map(drop),
        };
        for name in ["signing.key", "token.key", "factor.key"] {
            read(name).expect("made");
            let path = dir.path().join(name);
            for (mode, accepted) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false), (0o620, false)] {
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("the file is ours");
                let refusal = read(name).err().map(|error| error.to_string());
                assert_eq!(refusal.is_none(), accepted, "{name} {mode:o}");
                let remedy = format!("chmod 600 {}", path.display());
                assert!(refusal.is_none_or(|refusal| refusal.contains(&remedy)), "{name} {mode:o}");
            }
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("the file is ours");
        }
    }
}
