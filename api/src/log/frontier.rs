//! An append-only tree. It keeps only the complete subtrees at its right edge, one for each one bit of its size: enough
//! for the next leaf and the root.

use sha2::{Digest as _, Sha256};

use super::{TreeHash, node_hash};

/// The right edge of a tree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Frontier {
    size: u64,
    /// Roots of the complete subtrees, the largest (leftmost) first: as many as `size` has ones.
    subtrees: Vec<TreeHash>,
}

impl Frontier {
    /// Makes the frontier of a tree of `size` leaves; `None` unless there is one subtree for each one bit of `size`.
    pub fn from_parts(size: u64, subtrees: Vec<TreeHash>) -> Option<Self> {
        (subtrees.len() == size.count_ones() as usize).then_some(Self { size, subtrees })
    }

    /// Returns the number of leaves.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Returns the roots of the complete subtrees, the largest first.
    pub fn subtrees(&self) -> &[TreeHash] {
        &self.subtrees
    }

    /// Appends a leaf by its hash. Returns the roots of all complete subtrees that end with it, from the leaf itself
    /// up: a log must keep these to prove anything later.
    pub fn push(&mut self, leaf: TreeHash) -> Vec<TreeHash> {
        let mut completed = vec![leaf];
        let mut node = leaf;
        for _ in 0..self.size.trailing_ones() {
            let Some(left) = self.subtrees.pop() else { break };
            node = node_hash(&left, &node);
            completed.push(node);
        }
        self.subtrees.push(node);
        self.size += 1;
        completed
    }

    /// Returns the Merkle tree hash of all leaves; for no leaves, SHA-256 of the empty string.
    pub fn root(&self) -> TreeHash {
        fold(&self.subtrees).unwrap_or_else(|| Sha256::digest(b"").into())
    }
}

/// Returns the root over adjacent complete subtrees, the leftmost and largest first; `None` for none.
pub fn fold(subtrees: &[TreeHash]) -> Option<TreeHash> {
    let (last, before) = subtrees.split_last()?;
    Some(before.iter().rev().fold(*last, |right, left| node_hash(left, &right)))
}

#[cfg(test)]
mod tests {
    use ct_merkle::mem_backed_tree::MemoryBackedTree;
    use sha2::Sha256;

    use super::Frontier;
    use crate::log::leaf_hash;

    /// Inputs and roots of the reference vectors of Certificate Transparency (transparency-dev/merkle,
    /// `reference_test.go`).
    const LEAVES: [&str; 8] =
        ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"];
    const ROOTS: [&str; 9] = [
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
        "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
        "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
        "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
        "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
    ];

    #[test]
    fn the_roots_are_those_of_the_reference_vectors() {
        let mut frontier = Frontier::default();
        assert_eq!(hex::encode(frontier.root()), ROOTS[0]);
        for (leaf, root) in LEAVES.iter().zip(&ROOTS[1..]) {
            frontier.push(leaf_hash(&hex::decode(leaf).expect("hex")));
            assert_eq!(hex::encode(frontier.root()), *root);
        }
    }

    #[test]
    fn a_frontier_of_any_size_has_the_root_of_the_whole_tree() {
        let (mut frontier, mut tree) = (Frontier::default(), MemoryBackedTree::<Sha256, Vec<u8>>::new());
        for number in 0..300_u32 {
            let content = number.to_be_bytes().to_vec();
            frontier.push(leaf_hash(&content));
            tree.push(content);
            assert_eq!(frontier.root().as_slice(), tree.root().as_bytes().as_slice());
            let again = Frontier::from_parts(frontier.size(), frontier.subtrees().to_vec());
            assert_eq!(again.as_ref(), Some(&frontier));
        }
        assert_eq!(Frontier::from_parts(3, vec![[0; 32]]), None);
    }
}
