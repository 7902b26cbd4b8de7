//! Passkeys under WebAuthn (Level 2): the assertions that they sign and their registration data.
//!
//! Each use requires user verification by the authenticator. Attestations are not read: a registered key is trusted
//! because a signed-in member registers it, or because a site's operator compares its fingerprint.

#[cfg(not(target_arch = "wasm32"))]
mod registration;
#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests;
#[cfg(not(target_arch = "wasm32"))]
mod verify;

use serde::{Deserialize, Serialize};

#[cfg(not(target_arch = "wasm32"))]
pub use registration::{RegisteredPasskey, read_registration};
#[cfg(all(test, not(target_arch = "wasm32")))]
pub(super) use verify::check_authenticator_data;
#[cfg(not(target_arch = "wasm32"))]
pub(super) use verify::ed25519;
#[cfg(not(target_arch = "wasm32"))]
pub use verify::{AssertionParts, PasskeyPublicKey, verify_assertion};

/// The signature algorithm of a passkey.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum PasskeyAlgorithm {
    /// ECDSA on P-256 with SHA-256 (COSE −7).
    Es256,
    /// Ed25519 (COSE −8).
    EdDsa,
}

/// The reason why an assertion or a registration of a passkey is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WebauthnError {
    /// A part of it is not well formed.
    #[error("{0} is not well formed")]
    Malformed(&'static str),
    /// The signature is by another key, or over other data.
    #[error("its signature does not hold")]
    Forged,
    /// The passkey signed other data, or at another origin.
    #[error("{0}")]
    Refused(&'static str),
}
