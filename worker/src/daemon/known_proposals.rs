//! The proposals that this worker has decided and names in each call, so that the server does not offer them again.

use std::collections::HashSet;

/// Most proposals that one call to the server names as known: 64 bytes each.
pub(crate) const MOST_KNOWN: usize = 10_000;

/// Digests of the manifests that were decided, up to a limit.
#[derive(Debug)]
pub(super) struct KnownProposals {
    digests: HashSet<String>,
    most: usize,
}

impl KnownProposals {
    /// Returns an empty set of at most [`MOST_KNOWN`] proposals.
    pub(super) fn new() -> Self {
        Self { digests: HashSet::new(), most: MOST_KNOWN }
    }

    /// Adds a proposal. A full set is emptied first: the server offers its proposals again, and none is decided anew.
    pub(super) fn add(&mut self, digest: String) {
        if self.digests.len() >= self.most && !self.digests.contains(&digest) {
            tracing::warn!(proposals = self.most, "the server makes more proposals than the worker remembers");
            self.digests.clear();
        }
        self.digests.insert(digest);
    }

    /// Returns the digests as a call names them.
    pub(super) fn to_vec(&self) -> Vec<String> {
        self.digests.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{KnownProposals, MOST_KNOWN};

    #[test]
    fn proposals_beyond_the_limit_empty_the_set() {
        assert_eq!(KnownProposals::new().most, MOST_KNOWN);
        let mut known = KnownProposals { digests: HashSet::new(), most: 3 };
        for number in [1, 2, 3, 3] {
            known.add(number.to_string());
        }
        assert_eq!(known.to_vec().len(), 3);
        known.add("4".to_owned());
        assert_eq!(known.to_vec(), ["4"]);
    }
}
