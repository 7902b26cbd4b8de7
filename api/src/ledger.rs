//! A ledger for inspection: the history of an account, and the evidence for one row.
//!
//! The figures of an account are in [`budget`](crate::budget), the proofs of the log in [`log`](crate::log). Every
//! epsilon is rounded up, every remainder down.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use undertone_privacy::ledger::JobCertificate;
use undertone_privacy::{Adjacency, Event, PrivacyUnit};

use crate::budget::{EntryKind, PromisedLimit};
use crate::id::{AccountId, DatasetId, JobId, WorkerId};
use crate::log::view::SignedHead;
use crate::log::{TreeHash, node_hash};
use crate::signed::Signed;

/// A filter of a ledger's rows. All given conditions must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EntryFilter {
    /// The kind of row.
    pub kind: Option<EntryKind>,
    /// The job that caused it.
    pub job: Option<JobId>,
    /// Written at this moment or later.
    #[serde(default, with = "time::serde::rfc3339::option")]
    pub since: Option<OffsetDateTime>,
    /// Written before this moment.
    #[serde(default, with = "time::serde::rfc3339::option")]
    pub until: Option<OffsetDateTime>,
}

/// The history of an account.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AccountHistory {
    /// The account.
    pub account: AccountId,
    /// The protected unit.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::unit))]
    pub unit: PrivacyUnit,
    /// The adjacency, the change that the guarantee covers.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::adjacency))]
    pub adjacency: Adjacency,
    /// The states of the account after its events, oldest first. Long runs of payments are thinned; the last state is
    /// always included.
    pub points: Vec<HistoryPoint>,
    /// Each job's use of the account, the largest first. The shares are at the order that leaves most, at which the
    /// losses of jobs add up exactly.
    pub jobs: Vec<JobShare>,
    /// The limits that were promised one after another. Raising a limit after a release begins a new promise, and the
    /// guarantee for all releases is the sum of the promises.
    #[serde(default)]
    pub promises: Vec<PromisedLimit>,
    /// Rows of its ledger.
    pub rows: u64,
}

/// The state of an account at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HistoryPoint {
    /// The time.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub at: OffsetDateTime,
    /// The kind of row; absent for a change of the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<EntryKind>,
    /// The job that caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// The limit ε at that time.
    pub limit: f64,
    /// Its δ.
    pub delta: f64,
    /// ε spent, at δ.
    pub spent: f64,
    /// ε spent and reserved, at δ.
    pub committed: f64,
    /// The remaining ε of the limit.
    pub left: f64,
}

/// A job's use of an account.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobShare {
    /// The job.
    pub job: JobId,
    /// The spent share of the limit, 0 to 1.
    pub spent: f64,
    /// The reserved share of the limit, 0 to 1.
    pub reserved: f64,
    /// Releases that it has paid for.
    pub releases: u64,
    /// ε at δ of its paid releases, as if it were alone on the account. Several jobs together cost less than the sum of
    /// these figures.
    pub alone: f64,
}

/// A row of a ledger with the evidence for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EntryProof {
    /// The dataset.
    pub dataset: DatasetId,
    /// The account.
    pub account: AccountId,
    /// Its number in the account's ledger, from 1.
    pub sequence: u64,
    /// The kind of row.
    pub kind: EntryKind,
    /// The job that caused it.
    pub job: JobId,
    /// Series and round of a commit: `private/17`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<String>,
    /// The release, with the exact parameters of its mechanism.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub event: Event,
    /// The number of these releases.
    pub count: u64,
    /// The version of the formulas that priced it.
    pub evaluator: String,
    /// Its price at each order of the account; empty for an exact release, which has no price, and for a release of a job
    /// that is charged as a whole.
    pub price: Vec<OrderPrice>,
    /// The certificate of a reservation on an account with the filter `gaussian`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub certificate: Option<JobCertificate>,
    /// The time.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub at: OffsetDateTime,
    /// Hash of the row before it in the account.
    pub previous: String,
    /// Hash of this row: SHA-256 of `leaf`.
    pub hash: String,
    /// The text that is hashed.
    pub leaf: String,
    /// Whether `hash` is the hash of `leaf`, and `previous` is the hash of the previous row.
    pub chained: bool,
    /// Its proof of inclusion in the server's log; absent if the log does not contain it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inclusion: Option<InclusionProof>,
    /// The receipt that the site signed before the release left; only for commits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<ReceiptProof>,
}

/// A price at one order.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OrderPrice {
    /// The order α.
    pub order: f64,
    /// Rényi loss of all the row's releases together, in nats, rounded up.
    pub loss: f64,
    /// The most that the account may lose at this order, in nats; absent if the limit leaves nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
}

/// A proof, step by step, that a row is in the server's log (RFC 9162, section 2.1.3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Inclusion))]
pub struct InclusionProof {
    /// Its position, from 0.
    pub position: u64,
    /// The head at the end of the proof, with the server's signature.
    pub head: SignedHead,
    /// The start of the steps: SHA-256 of a zero byte and the leaf, hex.
    pub leaf_hash: String,
    /// The steps.
    pub steps: Vec<ProofStep>,
    /// Whether the last step is the root that the server signed, and the signature is valid.
    pub holds: bool,
}

/// One step up the tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Step))]
pub struct ProofStep {
    /// Whether the sibling is on the left of the known hash.
    pub left: bool,
    /// The sibling's hash, hex.
    pub sibling: String,
    /// SHA-256 of the byte 1 and both hashes, left to right, hex.
    pub hash: String,
}

/// A site's receipt and the server's confirmation that it charged the receipt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReceiptProof {
    /// The worker that signed it.
    pub worker: WorkerId,
    /// The worker's name.
    pub worker_name: String,
    /// Its number in the site's chain, from 1.
    pub sequence: u64,
    /// SHA-256 of the receipt, hex.
    pub digest: String,
    /// The receipt as it was signed.
    pub signed: Signed,
    /// The server's countersignature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub countersignature: Option<Signed>,
    /// Whether the site's key signed it.
    pub signature_holds: bool,
    /// Whether the row charges exactly the release of the receipt.
    pub charged_as_signed: bool,
    /// Whether the server's key signed the countersignature, for this receipt and this position.
    pub countersignature_holds: bool,
}

/// Returns the steps from a leaf to the root of a tree of `size` leaves, given the siblings of an inclusion proof.
pub fn steps(leaf: &TreeHash, position: u64, size: u64, siblings: &[TreeHash]) -> Vec<ProofStep> {
    let mut node = *leaf;
    let mut place = position;
    let mut last = size.saturating_sub(1);
    let mut steps = Vec::with_capacity(siblings.len());
    for sibling in siblings {
        let is_left = place & 1 == 1 || place == last;
        node = if is_left { node_hash(sibling, &node) } else { node_hash(&node, sibling) };
        steps.push(ProofStep { left: is_left, sibling: hex::encode(sibling), hash: hex::encode(node) });
        if is_left {
            // Climb to the next level where the path was a right child: the levels between have no sibling.
            while place & 1 == 0 && place != 0 {
                place >>= 1;
                last >>= 1;
            }
        }
        place >>= 1;
        last >>= 1;
    }
    steps
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::steps;
    use crate::log::proof::{Subtree, assemble, inclusion_path, verify_inclusion};
    use crate::log::{Frontier, TreeHash, leaf_hash};

    #[test]
    fn the_steps_lead_to_the_root_wherever_the_leaf_stands() {
        for size in 1..=33_u64 {
            let (mut frontier, mut nodes) = (Frontier::default(), BTreeMap::<u64, Vec<TreeHash>>::new());
            for position in 0..size {
                nodes.insert(position, frontier.push(leaf_hash(&position.to_le_bytes())));
            }
            let root = frontier.root();
            for position in 0..size {
                let node = |subtree: Subtree| nodes.get(&subtree.last())?.get(subtree.level as usize).copied();
                let proof = assemble(&inclusion_path(position, size), node).expect("every hash is known");
                verify_inclusion(&position.to_le_bytes(), position, size, &root, &proof).expect("a proof");
                let leaf = leaf_hash(&position.to_le_bytes());
                let steps = steps(&leaf, position, size, &proof);
                let end = steps.last().map_or_else(|| hex::encode(leaf), |step| step.hash.clone());
                assert_eq!(end, hex::encode(root), "leaf {position} of {size}");
            }
        }
    }
}
