//! A signature with the certificate of its key: 128 hex digits of Ed25519, and the chain as JSON after them.

use ed25519_dalek::{Signature, VerifyingKey};
use serde::{Deserialize, Serialize};

use super::{KeyCertificate, SignatureScope, SignedIntroduction};
use crate::signed::{Signed, SignedError, public_key};

/// Hex digits of a signature.
const DIGITS: usize = 128;
/// The most bytes of a chain.
pub const MOST_CHAIN_BYTES: usize = 4096;

/// The certificate of a key, and the introduction of the root that signed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignatureChain {
    /// A [`KeyCertificate`], signed by the root.
    pub certificate: Signed,
    /// The root, introduced by the server's first key.
    pub introduction: SignedIntroduction,
}

/// Returns a signature that carries its chain.
///
/// # Errors
/// [`SignedError::Payload`] if the chain has no JSON form.
pub fn certified_signature(signature: &Signature, chain: &SignatureChain) -> Result<String, SignedError> {
    let chain = serde_json::to_string(chain).map_err(|error| SignedError::Payload(error.to_string()))?;
    Ok(hex::encode(signature.to_bytes()) + &chain)
}

/// Returns the signature, and its chain if it has one.
pub(super) fn split(text: &str) -> Result<(Signature, Option<SignatureChain>), SignedError> {
    let (digits, chain) = text.split_at_checked(DIGITS).ok_or(SignedError::Malformed)?;
    let bytes = hex::decode(digits).map_err(|_| SignedError::Malformed)?;
    let signature = Signature::from_slice(&bytes).map_err(|_| SignedError::Malformed)?;
    if chain.is_empty() {
        return Ok((signature, None));
    }
    if chain.len() > MOST_CHAIN_BYTES {
        return Err(SignedError::Malformed);
    }
    Ok((signature, Some(serde_json::from_str(chain).map_err(|_| SignedError::Malformed)?)))
}

/// Returns the serial of the certificate that a signature carries, 0 for one of the first key; `None` if it cannot be
/// read. The certificate is not verified.
pub fn claimed_serial(signature: &str) -> Option<u64> {
    let (_, chain) = split(signature).ok()?;
    let Some(chain) = chain else { return Some(0) };
    serde_json::from_str::<KeyCertificate>(&chain.certificate.payload).ok().map(|certificate| certificate.serial)
}

/// A certificate whose signature was verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VerifiedCertificate {
    pub(super) certificate: KeyCertificate,
    key: VerifyingKey,
}

impl SignatureChain {
    /// Returns the root that the key `first` introduced.
    ///
    /// # Errors
    /// [`SignedError::Chain`] if another key did.
    pub(super) fn introduced_root(&self, first: &VerifyingKey) -> Result<VerifyingKey, SignedError> {
        let introduction = self.introduction.open()?;
        if public_key(&introduction.first)? != *first {
            return Err(SignedError::Chain("another server's key introduced the root"));
        }
        public_key(&introduction.root)
    }

    /// Opens the certificate.
    ///
    /// # Errors
    /// [`SignedError`] if the root did not sign it.
    pub(super) fn open(&self, root: &VerifyingKey) -> Result<VerifiedCertificate, SignedError> {
        // A certificate has no purpose, so no chain can certify its signer: its signature is the root's own.
        let certificate: KeyCertificate = self.certificate.open(root)?;
        let key = public_key(&certificate.key)?;
        Ok(VerifiedCertificate { certificate, key })
    }
}

impl VerifiedCertificate {
    /// Verifies a signature of the certified key over a document of this scope.
    pub(super) fn verify(
        &self,
        message: &[u8],
        signature: &Signature,
        scope: SignatureScope,
    ) -> Result<(), SignedError> {
        if scope.purpose != Some(self.certificate.purpose) {
            return Err(SignedError::Chain("the key may not sign this kind of document"));
        }
        let is_valid = |at| self.certificate.from <= at && at < self.certificate.until;
        if !scope.at.is_some_and(is_valid) {
            return Err(SignedError::Chain("the key was not valid at the time that the document states"));
        }
        self.key.verify_strict(message, signature).map_err(|_| SignedError::Forged)
    }
}
