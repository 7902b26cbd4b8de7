//! The log as REST returns it.

use serde::{Deserialize, Serialize};

use super::TreeHash;
use crate::signed::{LogHead, Signed};

/// A signed head with its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SignedHead {
    /// The content.
    pub head: LogHead,
    /// The signed document.
    pub signed: Signed,
    /// Ed25519 public key of the server, hex.
    pub server_key: String,
}

/// The proof that one head continues another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Consistency))]
pub struct ConsistencyProof {
    /// Size of the smaller tree.
    pub from: u64,
    /// Size of the larger tree.
    pub to: u64,
    /// RFC 9162 consistency proof: hashes in hex.
    pub proof: Vec<String>,
}

impl ConsistencyProof {
    /// Makes the displayed form of a proof.
    pub fn new(from: u64, to: u64, proof: &[TreeHash]) -> Self {
        Self { from, to, proof: proof.iter().map(hex::encode).collect() }
    }
}

/// The sizes of the two trees of a requested proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
pub struct ConsistencyQuery {
    /// Size of the smaller tree: at least 1.
    pub from: u64,
    /// Size of the larger tree: at most that of the newest head.
    pub to: u64,
}
