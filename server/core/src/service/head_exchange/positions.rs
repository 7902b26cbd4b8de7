//! Positions of the sites' ledgers, which peers keep for each other: see `undertone_api::signed::LedgerPosition`.
//!
//! The server stores the newest position of each site and the newest sighting of each pair of peers, and relays both. It cannot
//! make one up, since it lacks the sites' keys.

use std::collections::BTreeMap;

use ed25519_dalek::VerifyingKey;
use sea_orm::sea_query::{Expr, ExprTrait as _, OnConflict};
use sea_orm::{ColumnTrait as _, EntityTrait as _, IntoActiveModel as _, QueryFilter as _};
use undertone_api::id::WorkerId;
use undertone_api::log::peers::MOST_PEERS;
use undertone_api::signed::{LedgerPosition, LedgerSighting, MOST_SIGHTING_BYTES, Signed, public_key};
use uuid::Uuid;

use super::{invalid_head, peer_workers};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::{ledger_position, ledger_sighting, worker};

/// What a site hands in about its own ledger and those of its peers. A worker of an earlier version hands in nothing.
#[derive(Debug, Clone, Default)]
pub struct HandedPositions {
    /// A signed [`LedgerPosition`] of the caller.
    pub position: Option<Signed>,
    /// Signed [`LedgerSighting`]s of the caller.
    pub sightings: Vec<Signed>,
}

/// Stores the caller's position and its sightings of its peers; a sighting of a worker that is no peer is passed over.
///
/// # Errors
/// `bad_signature` when the caller's key has not signed them, or they are of others, too large or too many.
pub async fn store_positions(ctx: &Ctx, caller: WorkerId, handed: &HandedPositions) -> Result<(), Error> {
    if handed.position.is_none() && handed.sightings.is_empty() {
        return Ok(());
    }
    let row = worker::Entity::find_by_id(caller.0).one(ctx.db.read()).await?;
    let row = row.ok_or_else(|| Error::not_found("worker"))?;
    let key = public_key(&row.public_key).map_err(|error| Error::internal("reading a worker's key", error))?;
    let position = handed.position.as_ref().map(|signed| position_row(caller, &key, signed)).transpose()?;
    if handed.sightings.len() > MOST_PEERS {
        return Err(invalid_head(format!("more than {MOST_PEERS} sightings")));
    }
    let sightings = handed.sightings.iter().map(|signed| sighting_row(caller, &key, signed));
    let mut sightings: Vec<ledger_sighting::Model> = sightings.collect::<Result<_, _>>()?;
    if !sightings.is_empty() {
        let peers = peer_workers(ctx, &row).await?;
        sightings.retain(|row| peers.contains_key(&row.subject_id));
    }
    ctx.db
        .write_concurrent("store positions of ledgers", async |tx| {
            if let Some(row) = &position {
                use ledger_position::Column;
                let newest = OnConflict::column(Column::WorkerId)
                    .update_columns([Column::Receipts, Column::Payload, Column::Signature])
                    .action_and_where(Expr::col((ledger_position::Entity, Column::Receipts)).lte(row.receipts))
                    .to_owned();
                let insert = ledger_position::Entity::insert(row.clone().into_active_model());
                insert.on_conflict(newest).exec_without_returning(tx).await?;
            }
            for row in &sightings {
                use ledger_sighting::Column;
                let newest = OnConflict::columns([Column::ObserverId, Column::SubjectId])
                    .update_columns([Column::Payload, Column::Signature, Column::ObservedAt])
                    .action_and_where(Expr::col((ledger_sighting::Entity, Column::ObservedAt)).lte(row.observed_at))
                    .to_owned();
                let insert = ledger_sighting::Entity::insert(row.clone().into_active_model());
                insert.on_conflict(newest).exec_without_returning(tx).await?;
            }
            Ok(())
        })
        .await
}

fn position_row(caller: WorkerId, key: &VerifyingKey, signed: &Signed) -> Result<ledger_position::Model, Error> {
    check_size(signed)?;
    let position: LedgerPosition = signed.open(key).map_err(|error| invalid_head(error.to_string()))?;
    if position.worker != caller {
        return Err(invalid_head("the position is of another worker"));
    }
    Ok(ledger_position::Model {
        worker_id: caller.0,
        receipts: i64::try_from(position.receipts).map_err(|_| invalid_head("the position is out of range"))?,
        payload: signed.payload.clone(),
        signature: signed.signature.clone(),
    })
}

fn sighting_row(caller: WorkerId, key: &VerifyingKey, signed: &Signed) -> Result<ledger_sighting::Model, Error> {
    check_size(signed)?;
    let sighting: LedgerSighting = signed.open(key).map_err(|error| invalid_head(error.to_string()))?;
    if sighting.observer != caller {
        return Err(invalid_head("the sighting is another worker's"));
    }
    Ok(ledger_sighting::Model {
        observer_id: caller.0,
        subject_id: sighting.subject.0,
        payload: signed.payload.clone(),
        signature: signed.signature.clone(),
        observed_at: sighting.observed_at,
    })
}

fn check_size(signed: &Signed) -> Result<(), Error> {
    if signed.payload.len() > MOST_SIGHTING_BYTES {
        return Err(invalid_head(format!("a position or a sighting has more than {MOST_SIGHTING_BYTES} bytes")));
    }
    Ok(())
}

/// Positions of peers, and their sightings of the caller, by peer.
#[derive(Debug, Default)]
pub(super) struct RelayedPositions {
    positions: BTreeMap<Uuid, Signed>,
    sightings: BTreeMap<Uuid, Signed>,
}

impl RelayedPositions {
    /// Loads what the peers have handed in for the caller.
    pub(super) async fn load(ctx: &Ctx, caller: Uuid, peers: &[Uuid]) -> Result<Self, Error> {
        let positions = ledger_position::Entity::find()
            .filter(ledger_position::Column::WorkerId.is_in(peers.iter().copied()))
            .all(ctx.db.read())
            .await?;
        let sightings = ledger_sighting::Entity::find()
            .filter(ledger_sighting::Column::SubjectId.eq(caller))
            .filter(ledger_sighting::Column::ObserverId.is_in(peers.iter().copied()))
            .all(ctx.db.read())
            .await?;
        let signed = |payload, signature| Signed { payload, signature };
        Ok(Self {
            positions: positions.into_iter().map(|row| (row.worker_id, signed(row.payload, row.signature))).collect(),
            sightings: sightings.into_iter().map(|row| (row.observer_id, signed(row.payload, row.signature))).collect(),
        })
    }

    /// Takes the position of a peer and its sighting of the caller.
    pub(super) fn take(&mut self, peer: Uuid) -> (Option<Signed>, Option<Signed>) {
        (self.positions.remove(&peer), self.sightings.remove(&peer))
    }
}
