//! Verifies assertions (WebAuthn Level 2, section 7.2).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use p256::ecdsa::signature::Verifier as _;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::{PasskeyAlgorithm, WebauthnError};
use crate::signed::public_key;

/// Bytes of `authenticatorData` without extensions: hash of the relying party, flags, counter.
pub(super) const AUTHENTICATOR_DATA: usize = 37;
/// The flag of the user's presence.
const USER_PRESENT: u8 = 0x01;
/// The flag of user verification: by PIN, fingerprint or face recognition.
const USER_VERIFIED: u8 = 0x04;
/// The flag that extensions follow.
pub(super) const EXTENSIONS: u8 = 0x80;
/// The longest id of a credential, bytes (WebAuthn, section 4).
pub(super) const LONGEST_CREDENTIAL: usize = 1023;

/// The public half of a passkey, with the origin of its use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PasskeyPublicKey<'a> {
    /// Its algorithm.
    pub algorithm: PasskeyAlgorithm,
    /// The public key, hex: the uncompressed point (65 bytes) of ES256, the 32 bytes of EdDSA.
    pub public_key: &'a str,
    /// The WebAuthn relying party: a host.
    pub relying_party: &'a str,
    /// The origin.
    pub origin: &'a str,
}

/// The parts of an assertion, as the browser returns them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AssertionParts<'a> {
    /// `clientDataJSON`, as text.
    pub client_data: &'a str,
    /// `authenticatorData`, hex.
    pub authenticator_data: &'a str,
    /// The signature, hex: DER of ES256, the 64 bytes of EdDSA.
    pub signature: &'a str,
}

impl PasskeyPublicKey<'_> {
    /// Checks that every part of the key, and its credential's id, is well formed.
    ///
    /// # Errors
    /// [`WebauthnError::Malformed`] names the part.
    pub fn check(&self, credential: &str) -> Result<(), WebauthnError> {
        match self.algorithm {
            PasskeyAlgorithm::Es256 => es256(self.public_key).map(|_| ())?,
            PasskeyAlgorithm::EdDsa => ed25519(self.public_key).map(|_| ())?,
        }
        let id = bytes(credential, "the credential's id")?;
        if !(1..=LONGEST_CREDENTIAL).contains(&id.len()) {
            return Err(WebauthnError::Malformed("the credential's id"));
        }
        if !is_host_of(self.relying_party, self.origin) {
            return Err(WebauthnError::Malformed("the passkey's origin"));
        }
        Ok(())
    }
}

/// Verifies an assertion over `challenge`; returns the authenticator's signature counter.
///
/// # Errors
/// [`WebauthnError`]: the first defect.
pub fn verify_assertion(
    key: &PasskeyPublicKey<'_>,
    challenge: &[u8; 32],
    parts: AssertionParts<'_>,
) -> Result<u32, WebauthnError> {
    let authenticator_data = bytes(parts.authenticator_data, "the authenticator's data")?;
    let signed = [&authenticator_data[..], &Sha256::digest(parts.client_data.as_bytes())].concat();
    let signature = bytes(parts.signature, "the signature")?;
    let holds = match key.algorithm {
        PasskeyAlgorithm::Es256 => {
            let signature =
                p256::ecdsa::Signature::from_der(&signature).map_err(|_| WebauthnError::Malformed("the signature"))?;
            es256(key.public_key)?.verify(&signed, &signature).is_ok()
        }
        PasskeyAlgorithm::EdDsa => {
            let signature = ed25519_dalek::Signature::from_slice(&signature)
                .map_err(|_| WebauthnError::Malformed("the signature"))?;
            ed25519(key.public_key)?.verify_strict(&signed, &signature).is_ok()
        }
    };
    if !holds {
        return Err(WebauthnError::Forged);
    }
    check_client_data(parts.client_data, "webauthn.get", challenge, key.origin)?;
    check_authenticator_data(&authenticator_data, key.relying_party)?;
    Ok(counter(&authenticator_data))
}

/// Returns whether `origin` is an origin of exactly the host `relying_party`. Browsers allow passkeys over TLS only, or
/// on localhost.
fn is_host_of(relying_party: &str, origin: &str) -> bool {
    let (scheme, rest) = origin.split_once("://").unwrap_or_default();
    let host = rest.split_once(':').map_or(rest, |(host, _)| host);
    let port_is_number = rest.split_once(':').is_none_or(|(_, port)| port.parse::<u16>().is_ok());
    let is_safe = scheme == "https" || (scheme == "http" && host == "localhost");
    is_safe && port_is_number && !host.is_empty() && host == relying_party && !rest.contains(['/', '?', '#', '@'])
}

pub(super) fn check_client_data(
    text: &str,
    ceremony: &str,
    challenge: &[u8; 32],
    origin: &str,
) -> Result<(), WebauthnError> {
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
        serde_json::from_str(text).map_err(|_| WebauthnError::Refused("its client data cannot be read"))?;
    if read.ceremony != ceremony {
        return Err(WebauthnError::Refused("it is not from signing"));
    }
    if read.challenge != URL_SAFE_NO_PAD.encode(challenge) {
        return Err(WebauthnError::Refused("it is for another statement"));
    }
    if read.origin != origin || read.cross_origin {
        return Err(WebauthnError::Refused("it was made at another origin"));
    }
    Ok(())
}

pub(in crate::signed) fn check_authenticator_data(data: &[u8], relying_party: &str) -> Result<(), WebauthnError> {
    let flags = data.get(32).copied().unwrap_or_default();
    if data.len() > AUTHENTICATOR_DATA && flags & EXTENSIONS == 0 {
        return Err(WebauthnError::Refused("its authenticator data has another length"));
    }
    check_head(data, relying_party)
}

/// Checks the common parts of an assertion and a registration: length, relying party, presence and user verification.
pub(super) fn check_head(data: &[u8], relying_party: &str) -> Result<(), WebauthnError> {
    let Some((head, flags)) = data.split_at_checked(32).and_then(|(head, rest)| Some((head, *rest.first()?))) else {
        return Err(WebauthnError::Refused("its authenticator data is too short"));
    };
    if data.len() < AUTHENTICATOR_DATA {
        return Err(WebauthnError::Refused("its authenticator data has another length"));
    }
    if head != &Sha256::digest(relying_party.as_bytes())[..] {
        return Err(WebauthnError::Refused("it was made for another relying party"));
    }
    if flags & USER_PRESENT == 0 || flags & USER_VERIFIED == 0 {
        return Err(WebauthnError::Refused("the authenticator did not recognize its user"));
    }
    Ok(())
}

/// Returns the signature counter of authenticator data.
pub(super) fn counter(data: &[u8]) -> u32 {
    let bytes = data.get(33..AUTHENTICATOR_DATA).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
    bytes.map_or(0, u32::from_be_bytes)
}

pub(super) fn bytes(text: &str, part: &'static str) -> Result<Vec<u8>, WebauthnError> {
    hex::decode(text).map_err(|_| WebauthnError::Malformed(part))
}

pub(in crate::signed) fn ed25519(key: &str) -> Result<ed25519_dalek::VerifyingKey, WebauthnError> {
    let key = public_key(key).map_err(|_| WebauthnError::Malformed("the public key"))?;
    // A key of small order verifies signatures without a private key.
    if key.is_weak() { Err(WebauthnError::Malformed("the public key")) } else { Ok(key) }
}

fn es256(key: &str) -> Result<p256::ecdsa::VerifyingKey, WebauthnError> {
    let key = bytes(key, "the public key")?;
    if key.len() != 65 {
        return Err(WebauthnError::Malformed("the public key"));
    }
    p256::ecdsa::VerifyingKey::from_sec1_bytes(&key).map_err(|_| WebauthnError::Malformed("the public key"))
}
