//! Signed documents: the permission to run (manifest), a site's answer (decision), a charge (receipt), and the server's
//! commitments (head of its log, countersignature of a receipt).
//!
//! A signature covers the document's domain and the exact bytes of the payload, so one document can never pass for
//! another, and re-serialization cannot break or change it.

mod approval;
mod audit;
pub mod certificate;
mod departure;
mod head;
mod hold;
mod ledger_position;
mod manifest;
mod observation;
mod receipt;
mod restoration;
mod rotation;
pub mod server_keys;
pub mod webauthn;

use ed25519_dalek::VerifyingKey;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;

use crate::id::WorkerId;

pub use approval::{
    ApprovalError, ApprovalKey, ApprovalProof, ApprovalRule, ApprovalStatement, Consent, KeyFingerprint,
    MOST_APPROVAL_BYTES, MOST_APPROVAL_KEYS, SignedApproval, SiteApproval, StewardDecision, passkey_challenge,
};
pub use audit::AuditStatement;
pub use certificate::{Certificate, CertificateFile};
pub use departure::SiteDeparture;
pub use head::{Countersignature, LogHead, key_id};
pub use hold::SiteHold;
pub use ledger_position::{LedgerPosition, LedgerSighting, MOST_SIGHTING_BYTES};
pub use manifest::{JobLimits, Manifest, ManifestParticipant, ModelOrigin, SiteDecision};
pub use observation::HeadObservation;
pub use receipt::{Receipt, ReleaseTick};
pub use restoration::Restoration;
pub use rotation::{CertificatePins, KeyChange, KeyRotation, PinnedCertificate, RotationError, SiteKeys};
pub use server_keys::{
    DocumentSigner, KeyCertificate, KeyPurpose, RootIntroduction, SignatureChain, SignatureScope, SignedIntroduction,
    SigningAuthority, TrustedServer,
};
pub use webauthn::PasskeyAlgorithm;

/// A kind of signed document.
pub trait Document: Serialize + DeserializeOwned {
    /// The prefix of the payload under the signature; unique to the kind of document.
    const DOMAIN: &'static str;
    /// The purpose of the server's online keys that may sign it; `None` for documents that a key itself signs, without
    /// a certificate.
    const PURPOSE: Option<KeyPurpose> = None;

    /// Returns the time that the document states, by which the certificate of its key is judged.
    fn signed_at(&self) -> Option<OffsetDateTime> {
        None
    }
}

/// The reason why a signed document is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignedError {
    /// The signature, or the key, is not well formed.
    #[error("the signature is not well formed")]
    Malformed,
    /// The signature was not made by this key over this payload.
    #[error("the signature does not hold")]
    Forged,
    /// The payload is not the expected document.
    #[error("the signed payload is not the expected document: {0}")]
    Payload(String),
    /// The key may not sign this document.
    #[error("the signature's key does not hold: {0}")]
    Chain(&'static str),
    /// No key may sign, or its holder does not answer.
    #[error("nothing can be signed: {0}")]
    Unavailable(String),
}

/// A document with its signature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Signed {
    /// The document as JSON, byte for byte as it was signed.
    pub payload: String,
    /// Ed25519 signature over domain, a zero byte and payload, hex; where a certified key signed, its certificate follows, as JSON.
    pub signature: String,
}

impl Signed {
    /// Signs `document`.
    ///
    /// # Errors
    /// [`SignedError::Payload`] if the document has no JSON form, [`SignedError::Unavailable`] if no key may sign it.
    pub fn new<D: Document>(document: &D, key: &dyn DocumentSigner) -> Result<Self, SignedError> {
        let unsigned = UnsignedDocument::new(document)?;
        let signature = key.sign_message(unsigned.message(), unsigned.scope())?;
        Ok(unsigned.with_signature(signature))
    }

    /// Opens the document, if `key` or a key that it certifies signed it.
    ///
    /// # Errors
    /// [`SignedError`] if the signature is invalid or the payload is another document.
    pub fn open<D: Document>(&self, key: &dyn SigningAuthority) -> Result<D, SignedError> {
        let document: Result<D, _> = serde_json::from_str(&self.payload);
        let scope = SignatureScope { purpose: D::PURPOSE, at: document.as_ref().ok().and_then(D::signed_at) };
        key.verify_message(&message::<D>(&self.payload), &self.signature, scope)?;
        document.map_err(|error| SignedError::Payload(error.to_string()))
    }

    /// Returns the SHA-256 of the payload, hex, which identifies the document.
    pub fn digest(&self) -> String {
        hex::encode(Sha256::digest(self.payload.as_bytes()))
    }
}

/// A document that waits for its signature, for holders of keys that take time to sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsignedDocument {
    payload: String,
    message: Vec<u8>,
    scope: SignatureScope,
}

impl UnsignedDocument {
    /// Writes `document` as it will be signed.
    ///
    /// # Errors
    /// [`SignedError::Payload`] when the document has no JSON form.
    pub fn new<D: Document>(document: &D) -> Result<Self, SignedError> {
        let payload = serde_json::to_string(document).map_err(|error| SignedError::Payload(error.to_string()))?;
        let scope = SignatureScope { purpose: D::PURPOSE, at: document.signed_at() };
        Ok(Self { message: message::<D>(&payload), payload, scope })
    }

    /// Returns the bytes that the signature covers.
    pub fn message(&self) -> &[u8] {
        &self.message
    }

    /// Returns the properties that decide which keys may sign it.
    pub const fn scope(&self) -> SignatureScope {
        self.scope
    }

    /// Returns the document with its signature, as it stands in [`Signed`].
    pub fn with_signature(self, signature: String) -> Signed {
        Signed { payload: self.payload, signature }
    }
}

fn message<D: Document>(payload: &str) -> Vec<u8> {
    [D::DOMAIN.as_bytes(), &[0], payload.as_bytes()].concat()
}

/// Parses an Ed25519 public key from hex.
///
/// # Errors
/// [`SignedError::Malformed`] if it is invalid.
pub fn public_key(text: &str) -> Result<VerifyingKey, SignedError> {
    let bytes: [u8; 32] =
        hex::decode(text).ok().and_then(|bytes| bytes.try_into().ok()).ok_or(SignedError::Malformed)?;
    VerifyingKey::from_bytes(&bytes).map_err(|_| SignedError::Malformed)
}

/// A worker's proof at sign-in that it holds its site's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PresenceProof {
    /// The worker.
    pub worker: WorkerId,
    /// The server's challenge, hex.
    pub challenge: String,
}

impl Document for PresenceProof {
    const DOMAIN: &'static str = "undertone/presence/1";
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::SigningKey;

    use super::{PresenceProof, Signed, SignedError, SiteDecision};
    use crate::id::WorkerId;

    fn presence() -> PresenceProof {
        PresenceProof { worker: WorkerId(uuid::Uuid::nil()), challenge: "00ff".to_owned() }
    }

    #[test]
    fn document_opens_only_with_its_signing_key() {
        let (ours, theirs) = (SigningKey::from_bytes(&[1; 32]), SigningKey::from_bytes(&[2; 32]));
        let signed = Signed::new(&presence(), &ours).expect("a presence has a JSON form");
        assert_eq!(signed.open(&ours.verifying_key()), Ok(presence()));
        assert_eq!(signed.open::<PresenceProof>(&theirs.verifying_key()), Err(SignedError::Forged));
    }

    #[test]
    fn a_changed_payload_is_forged() {
        let key = SigningKey::from_bytes(&[1; 32]);
        let mut signed = Signed::new(&presence(), &key).expect("a presence has a JSON form");
        signed.payload = signed.payload.replace("00ff", "00fe");
        assert_eq!(signed.open::<PresenceProof>(&key.verifying_key()), Err(SignedError::Forged));
    }

    #[test]
    fn one_document_never_passes_for_another() {
        let key = SigningKey::from_bytes(&[1; 32]);
        let signed = Signed::new(&presence(), &key).expect("a presence has a JSON form");
        assert_eq!(signed.open::<SiteDecision>(&key.verifying_key()), Err(SignedError::Forged));
    }
}
