//! The exchange of cosigned heads. Each site submits the newest head of the log that it has verified, signed with its
//! key. It receives those of its peers with the proofs that they agree (see `undertone_api::log::peers`).
//!
//! Peers are the workers of all organizations that share a consortium with the caller's. A retired worker, and an organization
//! that is retired from a consortium, have no peers there and are not relayed. The server cannot alter an observation, since
//! it lacks the site's key. With the heads travel the positions of the sites' ledgers (`positions.rs`).

mod positions;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use sea_orm::sea_query::{Expr, ExprTrait as _, OnConflict};
use sea_orm::{
    ColumnTrait as _, EntityTrait as _, IntoActiveModel as _, QueryFilter as _, QueryOrder as _, QuerySelect as _,
};
use undertone_api::id::WorkerId;
use undertone_api::log::peers::{MOST_PEERS, PeerHead};
use undertone_api::log::proof::{Subtree, assemble, consistency_path};
use undertone_api::problem::Code;
use undertone_api::signed::{HeadObservation, LogHead, Signed, public_key};
use uuid::Uuid;

use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::{head_observation, log_head, membership, organization, worker};
use crate::service::{log, restoration, site_key};

pub use positions::{HandedPositions, store_positions};

/// Stores the caller's observation and returns those of its peers, the newest first.
///
/// # Errors
/// 404 for a worker that is unknown or retired; `bad_signature` when the observation is not signed by the worker's key, or its head not
/// by this server's; `wrong_state` for a head of the log that was lost when this server was restored.
pub async fn exchange_heads(ctx: &Ctx, caller: WorkerId, signed: &Signed) -> Result<Vec<PeerHead>, Error> {
    let row = worker::Entity::find_by_id(caller.0).one(ctx.db.read()).await?;
    let row = row.filter(|row| row.retired_at.is_none()).ok_or_else(|| Error::not_found("worker"))?;
    let key = public_key(&row.public_key).map_err(|error| Error::internal("reading a worker's key", error))?;
    let observation: HeadObservation = signed.open(&key).map_err(|error| invalid_head(error.to_string()))?;
    if observation.worker != caller {
        return Err(invalid_head("the observation is of another worker"));
    }
    let head: LogHead = observation
        .head
        .open(&ctx.signer.verifying_key())
        .map_err(|error| invalid_head(format!("the head is not signed by this server: {error}")))?;
    check_not_lost(ctx, &head).await?;
    store_observation(ctx, signed, &observation, &head).await?;
    peer_heads(ctx, &row, &head).await
}

/// Rejects a head of the log that was lost in a restoration. A peer that has accepted the restoration would take it for
/// a fork. The site with this head must accept the restoration first.
async fn check_not_lost(ctx: &Ctx, head: &LogHead) -> Result<(), Error> {
    if restoration::newest(ctx.db.read()).await?.is_none() {
        return Ok(());
    }
    let size = i64::try_from(head.size).map_err(|_| invalid_head("the head's size is out of range"))?;
    let stored_head = log_head::Entity::find_by_id(size).one(ctx.db.read()).await?;
    if stored_head.is_some_and(|row| row.root == head.root) {
        return Ok(());
    }
    Err(Error::wrong_state("the head is of the log from before this server was restored: ask for the log again"))
}

/// Replaces the worker's observation, unless the stored one is of a larger log.
async fn store_observation(
    ctx: &Ctx,
    signed: &Signed,
    observation: &HeadObservation,
    head: &LogHead,
) -> Result<(), Error> {
    use head_observation::Column;
    let row = head_observation::Model {
        worker_id: observation.worker.0,
        size: i64::try_from(head.size).map_err(|_| invalid_head("the head's size is out of range"))?,
        payload: signed.payload.clone(),
        signature: signed.signature.clone(),
        observed_at: observation.observed_at,
    };
    let newest = OnConflict::column(Column::WorkerId)
        .update_columns([Column::Size, Column::Payload, Column::Signature, Column::ObservedAt])
        .action_and_where(Expr::col((head_observation::Entity, Column::Size)).lte(row.size))
        .to_owned();
    ctx.db
        .write_concurrent("store a cosigned head", async |tx| {
            let insert = head_observation::Entity::insert(row.clone().into_active_model());
            insert.on_conflict(newest.clone()).exec_without_returning(tx).await?;
            Ok(())
        })
        .await
}

/// Returns the newest observations of the caller's peers, with the proofs that they agree with `own`.
async fn peer_heads(ctx: &Ctx, caller: &worker::Model, own: &LogHead) -> Result<Vec<PeerHead>, Error> {
    let peers = peer_workers(ctx, caller).await?;
    let rows = head_observation::Entity::find()
        .filter(head_observation::Column::WorkerId.is_in(peers.keys().copied()))
        .order_by_desc(head_observation::Column::ObservedAt)
        .limit(MOST_PEERS as u64)
        .all(ctx.db.read())
        .await?;
    // The log as it is now: a database restored from an older copy has fewer leaves than an observation names.
    let newest = log::newest(ctx.db.read()).await?.map_or(0, |head| head.size as u64);
    let paths = rows.iter().map(|row| {
        let theirs = row.size as u64;
        let (small, large) = if theirs <= own.size { (theirs, own.size) } else { (own.size, theirs) };
        if large <= newest { consistency_path(small, large) } else { Vec::new() }
    });
    let paths: Vec<Vec<Vec<Subtree>>> = paths.collect();
    let subtrees: BTreeSet<Subtree> = paths.iter().flatten().flatten().copied().collect();
    let hashes = log::hashes(ctx.db.read(), subtrees).await?;
    let observers: Vec<Uuid> = rows.iter().map(|row| row.worker_id).collect();
    let mut positions = positions::RelayedPositions::load(ctx, caller.id, &observers).await?;
    let mut heads = Vec::with_capacity(rows.len());
    for (row, path) in rows.into_iter().zip(&paths) {
        let Some((peer, organization_name)) = peers.get(&row.worker_id) else { continue };
        let consistency = assemble(path, |subtree| hashes.get(&subtree).copied());
        let (position, sighting) = positions.take(row.worker_id);
        heads.push(PeerHead {
            worker: peer.id.into(),
            worker_name: peer.name.clone(),
            organization_name: organization_name.clone(),
            public_key: peer.public_key.clone(),
            rotations: site_key::rotations(ctx.db.read(), peer.id).await?,
            observation: Signed { payload: row.payload, signature: row.signature },
            consistency: consistency.ok_or_else(|| Error::internal("proving the log", "a hash is missing"))?,
            position,
            sighting,
        });
    }
    Ok(heads)
}

/// Returns the workers of all organizations that share a consortium with the caller's, with the names of their organizations. Those that
/// are retired, themselves or their organization from the consortium, are left out.
async fn peer_workers(ctx: &Ctx, caller: &worker::Model) -> Result<BTreeMap<Uuid, (worker::Model, String)>, Error> {
    let own = membership::Entity::find()
        .filter(membership::Column::OrganizationId.eq(caller.organization_id))
        .filter(membership::Column::RetiredAt.is_null())
        .all(ctx.db.read())
        .await?;
    let shared = membership::Entity::find()
        .filter(membership::Column::ConsortiumId.is_in(own.iter().map(|row| row.consortium_id)))
        .filter(membership::Column::RetiredAt.is_null())
        .all(ctx.db.read())
        .await?;
    let organizations: BTreeSet<Uuid> = shared.iter().map(|row| row.organization_id).collect();
    let names = organization::Entity::find()
        .filter(organization::Column::Id.is_in(organizations.iter().copied()))
        .all(ctx.db.read())
        .await?;
    let names: BTreeMap<Uuid, String> = names.into_iter().map(|row| (row.id, row.name)).collect();
    let workers = worker::Entity::find()
        .filter(worker::Column::OrganizationId.is_in(organizations))
        .filter(worker::Column::Id.ne(caller.id))
        .filter(worker::Column::RetiredAt.is_null())
        .all(ctx.db.read())
        .await?;
    let entries = workers.into_iter().map(|row| {
        let organization_name = names.get(&row.organization_id).cloned().unwrap_or_default();
        (row.id, (row, organization_name))
    });
    Ok(entries.collect())
}

fn invalid_head(detail: impl Into<String>) -> Error {
    Error::problem(Code::BadSignature, detail)
}
