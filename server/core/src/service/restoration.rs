//! Restorations of the server from an older copy of its database, and the return of the receipts that the copy lacks.
//!
//! A restoration is stated once, with a signature and a leaf of the log ([`state_restoration`]). Each site verifies
//! that the restored log is a prefix of the log that it knows, and returns the receipts that the server lost
//! ([`reconcile`]). Until then the charges that the server lost are unknown: the site's datasets take part in no new
//! job, and the site gets no work. A worker that was written off is treated in the same way
//! (`retirement::write_off_worker`).

mod rebuild;
mod reconcile;
mod state;
mod statement;

use std::collections::BTreeSet;

use sea_orm::{
    ColumnTrait as _, ConnectionTrait, EntityTrait as _, QueryFilter as _, QueryOrder as _, QuerySelect as _,
};
use undertone_api::log::proof::{assemble, consistency_path, inclusion_path};
use undertone_api::log::witness::{MOST_RESTORATIONS, RestorationProof};
use undertone_api::problem::Violation;
use undertone_api::signed::Signed;
use uuid::Uuid;

use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::{dataset, reconciliation, restoration, worker, write_off as written_off};
use crate::service::log;

pub(crate) use rebuild::hold_leases;
pub use reconcile::{MOST_PARTS, ReconciledPart, ReturnedReceipts, reconcile};
pub use state::WorkerStates;
pub use statement::{LONGEST_REASON, StatementError, command, state_restoration};

/// Returns the newest restoration, if the server was ever restored.
///
/// # Errors
/// When the database fails.
pub(crate) async fn newest(connection: &impl ConnectionTrait) -> Result<Option<restoration::Model>, Error> {
    Ok(restoration::Entity::find().order_by_desc(restoration::Column::Position).one(connection).await?)
}

/// Returns those of `workers` that have not returned their receipts to the restored server, or that were written off.
///
/// # Errors
/// When the database fails.
pub async fn waiting(
    connection: &impl ConnectionTrait,
    workers: impl IntoIterator<Item = Uuid>,
) -> Result<BTreeSet<Uuid>, Error> {
    let workers: Vec<Uuid> = workers.into_iter().collect();
    let query = written_off::Entity::find()
        .filter(written_off::Column::WorkerId.is_in(workers.iter().copied()))
        .filter(written_off::Column::ReturnedAt.is_null());
    let mut waiting: BTreeSet<Uuid> = query.all(connection).await?.into_iter().map(|row| row.worker_id).collect();
    let Some(newest) = newest(connection).await? else { return Ok(waiting) };
    let finished = reconciliation::Entity::find()
        .filter(reconciliation::Column::Restoration.eq(newest.position))
        .filter(reconciliation::Column::FinishedAt.is_not_null());
    let finished: BTreeSet<Uuid> = finished.all(connection).await?.into_iter().map(|row| row.worker_id).collect();
    let older = worker::Entity::find()
        .filter(worker::Column::Id.is_in(workers))
        .filter(worker::Column::CreatedAt.lte(newest.at));
    let older = older.all(connection).await?.into_iter().map(|row| row.id);
    waiting.extend(older.filter(|id| !finished.contains(id)));
    Ok(waiting)
}

/// Returns a violation for each dataset of a proposal with a worker in [`waiting`].
///
/// # Errors
/// When the database fails.
pub(crate) async fn violations(tx: &Tx, datasets: &[Uuid]) -> Result<Vec<Violation>, Error> {
    let rows = dataset::Entity::find().filter(dataset::Column::Id.is_in(datasets.iter().copied())).all(tx).await?;
    let waiting = waiting(tx, rows.iter().map(|row| row.worker_id)).await?;
    let rows = rows.into_iter().filter(|row| waiting.contains(&row.worker_id));
    let violation = |row: dataset::Model| {
        let message = format!(
            "the worker of the dataset {:?} has not given back the receipts that this server lost: leave the dataset out, or wait until \
             the worker has reached the server",
            row.name
        );
        Violation::new("spec", message)
    };
    Ok(rows.map(violation).collect())
}

/// Returns the restorations after the one with the digest `accepted`, oldest first, with their proofs in the head of
/// `size` leaves. It returns all of them when the log does not contain `accepted`: then it was restored to an even
/// earlier state.
///
/// # Errors
/// When the database fails, or a leaf is missing.
pub async fn proofs(ctx: &Ctx, accepted: Option<&str>, size: u64) -> Result<Vec<RestorationProof>, Error> {
    let mut rows = restoration::Entity::find()
        .filter(restoration::Column::Position.lt(size as i64))
        .order_by_desc(restoration::Column::Position)
        .limit(MOST_RESTORATIONS as u64)
        .all(ctx.db.read())
        .await?;
    if let Some(known) = rows.iter().position(|row| Some(&*row.digest) == accepted) {
        rows.truncate(known);
    }
    rows.reverse();
    let mut proofs = Vec::with_capacity(rows.len());
    for row in rows {
        let (consistency, inclusion) =
            (consistency_path(row.position as u64, size), inclusion_path(row.position as u64, size));
        let subtrees = consistency.iter().chain(&inclusion).flatten().copied().collect();
        let hashes = log::hashes(ctx.db.read(), subtrees).await?;
        let proof = |path: &[Vec<_>]| {
            assemble(path, |subtree| hashes.get(&subtree).copied())
                .ok_or_else(|| Error::internal("proving the log", "a hash is missing"))
        };
        proofs.push(RestorationProof {
            consistency: proof(&consistency)?,
            inclusion: proof(&inclusion)?,
            statement: Signed { payload: row.payload, signature: row.signature },
        });
    }
    Ok(proofs)
}
