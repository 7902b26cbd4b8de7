//! Passkeys with which members sign in and prove their identity: alone, or as the second factor after a password.
//!
//! Each use begins with a [`PasskeyChallenge`] of the server, which is valid for five minutes and for one use.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::id::PasskeyId;
use crate::signed::PasskeyAlgorithm;

/// The most passkeys of a member.
pub const MOST_PASSKEYS: u64 = 10;
/// The most bytes of the client data of an assertion or a registration.
pub const MOST_CLIENT_DATA: usize = 4096;
/// The most characters of each other part of an assertion or a registration.
pub const MOST_PART: usize = 8192;

/// The use of a passkey for which a signed-in member requests a challenge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum PasskeyUse {
    /// To register a new passkey.
    Register,
    /// To prove the member's identity again.
    Prove,
}

/// A signed-in member's request for a challenge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewPasskeyChallenge {
    /// The use.
    pub purpose: PasskeyUse,
}

/// A request for a challenge to sign in.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SignInChallenge {
    /// The token from the first step, after the password; empty to sign in by a passkey alone.
    #[serde(default)]
    pub half_token: String,
}

impl std::fmt::Debug for SignInChallenge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SignInChallenge").finish_non_exhaustive()
    }
}

/// The account for which a passkey is registered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PasskeyUser {
    /// WebAuthn's `user.id`, hex: 32 bytes that reveal nothing about the member.
    pub handle: String,
    /// The name that the authenticator shows.
    pub name: String,
}

/// A challenge for a passkey.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PasskeyChallenge {
    /// An opaque text that the answer returns to the server.
    pub ticket: String,
    /// WebAuthn's `challenge`, hex: SHA-256 of the ticket, in its domain.
    pub challenge: String,
    /// WebAuthn's `rpId`.
    pub relying_party: String,
    /// The ids of credentials, hex: those that may sign, or for a registration those that exist. Empty for a sign-in by
    /// a passkey alone, where the authenticator chooses.
    pub credentials: Vec<String>,
    /// The account, for a registration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<PasskeyUser>,
    /// When it expires.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub expires_at: OffsetDateTime,
}

/// A WebAuthn assertion by a passkey.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PasskeyAssertion {
    /// The ticket of the challenge.
    pub ticket: String,
    /// The credential's id, hex.
    pub credential: String,
    /// `clientDataJSON`, as text.
    pub client_data: String,
    /// `authenticatorData`, hex.
    pub authenticator_data: String,
    /// The signature, hex.
    pub signature: String,
    /// `userHandle`, hex, if the authenticator returns it.
    #[serde(default)]
    pub user_handle: String,
}

impl PasskeyAssertion {
    /// Returns whether each part is within its limit.
    pub fn is_bounded(&self) -> bool {
        let parts = [&self.ticket, &self.credential, &self.authenticator_data, &self.signature, &self.user_handle];
        self.client_data.len() <= MOST_CLIENT_DATA && parts.iter().all(|part| part.len() <= MOST_PART)
    }
}

/// A sign-in by a passkey.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PasskeySignIn {
    /// The token from the first step, after the password; empty to sign in by a passkey alone.
    #[serde(default)]
    pub half_token: String,
    /// The assertion of the passkey.
    pub passkey: PasskeyAssertion,
}

impl std::fmt::Debug for PasskeySignIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PasskeySignIn").finish_non_exhaustive()
    }
}

/// A passkey to be registered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewPasskey {
    /// The owner's name for it: 1 to 100 characters.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 100))]
    pub label: String,
    /// The registration by the browser.
    pub registration: PasskeyRegistration,
}

/// A WebAuthn registration by a browser.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PasskeyRegistration {
    /// The ticket of the challenge.
    pub ticket: String,
    /// `clientDataJSON`, as text.
    pub client_data: String,
    /// `getAuthenticatorData()`, hex.
    pub authenticator_data: String,
}

impl NewPasskey {
    /// Returns every violation.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn check(&self) -> Vec<crate::problem::Violation> {
        let mut violations = Vec::new();
        crate::member::check_name("label", &self.label, &mut violations);
        let PasskeyRegistration { ticket, client_data, authenticator_data } = &self.registration;
        if client_data.len() > MOST_CLIENT_DATA || ticket.len() > MOST_PART || authenticator_data.len() > MOST_PART {
            let remedy = format!(
                "send what the browser returns: at most {MOST_CLIENT_DATA} bytes of client data, {MOST_PART} characters of each other part"
            );
            violations.push(crate::problem::Violation::new("registration", remedy));
        }
        violations
    }
}

/// A passkey in its owner's view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Passkey {
    /// Id.
    pub id: PasskeyId,
    /// The owner's name for it.
    pub label: String,
    /// Its signature algorithm.
    pub algorithm: PasskeyAlgorithm,
    /// When it was registered.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: OffsetDateTime,
    /// When it was last used; absent before the first use.
    #[serde(default, with = "time::serde::rfc3339::option")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub last_used_at: Option<OffsetDateTime>,
}
