//! The transparency log: one append-only Merkle tree (RFC 9162) over all records of the consortium's ledgers. With one
//! signed head, a client can detect that a row was changed, removed, truncated or reported differently to another
//! client.
//!
//! [`leaf`] defines the content of a leaf, [`frontier`] grows a tree, [`proof`] checks that a leaf is in a tree and
//! that one tree continues another, [`peers`] compares the heads of several sites, [`witness`] holds a site's requests
//! to the server and judges the answers, [`bundle`] is a whole ledger in a file. No IO here: the server keeps the
//! leaves, the sites keep the heads. To log one more kind of record, add a variant of [`LogLeaf`].

pub mod bundle;
pub mod frontier;
pub mod leaf;
pub mod peers;
pub mod proof;
pub mod view;
pub mod witness;

use sha2::{Digest as _, Sha256};

pub use frontier::Frontier;
pub use leaf::LogLeaf;

/// SHA-256.
pub type TreeHash = [u8; 32];

/// The most leaves of a log: far above any expected number, and far below an overflow of positions.
pub const MOST_LEAVES: u64 = 1 << 48;

/// Computes the hash of a leaf: SHA-256(0x00 ‖ content). RFC 9162, section 2.1.1.
pub fn leaf_hash(content: &[u8]) -> TreeHash {
    Sha256::new_with_prefix([0]).chain_update(content).finalize().into()
}

/// Computes the hash of two subtrees: SHA-256(0x01 ‖ left ‖ right). RFC 9162, section 2.1.1.
pub fn node_hash(left: &TreeHash, right: &TreeHash) -> TreeHash {
    Sha256::new_with_prefix([1]).chain_update(left).chain_update(right).finalize().into()
}

/// Reads a hash from 64 hex digits.
pub fn from_hex(text: &str) -> Option<TreeHash> {
    hex::decode(text).ok()?.try_into().ok()
}
