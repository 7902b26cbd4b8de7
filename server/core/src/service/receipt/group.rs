//! Group commit of receipts: the receipts of all workers that wait are counted in one transaction, with one signed head
//! of the log. Each worker gets its answer after that transaction is durable.
//!
//! A batch is counted here only in the plain case: a lease in force, and receipts that continue the stored chain on
//! open reservations. Otherwise its worker's call runs alone, with the same rules, and returns the precise error or the
//! earlier countersignatures. So a batch that cannot be counted changes nothing for the others.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use sea_orm::sea_query::{Expr, Query};
use sea_orm::{
    ColumnTrait as _, Condition, EntityTrait as _, ExprTrait as _, IntoActiveModel as _, QueryFilter as _,
    QuerySelect as _,
};
use undertone_api::job::JobState;
use undertone_api::problem::Code;
use undertone_api::signed::Signed;
use uuid::Uuid;

use super::{NOTHING, PlannedRelease, VerifiedReceipts, countersignature, receipt_row};
use crate::ctx::{Ctx, MOST_GROUP_RECEIPTS, ReceiptBatch, VerifiedReceipt};
use crate::db::Tx;
use crate::error::Error;
use crate::fairness::WorkOwner;
use crate::model::column::ColumnEnum;
use crate::model::participant::PartState;
use crate::model::{countersignature as countersignature_row, job, lease, participant, receipt, worker_key};
use crate::service::lease::ActiveLease;
use crate::service::ledger::ProvenRelease;
use crate::service::ledger::charges::OpenCharges;

/// The signatures of a group that the server's key makes at a time.
const SIGNED_AT_ONCE: usize = 4;

/// Returns a batch for [`count`], if a group can count these receipts.
pub(super) fn batch(
    held: &ActiveLease,
    token: &str,
    receipts: &[Signed],
    verified: &VerifiedReceipts,
) -> Option<ReceiptBatch> {
    if receipts.is_empty() || receipts.len() > MOST_GROUP_RECEIPTS || receipts.len() != verified.receipts.len() {
        return None;
    }
    let receipts: Vec<_> = receipts
        .iter()
        .zip(&verified.receipts)
        .map(|(signed, checked)| {
            let is_charged = checked.foreseen.ok()? == PlannedRelease::Charged;
            // Numbers that no row can have would fail the whole group.
            i64::try_from(checked.document.sequence).ok()?;
            i32::try_from(checked.document.attempt).ok()?;
            let (document, digest) = (checked.document.clone(), checked.digest.clone());
            Some(VerifiedReceipt { signed: signed.clone(), document, digest, is_charged })
        })
        .collect::<Option<_>>()?;
    let follows = |pair: &[VerifiedReceipt]| {
        let [earlier, later] = pair else { return false };
        earlier.document.sequence.checked_add(1) == Some(later.document.sequence)
            && later.document.previous == earlier.digest
    };
    receipts.windows(2).all(follows).then(|| ReceiptBatch {
        worker: held.worker,
        job: held.job,
        dataset: held.dataset,
        token: token.to_owned(),
        key_changes: verified.changes,
        receipts,
    })
}

/// Counts a batch with all others that wait. Returns the countersignatures, or `None` when it must be counted alone.
///
/// # Errors
/// `rate_limited` or `unavailable` if there is no turn.
pub(super) async fn count(ctx: &Ctx, batch: ReceiptBatch) -> Result<Option<Vec<Signed>>, Error> {
    let run = |group: Vec<ReceiptBatch>| async move {
        let counted = ctx.db.write("countersign receipts", async |tx| count_group(ctx, tx, &group).await);
        match WorkOwner::Receipts.scope(counted).await {
            Ok(answers) => Some(answers.into_iter().map(Ok).collect()),
            // Alone, each would wait as long for the same writer: the workers repeat their calls.
            Err(error) if matches!(error.code(), Code::RateLimited | Code::Unavailable) => {
                let problem = error.into_problem();
                Some(group.iter().map(|_| Err(problem.clone())).collect())
            }
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    group.members = group.len(),
                    "a group of receipts was not counted; each worker's are counted alone"
                );
                None
            }
        }
    };
    let answer = ctx.receipt_groups().submit(WorkOwner::current(), batch, run).await?;
    answer.transpose().map(Option::flatten).map_err(Error::from)
}

/// Counts the receipts of each batch, or none of it. Returns the countersignatures of the counted batches.
async fn count_group(ctx: &Ctx, tx: &Tx, group: &[ReceiptBatch]) -> Result<Vec<Option<Vec<Signed>>>, Error> {
    let admitted = admit(tx, group).await?;
    let parts: BTreeSet<(Uuid, Uuid)> = admitted.iter().flat_map(|batch| &batch.receipts).map(part).collect();
    if parts.is_empty() {
        return Ok(vec![None; group.len()]);
    }
    let mut charges = OpenCharges::load(tx, parts).await?;
    let mut places: BTreeMap<Uuid, Vec<u64>> = BTreeMap::new();
    let mut counted = Vec::new();
    for batch in admitted {
        let releases: Vec<_> = batch.receipts.iter().map(release).collect();
        if let Ok(leaves) = charges.commit(ctx.now(), &releases) {
            places.insert(batch.worker.0, leaves);
            counted.push(batch);
        }
    }
    let rows = counted.iter().flat_map(|batch| &batch.receipts);
    let rows: Vec<_> = rows.map(|receipt| row(ctx, receipt)).collect::<Result<_, _>>()?;
    if rows.is_empty() {
        return Ok(vec![None; group.len()]);
    }
    receipt::Entity::insert_many(rows).exec_without_returning(tx).await?;
    let first = charges.save(ctx, tx).await?;
    let receipts = counted.iter().flat_map(|batch| {
        let number = |receipt: &VerifiedReceipt| (batch.worker, receipt.document.sequence);
        batch
            .receipts
            .iter()
            .zip(&places[&batch.worker.0])
            .map(move |(receipt, place)| countersignature(ctx, number(receipt), &receipt.digest, first + place))
    });
    // A key in a module or behind a command takes some requests at a time.
    let signed: Vec<_> = stream::iter(receipts).buffered(SIGNED_AT_ONCE).try_collect().await?;
    let mut answers: BTreeMap<Uuid, Vec<Signed>> = BTreeMap::new();
    let mut rows = Vec::with_capacity(signed.len());
    for (signed, row) in signed {
        answers.entry(row.worker_id).or_default().push(signed);
        rows.push(row.into_active_model());
    }
    countersignature_row::Entity::insert_many(rows).exec_without_returning(tx).await?;
    count_releases(tx, counted.iter().flat_map(|batch| &batch.receipts)).await?;
    // A worker has one batch in a group, and its other batches are counted alone.
    let answer = |batch: &ReceiptBatch| {
        counted.iter().any(|one| std::ptr::eq(*one, batch)).then(|| answers.get(&batch.worker.0).cloned()).flatten()
    };
    Ok(group.iter().map(answer).collect())
}

/// Returns the batches that a group counts: the first of each worker, with a lease in force, verified with the worker's
/// present keys, and next in its chain.
async fn admit<'a>(tx: &Tx, group: &'a [ReceiptBatch]) -> Result<Vec<&'a ReceiptBatch>, Error> {
    let mut workers = BTreeSet::new();
    let mut batches: Vec<_> = group.iter().filter(|batch| workers.insert(batch.worker.0)).collect();
    let leases = leases_in_force(tx, &batches).await?;
    batches.retain(|batch| leases.contains(&(batch.job.0, batch.dataset.0)));
    let changes = key_changes(tx, &batches).await?;
    batches.retain(|batch| changes.get(&batch.worker.0).copied().unwrap_or_default() == batch.key_changes);
    let ends = chain_ends(tx, &batches).await?;
    batches.retain(|batch| {
        let Some(first) = batch.receipts.first() else { return false };
        match ends.get(&batch.worker.0) {
            None => first.document.sequence == 1 && first.document.previous == NOTHING,
            Some((sequence, digest)) => {
                Some(first.document.sequence) == u64::try_from(*sequence).ok().and_then(|end| end.checked_add(1))
                    && first.document.previous == *digest
            }
        }
    });
    Ok(batches)
}

/// Returns the jobs and datasets of those leases that are in force, as `lease::still_at_work` checks one.
async fn leases_in_force(tx: &Tx, batches: &[&ReceiptBatch]) -> Result<BTreeSet<(Uuid, Uuid)>, Error> {
    let states = [JobState::Queued, JobState::Running].map(ColumnEnum::to_text);
    let jobs: BTreeSet<Uuid> = batches.iter().map(|batch| batch.job.0).collect();
    let under_way = Query::select()
        .column(job::Column::Id)
        .from(job::Entity)
        .and_where(job::Column::Id.is_in(jobs.iter().copied()))
        .and_where(job::Column::State.is_in(states))
        .take();
    let open = Query::select()
        .columns([participant::Column::JobId, participant::Column::DatasetId])
        .from(participant::Entity)
        .and_where(participant::Column::JobId.is_in(jobs))
        .and_where(participant::Column::State.ne(PartState::Leaving.to_text()))
        .take();
    let held = batches.iter().fold(Condition::any(), |any, batch| {
        let one = lease::Column::JobId.eq(batch.job.0).and(lease::Column::DatasetId.eq(batch.dataset.0));
        any.add(one.and(lease::Column::Token.eq(&batch.token)).and(lease::Column::WorkerId.eq(batch.worker.0)))
    });
    let part = Expr::tuple([Expr::col(lease::Column::JobId), Expr::col(lease::Column::DatasetId)]);
    let rows = lease::Entity::find()
        .select_only()
        .columns([lease::Column::JobId, lease::Column::DatasetId])
        .filter(held)
        .filter(lease::Column::JobId.in_subquery(under_way))
        .filter(part.in_subquery(open));
    Ok(rows.into_tuple::<(Uuid, Uuid)>().all(tx).await?.into_iter().collect())
}

/// Returns the number of key changes of each worker that has any.
async fn key_changes(tx: &Tx, batches: &[&ReceiptBatch]) -> Result<BTreeMap<Uuid, usize>, Error> {
    let rows = worker_key::Entity::find()
        .select_only()
        .column(worker_key::Column::WorkerId)
        .filter(worker_key::Column::WorkerId.is_in(batches.iter().map(|batch| batch.worker.0)));
    let mut changes: BTreeMap<Uuid, usize> = BTreeMap::new();
    for worker in rows.into_tuple::<Uuid>().all(tx).await? {
        *changes.entry(worker).or_default() += 1;
    }
    Ok(changes)
}

/// Returns the number and digest of the last stored receipt of each worker among the predecessor and the first number of
/// its batch.
async fn chain_ends(tx: &Tx, batches: &[&ReceiptBatch]) -> Result<BTreeMap<Uuid, (i64, String)>, Error> {
    let near = batches.iter().fold(Condition::any(), |any, batch| {
        let first = batch.receipts.first().map_or(0, |receipt| receipt.document.sequence);
        // A number that no row can have finds no row, and no such receipt is next in a chain.
        let before = i64::try_from(first).unwrap_or(i64::MAX).saturating_sub(1);
        // Chains have no gaps: with a row of the first number the batch is a repetition, whatever follows.
        let near = [before, before.saturating_add(1)];
        any.add(receipt::Column::WorkerId.eq(batch.worker.0).and(receipt::Column::Sequence.is_in(near)))
    });
    let rows = receipt::Entity::find()
        .select_only()
        .columns([receipt::Column::WorkerId, receipt::Column::Sequence, receipt::Column::Digest])
        .filter(near);
    let mut ends: BTreeMap<Uuid, (i64, String)> = BTreeMap::new();
    for (worker, sequence, digest) in rows.into_tuple::<(Uuid, i64, String)>().all(tx).await? {
        let end = ends.entry(worker).or_insert_with(|| (sequence, digest.clone()));
        if sequence > end.0 {
            *end = (sequence, digest);
        }
    }
    Ok(ends)
}

/// Counts the releases of participants' charges, in one statement for all with the same number of releases.
async fn count_releases(tx: &Tx, receipts: impl Iterator<Item = &VerifiedReceipt>) -> Result<(), Error> {
    let mut counts: BTreeMap<(Uuid, Uuid), i64> = BTreeMap::new();
    for receipt in receipts.filter(|receipt| receipt.is_charged) {
        *counts.entry(part(receipt)).or_default() += 1;
    }
    let mut by_count: BTreeMap<i64, Condition> = BTreeMap::new();
    for ((job, dataset), count) in counts {
        let one = participant::Column::JobId.eq(job).and(participant::Column::DatasetId.eq(dataset));
        let any = by_count.remove(&count).unwrap_or_else(Condition::any);
        by_count.insert(count, any.add(one));
    }
    for (count, parts) in by_count {
        participant::Entity::update_many()
            .col_expr(participant::Column::Releases, Expr::col(participant::Column::Releases).add(count))
            .filter(parts)
            .exec(tx)
            .await?;
    }
    Ok(())
}

fn part(receipt: &VerifiedReceipt) -> (Uuid, Uuid) {
    (receipt.document.job.0, receipt.document.dataset.0)
}

fn release(receipt: &VerifiedReceipt) -> ProvenRelease<'_> {
    ProvenRelease::from_receipt(&receipt.document, &receipt.digest)
}

fn row(ctx: &Ctx, receipt: &VerifiedReceipt) -> Result<receipt::ActiveModel, Error> {
    Ok(receipt_row(ctx, &receipt.signed, &receipt.document, &receipt.digest)?.into_active_model())
}
