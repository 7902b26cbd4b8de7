//! The server's statement that its database was restored to an earlier state.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::{Document, KeyPurpose};

/// States that the server's log was put back to its first `size` leaves. The statement's digest is the next leaf of the log, so
/// that two sites cannot be shown two statements without their heads disagreeing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Restoration {
    /// Number of leaves of the restored log.
    pub size: u64,
    /// Merkle tree hash over them, hex.
    pub root: String,
    /// The operator's reason.
    pub reason: String,
    /// Time of the restoration.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub at: OffsetDateTime,
    /// The log's id: [`key_id`](super::key_id) of the server's first key.
    pub server: String,
}

impl Document for Restoration {
    const DOMAIN: &'static str = "undertone/restoration/1";
    const PURPOSE: Option<KeyPurpose> = Some(KeyPurpose::Log);

    fn signed_at(&self) -> Option<OffsetDateTime> {
        Some(self.at)
    }
}
