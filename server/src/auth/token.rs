//! Access tokens: short JWTs (HS256) that name a member and a session. What the member may do is not in them; it is read
//! anew for each request, so a role or a session that was taken away is gone at once.

use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use undertone_api::id::{MemberId, SessionId};

use crate::error::Error;
use crate::keys::TokenKey;

const ISSUER: &str = "undertone";

/// What an access token says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// Who.
    pub member: MemberId,
    /// In which session.
    pub session: SessionId,
    /// Until when.
    pub expires_at: OffsetDateTime,
}

/// The token does not hold: not ours, changed, or over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the access token does not hold: sign in, or use the refresh token")]
pub struct AccessError;

#[derive(Serialize, Deserialize)]
struct Claims {
    iss: String,
    sub: MemberId,
    sid: SessionId,
    iat: i64,
    exp: i64,
}

impl Access {
    /// The token.
    ///
    /// # Errors
    /// [`Error::Internal`] when it cannot be signed.
    pub fn sign(&self, key: &TokenKey, now: OffsetDateTime) -> Result<String, Error> {
        let claims = Claims {
            iss: ISSUER.to_owned(),
            sub: self.member,
            sid: self.session,
            iat: now.unix_timestamp(),
            exp: self.expires_at.unix_timestamp(),
        };
        jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &EncodingKey::from_secret(&key.0))
            .map_err(|error| Error::internal("signing an access token", error))
    }

    /// Reads a token that `key` signed and that is not over at `now`.
    ///
    /// # Errors
    /// [`AccessError`].
    pub fn open(token: &str, key: &TokenKey, now: OffsetDateTime) -> Result<Self, AccessError> {
        let mut validation = Validation::new(Algorithm::HS256);
        validation.set_issuer(&[ISSUER]);
        validation.set_required_spec_claims(&["exp", "iss"]);
        // The end is compared below, with the server's clock.
        validation.validate_exp = false;
        let claims = jsonwebtoken::decode::<Claims>(token, &DecodingKey::from_secret(&key.0), &validation)
            .map_err(|_| AccessError)?
            .claims;
        let expires_at = OffsetDateTime::from_unix_timestamp(claims.exp).map_err(|_| AccessError)?;
        if expires_at <= now {
            return Err(AccessError);
        }
        Ok(Self { member: claims.sub, session: claims.sid, expires_at })
    }
}

#[cfg(test)]
mod tests {
    use time::{Duration, OffsetDateTime};
    use undertone_api::id::{MemberId, SessionId};
    use uuid::Uuid;

    use super::{Access, AccessError};
    use crate::keys::TokenKey;

    const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

    fn access() -> Access {
        Access {
            member: MemberId(Uuid::from_u128(1)),
            session: SessionId(Uuid::from_u128(2)),
            expires_at: NOW + Duration::minutes(15),
        }
    }

    #[test]
    fn a_token_holds_until_its_end_and_no_longer() {
        let key = TokenKey([1; 32]);
        let token = access().sign(&key, NOW).expect("signed");
        assert_eq!(Access::open(&token, &key, NOW + Duration::seconds(899)), Ok(access()));
        assert_eq!(Access::open(&token, &key, NOW + Duration::seconds(900)), Err(AccessError));
    }

    #[test]
    fn a_token_of_another_key_or_of_none_does_not_hold() {
        let token = access().sign(&TokenKey([2; 32]), NOW).expect("signed");
        assert_eq!(Access::open(&token, &TokenKey([1; 32]), NOW), Err(AccessError));
        let body = token.split('.').nth(1).expect("three parts");
        // {"alg":"none"}
        let unsigned = format!("eyJhbGciOiJub25lIn0.{body}.");
        assert_eq!(Access::open(&unsigned, &TokenKey([1; 32]), NOW), Err(AccessError));
    }
}
