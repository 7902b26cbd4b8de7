//! Sessions: a short access token and a rotating refresh token.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::id::IdentityId;
use crate::member::Member;

/// The credentials of a member.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SignIn {
    /// E-mail.
    pub email: String,
    /// Password.
    pub password: String,
}

impl std::fmt::Debug for SignIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SignIn").finish_non_exhaustive()
    }
}

/// A pair of tokens. A refresh token works once, and again while its answer counts as lost. Using an older one ends the
/// whole session.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Tokens))]
pub struct TokenPair {
    /// JWT for the `Authorization: Bearer` header.
    pub access_token: String,
    /// When the access token expires.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub access_expires_at: OffsetDateTime,
    /// The token for the next pair.
    pub refresh_token: String,
}

impl std::fmt::Debug for TokenPair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokens").field("access_expires_at", &self.access_expires_at).finish_non_exhaustive()
    }
}

/// A refresh token, to be exchanged for the next pair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Refresh))]
pub struct RefreshRequest {
    /// The refresh token.
    pub refresh_token: String,
}

/// A member's identity at a sign-in provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LinkedIdentity {
    /// Id.
    pub id: IdentityId,
    /// The provider.
    pub issuer: String,
    /// When it was linked to the member.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub linked_at: OffsetDateTime,
}

/// The response to a sign-in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Session {
    /// The member.
    pub member: Member,
    /// The tokens.
    #[serde(flatten)]
    pub tokens: TokenPair,
}
