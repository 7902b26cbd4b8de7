//! The server's keys: a root key that stays offline certifies online keys for a purpose and a time, and every signature of an online
//! key carries the certificate.
//!
//! A server is known by its *first* key, which stands in enrolment tokens and names its log. [`RootIntroduction`] binds a root to it:
//! both keys have signed it. So a signature verifies under the first key alone: directly, or over introduction, root and
//! certificate ([`chain`]). [`TrustedServer`] is the state of a verifier that has seen the root: from then on the first key vouches for
//! no other root, certificates do not go back, and a certificate can revoke those before it.
//!
//! To sign another kind of document with certified keys: give it `PURPOSE` and `signed_at`.

mod chain;
#[cfg(test)]
mod tests;
mod trusted;

use ed25519_dalek::{Signer as _, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::{Document, Signed, SignedError, key_id};

pub use chain::{MOST_CHAIN_BYTES, SignatureChain, certified_signature};
pub use trusted::{SeenCertificate, TrustedServer};

/// The group of documents that an online key may sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyPurpose {
    /// Challenges and sessions of workers, and the certificates by which the server is recognized.
    Connection,
    /// Heads of the log and countersignatures.
    Log,
    /// Manifests, and certificates of what was spent.
    Job,
}

impl KeyPurpose {
    /// All purposes.
    pub const ALL: [Self; 3] = [Self::Connection, Self::Log, Self::Job];

    /// Returns the name, as it stands in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connection => "connection",
            Self::Log => "log",
            Self::Job => "job",
        }
    }
}

/// The root's word on one online key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyCertificate {
    /// Grows with each signing by the root; the keys that are certified together share it.
    pub serial: u64,
    /// The least serial that is still accepted: certificates below it are revoked. The first key counts as 0.
    pub least_serial: u64,
    /// The Ed25519 public key, hex.
    pub key: String,
    /// The documents that it may sign.
    pub purpose: KeyPurpose,
    /// From when.
    #[serde(with = "time::serde::rfc3339")]
    pub from: OffsetDateTime,
    /// Until when.
    #[serde(with = "time::serde::rfc3339")]
    pub until: OffsetDateTime,
}

impl Document for KeyCertificate {
    const DOMAIN: &'static str = "undertone/key-certificate/1";
}

/// The root of a server, as its first key names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RootIntroduction {
    /// The server's first Ed25519 public key, hex.
    pub first: String,
    /// The root's Ed25519 public key, hex.
    pub root: String,
}

impl Document for RootIntroduction {
    const DOMAIN: &'static str = "undertone/root-introduction/1";
}

/// An introduction as both keys have signed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedIntroduction {
    /// A [`RootIntroduction`], signed by the first key.
    pub by_first: Signed,
    /// The signature of the root over the same document, hex.
    pub by_root: String,
}

impl SignedIntroduction {
    /// Returns the introduction, when both keys that it names have signed it.
    ///
    /// # Errors
    /// [`SignedError`] otherwise.
    pub fn open(&self) -> Result<RootIntroduction, SignedError> {
        let claimed: RootIntroduction =
            serde_json::from_str(&self.by_first.payload).map_err(|error| SignedError::Payload(error.to_string()))?;
        let by_root = Signed { payload: self.by_first.payload.clone(), signature: self.by_root.clone() };
        by_root.open::<RootIntroduction>(&super::public_key(&claimed.root)?)?;
        self.by_first.open(&super::public_key(&claimed.first)?)
    }
}

/// The properties of a document that decide which keys may sign it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignatureScope {
    /// The purpose; `None` for documents that only a key itself signs.
    pub purpose: Option<KeyPurpose>,
    /// The time that the document states.
    pub at: Option<OffsetDateTime>,
}

impl SignatureScope {
    /// Refuses certificates over documents that only a key itself signs.
    fn check_certifiable(self) -> Result<(), SignedError> {
        if self.purpose.is_some() {
            return Ok(());
        }
        Err(SignedError::Chain("the key may not sign this kind of document"))
    }
}

/// A holder of one or several private keys.
pub trait DocumentSigner {
    /// Returns the signature over a message, as it stands in [`Signed`].
    ///
    /// # Errors
    /// [`SignedError::Unavailable`] when no key may sign it.
    fn sign_message(&self, message: &[u8], scope: SignatureScope) -> Result<String, SignedError>;
}

impl DocumentSigner for SigningKey {
    fn sign_message(&self, message: &[u8], _: SignatureScope) -> Result<String, SignedError> {
        Ok(hex::encode(self.sign(message).to_bytes()))
    }
}

/// A verifier's view of the keys that may sign.
pub trait SigningAuthority {
    /// Verifies a signature as it stands in [`Signed`].
    ///
    /// # Errors
    /// [`SignedError`] when it does not hold, or its key may not sign this document.
    fn verify_message(&self, message: &[u8], signature: &str, scope: SignatureScope) -> Result<(), SignedError>;

    /// Returns the id of the log whose heads this authority signs: that of the first key.
    fn log_id(&self) -> String;
}

/// One key: a site's, or the first key of a server. It accepts what it signed itself, and what an online key signed that a root certified
/// which it introduced. It keeps nothing, so that certificates may go back: for documents that were accepted before.
impl SigningAuthority for VerifyingKey {
    fn verify_message(&self, message: &[u8], signature: &str, scope: SignatureScope) -> Result<(), SignedError> {
        let (bytes, chain) = chain::split(signature)?;
        let Some(chain) = chain else {
            return self.verify_strict(message, &bytes).map_err(|_| SignedError::Forged);
        };
        scope.check_certifiable()?;
        let root = chain.introduced_root(self)?;
        chain.open(&root)?.verify(message, &bytes, scope)
    }

    fn log_id(&self) -> String {
        key_id(self)
    }
}
