//! Known devices: a browser in which a member signed in before holds a signed cookie. The cookie grants no access. It
//! gives the member a separate limit of password attempts, which other callers' attempts on the same e-mail address do
//! not use up.

use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};
use undertone_api::id::MemberId;

use super::token::{decode, encode};
use crate::error::Error;
use crate::keys::TokenKeys;

/// The time for which a device stays known after the last sign-in.
pub const KNOWN: Duration = Duration::days(365);
/// Distinguishes the document from access tokens, which the same key signs.
const ISSUER: &str = "undertone-device";

#[derive(Clone, Serialize, Deserialize)]
struct DeviceClaims {
    iss: String,
    sub: MemberId,
    exp: i64,
}

/// Signs that a member is known to use a browser (HMAC-SHA-256).
///
/// # Errors
/// [`Error::Internal`] if it cannot be signed.
pub(crate) fn sign_device(member: MemberId, keys: &TokenKeys, now: OffsetDateTime) -> Result<String, Error> {
    let claims = DeviceClaims { iss: ISSUER.to_owned(), sub: member, exp: (now + KNOWN).unix_timestamp() };
    encode(&claims, keys, now).map_err(|error| Error::internal("signing a device's cookie", error))
}

/// Returns the member of a known device from its cookie; `None` if the cookie is invalid or expired.
pub(crate) fn open_device(text: &str, keys: &TokenKeys, now: OffsetDateTime) -> Option<MemberId> {
    let claims: DeviceClaims = decode(text, ISSUER, keys, now, KNOWN)?;
    (claims.exp > now.unix_timestamp()).then_some(claims.sub)
}

#[cfg(test)]
mod tests {
    use time::{Duration, OffsetDateTime};
    use undertone_api::id::{MemberId, SessionId};
    use uuid::Uuid;

    use super::{KNOWN, open_device, sign_device};
    use crate::auth::Access;
    use crate::keys::TokenKeys;
    use crate::keys::ring::KeyRing;

    const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;
    const MEMBER: MemberId = MemberId(Uuid::from_u128(7));

    fn keys(seed: u8) -> TokenKeys {
        TokenKeys(KeyRing::from_secret([seed; 32]).into())
    }

    #[test]
    fn device_cookie_holds_for_its_member_and_year() {
        let key = keys(1);
        let text = sign_device(MEMBER, &key, NOW).expect("signed");
        assert_eq!(open_device(&text, &key, NOW + KNOWN - Duration::SECOND), Some(MEMBER));
        assert_eq!(open_device(&text, &key, NOW + KNOWN), None);
        assert_eq!(open_device(&text, &keys(2), NOW), None);
    }

    #[test]
    fn device_cookie_and_access_token_are_not_exchangeable() {
        let key = keys(1);
        let device = sign_device(MEMBER, &key, NOW).expect("signed");
        assert!(Access::open(&device, &key, NOW).is_err());
        let access = Access { member: MEMBER, session: SessionId(Uuid::nil()), expires_at: NOW + Duration::minutes(5) };
        assert_eq!(open_device(&access.sign(&key, NOW).expect("signed"), &key, NOW), None);
    }
}
