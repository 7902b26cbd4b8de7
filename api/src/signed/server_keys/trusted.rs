//! The state of a verifier that follows a server's keys: the pinned root, and the newest certificates.

use std::collections::BTreeMap;

use ed25519_dalek::VerifyingKey;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::chain::split;
use super::{KeyCertificate, KeyPurpose, SignatureChain, SignatureScope};
use crate::signed::{Signed, SignedError, SignedIntroduction, public_key};

/// The newest seen certificate of a purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenCertificate {
    /// Its serial.
    pub serial: u64,
    /// The time from which it replaces older keys: the start of its validity, or the time of the first document that was
    /// seen with it, if that is later.
    #[serde(with = "time::serde::rfc3339")]
    pub from: OffsetDateTime,
}

/// A verifier's knowledge of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustedServer {
    /// The first Ed25519 public key, hex.
    first: String,
    /// The pinned root, hex; `None` until it was introduced.
    root: Option<String>,
    /// Certificates with a lower serial are revoked.
    least_serial: u64,
    /// The earliest time from which a certificate replaces older keys: from then on, the first key signs nothing.
    #[serde(with = "time::serde::rfc3339::option")]
    first_until: Option<OffsetDateTime>,
    /// The newest certificate of each purpose.
    newest: BTreeMap<KeyPurpose, SeenCertificate>,
}

impl TrustedServer {
    /// Returns a server that is known by its first key alone.
    pub fn new(first: &VerifyingKey) -> Self {
        Self {
            first: hex::encode(first.to_bytes()),
            root: None,
            least_serial: 0,
            first_until: None,
            newest: BTreeMap::new(),
        }
    }

    /// Returns a server with a known root, from an enrolment token that names both keys: the first key may no longer
    /// sign.
    pub fn with_root(first: &VerifyingKey, root: &VerifyingKey) -> Self {
        Self { root: Some(hex::encode(root.to_bytes())), ..Self::new(first) }
    }

    /// Returns a server from its own files, for the server itself: with these certificates, which its root signed.
    ///
    /// # Errors
    /// [`SignedError`] if the introduction or a certificate is invalid.
    pub fn from_certificates(introduction: &SignedIntroduction, certificates: &[Signed]) -> Result<Self, SignedError> {
        let opened = introduction.open()?;
        let root = public_key(&opened.root)?;
        let mut server = Self::with_root(&public_key(&opened.first)?, &root);
        for certificate in certificates {
            server.note(&certificate.open(&root)?, None);
        }
        Ok(server)
    }

    /// Returns the first key.
    ///
    /// # Errors
    /// [`SignedError::Malformed`] if the stored text is not a key.
    pub fn first(&self) -> Result<VerifyingKey, SignedError> {
        public_key(&self.first)
    }

    /// Returns the pinned root, hex.
    pub fn root(&self) -> Option<&str> {
        self.root.as_deref()
    }

    /// Returns the newest seen certificate of a purpose.
    pub fn newest(&self, purpose: KeyPurpose) -> Option<SeenCertificate> {
        self.newest.get(&purpose).copied()
    }

    /// Returns the least serial that is accepted.
    pub const fn least_serial(&self) -> u64 {
        self.least_serial
    }

    /// Returns the combined knowledge of this state and another of the same server.
    #[must_use]
    pub fn merge(&self, other: &Self) -> Self {
        let mut merged = self.clone();
        merged.root = merged.root.or_else(|| other.root.clone());
        merged.least_serial = merged.least_serial.max(other.least_serial);
        merged.first_until = merged.first_until.into_iter().chain(other.first_until).min();
        for (purpose, certificate) in &other.newest {
            let newest = merged.newest.entry(*purpose).or_insert(*certificate);
            if certificate.serial > newest.serial {
                *newest = *certificate;
            }
        }
        merged
    }

    /// Verifies a signature, and returns the new state if it changed. The caller stores it before it uses the document.
    ///
    /// # Errors
    /// [`SignedError`] if the signature is invalid, or its key is replaced or revoked.
    pub fn examine(&self, message: &[u8], signature: &str, scope: SignatureScope) -> Result<Option<Self>, SignedError> {
        let (bytes, chain) = split(signature)?;
        let Some(chain) = chain else {
            self.check_first(scope)?;
            let first = self.first()?;
            return first.verify_strict(message, &bytes).map(|()| None).map_err(|_| SignedError::Forged);
        };
        scope.check_certifiable()?;
        let root = self.root_of(&chain)?;
        let verified = chain.open(&root)?;
        verified.verify(message, &bytes, scope)?;
        self.check_order(&verified.certificate, scope)?;
        let mut next = Self { root: Some(hex::encode(root.to_bytes())), ..self.clone() };
        next.note(&verified.certificate, scope.at);
        Ok((next != *self).then_some(next))
    }

    /// Rejects a direct signature of the first key once certified keys sign.
    fn check_first(&self, scope: SignatureScope) -> Result<(), SignedError> {
        if self.root.is_none() {
            return Ok(());
        }
        let is_before = scope.at.is_some_and(|at| self.first_until.is_some_and(|until| at < until));
        if is_before && self.least_serial == 0 {
            return Ok(());
        }
        Err(SignedError::Chain("certified keys sign for this server: its first key does not any more"))
    }

    /// Returns the root that must have signed a certificate.
    fn root_of(&self, chain: &SignatureChain) -> Result<VerifyingKey, SignedError> {
        match &self.root {
            Some(root) => public_key(root),
            None => chain.introduced_root(&self.first()?),
        }
    }

    fn check_order(&self, certificate: &KeyCertificate, scope: SignatureScope) -> Result<(), SignedError> {
        if certificate.serial < self.least_serial {
            return Err(SignedError::Chain("the key's certificate is revoked"));
        }
        let newest = self.newest(certificate.purpose);
        let is_replaced =
            |newest: SeenCertificate| certificate.serial < newest.serial && scope.at.is_none_or(|at| at >= newest.from);
        if newest.is_some_and(is_replaced) {
            return Err(SignedError::Chain(
                "the key's certificate was replaced before the time that the document states",
            ));
        }
        Ok(())
    }

    /// Stores a certificate, seen with a document that states the time `at`.
    ///
    /// A server installs a certificate after the root has signed it, so the older key may have signed after the certificate's
    /// start. These documents stay valid up to the first document of the new key. Against a thief of the older key this loses
    /// nothing, because a thief can state any time: only a revocation (`least_serial`) ends a stolen key.
    fn note(&mut self, certificate: &KeyCertificate, at: Option<OffsetDateTime>) {
        self.least_serial = self.least_serial.max(certificate.least_serial);
        if self.newest(certificate.purpose).is_some_and(|newest| certificate.serial <= newest.serial) {
            return;
        }
        let from = at.map_or(certificate.from, |at| at.max(certificate.from));
        self.newest.insert(certificate.purpose, SeenCertificate { serial: certificate.serial, from });
        self.first_until = Some(self.first_until.map_or(from, |until| until.min(from)));
    }
}
