//! Verifies approvals: Ed25519 signatures, and passkey assertions as WebAuthn (Level 2, section 7.2) has them.
//!
//! The signature counter is not compared: passkeys that are synchronized between devices leave it at 0.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use p256::ecdsa::signature::Verifier as _;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::{
    ApprovalError, ApprovalKey, ApprovalProof, ApprovalStatement, KeyFingerprint, MOST_APPROVAL_BYTES,
    PasskeyAlgorithm, SignedApproval, StewardDecision, passkey_challenge,
};
use crate::id::{DatasetId, JobId};
use crate::signed::{Document, Signed, public_key};

/// Bytes of `authenticatorData` without extensions: hash of the relying party, flags, counter.
const AUTHENTICATOR_DATA: usize = 37;
/// The flag that somebody was present.
const USER_PRESENT: u8 = 0x01;
/// The flag that the authenticator recognized its user: by PIN, fingerprint or face.
const USER_VERIFIED: u8 = 0x04;
/// The flag that extensions follow.
const EXTENSIONS: u8 = 0x80;
/// Longest id of a credential, in bytes (WebAuthn, section 4).
const LONGEST_CREDENTIAL: usize = 1023;

impl ApprovalKey {
    /// Checks that every part of the key is well formed.
    ///
    /// # Errors
    /// [`ApprovalError::Malformed`] names the part.
    pub fn check(&self) -> Result<(), ApprovalError> {
        match self {
            Self::Ed25519 { public_key: key } => ed25519(key).map(|_| ()),
            Self::Passkey { algorithm, public_key, credential, relying_party, origin } => {
                match algorithm {
                    PasskeyAlgorithm::Es256 => es256(public_key).map(|_| ())?,
                    PasskeyAlgorithm::EdDsa => ed25519(public_key).map(|_| ())?,
                }
                let id = bytes(credential, "the credential's id")?;
                if !(1..=LONGEST_CREDENTIAL).contains(&id.len()) {
                    return Err(ApprovalError::Malformed("the credential's id"));
                }
                if !is_host_of(relying_party, origin) {
                    return Err(ApprovalError::Malformed("the passkey's origin"));
                }
                Ok(())
            }
        }
    }
}

/// Whether `origin` is an origin of exactly the host `relying_party`. A browser has passkeys over TLS only, or on this machine.
fn is_host_of(relying_party: &str, origin: &str) -> bool {
    let (scheme, rest) = origin.split_once("://").unwrap_or_default();
    let host = rest.split_once(':').map_or(rest, |(host, _)| host);
    let port_is_number = rest.split_once(':').is_none_or(|(_, port)| port.parse::<u16>().is_ok());
    let is_safe = scheme == "https" || (scheme == "http" && host == "localhost");
    is_safe && port_is_number && !host.is_empty() && host == relying_party && !rest.contains(['/', '?', '#', '@'])
}

impl SignedApproval {
    /// Returns the statement when `key` signed it.
    ///
    /// # Errors
    /// [`ApprovalError`] when the signature does not hold, or the payload is another document.
    pub fn open<D: Document>(&self, key: &ApprovalKey) -> Result<D, ApprovalError> {
        let payload = &self.payload;
        match (key, &self.proof) {
            (ApprovalKey::Ed25519 { public_key: key }, ApprovalProof::Ed25519 { signature }) => {
                let signed = Signed { payload: payload.clone(), signature: signature.clone() };
                return signed.open(&ed25519(key)?).map_err(|error| match error {
                    crate::signed::SignedError::Malformed => ApprovalError::Malformed("the signature"),
                    crate::signed::SignedError::Forged => ApprovalError::Forged,
                    crate::signed::SignedError::Payload(what) => ApprovalError::Payload(what),
                });
            }
            (
                ApprovalKey::Passkey { algorithm, public_key, credential, relying_party, origin },
                ApprovalProof::Passkey { credential: used, client_data, authenticator_data, signature },
            ) if used.eq_ignore_ascii_case(credential) => {
                let authenticator_data = bytes(authenticator_data, "the authenticator's data")?;
                let signed = [&authenticator_data[..], &Sha256::digest(client_data.as_bytes())].concat();
                let signature = bytes(signature, "the signature")?;
                let holds = match algorithm {
                    PasskeyAlgorithm::Es256 => {
                        let signature = p256::ecdsa::Signature::from_der(&signature)
                            .map_err(|_| ApprovalError::Malformed("the signature"))?;
                        es256(public_key)?.verify(&signed, &signature).is_ok()
                    }
                    PasskeyAlgorithm::EdDsa => {
                        let signature = ed25519_dalek::Signature::from_slice(&signature)
                            .map_err(|_| ApprovalError::Malformed("the signature"))?;
                        ed25519(public_key)?.verify_strict(&signed, &signature).is_ok()
                    }
                };
                if !holds {
                    return Err(ApprovalError::Forged);
                }
                check_client_data(client_data, &passkey_challenge::<D>(payload), origin)?;
                check_authenticator_data(&authenticator_data, relying_party)?;
            }
            _ => return Err(ApprovalError::UnknownKey),
        }
        serde_json::from_str(payload).map_err(|error| ApprovalError::Payload(error.to_string()))
    }

    /// Checks that one of `keys` signed this document; returns it with the key's fingerprint.
    ///
    /// # Errors
    /// [`ApprovalError`]: what is wrong with it under the key that it names, [`ApprovalError::UnknownKey`] where none fits.
    pub fn open_by_any<D: Document>(&self, keys: &[ApprovalKey]) -> Result<(D, KeyFingerprint), ApprovalError> {
        if self.payload.len() > MOST_APPROVAL_BYTES {
            return Err(ApprovalError::Malformed("the statement"));
        }
        let mut problem = ApprovalError::UnknownKey;
        for key in keys {
            match self.open(key) {
                Ok(document) => return Ok((document, key.fingerprint())),
                // An Ed25519 signature does not name its key: one that does not hold is a signature by another key.
                Err(ApprovalError::Forged) if matches!(key, ApprovalKey::Ed25519 { .. }) => {}
                Err(ApprovalError::UnknownKey) => {}
                Err(other) => problem = other,
            }
        }
        Err(problem)
    }

    /// Checks that one of `keys` approved exactly this manifest for this dataset; returns the key's fingerprint.
    ///
    /// # Errors
    /// [`ApprovalError`]: the first thing that is wrong.
    pub fn approves(
        &self,
        manifest: &str,
        job: JobId,
        dataset: DatasetId,
        keys: &[ApprovalKey],
    ) -> Result<KeyFingerprint, ApprovalError> {
        let (statement, key) = self.open_by_any::<ApprovalStatement>(keys)?;
        if statement.manifest != manifest {
            return Err(ApprovalError::OtherManifest);
        }
        if statement.job != job || statement.dataset != dataset {
            return Err(ApprovalError::OtherDataset);
        }
        match statement.decision {
            StewardDecision::Approve => Ok(key),
            StewardDecision::Refuse => Err(ApprovalError::Refusal),
        }
    }
}

fn check_client_data(text: &str, challenge: &[u8; 32], origin: &str) -> Result<(), ApprovalError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ClientData {
        #[serde(rename = "type")]
        ceremony: String,
        challenge: String,
        origin: String,
        #[serde(default)]
        cross_origin: bool,
    }
    let read: ClientData =
        serde_json::from_str(text).map_err(|_| ApprovalError::Assertion("its client data cannot be read"))?;
    if read.ceremony != "webauthn.get" {
        return Err(ApprovalError::Assertion("it is not from signing"));
    }
    if read.challenge != URL_SAFE_NO_PAD.encode(challenge) {
        return Err(ApprovalError::Assertion("it is for another statement"));
    }
    if read.origin != origin || read.cross_origin {
        return Err(ApprovalError::Assertion("it was made at another origin"));
    }
    Ok(())
}

pub(super) fn check_authenticator_data(data: &[u8], relying_party: &str) -> Result<(), ApprovalError> {
    let Some((head, flags)) = data.split_at_checked(32).and_then(|(head, rest)| Some((head, *rest.first()?))) else {
        return Err(ApprovalError::Assertion("its authenticator data is too short"));
    };
    let length_fits = data.len() == AUTHENTICATOR_DATA || (data.len() > AUTHENTICATOR_DATA && flags & EXTENSIONS != 0);
    if !length_fits {
        return Err(ApprovalError::Assertion("its authenticator data has another length"));
    }
    if head != &Sha256::digest(relying_party.as_bytes())[..] {
        return Err(ApprovalError::Assertion("it was made for another relying party"));
    }
    if flags & USER_PRESENT == 0 || flags & USER_VERIFIED == 0 {
        return Err(ApprovalError::Assertion("the authenticator did not recognize its user"));
    }
    Ok(())
}

fn bytes(text: &str, what: &'static str) -> Result<Vec<u8>, ApprovalError> {
    hex::decode(text).map_err(|_| ApprovalError::Malformed(what))
}

fn ed25519(key: &str) -> Result<ed25519_dalek::VerifyingKey, ApprovalError> {
    let key = public_key(key).map_err(|_| ApprovalError::Malformed("the public key"))?;
    // A key of small order verifies signatures that nobody made.
    if key.is_weak() { Err(ApprovalError::Malformed("the public key")) } else { Ok(key) }
}

fn es256(key: &str) -> Result<p256::ecdsa::VerifyingKey, ApprovalError> {
    let key = bytes(key, "the public key")?;
    if key.len() != 65 {
        return Err(ApprovalError::Malformed("the public key"));
    }
    p256::ecdsa::VerifyingKey::from_sec1_bytes(&key).map_err(|_| ApprovalError::Malformed("the public key"))
}
