//! The transparency log: one append-only Merkle tree (RFC 9162) over everything that the consortium's ledgers say, and the
//! checks by which anybody who holds one signed head notices that a row was changed, removed, cut off or told twice.
//!
//! [`leaf`] is what a leaf says, [`frontier`] grows a tree, [`proof`] checks that a leaf is in a tree and that one tree
//! continues another, [`peers`] compares the heads of several sites, [`witness`] is what a site asks of the server and how it judges the answer, [`bundle`] is a
//! whole ledger in a file. No IO here: the server keeps the leaves, the sites keep the heads. To log one more kind of record:
//! a variant of [`Leaf`].

pub mod bundle;
pub mod frontier;
pub mod leaf;
pub mod peers;
pub mod proof;
pub mod view;
pub mod witness;

use sha2::{Digest as _, Sha256};

pub use frontier::Frontier;
pub use leaf::Leaf;

/// SHA-256.
pub type Hash = [u8; 32];

/// Most leaves that a log may have. Far above any that will be written, and far below where positions overflow.
pub const MOST_LEAVES: u64 = 1 << 48;

/// The hash of a leaf: SHA-256(0x00 ‖ content). RFC 9162, section 2.1.1.
pub fn leaf_hash(content: &[u8]) -> Hash {
    Sha256::new_with_prefix([0]).chain_update(content).finalize().into()
}

/// The hash of two subtrees: SHA-256(0x01 ‖ left ‖ right). RFC 9162, section 2.1.1.
pub fn node_hash(left: &Hash, right: &Hash) -> Hash {
    Sha256::new_with_prefix([1]).chain_update(left).chain_update(right).finalize().into()
}

/// Reads a hash from 64 hex digits.
pub fn from_hex(text: &str) -> Option<Hash> {
    hex::decode(text).ok()?.try_into().ok()
}
