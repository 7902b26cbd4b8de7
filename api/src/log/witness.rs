//! A site's request to the server for its log, and the verification of the answer: does the present log continue the
//! one that the site saw before, and contain all of its receipts? The site only keeps the last head.

use std::collections::BTreeMap;

use super::leaf::{LeafError, LogLeaf, RestorationRecord};
use super::proof::{ProofError, verify_consistency, verify_inclusion};
use super::{TreeHash, from_hex};
use crate::id::WorkerId;
use crate::signed::{Countersignature, LogHead, Receipt, Restoration, Signed, SignedError, SigningAuthority};

/// The most receipts in one request.
pub const MOST_RECEIPTS: usize = 100;
/// The most restorations in one answer. A site that missed more accepts the newest ones.
pub const MOST_RESTORATIONS: usize = 16;

/// The server's answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WitnessAnswer {
    /// Its newest signed [`LogHead`]; `None` only while its log is empty.
    pub head: Option<Signed>,
    /// The consistency proof from the site's head to this one; empty if the site has none.
    pub consistency: Vec<TreeHash>,
    /// Proofs of the requested receipts that the server has, in the order of their numbers.
    pub receipts: Vec<ChargeProof>,
    /// Restorations of the server that the site has not accepted yet, oldest first: at most [`MOST_RESTORATIONS`].
    pub restorations: Vec<RestorationProof>,
    /// Whether the server waits for the receipts that it lacks.
    pub must_reconcile: bool,
    /// The newest event of the worker's key in the log; `None` from servers that log no keys.
    pub key: Option<KeyProof>,
}

/// The proof of an event of a worker's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyProof {
    /// Position of its leaf in the log.
    pub position: u64,
    /// Content of the leaf: a [`LogLeaf::WorkerKey`].
    pub leaf: String,
    /// The inclusion proof in the answer's head.
    pub inclusion: Vec<TreeHash>,
}

impl KeyProof {
    /// Checks that `public_key` (hex) is the key of `worker` in the log of a verified head, and that it may sign.
    ///
    /// # Errors
    /// [`WitnessError::Key`] for another key or one that has ended, [`WitnessError::Malformed`] if the leaf is not at
    /// its position.
    pub fn check(&self, head: &LogHead, worker: WorkerId, public_key: &str) -> Result<(), WitnessError> {
        let unread = |what: &str| WitnessError::Malformed(what.to_owned());
        verify_inclusion(self.leaf.as_bytes(), self.position, head.size, &root_of(head)?, &self.inclusion)
            .map_err(|_| unread("the event of this site's key does not stand in the log where the server says"))?;
        match LogLeaf::parse(&self.leaf) {
            Ok(LogLeaf::WorkerKey(record)) if record.worker == worker.0 => {
                if record.public_key == public_key && record.event.is_active() {
                    Ok(())
                } else {
                    Err(WitnessError::Key(record.public_key))
                }
            }
            _ => Err(unread("the event of this site's key is another record")),
        }
    }
}

/// The server's statement of a restoration, with the proofs that it is in the log right after the leaves that it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestorationProof {
    /// A signed [`Restoration`].
    pub statement: Signed,
    /// The consistency proof from the restored log to the answer's head; empty for an empty log.
    pub consistency: Vec<TreeHash>,
    /// The inclusion proof of the statement's leaf in the answer's head.
    pub inclusion: Vec<TreeHash>,
}

impl RestorationProof {
    /// Opens the statement with the server's `key`.
    ///
    /// # Errors
    /// [`WitnessError::Signed`], and [`WitnessError::Malformed`] for a statement about another log.
    pub fn open(&self, key: &dyn SigningAuthority) -> Result<Restoration, WitnessError> {
        let restoration: Restoration = open(&self.statement, key, "statement of a restoration")?;
        if restoration.server == key.log_id() {
            Ok(restoration)
        } else {
            Err(WitnessError::Malformed("the restoration is of another server's log".to_owned()))
        }
    }

    /// Checks that the log of `head` begins with the restored log and has the statement as the next leaf.
    ///
    /// # Errors
    /// As [`RestorationProof::open`], and [`WitnessError::Restoration`] if a proof fails.
    pub fn check(&self, key: &dyn SigningAuthority, head: &LogHead) -> Result<Restoration, WitnessError> {
        let restoration = self.open(key)?;
        let unproved = || WitnessError::Restoration { size: restoration.size };
        let root = root_of(head)?;
        if restoration.size >= head.size {
            return Err(unproved());
        }
        if restoration.size > 0 {
            let restored = from_hex(&restoration.root).ok_or_else(unproved)?;
            verify_consistency(restoration.size, &restored, head.size, &root, &self.consistency)
                .map_err(|_| unproved())?;
        }
        let leaf = LogLeaf::Restoration(RestorationRecord::new(self.statement.digest())).content();
        verify_inclusion(leaf.as_bytes(), restoration.size, head.size, &root, &self.inclusion)
            .map_err(|_| unproved())?;
        Ok(restoration)
    }
}

/// The server's proof that it has charged a receipt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChargeProof {
    /// The receipt's number in its worker's chain.
    pub sequence: u64,
    /// A signed [`Countersignature`].
    pub countersignature: Signed,
    /// Position of its leaf in the log.
    pub position: u64,
    /// Content of the leaf: a [`LogLeaf::Entry`].
    pub leaf: String,
    /// The inclusion proof in the answer's head.
    pub inclusion: Vec<TreeHash>,
}

/// The reason why an answer is rejected. Apart from [`WitnessError::Signed`] and [`WitnessError::Malformed`] each is
/// evidence, signed by the server, that its log was changed, truncated or forked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WitnessError {
    /// A document is not signed by the server's key.
    #[error("the server's {what}: {source}")]
    Signed {
        /// The document.
        what: &'static str,
        /// The cause.
        #[source]
        source: SignedError,
    },
    /// A part of the answer cannot be parsed.
    #[error("the server's answer cannot be read: {0}")]
    Malformed(String),
    /// The log is shorter than before: truncated, or an older copy of the database.
    #[error("the server's log has {now} entries where it had {known}: its end is missing, or an older copy is in use")]
    Shorter {
        /// Size of the head that the site keeps.
        known: u64,
        /// Size now.
        now: u64,
    },
    /// The log does not continue the one that the site saw: an entry was changed or removed, or the server shows sites
    /// two logs.
    #[error("the server's log of {now} entries does not begin with the {known} that this site has seen")]
    Forked {
        /// Size of the head that the site keeps.
        known: u64,
        /// Size now.
        now: u64,
    },
    /// A countersignature is for another receipt.
    #[error("the countersignature of receipt {0} is for another receipt")]
    Swapped(u64),
    /// The log has no entry for a receipt at the stated position.
    #[error("receipt {0} is not in the server's log where its countersignature says")]
    Missing(u64),
    /// The entry in the log differs from the receipt.
    #[error("the log charges something else than receipt {0} says")]
    Altered(u64),
    /// The log has another key of this site, or an end of the site's key.
    #[error(
        "the server's log says that this site's key is {0}, or has ended: a key was changed that this site did not change"
    )]
    Key(String),
    /// The log does not prove the statement of a restoration.
    #[error("the server states that it was restored to {size} entries, and its log does not bear that out")]
    Restoration {
        /// Leaves of the restored log, as stated.
        size: u64,
    },
}

/// The verified content of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedAnswer {
    /// The head to keep from now on; `None` only while the log is empty.
    pub head: Option<LogHead>,
    /// The receipts with a proof that they are charged, with their countersignatures.
    pub receipts: BTreeMap<u64, Countersignature>,
}

impl WitnessAnswer {
    /// Verifies an answer with the server's `key`, the site's kept head `known`, and its own opened signed receipts by
    /// number. A receipt without a proof in the answer is not in the result: the server does not have it yet.
    ///
    /// # Errors
    /// [`WitnessError`] names the evidence; no part of the answer may then be kept as proved.
    pub fn check(
        &self,
        key: &dyn SigningAuthority,
        known: Option<&LogHead>,
        receipts: &BTreeMap<u64, (String, Receipt)>,
    ) -> Result<VerifiedAnswer, WitnessError> {
        let Some(head) = &self.head else {
            return match known {
                Some(known) => Err(WitnessError::Shorter { known: known.size, now: 0 }),
                None if self.receipts.is_empty() => Ok(VerifiedAnswer { head: None, receipts: BTreeMap::new() }),
                None => Err(WitnessError::Malformed("proofs without a head".to_owned())),
            };
        };
        let head: LogHead = open(head, key, "head")?;
        let root = root_of(&head)?;
        if head.server != key.log_id() {
            return Err(WitnessError::Malformed("the head is of another server's log".to_owned()));
        }
        if let Some(known) = known {
            let size = known.size;
            let now = head.size;
            if now < size {
                return Err(WitnessError::Shorter { known: size, now });
            }
            verify_consistency(size, &root_of(known)?, now, &root, &self.consistency)
                .map_err(|_| WitnessError::Forked { known: size, now })?;
        }
        let mut proved = BTreeMap::new();
        for proof in &self.receipts {
            let Some((digest, receipt)) = receipts.get(&proof.sequence) else {
                return Err(WitnessError::Malformed(format!("receipt {} was not asked for", proof.sequence)));
            };
            proved.insert(proof.sequence, proof.check(key, &head, &root, digest, receipt)?);
        }
        Ok(VerifiedAnswer { head: Some(head), receipts: proved })
    }
}

impl ChargeProof {
    fn check(
        &self,
        key: &dyn SigningAuthority,
        head: &LogHead,
        root: &TreeHash,
        digest: &str,
        receipt: &Receipt,
    ) -> Result<Countersignature, WitnessError> {
        let countersignature = countersigned(&self.countersignature, key, digest, receipt)?;
        if countersignature.position != self.position {
            return Err(WitnessError::Missing(self.sequence));
        }
        match verify_inclusion(self.leaf.as_bytes(), self.position, head.size, root, &self.inclusion) {
            Ok(()) => {}
            Err(ProofError::Range { .. } | ProofError::Wrong) => return Err(WitnessError::Missing(self.sequence)),
        }
        let leaf = LogLeaf::parse(&self.leaf).map_err(|error: LeafError| WitnessError::Malformed(error.to_string()))?;
        if charges(&leaf, digest, receipt) { Ok(countersignature) } else { Err(WitnessError::Altered(self.sequence)) }
    }
}

/// Opens the server's countersignature of a receipt from the answer to a submission.
///
/// # Errors
/// [`WitnessError::Signed`] if the server's key did not sign it, [`WitnessError::Swapped`] if it is for another
/// receipt.
pub fn countersigned(
    signed: &Signed,
    key: &dyn SigningAuthority,
    digest: &str,
    receipt: &Receipt,
) -> Result<Countersignature, WitnessError> {
    let countersignature: Countersignature = open(signed, key, "countersignature")?;
    let is_for = (countersignature.worker, countersignature.sequence) == (receipt.worker, receipt.sequence)
        && countersignature.receipt == digest
        && countersignature.server == key.log_id();
    if is_for { Ok(countersignature) } else { Err(WitnessError::Swapped(receipt.sequence)) }
}

/// Returns whether a leaf charges exactly the release of a receipt.
pub fn charges(leaf: &LogLeaf, digest: &str, receipt: &Receipt) -> bool {
    let LogLeaf::Entry(entry) = leaf else { return false };
    entry.kind == "commit"
        && entry.count == 1
        && entry.receipt.as_deref() == Some(digest)
        && (entry.job, entry.dataset) == (receipt.job.0, receipt.dataset.0)
        && entry.series.as_deref() == Some(&*receipt.series)
        && entry.round.and_then(|round| u32::try_from(round).ok()) == Some(receipt.round)
        && entry.attempt.and_then(|attempt| u32::try_from(attempt).ok()) == Some(receipt.attempt)
        && serde_json::from_str(&entry.event).ok().as_ref() == Some(&receipt.event)
}

fn open<D: crate::signed::Document>(
    signed: &Signed,
    key: &dyn SigningAuthority,
    what: &'static str,
) -> Result<D, WitnessError> {
    signed.open(key).map_err(|source| WitnessError::Signed { what, source })
}

fn root_of(head: &LogHead) -> Result<TreeHash, WitnessError> {
    from_hex(&head.root).ok_or_else(|| WitnessError::Malformed("the root is not 64 hex digits".to_owned()))
}

#[cfg(test)]
mod tests;
