//! Encrypts the text that a form passes to the next page: API keys, recovery codes, enrolment tokens and links.
//!
//! The browser stores the text and can neither read nor forge it, so a page shows only text that this server wrote at
//! most [`LIFETIME`] ago. A secret belongs to the session in which it was written; another session cannot decrypt it.

use chacha20poly1305::aead::{Aead as _, KeyInit as _, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use time::{Duration, OffsetDateTime};
use undertone_api::id::SessionId;

use crate::keys::TokenKeys;
use crate::keys::ring::RingKey;

/// The time for which an encrypted text can be opened; also the lifetime of its cookie.
pub const LIFETIME: Duration = Duration::minutes(1);
/// Bytes of the nonce.
pub(crate) const NONCE: usize = 24;
/// Bytes of the time of encryption, seconds since 1970, big endian.
const TIME: usize = 8;

/// Encrypts a text for one session, or for any browser (`None`).
pub fn seal_page_text(
    keys: &TokenKeys,
    session: Option<SessionId>,
    text: &str,
    now: OffsetDateTime,
    nonce: [u8; NONCE],
) -> Option<Vec<u8>> {
    let at = now.unix_timestamp().to_be_bytes();
    let payload = Payload { msg: text.as_bytes(), aad: &associated_data(at, session) };
    let sealed = cipher(keys.current(now))?.encrypt(&XNonce::from(nonce), payload).ok()?;
    Some([nonce.as_slice(), &at, &sealed].concat())
}

/// Decrypts a text; `None` if it is too old, was modified, or belongs to another key or session.
pub fn open_page_text(
    keys: &TokenKeys,
    session: Option<SessionId>,
    sealed: &[u8],
    now: OffsetDateTime,
) -> Option<String> {
    let (nonce, rest) = sealed.split_first_chunk::<NONCE>()?;
    let (at, sealed) = rest.split_first_chunk::<TIME>()?;
    let aad = associated_data(*at, session);
    let open = |key| cipher(key)?.decrypt(&XNonce::from(*nonce), Payload { msg: sealed, aad: &aad }).ok();
    let text = keys.usable(now, LIFETIME).find_map(open)?;
    let age = now.unix_timestamp().checked_sub(i64::from_be_bytes(*at))?;
    let is_young = (0..=LIFETIME.whole_seconds()).contains(&age);
    is_young.then(|| String::from_utf8(text).ok()).flatten()
}

fn associated_data(at: [u8; TIME], session: Option<SessionId>) -> Vec<u8> {
    let session = session.map_or([0; 16], |session| *session.0.as_bytes());
    [at.as_slice(), &session].concat()
}

/// Returns the cipher with a key for this purpose alone, derived from the key of the access tokens.
fn cipher(key: &RingKey) -> Option<XChaCha20Poly1305> {
    let mut derived = <Hmac<Sha256> as hmac::KeyInit>::new_from_slice(key.secret()).ok()?;
    derived.update(b"undertone/page-text/1");
    Some(XChaCha20Poly1305::new(&Key::from(<[u8; 32]>::from(derived.finalize().into_bytes()))))
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;
    use time::{Duration, OffsetDateTime};
    use undertone_api::id::SessionId;
    use uuid::Uuid;

    use super::{LIFETIME, open_page_text, seal_page_text};
    use crate::keys::TokenKeys;
    use crate::keys::ring::KeyRing;

    const NOW: OffsetDateTime = datetime!(2026-11-23 12:00 UTC);
    const OWN: Option<SessionId> = Some(SessionId(Uuid::from_u128(1)));

    fn keys(seed: u8) -> TokenKeys {
        TokenKeys(KeyRing::from_secret([seed; 32]).into())
    }

    fn sealed() -> Vec<u8> {
        seal_page_text(&keys(1), OWN, "udk_secret", NOW, [7; 24]).expect("sealed")
    }

    #[test]
    fn page_text_opens_for_its_session_and_key_only() {
        assert_eq!(open_page_text(&keys(1), OWN, &sealed(), NOW).as_deref(), Some("udk_secret"));
        assert_eq!(open_page_text(&keys(2), OWN, &sealed(), NOW), None);
        assert_eq!(open_page_text(&keys(1), None, &sealed(), NOW), None);
        assert_eq!(open_page_text(&keys(1), Some(SessionId(Uuid::from_u128(2))), &sealed(), NOW), None);
    }

    #[test]
    fn changed_page_text_is_refused_and_none_is_readable() {
        assert!(!sealed().windows(6).any(|part| part == b"secret"));
        for at in 0..sealed().len() {
            let mut changed = sealed();
            changed[at] ^= 1;
            assert_eq!(open_page_text(&keys(1), OWN, &changed, NOW), None, "byte {at}");
        }
        assert_eq!(open_page_text(&keys(1), OWN, &sealed()[..20], NOW), None);
    }

    #[test]
    fn page_text_is_opened_for_a_minute() {
        assert!(open_page_text(&keys(1), OWN, &sealed(), NOW + LIFETIME).is_some());
        assert_eq!(open_page_text(&keys(1), OWN, &sealed(), NOW + LIFETIME + Duration::SECOND), None);
        assert_eq!(open_page_text(&keys(1), OWN, &sealed(), NOW - Duration::SECOND), None);
    }
}
