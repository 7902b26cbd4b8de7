//! Reads registrations (WebAuthn Level 2, section 7.1): the client data and the authenticator data of a new passkey.
//!
//! The credential's public key is a COSE key in the canonical CBOR of CTAP2, so each algorithm has one encoding up to
//! the coordinates, and a CBOR parser is not needed.

use super::verify::{
    AUTHENTICATOR_DATA, EXTENSIONS, LONGEST_CREDENTIAL, PasskeyPublicKey, bytes, check_client_data, check_head, counter,
};
use super::{PasskeyAlgorithm, WebauthnError};

/// The flag that a credential's data follow.
const ATTESTED: u8 = 0x40;
/// Bytes of the id of the authenticator's model.
const MODEL: usize = 16;
/// A COSE key of ES256 up to the first coordinate (RFC 9053): map of 5, kty EC2, alg −7, crv P-256, x of 32 bytes.
const ES256_HEAD: [u8; 10] = [0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 0x20];
/// The bytes between the coordinates: y of 32 bytes.
const ES256_MIDDLE: [u8; 3] = [0x22, 0x58, 0x20];
/// A COSE key of EdDSA up to its 32 bytes: map of 4, kty OKP, alg −8, crv Ed25519, x of 32 bytes.
const EDDSA_HEAD: [u8; 10] = [0xa4, 0x01, 0x01, 0x03, 0x27, 0x20, 0x06, 0x21, 0x58, 0x20];

/// A new passkey from a browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisteredPasskey {
    /// Its algorithm.
    pub algorithm: PasskeyAlgorithm,
    /// The public key, hex.
    pub public_key: String,
    /// The credential's id, hex.
    pub credential: String,
    /// The signature counter.
    pub counter: u32,
}

/// Reads the registration of a passkey that was made for `challenge` at `origin`. `authenticator_data` is hex.
///
/// # Errors
/// [`WebauthnError`]: the first defect.
pub fn read_registration(
    client_data: &str,
    authenticator_data: &str,
    challenge: &[u8; 32],
    (relying_party, origin): (&str, &str),
) -> Result<RegisteredPasskey, WebauthnError> {
    check_client_data(client_data, "webauthn.create", challenge, origin)?;
    let data = bytes(authenticator_data, "the authenticator's data")?;
    check_head(&data, relying_party)?;
    let flags = data.get(32).copied().unwrap_or_default();
    if flags & ATTESTED == 0 {
        return Err(WebauthnError::Refused("it has no credential"));
    }
    let too_short = WebauthnError::Refused("its authenticator data is too short");
    let (_, rest) = data.split_at_checked(AUTHENTICATOR_DATA + MODEL).ok_or(too_short)?;
    let (length, rest) = rest.split_first_chunk::<2>().ok_or(too_short)?;
    let length = usize::from(u16::from_be_bytes(*length));
    if !(1..=LONGEST_CREDENTIAL).contains(&length) {
        return Err(WebauthnError::Malformed("the credential's id"));
    }
    let (credential, rest) = rest.split_at_checked(length).ok_or(too_short)?;
    let (algorithm, public_key, rest) = read_key(rest)?;
    if !rest.is_empty() && flags & EXTENSIONS == 0 {
        return Err(WebauthnError::Refused("its authenticator data has another length"));
    }
    let passkey = RegisteredPasskey {
        algorithm,
        public_key: hex::encode(public_key),
        credential: hex::encode(credential),
        counter: counter(&data),
    };
    let key = PasskeyPublicKey { algorithm, public_key: &passkey.public_key, relying_party, origin };
    key.check(&passkey.credential)?;
    Ok(passkey)
}

/// Reads a COSE key; returns its algorithm, the key, and the remaining bytes.
fn read_key(data: &[u8]) -> Result<(PasskeyAlgorithm, Vec<u8>, &[u8]), WebauthnError> {
    let unknown = WebauthnError::Malformed("the passkey's algorithm");
    if let Some(rest) = data.strip_prefix(&EDDSA_HEAD) {
        let (x, rest) = rest.split_first_chunk::<32>().ok_or(unknown)?;
        return Ok((PasskeyAlgorithm::EdDsa, x.to_vec(), rest));
    }
    let rest = data.strip_prefix(&ES256_HEAD).ok_or(unknown)?;
    let (x, rest) = rest.split_first_chunk::<32>().ok_or(unknown)?;
    let rest = rest.strip_prefix(&ES256_MIDDLE).ok_or(unknown)?;
    let (y, rest) = rest.split_first_chunk::<32>().ok_or(unknown)?;
    Ok((PasskeyAlgorithm::Es256, [&[4][..], x, y].concat(), rest))
}
