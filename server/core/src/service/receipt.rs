//! Receipts: a site's statements of its charges. They are accepted only as links of one signed, unbroken chain, for a
//! release that the manifest plans. Then each is charged to the consortium's ledger, once, in the caller's transaction.

mod group;
mod plan;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use sea_orm::sea_query::Expr;
use sea_orm::{
    ColumnTrait as _, ConnectionTrait, EntityTrait as _, ExprTrait as _, IntoActiveModel as _, PaginatorTrait as _,
    QueryFilter as _, QueryOrder as _,
};
use undertone_api::id::WorkerId;
use undertone_api::problem::Code;
use undertone_api::signed::{self, Countersignature, Receipt, Signed};

use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::{countersignature, participant, receipt};
use crate::service::lease::{self, ActiveLease};
use crate::service::ledger::{self, ProvenRelease};
use crate::service::{log, site_key};

/// SHA-256 of the empty string, hex: the predecessor that the first receipt of a chain names.
const NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// A worker's verified receipts, oldest first. A signature and the plan of a manifest never change, but the site's keys
/// may; so this records the number of key changes at the time of the verification.
pub struct VerifiedReceipts {
    changes: usize,
    receipts: Vec<CheckedReceipt>,
}

/// A receipt with a valid signature of the right key.
struct CheckedReceipt {
    document: Receipt,
    digest: String,
    foreseen: Result<PlannedRelease, &'static str>,
}

/// A release that a manifest plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PlannedRelease {
    /// A release of the participant's charge.
    Charged,
    /// An exact release in addition to them, which the ledger counts separately.
    Beside,
}

impl VerifiedReceipts {
    /// Returns whether one of them pays for a vector of a lease's dataset in a round.
    pub(crate) fn pay_for(&self, held: &ActiveLease, series: &str, round: u32) -> bool {
        let target = (held.job, held.dataset, series, round);
        let pays = |receipt: &Receipt| (receipt.job, receipt.dataset, &*receipt.series, receipt.round) == target;
        self.receipts.iter().any(|looked| pays(&looked.document))
    }
}

/// Verifies a worker's receipts outside the writer's turn: signatures, and the plans of manifests. It does not check
/// that they continue the known chain.
///
/// # Errors
/// `bad_signature` when one was not signed by the right key.
pub async fn prove(
    ctx: &Ctx,
    connection: &impl ConnectionTrait,
    worker: WorkerId,
    receipts: &[Signed],
) -> Result<VerifiedReceipts, Error> {
    let mut proven = VerifiedReceipts { changes: 0, receipts: Vec::with_capacity(receipts.len()) };
    if receipts.is_empty() {
        return Ok(proven);
    }
    let keys = site_key::load_keys(connection, worker).await?;
    proven.changes = keys.changes();
    let mut parts = BTreeMap::new();
    for signed in receipts {
        // The right key depends on the receipt's number alone.
        let claimed: Receipt = serde_json::from_str(&signed.payload).map_err(|error| bad(error.to_string()))?;
        let document: Receipt =
            signed.open(keys.key_of_receipt(claimed.sequence)).map_err(|error| bad(error.to_string()))?;
        let part = match parts.entry((document.job, document.dataset)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(plan::find(ctx, connection, document.job, document.dataset).await?),
        };
        let foreseen = match part {
            Some(part) => plan::compare(part, worker, &document),
            None => Err("the receipt names a job and a dataset that do not belong together"),
        };
        proven.receipts.push(CheckedReceipt { document, digest: signed.digest(), foreseen });
    }
    Ok(proven)
}

/// Accepts receipts of a running part before their releases are made, and countersigns them. A repetition changes
/// nothing.
///
/// # Errors
/// `lease_lost`, and as `accept`.
pub async fn countersign(ctx: &Ctx, worker: WorkerId, lease: &str, receipts: &[Signed]) -> Result<Vec<Signed>, Error> {
    let held = lease::find_lease(ctx.db.read(), worker, lease).await?;
    // A worker whose job is paused or over learns that at once, and takes no place in a group.
    lease::still_at_work(ctx.db.read(), &held, lease).await?;
    // A receipt that is invalid now is verified again in the transaction, and rejected there.
    let proven = prove(ctx, ctx.db.read(), worker, receipts).await.ok();
    if let Some(batch) = proven.as_ref().and_then(|verified| group::batch(&held, lease, receipts, verified))
        && let Some(countersigned) = Box::pin(group::count(ctx, batch)).await?
    {
        return Ok(countersigned);
    }
    // The job may have ended during the wait for the group.
    lease::still_at_work(ctx.db.read(), &held, lease).await?;
    ctx.db
        .write("countersign receipts", async |tx| {
            let countersigned = accept_proven(ctx, tx, worker, receipts, proven.as_ref()).await?;
            lease::still_at_work(tx, &held, lease).await?;
            Ok(countersigned)
        })
        .await
}

/// Accepts a worker's receipts, oldest first; known ones count once. Returns a countersignature for each, in the same
/// order.
///
/// # Errors
/// `bad_signature` when a signature, the chain or the manifest does not support a receipt; the errors of
/// [`ledger::commit`] when the reservation does not cover it. Then nothing of any of them is stored.
pub async fn accept(ctx: &Ctx, tx: &Tx, worker: WorkerId, receipts: &[Signed]) -> Result<Vec<Signed>, Error> {
    accept_proven(ctx, tx, worker, receipts, None).await
}

/// Accepts receipts as [`accept`], verified before the transaction began. Without this, or after a change of the site's
/// key, they are verified in the transaction.
///
/// # Errors
/// As [`accept`].
pub(crate) async fn accept_proven(
    ctx: &Ctx,
    tx: &Tx,
    worker: WorkerId,
    receipts: &[Signed],
    proven: Option<&VerifiedReceipts>,
) -> Result<Vec<Signed>, Error> {
    let mut countersigned = Vec::new();
    if receipts.is_empty() {
        return Ok(countersigned);
    }
    let holds = match proven {
        Some(proven) => site_key::changed(tx, worker).await? == proven.changes as u64,
        None => false,
    };
    let again;
    let proven = match proven {
        Some(proven) if holds => proven,
        _ => {
            again = prove(ctx, tx, worker, receipts).await?;
            &again
        }
    };
    let last = receipt::Entity::find()
        .filter(receipt::Column::WorkerId.eq(worker.0))
        .order_by_desc(receipt::Column::Sequence)
        .one(tx)
        .await?;
    let (mut sequence, mut head) = last.map_or((0, NOTHING.to_owned()), |row| (row.sequence, row.digest));
    for (signed, CheckedReceipt { document, digest, foreseen }) in receipts.iter().zip(&proven.receipts) {
        let number = i64::try_from(document.sequence).map_err(|_| bad("a receipt's number is out of range"))?;
        if number <= sequence {
            let earlier = receipt::Entity::find_by_id((worker.0, number)).one(tx).await?;
            if earlier.is_some_and(|earlier| earlier.digest == *digest) {
                countersigned.extend(countersignature_of(ctx, tx, worker, number).await?);
                continue;
            }
            return Err(bad(format!("the site has signed two receipts number {number}: its ledger has forked")));
        }
        if number != sequence + 1 || document.previous != head {
            return Err(bad(format!(
                "receipt {number} does not follow receipt {sequence}: send every receipt since, oldest first"
            )));
        }
        let foreseen = (*foreseen).map_err(bad)?;
        let row = receipt_row(ctx, signed, document, digest)?;
        receipt::Entity::insert(row.into_active_model()).exec_without_returning(tx).await?;
        let release = ProvenRelease::from_receipt(document, digest);
        let position = ledger::commit(ctx, tx, &release).await?;
        countersigned.push(sign(ctx, tx, (worker, document.sequence), digest, position).await?);
        if foreseen == PlannedRelease::Charged {
            count(tx, document).await?;
        }
        (sequence, head) = (number, digest.clone());
    }
    Ok(countersigned)
}

/// Signs and stores the server's statement that it has charged a receipt, with its position in the log.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub(crate) async fn sign(
    ctx: &Ctx,
    tx: &Tx,
    number: (WorkerId, u64),
    digest: &str,
    position: u64,
) -> Result<Signed, Error> {
    let (signed, row) = countersignature(ctx, number, digest, position).await?;
    countersignature::Entity::insert(row.into_active_model()).exec_without_returning(tx).await?;
    Ok(signed)
}

/// Signs the server's statement that it has charged a receipt. Returns it with its row, which the caller inserts.
async fn countersignature(
    ctx: &Ctx,
    (worker, sequence): (WorkerId, u64),
    digest: &str,
    position: u64,
) -> Result<(Signed, countersignature::Model), Error> {
    let document = Countersignature {
        worker,
        sequence,
        receipt: digest.to_owned(),
        position,
        at: ctx.now(),
        server: signed::key_id(&ctx.signer.verifying_key()),
    };
    let signed = ctx.signer.sign(&document).await.map_err(|error| Error::internal("countersigning", error))?;
    let row = countersignature::Model {
        worker_id: worker.0,
        sequence: sequence as i64,
        receipt: document.receipt,
        position: position as i64,
        payload: signed.payload.clone(),
        signature: signed.signature.clone(),
    };
    Ok((signed, row))
}

/// Returns the row of a receipt that is accepted now.
fn receipt_row(ctx: &Ctx, signed: &Signed, document: &Receipt, digest: &str) -> Result<receipt::Model, Error> {
    Ok(receipt::Model {
        worker_id: document.worker.0,
        sequence: i64::try_from(document.sequence).map_err(|_| bad("a receipt's number is out of range"))?,
        digest: digest.to_owned(),
        payload: signed.payload.clone(),
        signature: signed.signature.clone(),
        job_id: document.job.0,
        dataset_id: document.dataset.0,
        series: document.series.clone(),
        round: document.round as i32,
        attempt: i32::try_from(document.attempt).map_err(|_| bad("a receipt's attempt is out of range"))?,
        received_at: ctx.now(),
    })
}

async fn countersignature_of(
    ctx: &Ctx,
    connection: &impl ConnectionTrait,
    worker: WorkerId,
    sequence: i64,
) -> Result<Option<Signed>, Error> {
    let row = countersignature::Entity::find_by_id((worker.0, sequence)).one(connection).await?;
    match row {
        Some(row) => Ok(Some(log::renewal::current_countersignature(ctx, row).await?)),
        None => Ok(None),
    }
}

/// Returns whether a receipt pays for a vector of a lease's dataset in a round. The lease's holder must have signed it,
/// so only that worker's receipts are searched.
pub(crate) async fn pays_for(
    connection: &impl ConnectionTrait,
    held: &ActiveLease,
    series: &str,
    round: u32,
) -> Result<bool, Error> {
    let receipts = receipt::Entity::find()
        .filter(receipt::Column::WorkerId.eq(held.worker.0))
        .filter(receipt::Column::JobId.eq(held.job.0))
        .filter(receipt::Column::DatasetId.eq(held.dataset.0))
        .filter(receipt::Column::Series.eq(series))
        .filter(receipt::Column::Round.eq(round as i32));
    Ok(receipts.count(connection).await? > 0)
}

/// Counts a release of the participant's charge.
async fn count(tx: &Tx, receipt: &Receipt) -> Result<(), Error> {
    participant::Entity::update_many()
        .col_expr(participant::Column::Releases, Expr::col(participant::Column::Releases).add(1_i64))
        .filter(participant::Column::JobId.eq(receipt.job.0))
        .filter(participant::Column::DatasetId.eq(receipt.dataset.0))
        .exec(tx)
        .await?;
    Ok(())
}

fn bad(detail: impl Into<String>) -> Error {
    Error::problem(Code::BadSignature, detail)
}
