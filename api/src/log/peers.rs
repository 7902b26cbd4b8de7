//! Comparison of the heads that several sites have verified.
//!
//! The server relays each site's [`HeadObservation`] to its peers, with a consistency proof (RFC 9162, section 2.1.4)
//! between the peer's head and the caller's. A server that shows two sites two histories has signed two heads of which
//! neither continues the other, so it has no proof. It may withhold observations: then the newest one of the peer ages,
//! which sites report. It cannot forge one, because it lacks the peer's key.

use ed25519_dalek::VerifyingKey;
use time::OffsetDateTime;

use super::proof::verify_consistency;
use super::{TreeHash, from_hex};
use crate::id::WorkerId;
use crate::signed::{
    HeadObservation, KeyRotation, LogHead, Signed, SignedError, SigningAuthority, SiteKeys, public_key,
};

/// The most peers in one answer.
pub const MOST_PEERS: usize = 200;
/// The most changes of key in one peer's chain.
pub const MOST_ROTATIONS: usize = 200;

/// A peer's newest observation, as the server relays it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerHead {
    /// The peer's worker.
    pub worker: WorkerId,
    /// The worker's name.
    pub worker_name: String,
    /// The name of its organization.
    pub organization_name: String,
    /// The Ed25519 public key that the server knows as the peer's, hex.
    pub public_key: String,
    /// The changes of key that lead to it, oldest first.
    pub rotations: Vec<KeyRotation>,
    /// A signed [`HeadObservation`].
    pub observation: Signed,
    /// The consistency proof between the peer's head and the caller's, from the smaller to the larger.
    pub consistency: Vec<TreeHash>,
    /// The newest [`LedgerPosition`](crate::signed::LedgerPosition) of the peer's own ledger, if the peer submits any.
    pub position: Option<Signed>,
    /// The peer's newest [`LedgerSighting`](crate::signed::LedgerSighting) of the caller, if the peer submits any.
    pub sighting: Option<Signed>,
}

/// A peer's observation, verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedPeer {
    /// The key that signed it.
    pub key: VerifyingKey,
    /// The head, which agrees with the caller's.
    pub head: LogHead,
    /// The peer's clock when it signed.
    pub observed_at: OffsetDateTime,
}

/// The reason why a peer's observation is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// The server signed two heads of which neither continues the other. Both are evidence.
    #[error(
        "the server has shown worker {worker} a log of {theirs} entries that does not agree with the {ours} entries shown here"
    )]
    Forked {
        /// The peer's worker.
        worker: WorkerId,
        /// Size of the peer's head.
        theirs: u64,
        /// Size of the head of this site.
        ours: u64,
    },
    /// The key is not the known one, and no chain of signed changes leads to it from there.
    #[error("the key of worker {0} is another than the one known here, and no signed change leads to it")]
    Key(WorkerId),
    /// A signature or document does not verify. The relaying server may have changed it, so it is no evidence.
    #[error("the observation of worker {worker} does not hold: {source}")]
    Signed {
        /// The peer's worker.
        worker: WorkerId,
        /// The cause.
        #[source]
        source: SignedError,
    },
    /// The document is about another worker or another server's log, or its root is not a hash.
    #[error("the observation of worker {worker} does not hold: {problem}")]
    Malformed {
        /// The peer's worker.
        worker: WorkerId,
        /// The defect.
        problem: &'static str,
    },
}

impl PeerHead {
    /// Verifies the observation against the caller's own verified head `own`, by the server's key and the peer's key.
    /// `known` is the key under which the caller knows the peer; `None` at the first contact, when the relayed key is
    /// accepted.
    ///
    /// # Errors
    /// [`PeerError`]; [`PeerError::Forked`] is evidence against the server, the others are not.
    pub fn verify(
        &self,
        server: &dyn SigningAuthority,
        own: &LogHead,
        known: Option<&VerifyingKey>,
    ) -> Result<VerifiedPeer, PeerError> {
        let worker = self.worker;
        let signed = |source| PeerError::Signed { worker, source };
        let malformed = |problem| PeerError::Malformed { worker, problem };
        let key = self.current_key(known)?;
        let observation: HeadObservation = self.observation.open(&key).map_err(signed)?;
        if observation.worker != worker {
            return Err(malformed("it is of another worker"));
        }
        let head: LogHead = observation.head.open(server).map_err(signed)?;
        if head.server != server.log_id() || own.server != head.server {
            return Err(malformed("the head is of another server's log"));
        }
        let theirs = from_hex(&head.root).ok_or_else(|| malformed("the root is not 64 hex digits"))?;
        let ours = from_hex(&own.root).ok_or_else(|| malformed("the own root is not 64 hex digits"))?;
        let (small, large) = if head.size <= own.size {
            ((head.size, &theirs), (own.size, &ours))
        } else {
            ((own.size, &ours), (head.size, &theirs))
        };
        verify_consistency(small.0, small.1, large.0, large.1, &self.consistency).map_err(|_| PeerError::Forked {
            worker,
            theirs: head.size,
            ours: own.size,
        })?;
        Ok(VerifiedPeer { key, head, observed_at: observation.observed_at })
    }

    /// Returns the peer's key: the relayed one, if it is the known one or follows from it by signed changes.
    fn current_key(&self, known: Option<&VerifyingKey>) -> Result<VerifyingKey, PeerError> {
        let worker = self.worker;
        let key = public_key(&self.public_key).map_err(|source| PeerError::Signed { worker, source })?;
        let Some(known) = known.filter(|known| **known != key) else { return Ok(key) };
        let chain = SiteKeys::leading_to(key, &self.rotations).map_err(|_| PeerError::Key(worker))?;
        if chain.includes(known) { Ok(key) } else { Err(PeerError::Key(worker)) }
    }
}

#[cfg(test)]
mod tests;
