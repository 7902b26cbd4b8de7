//! The certification of online keys: the server requests, the root's holder signs on another machine, the server
//! installs.
//!
//! The request and the answer hold no secret. The private keys stay in the server's data folder or with its external signer, that of the root in a file which
//! stays with its holder, sealed with a passphrase (age, scrypt).

use std::io::{self, Read as _, Write as _};

use age::secrecy::SecretString;
use ed25519_dalek::{SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use time::{Duration, OffsetDateTime};
use undertone_api::signed::{
    KeyCertificate, KeyPurpose, RootIntroduction, Signed, SignedError, SignedIntroduction, public_key,
};

use super::PrivateKey;
use super::online::{MOST_ONLINE_KEYS, OnlineFile, OnlineKey};
use crate::ctx::Random;

/// The scrypt work factor: 2^17 steps and 128 MiB, as for backups.
const WORK: u8 = 17;
/// The time for which an expired certificate is kept.
const KEPT: Duration = Duration::days(400);

/// A key for which the server requests a certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestedKey {
    /// The Ed25519 public key, hex.
    pub key: String,
    /// The purpose of the key.
    pub purpose: KeyPurpose,
}

/// The request of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyRequest {
    /// A [`RootIntroduction`], signed by the server's first key.
    pub introduction: Signed,
    /// The keys.
    pub keys: Vec<RequestedKey>,
    /// The greatest serial that the server has installed.
    pub greatest_serial: u64,
}

/// The root's grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyGrant {
    /// The introduction, signed by both keys.
    pub introduction: SignedIntroduction,
    /// The certificates.
    pub certificates: Vec<Signed>,
}

/// The terms under which keys are certified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyTerms {
    /// The serial.
    pub serial: u64,
    /// The start of validity.
    pub from: OffsetDateTime,
    /// The validity, days.
    pub days: u32,
    /// Whether all earlier certificates are revoked.
    pub revokes: bool,
}

/// A reason why a step failed.
#[derive(Debug, thiserror::Error)]
pub enum CeremonyError {
    /// An invalid signature.
    #[error(transparent)]
    Signed(#[from] SignedError),
    /// The request names another root.
    #[error("the request is for root {0}, and this is another one")]
    Root(String),
    /// The root differs from the current one.
    #[error("this server's root is {0}: sites follow no other")]
    OtherRoot(String),
    /// The request came from another server.
    #[error("the certificates are of the server whose first key is {0}")]
    OtherServer(String),
    /// The serial is not above the greatest installed one.
    #[error("serial {serial} is not above {greatest}, the greatest that the server has installed")]
    Serial {
        /// The serial.
        serial: u64,
        /// The greatest installed serial.
        greatest: u64,
    },
    /// A certificate belongs to a key that this server does not have.
    #[error(
        "certificate for {0}: the data folder has no such key that waits for one; install it where the request was made"
    )]
    Foreign(String),
    /// The grant contains no certificate.
    #[error("the file certifies no key")]
    Empty,
    /// The file of keys is full.
    #[error("the data folder has {0} certified keys, and at most {MOST_ONLINE_KEYS} are kept")]
    Full(usize),
    /// The root's file cannot be opened.
    #[error("the root's file cannot be opened: {0}")]
    Sealed(String),
}

/// Generates a root key; returns it with its encrypted file.
///
/// # Errors
/// [`CeremonyError::Sealed`] if encryption fails.
pub fn make_root(passphrase: SecretString, random: &Random) -> Result<(SigningKey, Vec<u8>), CeremonyError> {
    let secret = random.bytes::<32>();
    let sealed = |error: io::Error| CeremonyError::Sealed(error.to_string());
    let mut recipient = age::scrypt::Recipient::new(passphrase);
    recipient.set_work_factor(WORK);
    let encryptor = age::Encryptor::with_recipients(std::iter::once(&recipient as _))
        .map_err(|error| CeremonyError::Sealed(error.to_string()))?;
    let mut file = Vec::new();
    let mut writer = encryptor.wrap_output(&mut file).map_err(sealed)?;
    writer.write_all(hex::encode(secret).as_bytes()).map_err(sealed)?;
    writer.finish().map_err(sealed)?;
    Ok((SigningKey::from_bytes(&secret), file))
}

/// Decrypts a root key's file.
///
/// # Errors
/// [`CeremonyError::Sealed`] for another passphrase or another file.
pub fn open_root(file: &[u8], passphrase: SecretString) -> Result<SigningKey, CeremonyError> {
    let sealed = |error: &dyn std::fmt::Display| CeremonyError::Sealed(error.to_string());
    let opening = age::Decryptor::new_buffered(file).map_err(|error| sealed(&error))?;
    let mut identity = age::scrypt::Identity::new(passphrase);
    identity.set_max_work_factor(WORK);
    let mut opened = opening.decrypt(std::iter::once(&identity as _)).map_err(|error| sealed(&error))?;
    let mut text = String::new();
    opened.read_to_string(&mut text).map_err(|error| sealed(&error))?;
    let bytes = hex::decode(text.trim()).ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    bytes.map(|bytes| SigningKey::from_bytes(&bytes)).ok_or_else(|| sealed(&"it holds no key"))
}

/// Puts a key for each purpose into the server's file, and makes the request for their certificates. `external` is the key of the
/// external signer, if there is one; otherwise new keys are made. Keys that wait for a certificate are replaced.
///
/// # Errors
/// [`CeremonyError`] if the server already has another root, or the file is full.
pub fn request(
    file: &mut OnlineFile,
    introduction: Signed,
    root: &str,
    external: Option<VerifyingKey>,
    random: &Random,
) -> Result<KeyRequest, CeremonyError> {
    check_root(file, root)?;
    file.keys.retain(|key| key.certificate.is_some());
    if file.keys.len() + KeyPurpose::ALL.len() > MOST_ONLINE_KEYS {
        return Err(CeremonyError::Full(file.keys.len()));
    }
    let mut keys = Vec::new();
    for purpose in KeyPurpose::ALL {
        let make = || PrivateKey::Held(SigningKey::from_bytes(&random.bytes()));
        let key = external.map_or_else(make, PrivateKey::External);
        keys.push(RequestedKey { key: hex::encode(key.verifying_key().to_bytes()), purpose });
        file.keys.push(OnlineKey::new(&key, purpose));
    }
    let greatest_serial = file.greatest_serial()?;
    Ok(KeyRequest { introduction, keys, greatest_serial })
}

/// Returns the document by which the first key introduced the root, once it has. So the private half of the first key is needed once.
pub fn find_introduction(file: &OnlineFile) -> Option<Signed> {
    file.introduction.as_ref().map(|introduction| introduction.by_first.clone())
}

/// Returns the root, hex, unless sites follow another one.
///
/// # Errors
/// [`CeremonyError::OtherRoot`].
pub fn check_root(file: &OnlineFile, root: &str) -> Result<String, CeremonyError> {
    let root = hex::encode(public_key(root)?.to_bytes());
    match file.root()?.filter(|known| *known != root) {
        Some(known) => Err(CeremonyError::OtherRoot(known)),
        None => Ok(root),
    }
}

/// Returns the digest by which the operators of the two machines compare a request.
pub fn digest_of(request: &KeyRequest) -> String {
    let text = serde_json::to_vec(request).unwrap_or_default();
    hex::encode(Sha256::digest(text))
}

/// Certifies the keys of a request with the root.
///
/// # Errors
/// [`CeremonyError`] if the request is for another root, or the serial is not above the greatest installed one.
pub fn grant(request: &KeyRequest, root: &SigningKey, terms: KeyTerms) -> Result<KeyGrant, CeremonyError> {
    let claimed: RootIntroduction =
        serde_json::from_str(&request.introduction.payload).map_err(|error| SignedError::Payload(error.to_string()))?;
    let opened: RootIntroduction = request.introduction.open(&public_key(&claimed.first)?)?;
    if opened.root != hex::encode(root.verifying_key().to_bytes()) {
        return Err(CeremonyError::Root(opened.root));
    }
    if terms.serial <= request.greatest_serial {
        return Err(CeremonyError::Serial { serial: terms.serial, greatest: request.greatest_serial });
    }
    let until = terms.from + Duration::days(i64::from(terms.days));
    let certify = |key: &RequestedKey| {
        let certificate = KeyCertificate {
            serial: terms.serial,
            least_serial: if terms.revokes { terms.serial } else { 0 },
            key: key.key.clone(),
            purpose: key.purpose,
            from: terms.from,
            until,
        };
        Signed::new(&certificate, root)
    };
    let certificates = request.keys.iter().map(certify).collect::<Result<Vec<_>, _>>()?;
    let by_root = Signed::new(&opened, root)?.signature;
    let introduction = SignedIntroduction { by_first: request.introduction.clone(), by_root };
    Ok(KeyGrant { introduction, certificates })
}

/// Adds certificates to their keys, and removes keys whose certificates expired long ago. Returns the certificates.
///
/// # Errors
/// [`CeremonyError`]; in that case nothing changes.
pub fn install(
    file: &mut OnlineFile,
    grant: &KeyGrant,
    first: &VerifyingKey,
    now: OffsetDateTime,
) -> Result<Vec<KeyCertificate>, CeremonyError> {
    let RootIntroduction { first: introducing, root } = grant.introduction.open()?;
    if public_key(&introducing)? != *first {
        return Err(CeremonyError::OtherServer(introducing));
    }
    if let Some(known) = file.root()?.filter(|known| *known != root) {
        return Err(CeremonyError::OtherRoot(known));
    }
    let greatest = file.greatest_serial()?;
    let root = public_key(&root)?;
    let mut next = OnlineFile { introduction: Some(grant.introduction.clone()), ..file.clone() };
    let mut installed = Vec::new();
    for signed in &grant.certificates {
        let certificate: KeyCertificate = signed.open(&root)?;
        if certificate.serial <= greatest {
            return Err(CeremonyError::Serial { serial: certificate.serial, greatest });
        }
        let is_its = |key: &&mut OnlineKey| {
            let public = key.key().map(|key| hex::encode(key.verifying_key().to_bytes()));
            key.certificate.is_none() && key.purpose == certificate.purpose && public.as_ref() == Ok(&certificate.key)
        };
        let key = next.keys.iter_mut().find(is_its).ok_or_else(|| CeremonyError::Foreign(certificate.key.clone()))?;
        key.certificate = Some(signed.clone());
        installed.push(certificate);
    }
    if installed.is_empty() {
        return Err(CeremonyError::Empty);
    }
    let ended: Vec<usize> = next
        .certificates()?
        .into_iter()
        .filter(|(_, certificate)| certificate.until + KEPT <= now)
        .map(|(index, _)| index)
        .collect();
    for index in ended.into_iter().rev() {
        next.keys.remove(index);
    }
    *file = next;
    Ok(installed)
}
