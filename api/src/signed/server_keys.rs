//! The server's keys: a root key that stays offline certifies online keys for a purpose and a time, and every signature
//! of an online key carries the certificate.
//!
//! A server is known by its *first* key, which is in enrolment tokens and identifies its log. [`RootIntroduction`]
//! binds a root to it: both keys have signed it. So a signature verifies under the first key alone: directly, or over
//! introduction, root and certificate (`chain`). [`TrustedServer`] is the state of a verifier that has seen the root:
//! from then on the first key introduces no other root, certificates do not go back, and a certificate can revoke those
//! before it.
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

pub use chain::{MOST_CHAIN_BYTES, SignatureChain, certified_signature, claimed_serial};
pub use trusted::{SeenCertificate, TrustedServer};

/// The group of documents that an online key may sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyPurpose {
    /// Challenges and sessions of workers, and the server's TLS certificates.
    Connection,
    /// Heads of the log and countersignatures.
    Log,
    /// Manifests, and certificates of charges.
    Job,
}

impl KeyPurpose {
    /// All purposes.
    pub const ALL: [Self; 3] = [Self::Connection, Self::Log, Self::Job];

    /// Returns the name in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connection => "connection",
            Self::Log => "log",
            Self::Job => "job",
        }
    }
}

/// The root's certificate of one online key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyCertificate {
    /// A serial that grows with each signing by the root; keys that are certified together share it.
    pub serial: u64,
    /// The least serial that is still accepted: certificates below it are revoked. The first key counts as 0.
    pub least_serial: u64,
    /// The Ed25519 public key, hex.
    pub key: String,
    /// The documents that it may sign.
    pub purpose: KeyPurpose,
    /// Start of validity.
    #[serde(with = "time::serde::rfc3339")]
    pub from: OffsetDateTime,
    /// End of validity.
    #[serde(with = "time::serde::rfc3339")]
    pub until: OffsetDateTime,
}

impl Document for KeyCertificate {
    const DOMAIN: &'static str = "undertone/key-certificate/1";
}

/// The root of a server, introduced by its first key.
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

/// An introduction with the signatures of both keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedIntroduction {
    /// A [`RootIntroduction`], signed by the first key.
    pub by_first: Signed,
    /// The signature of the root over the same document, hex.
    pub by_root: String,
}

impl SignedIntroduction {
    /// Returns the introduction, if both keys that it names have signed it.
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
    /// Rejects certificates over documents that only a key itself signs.
    fn check_certifiable(self) -> Result<(), SignedError> {
        if self.purpose.is_some() {
            return Ok(());
        }
        Err(SignedError::Chain("the key may not sign this kind of document"))
    }
}

/// A holder of one or several private keys.
pub trait DocumentSigner {
    /// Returns the signature over a message, in the form of [`Signed`].
    ///
    /// # Errors
    /// [`SignedError::Unavailable`] if no key may sign it.
    fn sign_message(&self, message: &[u8], scope: SignatureScope) -> Result<String, SignedError>;
}

impl DocumentSigner for SigningKey {
    fn sign_message(&self, message: &[u8], _: SignatureScope) -> Result<String, SignedError> {
        Ok(hex::encode(self.sign(message).to_bytes()))
    }
}

/// A verifier's view of the keys that may sign.
pub trait SigningAuthority {
    /// Verifies a signature in the form of [`Signed`].
    ///
    /// # Errors
    /// [`SignedError`] if it is invalid, or its key may not sign this document.
    fn verify_message(&self, message: &[u8], signature: &str, scope: SignatureScope) -> Result<(), SignedError>;

    /// Returns the id of the log whose heads this authority signs: that of the first key.
    fn log_id(&self) -> String;
}

/// One key: a site's, or the first key of a server. It accepts its own signatures, and those of online keys that were
/// certified by a root that it introduced. It keeps no state, so certificates may go back: for documents that were
/// accepted before.
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
