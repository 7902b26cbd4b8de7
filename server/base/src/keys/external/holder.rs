//! The interface of a holder of private keys.

use async_trait::async_trait;
use ed25519_dalek::{Signature, VerifyingKey};
use undertone_api::signed::SignedError;

/// Signatures that are made at a time for strangers and sign-ins of workers, and as many again for the log and jobs: a crowd of
/// strangers cannot take the log's turns.
pub(super) const MOST_AT_ONCE: usize = 4;
/// Requests that a holder is asked at a time, at most.
pub(super) const MOST_REQUESTS: usize = 2 * MOST_AT_ONCE;

/// The reason why a holder gave no signature.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct HolderError(String);

impl HolderError {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl From<HolderError> for SignedError {
    fn from(error: HolderError) -> Self {
        Self::Unavailable(error.0)
    }
}

/// A holder of private Ed25519 keys outside the server.
#[async_trait]
pub(super) trait KeyHolder: Send + Sync {
    /// Returns the public half of the key that new requests name.
    async fn public_key(&self) -> Result<VerifyingKey, HolderError>;

    /// Signs a message with the private half of `key`.
    async fn sign(&self, key: &VerifyingKey, message: &[u8]) -> Result<[u8; Signature::BYTE_SIZE], HolderError>;
}
