//! Access tokens: short JWTs (HS256) that name a member and a session. They contain no permissions. Permissions are
//! loaded for each request, so that a revoked role or session is effective at once.

use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};
use undertone_api::id::{MemberId, SessionId};

use crate::error::Error;
use crate::keys::TokenKeys;

const ISSUER: &str = "undertone";
/// The longest lifetime of an access token: the maximum of `access_minutes`.
pub(crate) const LONGEST: Duration = Duration::HOUR;

/// The content of an access token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// The member.
    pub member: MemberId,
    /// The session.
    pub session: SessionId,
    /// The time of expiry.
    pub expires_at: OffsetDateTime,
}

/// An invalid access token: foreign, modified, or expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the access token does not hold: sign in, or use the refresh token")]
pub struct AccessError;

#[derive(Clone, Serialize, Deserialize)]
struct Claims {
    iss: String,
    sub: MemberId,
    sid: SessionId,
    iat: i64,
    exp: i64,
}

impl Access {
    /// Signs the token with the current key, whose id (`kid`) is in the header.
    ///
    /// # Errors
    /// [`Error::Internal`] if it cannot be signed.
    pub fn sign(&self, keys: &TokenKeys, now: OffsetDateTime) -> Result<String, Error> {
        let claims = Claims {
            iss: ISSUER.to_owned(),
            sub: self.member,
            sid: self.session,
            iat: now.unix_timestamp(),
            exp: self.expires_at.unix_timestamp(),
        };
        encode(&claims, keys, now).map_err(|error| Error::internal("signing an access token", error))
    }

    /// Verifies a token that one of `keys` signed while it was current and that has not expired at `now`.
    ///
    /// # Errors
    /// [`AccessError`].
    pub fn open(token: &str, keys: &TokenKeys, now: OffsetDateTime) -> Result<Self, AccessError> {
        let claims: Claims = decode(token, ISSUER, keys, now, LONGEST).ok_or(AccessError)?;
        let expires_at = OffsetDateTime::from_unix_timestamp(claims.exp).map_err(|_| AccessError)?;
        if expires_at <= now {
            return Err(AccessError);
        }
        Ok(Self { member: claims.sub, session: claims.sid, expires_at })
    }
}

/// Signs claims with the current key (HMAC-SHA-256).
///
/// # Errors
/// If the claims have no JSON form.
pub(super) fn encode<C: Serialize>(
    claims: &C,
    keys: &TokenKeys,
    now: OffsetDateTime,
) -> Result<String, jsonwebtoken::errors::Error> {
    let key = keys.current(now);
    let header = Header { kid: Some(key.id().to_owned()), ..Header::new(Algorithm::HS256) };
    jsonwebtoken::encode(&header, claims, &EncodingKey::from_secret(key.secret()))
}

/// Returns the claims of a document of `issuer` with a lifetime of at most `longest`, if the key named in its header
/// signed it. The caller compares their expiry with the server's clock.
pub(super) fn decode<C: DeserializeOwned + Clone>(
    text: &str,
    issuer: &str,
    keys: &TokenKeys,
    now: OffsetDateTime,
    longest: Duration,
) -> Option<C> {
    let mut validation = Validation::new(Algorithm::HS256);
    validation.set_issuer(&[issuer]);
    validation.set_required_spec_claims(&["exp", "iss"]);
    validation.validate_exp = false;
    let header = jsonwebtoken::decode_header(text).ok()?;
    let key = keys.find(header.kid.as_deref(), now, longest)?;
    Some(jsonwebtoken::decode::<C>(text, &DecodingKey::from_secret(key.secret()), &validation).ok()?.claims)
}

#[cfg(test)]
mod tests {
    use time::{Duration, OffsetDateTime};
    use undertone_api::id::{MemberId, SessionId};
    use uuid::Uuid;

    use super::{Access, AccessError, LONGEST};
    use crate::keys::TokenKeys;
    use crate::keys::ring::KeyRing;

    const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

    fn keys(seed: u8) -> TokenKeys {
        TokenKeys(KeyRing::from_secret([seed; 32]).into())
    }

    fn access() -> Access {
        Access {
            member: MemberId(Uuid::from_u128(1)),
            session: SessionId(Uuid::from_u128(2)),
            expires_at: NOW + Duration::minutes(15),
        }
    }

    #[test]
    fn a_token_holds_until_its_end_and_no_longer() {
        let key = keys(1);
        let token = access().sign(&key, NOW).expect("signed");
        assert_eq!(Access::open(&token, &key, NOW + Duration::seconds(899)), Ok(access()));
        assert_eq!(Access::open(&token, &key, NOW + Duration::seconds(900)), Err(AccessError));
    }

    #[test]
    fn a_token_of_another_key_or_of_none_does_not_hold() {
        let token = access().sign(&keys(2), NOW).expect("signed");
        assert_eq!(Access::open(&token, &keys(1), NOW), Err(AccessError));
        let body = token.split('.').nth(1).expect("three parts");
        // {"alg":"none"}
        let unsigned = format!("eyJhbGciOiJub25lIn0.{body}.");
        assert_eq!(Access::open(&unsigned, &keys(1), NOW), Err(AccessError));
    }

    #[test]
    fn token_of_replaced_key_holds_for_the_longest_token() {
        let before = keys(1);
        let replaced = NOW + Duration::HOUR;
        let after = TokenKeys(before.with_next([2; 32], replaced).expect("it follows").into());
        let long = Access { expires_at: NOW + Duration::days(1), ..access() };
        let token = long.sign(&before, NOW).expect("signed");
        assert_eq!(Access::open(&token, &after, replaced + LONGEST - Duration::SECOND), Ok(long));
        assert_eq!(Access::open(&token, &after, replaced + LONGEST), Err(AccessError), "whatever end it names");
        let published = long.sign(&after, NOW).expect("signed");
        assert_eq!(published, token, "the new key is not in force yet");
        let next = long.sign(&after, replaced).expect("signed");
        assert_eq!(Access::open(&next, &before, replaced), Err(AccessError), "a server without the new key");
        assert_eq!(Access::open(&next, &after, NOW), Ok(long), "a server whose clock is behind");
    }

    #[test]
    fn token_without_key_id_is_of_the_first_key() {
        let old = jsonwebtoken::encode(
            &jsonwebtoken::Header::default(),
            &super::Claims {
                iss: super::ISSUER.to_owned(),
                sub: access().member,
                sid: access().session,
                iat: 0,
                exp: access().expires_at.unix_timestamp(),
            },
            &jsonwebtoken::EncodingKey::from_secret(&[1; 32]),
        )
        .expect("signed");
        assert_eq!(Access::open(&old, &keys(1), NOW), Ok(access()));
        assert_eq!(Access::open(&old, &keys(2), NOW), Err(AccessError));
    }
}
