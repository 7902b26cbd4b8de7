//! The statements that the server signs with its own key: the heads of its log, and every accepted receipt.

use ed25519_dalek::VerifyingKey;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;

use super::{Document, KeyPurpose};
use crate::id::WorkerId;

/// Returns the id of the server's key in documents: SHA-256 of the public key, hex (the log id of RFC 6962, section
/// 3.2).
pub fn key_id(key: &VerifyingKey) -> String {
    hex::encode(Sha256::digest(key.as_bytes()))
}

/// The server's whole log at one moment, in one number and one hash. If a server has signed a head and later shows a
/// log that does not begin with these entries, the holder of the head can prove it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Head))]
#[serde(deny_unknown_fields)]
pub struct LogHead {
    /// Number of leaves.
    pub size: u64,
    /// Merkle tree hash over them (RFC 9162, section 2.1.1), hex.
    pub root: String,
    /// When the last of them was written.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub at: OffsetDateTime,
    /// The id of the log: SHA-256 of the server's first public key, hex. This key signs itself or has introduced the
    /// root of the key that does.
    pub server: String,
}

impl Document for LogHead {
    const DOMAIN: &'static str = "undertone/head/1";
    const PURPOSE: Option<KeyPurpose> = Some(KeyPurpose::Log);

    fn signed_at(&self) -> Option<OffsetDateTime> {
        Some(self.at)
    }
}

/// The server's confirmation that it accepted a receipt, and the place of the charge in its log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Countersignature {
    /// The worker of the receipt.
    pub worker: WorkerId,
    /// The receipt's number in the worker's chain, from 1.
    pub sequence: u64,
    /// Digest of the receipt's payload, hex.
    pub receipt: String,
    /// Position in the log of the entry that charges it, from 0.
    pub position: u64,
    /// When the server accepted it.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub at: OffsetDateTime,
    /// The id of the log: SHA-256 of the server's first public key, hex. This key signs itself or has introduced the
    /// root of the key that does.
    pub server: String,
}

impl Document for Countersignature {
    const DOMAIN: &'static str = "undertone/countersignature/1";
    const PURPOSE: Option<KeyPurpose> = Some(KeyPurpose::Log);

    fn signed_at(&self) -> Option<OffsetDateTime> {
        Some(self.at)
    }
}
