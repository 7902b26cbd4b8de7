//! The keys that sign for the server: `signing.key`, its first key, and in `online.key` the keys that an offline root
//! has certified.
//!
//! The first key is the server's identity: enrolment tokens and heads of the log name it. It signs documents itself
//! until the first certificate is valid; then certified keys sign, each for its purpose and time. `ceremony` contains
//! the steps of certification.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::SystemTime;

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use undertone_api::signed::server_keys::certified_signature;
use undertone_api::signed::{
    Document, KeyCertificate, KeyPurpose, SignatureChain, SignatureScope, Signed, SignedError, SignedIntroduction,
    SigningAuthority, TrustedServer, UnsignedDocument, key_id, public_key,
};

use super::{ExternalSigner, PrivateKey, first_key, place_external_key, read_text, signing_key, write_secret};
use crate::ctx::Random;

/// The file of the keys that a root certifies, in the data folder.
pub const ONLINE_FILE: &str = "online.key";
/// Stands before the text that an external signer signs for an examination, so that it is no document.
const PROBE_DOMAIN: &[u8] = b"undertone/probe/1\0";
/// The highest number of keys in that file.
pub const MOST_ONLINE_KEYS: usize = 64;

/// A key with or without its certificate from a root.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnlineKey {
    /// The private key, hex; absent where an external signer holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) secret: Option<String>,
    /// The public half of a key that an external signer holds, hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) public: Option<String>,
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
    /// Wraps a key that waits for its certificate.
    pub(super) fn new(key: &PrivateKey, purpose: KeyPurpose) -> Self {
        let (secret, public) = match key {
            PrivateKey::Held(key) => (Some(hex::encode(key.to_bytes())), None),
            PrivateKey::External(key) => (None, Some(hex::encode(key.as_bytes()))),
        };
        Self { secret, public, purpose, certificate: None }
    }

    /// Returns the key.
    ///
    /// # Errors
    /// [`SignedError::Malformed`] if the text is not a key.
    pub(super) fn key(&self) -> Result<PrivateKey, SignedError> {
        match (&self.secret, &self.public) {
            (Some(secret), None) => {
                let bytes = super::parse_secret(secret).ok_or(SignedError::Malformed)?;
                Ok(PrivateKey::Held(SigningKey::from_bytes(&bytes)))
            }
            (None, Some(public)) => Ok(PrivateKey::External(public_key(public)?)),
            _ => Err(SignedError::Malformed),
        }
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
    key: PrivateKey,
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
    first: PrivateKey,
    external: Option<ExternalSigner>,
    online: RwLock<Arc<OnlineState>>,
    /// The version of the file that was read last.
    version: Mutex<Option<FileVersion>>,
}

/// The modification time and the length of a file: its content was replaced if they differ.
type FileVersion = (SystemTime, u64);

/// Returns the version of the file of certified keys; `None` while there is none.
fn file_version(data_dir: &Path) -> Option<FileVersion> {
    let metadata = std::fs::metadata(data_dir.join(ONLINE_FILE)).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
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
            let key = file.keys[index].key().map_err(wrong)?;
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
        self.find_index(purpose, at).map(|index| &self.keys[index])
    }

    fn find_index(&self, purpose: KeyPurpose, at: OffsetDateTime) -> Option<usize> {
        let of_purpose = self.keys.iter().enumerate().filter(|(_, key)| key.certificate.purpose == purpose);
        let active = of_purpose.filter(|(_, key)| key.certificate.from <= at);
        active.max_by_key(|(_, key)| key.certificate.serial).map(|(index, _)| index)
    }
}

/// The key that signs a document.
enum ChosenKey {
    /// The first.
    First,
    /// The certified one at this place.
    Certified(Arc<OnlineState>, usize),
}

impl ChosenKey {
    fn key<'a>(&'a self, first: &'a PrivateKey) -> &'a PrivateKey {
        match self {
            Self::First => first,
            Self::Certified(online, index) => &online.keys[*index].key,
        }
    }

    /// Returns a signature as it stands in [`Signed`].
    fn with_chain(&self, signature: &Signature) -> Result<String, SignedError> {
        match self {
            Self::First => Ok(hex::encode(signature.to_bytes())),
            Self::Certified(online, index) => certified_signature(signature, &online.keys[*index].chain),
        }
    }
}

impl ServerSigner {
    /// Reads the keys of a data folder. Where there is no first key, one is made, or the key of the external signer becomes it.
    ///
    /// # Errors
    /// When a file cannot be read or made, or holds no keys, or an external signer does not name its key.
    pub async fn load(
        data_dir: &Path,
        external: Option<ExternalSigner>,
        random: &Random,
        now: OffsetDateTime,
    ) -> io::Result<Self> {
        if first_key(data_dir)?.is_none() {
            match &external {
                Some(external) => {
                    place_external_key(data_dir, &external.public_key().await.map_err(io::Error::other)?)?;
                }
                None => signing_key(data_dir, random).map(drop)?,
            }
        }
        let signer = Self::load_existing(data_dir, external, now)?;
        signer.ok_or_else(|| io::Error::other("signing.key was removed while it was read"))
    }

    /// Reads the keys of a data folder; `None` if it has none. It creates no key.
    ///
    /// # Errors
    /// As [`ServerSigner::load`].
    pub fn load_existing(
        data_dir: &Path,
        external: Option<ExternalSigner>,
        now: OffsetDateTime,
    ) -> io::Result<Option<Self>> {
        let Some(first) = first_key(data_dir)? else { return Ok(None) };
        // The version comes first: a file that is replaced between the two is read again.
        let version = Mutex::new(file_version(data_dir));
        let online = RwLock::new(Arc::new(OnlineState::read(data_dir, &first.verifying_key(), now)?));
        Ok(Some(Self(Arc::new(SignerParts { data_dir: data_dir.to_owned(), first, external, online, version }))))
    }

    /// Signs a document with the key for its purpose and time. Waits for an external signer where that has the key, for a bounded
    /// time.
    ///
    /// # Errors
    /// [`SignedError::Unavailable`] when no key may sign it, or its holder does not answer.
    pub async fn sign<D: Document>(&self, document: &D) -> Result<Signed, SignedError> {
        let unsigned = UnsignedDocument::new(document)?;
        if let Some(at) = unsigned.scope().at {
            self.reload_if_replaced(at);
        }
        let choice = self.choose(unsigned.scope())?;
        let (message, purpose) = (unsigned.message(), unsigned.scope().purpose);
        let signature = match choice.key(&self.0.first) {
            PrivateKey::Held(key) => key.sign(message),
            PrivateKey::External(key) => self.external()?.sign(key, message, purpose).await?,
        };
        let signature = choice.with_chain(&signature)?;
        Ok(unsigned.with_signature(signature))
    }

    /// Has each external key that may sign now make a signature over a text without meaning. Returns the public halves, hex.
    ///
    /// # Errors
    /// [`SignedError::Unavailable`] names the reason of the first failure.
    pub async fn probe(&self, now: OffsetDateTime) -> Result<Vec<String>, SignedError> {
        let mut keys = Vec::new();
        for purpose in KeyPurpose::ALL {
            let choice = self.choose(SignatureScope { purpose: Some(purpose), at: Some(now) })?;
            let PrivateKey::External(key) = choice.key(&self.0.first) else { continue };
            let name = hex::encode(key.as_bytes());
            if !keys.contains(&name) {
                let message = [PROBE_DOMAIN, now.to_string().as_bytes()].concat();
                self.external()?.sign(key, &message, Some(purpose)).await?;
                keys.push(name);
            }
        }
        Ok(keys)
    }

    /// Returns the end of the certificates under which the server signs, the earliest of all purposes; `None` while the first key
    /// signs. A purpose whose next certificate is installed counts until the end of that.
    pub fn certified_until(&self, now: OffsetDateTime) -> Option<OffsetDateTime> {
        let online = self.online();
        let last = |purpose| {
            let of_purpose = online.keys.iter().filter(|key| key.certificate.purpose == purpose);
            let newest = of_purpose.max_by_key(|key| key.certificate.serial)?;
            online.find(purpose, now).map(|_| newest.certificate.until)
        };
        KeyPurpose::ALL.into_iter().filter_map(last).min()
    }

    fn external(&self) -> Result<&ExternalSigner, SignedError> {
        let missing = || SignedError::Unavailable("an external signer has the key, and `signer` names none".to_owned());
        self.0.external.as_ref().ok_or_else(missing)
    }

    /// Returns the key for a document: a certified one, or the first while there is none.
    fn choose(&self, scope: SignatureScope) -> Result<ChosenKey, SignedError> {
        let online = self.online();
        let index = scope.purpose.zip(scope.at).and_then(|(purpose, at)| online.find_index(purpose, at));
        let (Some(index), Some(at)) = (index, scope.at) else { return Ok(ChosenKey::First) };
        let certificate = &online.keys[index].certificate;
        if at >= certificate.until {
            return Err(SignedError::Unavailable(format!(
                "the certificate of the key for {} ended at {}: run `undertone-server keys request`",
                certificate.purpose.name(),
                certificate.until
            )));
        }
        Ok(ChosenKey::Certified(online, index))
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

    /// Returns the least serial of a certificate that is not revoked at a time; 0 while none is.
    pub fn least_serial(&self, now: OffsetDateTime) -> u64 {
        self.reload_if_replaced(now);
        let online = self.online();
        let in_force = online.keys.iter().filter(|key| key.certificate.from <= now);
        in_force.map(|key| key.certificate.least_serial).max().unwrap_or_default()
    }

    /// Reads the certified keys again if their file was replaced since the last time, so that a new key signs as soon as it is
    /// installed. Other signatures wait meanwhile: none of them may be made with the older key and state a later time.
    fn reload_if_replaced(&self, now: OffsetDateTime) {
        let mut version = self.0.version.lock().unwrap_or_else(PoisonError::into_inner);
        let present = file_version(&self.0.data_dir);
        if *version != present {
            *version = present;
            self.reload(now);
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

/// Signs with keys of the data folder, for tests that forge documents.
#[cfg(any(test, feature = "testing"))]
impl undertone_api::signed::DocumentSigner for ServerSigner {
    fn sign_message(&self, message: &[u8], scope: SignatureScope) -> Result<String, SignedError> {
        let choice = self.choose(scope)?;
        match choice.key(&self.0.first) {
            PrivateKey::Held(key) => choice.with_chain(&key.sign(message)),
            PrivateKey::External(_) => Err(SignedError::Unavailable("an external signer has the key".to_owned())),
        }
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
