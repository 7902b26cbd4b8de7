//! Signed documents: what may run (manifest), what a site says to it (decision), what was spent (receipt), and what the
//! server answers for (head of its log, countersignature of a receipt).
//!
//! A signature is over the exact bytes of the payload with the document's domain before them, so one document can never
//! pass for another and no re-serialization can break or bend it.

mod approval;
mod audit;
pub mod certificate;
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
pub use head::{Countersignature, Head, key_id};
pub use hold::SiteHold;
pub use ledger_position::{LedgerPosition, LedgerSighting, MOST_SIGHTING_BYTES};
pub use manifest::{Decision, Limits, Manifest, ManifestParticipant};
pub use observation::HeadObservation;
pub use receipt::{Receipt, ReleaseTick};
pub use restoration::Restoration;
pub use rotation::{KeyChange, Pinned, Pins, Rotation, RotationError, SiteKeys};
pub use server_keys::{
    DocumentSigner, KeyCertificate, KeyPurpose, RootIntroduction, SignatureChain, SignatureScope, SignedIntroduction,
    SigningAuthority, TrustedServer,
};
pub use webauthn::PasskeyAlgorithm;

/// A kind of document that is signed.
pub trait Document: Serialize + DeserializeOwned {
    /// What stands before the payload under the signature; never the same for two kinds of document.
    const DOMAIN: &'static str;
    /// The purpose of the server's online keys that may sign it; `None` for documents that a key itself signs, without a certificate.
    const PURPOSE: Option<KeyPurpose> = None;

    /// Returns the time that the document states, by which the certificate of its key is judged.
    fn signed_at(&self) -> Option<OffsetDateTime> {
        None
    }
}

/// Why a signed document is not believed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignedError {
    /// The signature, or the key, is not well formed.
    #[error("the signature is not well formed")]
    Malformed,
    /// The signature was not made by this key over this payload.
    #[error("the signature does not hold")]
    Forged,
    /// The payload is not the document it should be.
    #[error("the signed payload is not the expected document: {0}")]
    Payload(String),
    /// The key that signed may not sign this.
    #[error("the signature's key does not hold: {0}")]
    Chain(&'static str),
    /// There is no key that may sign, or its holder does not answer.
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
    /// [`SignedError::Payload`] when the document has no JSON form, [`SignedError::Unavailable`] when no key may sign it.
    pub fn new<D: Document>(document: &D, key: &dyn DocumentSigner) -> Result<Self, SignedError> {
        let payload = serde_json::to_string(document).map_err(|error| SignedError::Payload(error.to_string()))?;
        let scope = SignatureScope { purpose: D::PURPOSE, at: document.signed_at() };
        let signature = key.sign_message(&message::<D>(&payload), scope)?;
        Ok(Self { payload, signature })
    }

    /// The document, when `key` signed it, or a key that it vouches for.
    ///
    /// # Errors
    /// [`SignedError`] when the signature does not hold or the payload is another document.
    pub fn open<D: Document>(&self, key: &dyn SigningAuthority) -> Result<D, SignedError> {
        let document: Result<D, _> = serde_json::from_str(&self.payload);
        let scope = SignatureScope { purpose: D::PURPOSE, at: document.as_ref().ok().and_then(D::signed_at) };
        key.verify_message(&message::<D>(&self.payload), &self.signature, scope)?;
        document.map_err(|error| SignedError::Payload(error.to_string()))
    }

    /// SHA-256 of the payload, hex: the document's name.
    pub fn digest(&self) -> String {
        hex::encode(Sha256::digest(self.payload.as_bytes()))
    }
}

fn message<D: Document>(payload: &str) -> Vec<u8> {
    [D::DOMAIN.as_bytes(), &[0], payload.as_bytes()].concat()
}

/// Reads an Ed25519 public key from hex.
///
/// # Errors
/// [`SignedError::Malformed`] when it is not one.
pub fn public_key(text: &str) -> Result<VerifyingKey, SignedError> {
    let bytes: [u8; 32] =
        hex::decode(text).ok().and_then(|bytes| bytes.try_into().ok()).ok_or(SignedError::Malformed)?;
    VerifyingKey::from_bytes(&bytes).map_err(|_| SignedError::Malformed)
}

/// A worker's proof, when it signs in, that it holds its site's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Presence {
    /// The worker.
    pub worker: WorkerId,
    /// The server's challenge, hex.
    pub challenge: String,
}

impl Document for Presence {
    const DOMAIN: &'static str = "undertone/presence/1";
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::SigningKey;

    use super::{Decision, Presence, Signed, SignedError};
    use crate::id::WorkerId;

    fn presence() -> Presence {
        Presence { worker: WorkerId(uuid::Uuid::nil()), challenge: "00ff".to_owned() }
    }

    #[test]
    fn a_document_opens_only_with_the_key_that_signed_it() {
        let (ours, theirs) = (SigningKey::from_bytes(&[1; 32]), SigningKey::from_bytes(&[2; 32]));
        let signed = Signed::new(&presence(), &ours).expect("a presence has a JSON form");
        assert_eq!(signed.open(&ours.verifying_key()), Ok(presence()));
        assert_eq!(signed.open::<Presence>(&theirs.verifying_key()), Err(SignedError::Forged));
    }

    #[test]
    fn a_changed_payload_is_forged() {
        let key = SigningKey::from_bytes(&[1; 32]);
        let mut signed = Signed::new(&presence(), &key).expect("a presence has a JSON form");
        signed.payload = signed.payload.replace("00ff", "00fe");
        assert_eq!(signed.open::<Presence>(&key.verifying_key()), Err(SignedError::Forged));
    }

    #[test]
    fn one_document_never_passes_for_another() {
        let key = SigningKey::from_bytes(&[1; 32]);
        let signed = Signed::new(&presence(), &key).expect("a presence has a JSON form");
        assert_eq!(signed.open::<Decision>(&key.verifying_key()), Err(SignedError::Forged));
    }
}
