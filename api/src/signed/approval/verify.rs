//! Verifies approvals: Ed25519 signatures, and passkey assertions under WebAuthn (Level 2, section 7.2).
//!
//! The signature counter is not compared: passkeys that are synchronized between devices leave it at 0.

use super::{
    ApprovalError, ApprovalKey, ApprovalProof, ApprovalStatement, KeyFingerprint, MOST_APPROVAL_BYTES, SignedApproval,
    StewardDecision, passkey_challenge,
};
use crate::id::{DatasetId, JobId};
use crate::job::PartyTerms;
use crate::signed::webauthn::{self, AssertionParts, PasskeyPublicKey, WebauthnError};
use crate::signed::{Document, Signed, SignedError};

impl From<WebauthnError> for ApprovalError {
    fn from(error: WebauthnError) -> Self {
        match error {
            WebauthnError::Malformed(part) => Self::Malformed(part),
            WebauthnError::Forged => Self::Forged,
            WebauthnError::Refused(reason) => Self::Assertion(reason),
        }
    }
}

impl ApprovalKey {
    /// Checks that every part of the key is well formed.
    ///
    /// # Errors
    /// [`ApprovalError::Malformed`] names the part.
    pub fn check(&self) -> Result<(), ApprovalError> {
        match self {
            Self::Ed25519 { public_key: key } => Ok(webauthn::ed25519(key).map(|_| ())?),
            Self::Passkey { algorithm, public_key, credential, relying_party, origin } => {
                let key = PasskeyPublicKey { algorithm: *algorithm, public_key, relying_party, origin };
                Ok(key.check(credential)?)
            }
        }
    }
}

impl SignedApproval {
    /// Returns the statement if `key` signed it.
    ///
    /// # Errors
    /// [`ApprovalError`] if the signature is invalid, or the payload is another document.
    pub fn open<D: Document>(&self, key: &ApprovalKey) -> Result<D, ApprovalError> {
        let payload = &self.payload;
        match (key, &self.proof) {
            (ApprovalKey::Ed25519 { public_key: key }, ApprovalProof::Ed25519 { signature }) => {
                let signed = Signed { payload: payload.clone(), signature: signature.clone() };
                return signed.open(&webauthn::ed25519(key)?).map_err(|error| match error {
                    SignedError::Malformed => ApprovalError::Malformed("the signature"),
                    // A steward's key certifies no other key.
                    SignedError::Forged | SignedError::Chain(_) | SignedError::Unavailable(_) => ApprovalError::Forged,
                    SignedError::Payload(what) => ApprovalError::Payload(what),
                });
            }
            (
                ApprovalKey::Passkey { algorithm, public_key, credential, relying_party, origin },
                ApprovalProof::Passkey { credential: used, client_data, authenticator_data, signature },
            ) if used.eq_ignore_ascii_case(credential) => {
                let key = PasskeyPublicKey { algorithm: *algorithm, public_key, relying_party, origin };
                let parts = AssertionParts { client_data, authenticator_data, signature };
                webauthn::verify_assertion(&key, &passkey_challenge::<D>(payload), parts)?;
            }
            _ => return Err(ApprovalError::UnknownKey),
        }
        serde_json::from_str(payload).map_err(|error| ApprovalError::Payload(error.to_string()))
    }

    /// Checks that one of `keys` signed this document; returns it with the key's fingerprint.
    ///
    /// # Errors
    /// [`ApprovalError`]: the defect under the key that it names, or [`ApprovalError::UnknownKey`] if none fits.
    pub fn open_by_any<D: Document>(&self, keys: &[ApprovalKey]) -> Result<(D, KeyFingerprint), ApprovalError> {
        if self.payload.len() > MOST_APPROVAL_BYTES {
            return Err(ApprovalError::Malformed("the statement"));
        }
        let mut problem = ApprovalError::UnknownKey;
        for key in keys {
            match self.open(key) {
                Ok(document) => return Ok((document, key.fingerprint())),
                // An Ed25519 signature does not name its key: an invalid one may be a signature by another key.
                Err(ApprovalError::Forged) if matches!(key, ApprovalKey::Ed25519 { .. }) => {}
                Err(ApprovalError::UnknownKey) => {}
                Err(other) => problem = other,
            }
        }
        Err(problem)
    }

    /// Checks that one of `keys` approved exactly this manifest for this dataset; returns the key's fingerprint and the
    /// answer to the manifest's open terms.
    ///
    /// # Errors
    /// [`ApprovalError`]: the first defect.
    pub fn approves(
        &self,
        manifest: &str,
        job: JobId,
        dataset: DatasetId,
        keys: &[ApprovalKey],
    ) -> Result<(KeyFingerprint, PartyTerms), ApprovalError> {
        let (statement, key) = self.open_by_any::<ApprovalStatement>(keys)?;
        if statement.manifest != manifest {
            return Err(ApprovalError::OtherManifest);
        }
        if statement.job != job || statement.dataset != dataset {
            return Err(ApprovalError::OtherDataset);
        }
        match statement.decision {
            StewardDecision::Approve => Ok((key, statement.terms)),
            StewardDecision::Refuse => Err(ApprovalError::Refusal),
        }
    }
}
