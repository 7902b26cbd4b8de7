//! A member's own account: second factor, sessions, password, and the reset link that an operator issues. A secret
//! occurs only in the response that created it, and has no `Debug` form.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::id::SessionId;

/// The fewest and the most characters of a password.
pub const PASSWORD_LENGTH: std::ops::RangeInclusive<usize> = 12..=200;
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
    Reset
);

/// The password was right, and a code is asked for: what proves that to `POST /session/second-factor`, and to nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HalfSession {
    /// Holds for five minutes and for one sign-in.
    pub half_token: String,
    /// The ways to finish it.
    pub factors: SecondFactors,
    /// When it ends.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub expires_at: OffsetDateTime,
}

/// The second step of a sign-in.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SecondStep {
    /// From the first step.
    pub half_token: String,
    /// Six digits of the authenticator, or a recovery code.
    pub code: String,
}

/// How a member's second factor stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Factor {
    /// Since when a code is asked for at sign-in; absent while it is off.
    #[serde(with = "time::serde::rfc3339::option")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub since: Option<OffsetDateTime>,
    /// Whether a secret was offered and waits for its first code.
    pub offered: bool,
    /// Recovery codes that were not used yet.
    pub recovery_codes_left: u32,
    /// Passkeys that are registered; each is a second factor.
    #[serde(default)]
    pub passkeys: u32,
    /// Whether this server asks everybody for one.
    pub required: bool,
    /// Whether switching it off takes the password too. Who signs in by a provider only has none, and gives a code alone.
    pub password: bool,
}

/// A secret for an authenticator: shown once, in force only when a code of it was given.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FactorOffer {
    /// The secret: 160 bits in base 32, to be typed in.
    pub secret: String,
    /// The same as an address that authenticators read from a picture: RFC 6238, SHA-1, 6 digits, 30 seconds.
    pub uri: String,
    /// Until when a code of it is waited for.
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

/// Codes that each let one in once without the authenticator. Shown once; the server keeps hashes.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RecoveryCodes {
    /// The codes.
    pub codes: Vec<String>,
}

/// What weakening an account asks for: the password, of whom there is one, and a code.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FactorProof {
    /// The member's password; left out by who signs in by a provider only and has none.
    #[serde(default)]
    pub password: String,
    /// Six digits of the authenticator, or a recovery code.
    pub code: String,
}

/// The ways in which a sign-in whose password was right can be finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SecondFactors {
    /// By a code of an authenticator, or a recovery code.
    pub code: bool,
    /// By a passkey.
    pub passkey: bool,
}

/// A proof of identity by a member who is signed in: one of the three.
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
    /// What one of the member's passkeys has signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passkey: Option<crate::passkey::PasskeyAssertion>,
}

/// A place where a member is signed in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OpenSession {
    /// Id.
    pub id: SessionId,
    /// Whether it is the one that asks.
    pub current: bool,
    /// The browser's or program's family: `Firefox on Linux`. Nothing finer is kept.
    pub agent: String,
    /// The address, cut to its network (`192.0.2.0/24`, `2001:db8:1::/48`); empty for sessions older than this record.
    pub address: String,
    /// When it began.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: OffsetDateTime,
    /// When it was last renewed, which a session in use is every few minutes.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub used_at: OffsetDateTime,
    /// When it ends unless it is used.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub expires_at: OffsetDateTime,
}

/// A member's change of password.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChangePassword {
    /// The password so far.
    pub old: String,
    /// The new one: 12 to 200 characters, not one that is guessed early.
    #[cfg_attr(feature = "openapi", schema(min_length = 12, max_length = 200))]
    pub new: String,
    /// Whether the member's API keys go on. They are revoked unless this says otherwise.
    #[serde(default)]
    pub keep_keys: bool,
}

/// A link by which a member sets a new password, asked for by an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewReset {
    /// The member's e-mail.
    pub email: String,
    /// Whether using the link also takes the second factor away; recorded, and shown to the member.
    #[serde(default)]
    pub clear_second_factor: bool,
}

/// The link; only in the answer that made it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Reset {
    /// Works once, for 24 hours; a newer one for the same member withdraws it.
    pub link: String,
    /// When it stops working.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub expires_at: OffsetDateTime,
}

/// What the bearer of such a link is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ResetPreview {
    /// Whether using it also takes the second factor away.
    pub clears_second_factor: bool,
    /// When it stops working.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub expires_at: OffsetDateTime,
}

/// A new password, by such a link.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewPassword {
    /// 12 to 200 characters, not one that is guessed early.
    #[cfg_attr(feature = "openapi", schema(min_length = 12, max_length = 200))]
    pub password: String,
}
