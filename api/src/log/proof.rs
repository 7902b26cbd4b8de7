//! Proofs that a leaf has a position in a tree (inclusion), and that one tree is the beginning of another
//! (consistency). `ct-merkle` verifies them without the tree; this module lists the stored hashes that a proof consists
//! of.

use ct_merkle::digest::array::Array;
use ct_merkle::{ConsistencyProof, InclusionProof, RootHash};
use sha2::Sha256;

use super::frontier::fold;
use super::{Frontier, MOST_LEAVES, TreeHash};

/// The reason why a proof is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    /// No tree has such a size or position.
    #[error("the proof is for {position} of {size} leaves: there is no such place")]
    Range {
        /// The position, or the smaller size.
        position: u64,
        /// The size.
        size: u64,
    },
    /// It has a wrong number of hashes, or the hashes do not lead to the root.
    #[error("the proof does not lead to the root")]
    Wrong,
}

/// Checks that `content` is leaf number `position` of the tree of `size` leaves with this root.
///
/// # Errors
/// [`ProofError`] if the proof fails.
pub fn verify_inclusion(
    content: &[u8],
    position: u64,
    size: u64,
    root: &TreeHash,
    proof: &[TreeHash],
) -> Result<(), ProofError> {
    if position >= size || size > MOST_LEAVES {
        return Err(ProofError::Range { position, size });
    }
    let proof = InclusionProof::<Sha256>::try_from_bytes(proof.concat()).map_err(|_| ProofError::Wrong)?;
    root_of(size, root).verify_inclusion(&content, position, &proof).map_err(|_| ProofError::Wrong)
}

/// Checks that the first `old_size` leaves of the tree of `size` leaves with `root` are the tree with `old_root`. Every
/// tree begins with the empty tree.
///
/// # Errors
/// [`ProofError`] if the proof fails.
pub fn verify_consistency(
    old_size: u64,
    old_root: &TreeHash,
    size: u64,
    root: &TreeHash,
    proof: &[TreeHash],
) -> Result<(), ProofError> {
    if old_size > size || size > MOST_LEAVES {
        return Err(ProofError::Range { position: old_size, size });
    }
    if old_size == 0 {
        let holds = proof.is_empty() && *old_root == Frontier::default().root();
        return if holds { Ok(()) } else { Err(ProofError::Wrong) };
    }
    let proof = ConsistencyProof::<Sha256>::try_from_bytes(proof.concat()).map_err(|_| ProofError::Wrong)?;
    root_of(size, root).verify_consistency(&root_of(old_size, old_root), &proof).map_err(|_| ProofError::Wrong)
}

fn root_of(size: u64, root: &TreeHash) -> RootHash<Sha256> {
    RootHash::new(Array::from(*root), size)
}

/// A complete subtree: leaves `index · 2^level` to `(index + 1) · 2^level − 1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subtree {
    /// Its height.
    pub level: u32,
    /// Its number among those of its height, from 0.
    pub index: u64,
}

impl Subtree {
    /// Returns the position of its last leaf, which completed it (see [`Frontier::push`]).
    pub const fn last(self) -> u64 {
        ((self.index + 1) << self.level) - 1
    }
}

/// Returns the complete subtrees of a tree of `size` leaves, the largest first: its frontier.
pub fn list_frontier(size: u64) -> Vec<Subtree> {
    cover(0, size)
}

/// Returns, for each hash of an inclusion proof, the subtrees that it is folded from, left to right. Empty for a
/// position outside the tree.
pub fn inclusion_path(position: u64, size: u64) -> Vec<Vec<Subtree>> {
    if position >= size || size > MOST_LEAVES {
        return Vec::new();
    }
    ct_merkle::indices_for_inclusion_proof(size, position).into_iter().map(|node| subtrees(node, size)).collect()
}

/// Returns the parts of a consistency proof, as [`inclusion_path`]. Empty if `old_size` is 0 or not smaller than
/// `size`.
pub fn consistency_path(old_size: u64, size: u64) -> Vec<Vec<Subtree>> {
    if old_size == 0 || old_size >= size || size > MOST_LEAVES {
        return Vec::new();
    }
    let path = ct_merkle::indices_for_consistency_proof(old_size, size - old_size);
    path.into_iter().map(|node| subtrees(node, size)).collect()
}

/// Assembles a proof from its path, given the hashes of the subtrees; `None` if one is unknown.
pub fn assemble(path: &[Vec<Subtree>], hash: impl Fn(Subtree) -> Option<TreeHash>) -> Option<Vec<TreeHash>> {
    path.iter().map(|parts| fold(&parts.iter().map(|part| hash(*part)).collect::<Option<Vec<_>>>()?)).collect()
}

/// Returns the complete subtrees below a node of the crate's numbering (that of RFC 9420, appendix C), truncated at the
/// tree's end.
fn subtrees(node: u64, size: u64) -> Vec<Subtree> {
    let level = node.trailing_ones();
    let index = node >> (level + 1);
    cover(index << level, ((index + 1) << level).min(size))
}

/// Returns the largest complete subtrees that cover leaves `from` (inclusive) to `to` (exclusive), where `from` is a
/// multiple of the largest.
fn cover(mut from: u64, to: u64) -> Vec<Subtree> {
    let mut pieces = Vec::new();
    while from < to {
        let level = (to - from).ilog2();
        pieces.push(Subtree { level, index: from >> level });
        from += 1 << level;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ct_merkle::mem_backed_tree::MemoryBackedTree;
    use sha2::Sha256;

    use super::{
        ProofError, Subtree, assemble, consistency_path, inclusion_path, list_frontier, verify_consistency,
        verify_inclusion,
    };
    use crate::log::{Frontier, TreeHash, leaf_hash};

    /// Returns the roots of every size, and every complete subtree, as a log keeps them.
    fn grow_tree(leaves: u64) -> (Vec<TreeHash>, BTreeMap<Subtree, TreeHash>) {
        let mut frontier = Frontier::default();
        let mut nodes = BTreeMap::new();
        let mut roots = vec![frontier.root()];
        for position in 0..leaves {
            let completed = frontier.push(leaf_hash(&position.to_be_bytes()));
            for (level, hash) in (0_u32..).zip(completed) {
                let subtree = Subtree { level, index: position >> level };
                assert_eq!(subtree.last(), position);
                nodes.insert(subtree, hash);
            }
            roots.push(frontier.root());
        }
        (roots, nodes)
    }

    #[test]
    fn leaves_are_proved_from_stored_subtrees() {
        let (roots, nodes) = grow_tree(70);
        for size in 1..=70 {
            for position in 0..size {
                let path = inclusion_path(position, size);
                let proof = assemble(&path, |subtree| nodes.get(&subtree).copied()).expect("kept");
                let check = |content: u64, position, size: u64| {
                    verify_inclusion(&content.to_be_bytes(), position, size, &roots[size as usize], &proof)
                };
                assert_eq!(check(position, position, size), Ok(()));
                assert_eq!(check(position + 1, position, size), Err(ProofError::Wrong));
                if size > 1 {
                    assert_eq!(check(position, (position + 1) % size, size), Err(ProofError::Wrong));
                }
                assert_eq!(check(position, size, size), Err(ProofError::Range { position: size, size }));
            }
        }
    }

    #[test]
    fn every_tree_is_proved_to_continue_every_smaller_one() {
        let (roots, nodes) = grow_tree(70);
        for size in 0..=70_u64 {
            for old in 0..=size {
                let path = consistency_path(old, size);
                let proof = assemble(&path, |subtree| nodes.get(&subtree).copied()).expect("kept");
                let (old_root, root) = (roots[old as usize], roots[size as usize]);
                assert_eq!(verify_consistency(old, &old_root, size, &root, &proof), Ok(()));
                let mut other = old_root;
                other[0] ^= 1;
                assert_eq!(verify_consistency(old, &other, size, &root, &proof), Err(ProofError::Wrong));
                let longer = [proof.clone(), vec![root]].concat();
                assert_eq!(verify_consistency(old, &old_root, size, &root, &longer), Err(ProofError::Wrong));
                if size > old {
                    assert!(verify_consistency(size, &root, old, &old_root, &proof).is_err());
                }
            }
        }
    }

    #[test]
    fn proofs_are_those_that_a_whole_tree_in_memory_gives() {
        let (_, nodes) = grow_tree(40);
        let mut tree = MemoryBackedTree::<Sha256, [u8; 8]>::new();
        for position in 0..40_u64 {
            tree.push(position.to_be_bytes());
        }
        for position in 0..40_u64 {
            let path = inclusion_path(position, 40);
            let proof = assemble(&path, |subtree| nodes.get(&subtree).copied()).expect("kept");
            assert_eq!(proof.concat(), tree.prove_inclusion(position as usize).as_bytes());
        }
        for old in 1..40_u64 {
            let path = consistency_path(old, 40);
            let proof = assemble(&path, |subtree| nodes.get(&subtree).copied()).expect("kept");
            assert_eq!(proof.concat(), tree.prove_consistency((40 - old) as usize).as_bytes());
        }
    }

    #[test]
    fn a_frontier_is_kept_among_the_subtrees() {
        let (roots, nodes) = grow_tree(70);
        for size in 0..=70_u64 {
            let subtrees = list_frontier(size).iter().map(|subtree| nodes[subtree]).collect();
            let frontier = Frontier::from_parts(size, subtrees).expect("one for each bit");
            assert_eq!(frontier.root(), roots[size as usize]);
        }
    }

    #[test]
    fn absurd_sizes_are_refused_rather_than_computed() {
        assert!(verify_inclusion(b"", u64::MAX - 1, u64::MAX, &[0; 32], &[]).is_err());
        assert!(verify_consistency(1, &[0; 32], u64::MAX, &[0; 32], &[]).is_err());
        assert!(inclusion_path(0, u64::MAX).is_empty() && consistency_path(1, u64::MAX).is_empty());
    }
}
