//! A member's own account: second factor, sessions, password, and the reset link that an operator issues. A secret
//! occurs only in the response that creates it, and has no `Debug` form.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::id::SessionId;

/// The number of recovery codes in a set.
pub const RECOVERY_CODES: usize = 10;

macro_rules! silent {
    ($($name:ident),+) => {$(
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    )+};
}

silent!(
    SecondStep,
    FactorOffer,
    FactorCode,
    RecoveryCodes,
    FactorProof,
    IdentityProof,
    NewPassword,
    ChangePassword,
    PasswordReset
);

/// The answer to a correct password when a second step is required. Only `POST /session/second-factor` accepts its
/// token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HalfSession {
    /// The token of this sign-in. It is valid for five minutes and for one sign-in.
    pub half_token: String,
    /// The accepted second steps.
    pub factors: SecondFactors,
    /// When the token expires.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub expires_at: OffsetDateTime,
}

/// The second step of a sign-in.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SecondStep {
    /// The token from the first step.
    pub half_token: String,
    /// Six digits of the authenticator, or a recovery code.
    pub code: String,
}

/// The state of a member's second factor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Factor))]
pub struct FactorStatus {
    /// When the second factor was switched on; absent while it is off.
    #[serde(with = "time::serde::rfc3339::option")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub since: Option<OffsetDateTime>,
    /// Whether a secret was offered and its first code is still missing.
    pub offered: bool,
    /// Unused recovery codes.
    pub recovery_codes_left: u32,
    /// Registered passkeys. Each is a second factor.
    #[serde(default)]
    pub passkeys: u32,
    /// Whether this server requires a second factor of every member.
    pub required: bool,
    /// Whether switching the second factor off also requires the password. A member who signs in only through a
    /// provider has no password and gives a code alone.
    pub password: bool,
}

/// A secret for an authenticator. It is shown once and takes effect with its first code.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FactorOffer {
    /// The secret to type in: 160 bits in base 32.
    pub secret: String,
    /// The secret as an address for a QR code: RFC 6238, SHA-1, 6 digits, 30 seconds.
    pub uri: String,
    /// The last moment at which the first code is accepted.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub expires_at: OffsetDateTime,
}

/// A code of the authenticator.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FactorCode {
    /// Six digits.
    pub code: String,
}

/// Recovery codes. Each replaces the authenticator once. They are shown once; the server stores hashes.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RecoveryCodes {
    /// The codes.
    pub codes: Vec<String>,
}

/// The proof that a weaker account setting requires: the password, if the member has one, and a code.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FactorProof {
    /// The member's password; empty for a member who signs in only through a provider.
    #[serde(default)]
    pub password: String,
    /// Six digits of the authenticator, or a recovery code.
    pub code: String,
}

/// The second steps that complete a sign-in after the password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SecondFactors {
    /// A code of an authenticator, or a recovery code.
    pub code: bool,
    /// A passkey.
    pub passkey: bool,
}

/// A proof of identity by a signed-in member: exactly one of the three fields.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct IdentityProof {
    /// The member's password.
    #[serde(default)]
    pub password: String,
    /// Six digits of the authenticator, or a recovery code.
    #[serde(default)]
    pub code: String,
    /// An assertion of one of the member's passkeys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passkey: Option<crate::passkey::PasskeyAssertion>,
}

/// A session of a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OpenSession {
    /// Id.
    pub id: SessionId,
    /// Whether the request was made in this session.
    pub current: bool,
    /// The family of the browser or program: `Firefox on Linux`. The server stores nothing finer.
    pub agent: String,
    /// The network of the address (`192.0.2.0/24`, `2001:db8:1::/48`); empty for sessions from before addresses were
    /// recorded.
    pub address: String,
    /// When it began.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: OffsetDateTime,
    /// When it was last renewed. A session in use is renewed every few minutes.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub used_at: OffsetDateTime,
    /// When it expires if it is not renewed.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub expires_at: OffsetDateTime,
}

/// A member's change of password.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChangePassword {
    /// The current password.
    pub old: String,
    /// The new password: 12 to 200 characters, and not a commonly guessed one.
    #[cfg_attr(feature = "openapi", schema(min_length = 12, max_length = 200))]
    pub new: String,
    /// Whether the member's API keys stay valid. By default they are revoked.
    #[serde(default)]
    pub keep_keys: bool,
}

/// An operator's request for a link with which a member sets a new password.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewReset {
    /// The member's e-mail.
    pub email: String,
    /// Whether using the link also removes the second factor. The removal is recorded and shown to the member. If two
    /// operators besides the member could make the link, it works beside a valid one of another operator.
    #[serde(default)]
    pub clear_second_factor: bool,
}

/// The reset link. Only the response that creates it contains it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Reset))]
pub struct PasswordReset {
    /// The link. It works once, for 24 hours; a newer link for the same member withdraws it.
    pub link: String,
    /// When it stops working.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub expires_at: OffsetDateTime,
}

/// The details of a reset link, for its bearer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ResetPreview {
    /// Whether using the link also removes the second factor.
    pub clears_second_factor: bool,
    /// When it stops working.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub expires_at: OffsetDateTime,
}

/// A new password, set with a reset link.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewPassword {
    /// The password: 12 to 200 characters, and not a commonly guessed one.
    #[cfg_attr(feature = "openapi", schema(min_length = 12, max_length = 200))]
    pub password: String,
}
