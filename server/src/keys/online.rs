//! The keys that sign for the server: `signing.key`, its first key, and in `online.key` the keys that an offline root
//! has certified.
//!
//! The first key is the server's identity: enrolment tokens and heads of the log name it. It signs documents itself
//! until the first certificate is valid; then certified keys sign, each for its purpose and time. `ceremony` contains
//! the steps of certification.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use ed25519_dalek::{Signer as _, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use undertone_api::signed::server_keys::certified_signature;
use undertone_api::signed::{
    DocumentSigner, KeyCertificate, KeyPurpose, SignatureChain, SignatureScope, Signed, SignedError,
    SignedIntroduction, SigningAuthority, TrustedServer, key_id, public_key,
};

use super::{existing_signing_key, read_text, signing_key, write_secret};
use crate::ctx::Random;

/// The file of the keys that a root certifies, in the data folder.
pub const ONLINE_FILE: &str = "online.key";
/// The highest number of keys in that file.
pub const MOST_ONLINE_KEYS: usize = 64;

/// A key with or without its certificate from a root.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnlineKey {
    /// The private key, hex.
    pub(super) secret: String,
    /// The purpose of the key.
    pub(super) purpose: KeyPurpose,
    /// A [`KeyCertificate`]; `None` until it is installed.
    pub(super) certificate: Option<Signed>,
}

/// The content of the file.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnlineFile {
    /// The root; `None` until the first certificates are installed.
    pub(super) introduction: Option<SignedIntroduction>,
    /// The keys.
    pub(super) keys: Vec<OnlineKey>,
}

impl OnlineKey {
    /// Returns the private key.
    ///
    /// # Errors
    /// [`SignedError::Malformed`] if the text is not a key.
    pub(super) fn signing_key(&self) -> Result<SigningKey, SignedError> {
        let bytes = hex::decode(&self.secret).ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        bytes.map(|bytes| SigningKey::from_bytes(&bytes)).ok_or(SignedError::Malformed)
    }
}

impl OnlineFile {
    /// Reads the file of a data folder; a missing file has no keys.
    ///
    /// # Errors
    /// If it cannot be read, is readable by other users, or has another content.
    pub fn load(data_dir: &Path) -> io::Result<Self> {
        let path = data_dir.join(ONLINE_FILE);
        let Some(text) = read_text(&path)? else { return Ok(Self::default()) };
        serde_json::from_str(&text)
            .map_err(|error| invalid(format!("{} is not a file of certified keys: {error}", path.display())))
    }

    /// Writes the complete file, or keeps the previous one.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn store(&self, data_dir: &Path) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(self).map_err(|error| invalid(error.to_string()))?;
        write_secret(&data_dir.join(ONLINE_FILE), &text)
    }

    /// Returns the root's public key, hex, once it is known.
    ///
    /// # Errors
    /// [`SignedError`] if the introduction is invalid.
    pub fn root(&self) -> Result<Option<String>, SignedError> {
        self.introduction.as_ref().map(|introduction| Ok(introduction.open()?.root)).transpose()
    }

    /// Returns the verified certificates, each with its key's index in the file.
    ///
    /// # Errors
    /// [`SignedError`] if the root did not sign one of them.
    pub fn certificates(&self) -> Result<Vec<(usize, KeyCertificate)>, SignedError> {
        let Some(root) = self.root()? else { return Ok(Vec::new()) };
        let root = public_key(&root)?;
        let signed = self.keys.iter().enumerate().filter_map(|(index, key)| Some((index, key.certificate.as_ref()?)));
        signed.map(|(index, signed)| Ok((index, signed.open(&root)?))).collect()
    }

    /// Returns the greatest installed serial; 0 before the first.
    ///
    /// # Errors
    /// As [`OnlineFile::certificates`].
    pub fn greatest_serial(&self) -> Result<u64, SignedError> {
        Ok(self.certificates()?.iter().map(|(_, certificate)| certificate.serial).max().unwrap_or_default())
    }
}

/// A certified key, ready to sign.
struct CertifiedKey {
    certificate: KeyCertificate,
    key: SigningKey,
    chain: SignatureChain,
}

/// The certified keys, and the trusted state that they establish.
#[derive(Default)]
struct OnlineState {
    text: String,
    keys: Vec<CertifiedKey>,
    trusted: Option<TrustedServer>,
}

/// Signs the server's documents, each with the key for its purpose and time.
#[derive(Clone)]
pub struct ServerSigner(Arc<SignerParts>);

struct SignerParts {
    data_dir: PathBuf,
    first: SigningKey,
    online: RwLock<Arc<OnlineState>>,
}

impl OnlineState {
    fn read(data_dir: &Path, first: &VerifyingKey, now: OffsetDateTime) -> io::Result<Self> {
        let text = read_text(&data_dir.join(ONLINE_FILE))?.unwrap_or_default();
        let file = OnlineFile::load(data_dir)?;
        let wrong = |error: SignedError| invalid(format!("{}: {error}", data_dir.join(ONLINE_FILE).display()));
        let Some(introduction) = &file.introduction else { return Ok(Self { text, ..Self::default() }) };
        if introduction.open().and_then(|opened| public_key(&opened.first)).map_err(wrong)? != *first {
            return Err(invalid(format!("{ONLINE_FILE} and signing.key are of two servers")));
        }
        let mut keys = Vec::new();
        for (index, certificate) in file.certificates().map_err(wrong)? {
            let Some(signed) = file.keys[index].certificate.clone() else { continue };
            let key = file.keys[index].signing_key().map_err(wrong)?;
            if hex::encode(key.verifying_key().to_bytes()) != certificate.key {
                return Err(invalid(format!("{ONLINE_FILE}: a certificate is of another key")));
            }
            keys.push(CertifiedKey {
                certificate,
                key,
                chain: SignatureChain { certificate: signed, introduction: introduction.clone() },
            });
        }
        // A certificate revokes others once it is valid, not once it is published.
        let in_force = keys.iter().filter(|key| key.certificate.from <= now);
        let signed: Vec<Signed> = in_force.map(|key| key.chain.certificate.clone()).collect();
        let trusted = TrustedServer::from_certificates(introduction, &signed).map_err(wrong)?;
        Ok(Self { text, keys, trusted: (!signed.is_empty()).then_some(trusted) })
    }

    /// Returns the newest key for a purpose at a time.
    fn find(&self, purpose: KeyPurpose, at: OffsetDateTime) -> Option<&CertifiedKey> {
        let of_purpose = self.keys.iter().filter(|key| key.certificate.purpose == purpose);
        of_purpose.filter(|key| key.certificate.from <= at).max_by_key(|key| key.certificate.serial)
    }
}

impl ServerSigner {
    /// Reads the keys of a data folder; creates the first one if there is none.
    ///
    /// # Errors
    /// If a file cannot be read or created, or contains no keys.
    pub fn load(data_dir: &Path, random: &Random, now: OffsetDateTime) -> io::Result<Self> {
        let first = signing_key(data_dir, random)?;
        let online = OnlineState::read(data_dir, &first.verifying_key(), now)?;
        Ok(Self(Arc::new(SignerParts { data_dir: data_dir.to_owned(), first, online: RwLock::new(Arc::new(online)) })))
    }

    /// Reads the keys of a data folder; `None` if it has none. It creates no key.
    ///
    /// # Errors
    /// As [`ServerSigner::load`].
    pub(crate) fn load_existing(data_dir: &Path, now: OffsetDateTime) -> io::Result<Option<Self>> {
        let Some(first) = existing_signing_key(data_dir)? else { return Ok(None) };
        let online = RwLock::new(Arc::new(OnlineState::read(data_dir, &first.verifying_key(), now)?));
        Ok(Some(Self(Arc::new(SignerParts { data_dir: data_dir.to_owned(), first, online }))))
    }

    /// Reads the certified keys again, and applies the currently valid ones. An unusable file changes nothing and is
    /// logged.
    pub fn reload(&self, now: OffsetDateTime) {
        let before = self.online();
        match OnlineState::read(&self.0.data_dir, &self.verifying_key(), now) {
            Ok(online) if online.text != before.text || online.trusted != before.trusted => {
                tracing::info!(keys = online.keys.len(), "the certified keys were read again");
                *self.0.online.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(online);
            }
            Ok(_) => {}
            Err(error) => tracing::error!(%error, "the certified keys cannot be used: those in force stay"),
        }
    }

    /// Returns the public half of the first key: the server's identity.
    pub fn verifying_key(&self) -> VerifyingKey {
        self.0.first.verifying_key()
    }

    /// Returns the root, hex, once a certificate of each purpose has become valid.
    pub fn root_in_force(&self, now: OffsetDateTime) -> Option<String> {
        let online = self.online();
        let is_certified = KeyPurpose::ALL.iter().all(|purpose| online.find(*purpose, now).is_some());
        let trusted = online.trusted.as_ref().filter(|_| is_certified)?;
        trusted.root().map(str::to_owned)
    }

    fn online(&self) -> Arc<OnlineState> {
        Arc::clone(&self.0.online.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl DocumentSigner for ServerSigner {
    fn sign_message(&self, message: &[u8], scope: SignatureScope) -> Result<String, SignedError> {
        let online = self.online();
        let certified = scope.purpose.zip(scope.at).and_then(|(purpose, at)| online.find(purpose, at).zip(Some(at)));
        let Some((key, at)) = certified else { return self.0.first.sign_message(message, scope) };
        if at >= key.certificate.until {
            return Err(SignedError::Unavailable(format!(
                "the certificate of the key for {} ended at {}: run `undertone-server keys request`",
                key.certificate.purpose.name(),
                key.certificate.until
            )));
        }
        certified_signature(&key.key.sign(message), &key.chain)
    }
}

/// Verifies the server's own signatures by the newest certificates.
impl SigningAuthority for ServerSigner {
    fn verify_message(&self, message: &[u8], signature: &str, scope: SignatureScope) -> Result<(), SignedError> {
        match &self.online().trusted {
            Some(trusted) => trusted.examine(message, signature, scope).map(drop),
            None => self.verifying_key().verify_message(message, signature, scope),
        }
    }

    fn log_id(&self) -> String {
        key_id(&self.verifying_key())
    }
}

fn invalid(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}
