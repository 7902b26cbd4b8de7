//! The cryptography of a second factor: time-based one-time codes (RFC 6238 with SHA-1, 6 digits and 30 seconds, which
//! every authenticator supports), and the encryption of the stored secret. The service layer knows the owner of each
//! secret and the used codes.

use chacha20poly1305::aead::{Aead as _, KeyInit as _, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use totp_rs::{Builder, Secret, Totp};
use undertone_api::id::MemberId;

use crate::error::Error;
use crate::keys::FactorKeys;
use crate::keys::ring::RingKey;

/// Bytes of a secret: the length that RFC 4226 recommends.
pub const SECRET: usize = 20;
/// Bytes of the seal's nonce: long enough to be drawn at random.
pub const NONCE: usize = 24;
/// Separates the key's id from the ciphertext.
pub const MARK: char = '.';

/// Encrypts a secret under the current key, so that only this server can read it, and only for this member. The result
/// begins with the key's id.
///
/// # Errors
/// [`Error::Internal`] if encryption fails.
pub fn seal(key: &RingKey, member: MemberId, secret: &[u8; SECRET], nonce: [u8; NONCE]) -> Result<String, Error> {
    let payload = Payload { msg: secret, aad: member.0.as_bytes() };
    let sealed = cipher(key)
        .encrypt(&XNonce::from(nonce), payload)
        .map_err(|_| Error::internal("sealing a second factor", "the cipher refused"))?;
    Ok(format!("{}{MARK}{}", key.id(), hex::encode([nonce.as_slice(), &sealed].concat())))
}

/// Decrypts a secret with the key of the ring that encrypted it. A secret without a key id predates key ids; each key
/// is tried.
///
/// # Errors
/// [`Error::Internal`] if another key encrypted it, if it belongs to another member, or if it was modified.
pub fn unseal(keys: &FactorKeys, member: MemberId, sealed: &str) -> Result<[u8; SECRET], Error> {
    let broken = || Error::internal("opening a second factor", "it was sealed by another `factor.key`, or changed");
    let (id, text) = sealed.split_once(MARK).map_or((None, sealed), |(id, text)| (Some(id), text));
    let bytes = hex::decode(text).map_err(|_| broken())?;
    let mut candidates = keys.keys().iter().filter(|key| id.is_none_or(|id| id == key.id()));
    candidates.find_map(|key| open(key, member, &bytes)).ok_or_else(broken)
}

fn open(key: &RingKey, member: MemberId, sealed: &[u8]) -> Option<[u8; SECRET]> {
    let (nonce, text) = sealed.split_first_chunk::<NONCE>()?;
    let payload = Payload { msg: text, aad: member.0.as_bytes() };
    cipher(key).decrypt(&XNonce::from(*nonce), payload).ok()?.try_into().ok()
}

/// Returns the time step of `code`: the 30-second step of `now`, the one before or the one after.
///
/// # Errors
/// [`Error::Internal`] if the secret is invalid.
pub fn step_of(secret: &[u8; SECRET], code: &str, now: i64) -> Result<Option<i64>, Error> {
    Ok(totp(secret)?.check(code, now.max(0) as u64).map(|step| step as i64))
}

/// Encodes bytes as text that people can type: base 32 (RFC 4648) without padding.
pub fn base32(bytes: &[u8]) -> String {
    Secret::new(bytes.into()).to_base32()
}

/// Returns the URI that authenticators read from a QR code.
pub fn uri(secret: &[u8; SECRET], email: &str, host: &str) -> String {
    let (issuer, account) = (encoded(&format!("Undertone {host}")), encoded(email));
    format!("otpauth://totp/{issuer}:{account}?secret={}&issuer={issuer}", base32(secret))
}

fn totp(secret: &[u8; SECRET]) -> Result<Totp, Error> {
    Builder::new()
        .with_secret(Secret::new_stack(*secret))
        .build()
        .map_err(|error| Error::internal("reading a second factor", error.to_string()))
}

fn cipher(key: &RingKey) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(&Key::from(*key.secret()))
}

/// Percent-encodes all characters except those that RFC 3986 leaves unescaped.
fn encoded(text: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~@".contains(&byte);
    text.bytes().map(|byte| if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use undertone_api::id::MemberId;
    use uuid::Uuid;

    use super::{base32, seal, step_of, unseal, uri};
    use crate::keys::FactorKeys;
    use crate::keys::ring::KeyRing;

    const SECRET: &[u8; 20] = b"12345678901234567890";

    /// RFC 6238, appendix B, shortened to six digits.
    #[test]
    fn codes_are_those_of_the_standard() {
        for (at, code) in
            [(59, "287082"), (1_111_111_109, "081804"), (1_234_567_890, "005924"), (2_000_000_000, "279037")]
        {
            assert_eq!(step_of(SECRET, code, at).expect("a secret"), Some(at / 30));
        }
    }

    #[test]
    fn a_code_holds_one_step_early_or_late_and_no_further() {
        for (at, holds) in
            [(0, false), (30, true), (59, true), (60, true), (89, true), (90, true), (119, true), (120, false)]
        {
            // The code of step 2.
            let step = step_of(SECRET, "359152", at).expect("a secret");
            assert_eq!(step, holds.then_some(2), "at {at}");
        }
        for wrong in ["", "35915", "3591520", "abcdef", "３５９１５２"] {
            assert_eq!(step_of(SECRET, wrong, 60).expect("a secret"), None, "{wrong}");
        }
    }

    fn keys(seed: u8) -> FactorKeys {
        FactorKeys(KeyRing::from_secret([seed; 32]).into())
    }

    #[test]
    fn a_sealed_secret_opens_for_its_member_and_key_only() {
        let (keys_of_one, member) = (keys(1), MemberId(Uuid::from_u128(1)));
        let sealed = seal(&keys_of_one.keys()[0], member, SECRET, [7; 24]).expect("sealed");
        assert!(!sealed.contains(&hex::encode(SECRET)));
        assert_eq!(&unseal(&keys_of_one, member, &sealed).expect("opened"), SECRET);
        assert!(unseal(&keys(2), member, &sealed).is_err());
        assert!(unseal(&keys_of_one, MemberId(Uuid::from_u128(2)), &sealed).is_err());
        assert!(unseal(&keys_of_one, member, &sealed[2..]).is_err() && unseal(&keys_of_one, member, "").is_err());
    }

    #[test]
    fn rotated_ring_opens_old_and_unnamed_secrets() {
        let (old, member) = (keys(1), MemberId(Uuid::from_u128(1)));
        let from = time::OffsetDateTime::UNIX_EPOCH;
        let rotated = FactorKeys(old.with_next([2; 32], from).expect("it follows").into());
        let sealed = seal(&old.keys()[0], member, SECRET, [7; 24]).expect("sealed");
        let unnamed = sealed.split_once(super::MARK).expect("it has an id").1;
        for text in [sealed.as_str(), unnamed] {
            assert_eq!(&unseal(&rotated, member, text).expect("opened"), SECRET);
        }
        let named_wrongly = format!("{}{}{unnamed}", rotated.keys()[1].id(), super::MARK);
        assert!(unseal(&rotated, member, &named_wrongly).is_err());
    }

    #[test]
    fn an_authenticator_can_read_the_address() {
        let address = uri(SECRET, "a b@example.org", "undertone.example.org:8420");
        assert_eq!(
            address,
            "otpauth://totp/Undertone%20undertone.example.org%3A8420:a%20b@example.org\
             ?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=Undertone%20undertone.example.org%3A8420"
        );
        assert_eq!(base32(SECRET).len(), 32);
    }
}
