//! The receipts that wait to be counted together.

use undertone_api::id::{DatasetId, JobId, WorkerId};
use undertone_api::problem::Problem;
use undertone_api::signed::{Receipt, Signed};

use crate::db::PATIENCE;
use crate::fairness::{GroupLimits, GroupQueue, QueueLimits};

/// The highest number of workers whose receipts are counted in one transaction.
pub const MOST_GROUP_WORKERS: usize = 64;
/// The highest number of receipts of a worker in such a transaction. A worker with more has its own. So the rows of a
/// group stay below the databases' limits: SQLite binds at most 32,766 values in a statement.
pub const MOST_GROUP_RECEIPTS: usize = 4;
/// The highest number of waiting workers: in total, and of one organization.
pub const MOST_WAITING_CALLS: (usize, usize) = (2048, 256);

/// The queue of receipts.
pub(super) const RECEIPTS: GroupLimits = GroupLimits {
    queue: QueueLimits {
        name: "receipts",
        turns: "calls with receipts",
        at_a_time: 1,
        waiting: MOST_WAITING_CALLS.0,
        waiting_of_owner: MOST_WAITING_CALLS.1,
        patience: PATIENCE,
    },
    members: MOST_GROUP_WORKERS,
};

/// The queue of receipts. An answer holds the countersignature of each receipt, `None` when they were not counted, or the
/// problem for which no receipt of the group was.
pub type ReceiptGroups = GroupQueue<ReceiptBatch, Result<Option<Vec<Signed>>, Problem>>;

/// Receipts of one worker, oldest first, with a lease.
#[derive(Debug, Clone)]
pub struct ReceiptBatch {
    /// The worker.
    pub worker: WorkerId,
    /// The job of its lease.
    pub job: JobId,
    /// The dataset of its lease.
    pub dataset: DatasetId,
    /// The token of its lease.
    pub token: String,
    /// The number of changes of the worker's key when the signatures were verified.
    pub key_changes: usize,
    /// The receipts.
    pub receipts: Vec<VerifiedReceipt>,
}

/// A receipt with a valid signature, for a release that a manifest plans.
#[derive(Debug, Clone)]
pub struct VerifiedReceipt {
    /// The signed document.
    pub signed: Signed,
    /// The document.
    pub document: Receipt,
    /// Its digest.
    pub digest: String,
    /// Whether it is for the participant's charge, and not for an exact release in addition.
    pub is_charged: bool,
}
