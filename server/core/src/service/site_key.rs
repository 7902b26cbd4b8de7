//! The successive keys of sites: each change is signed with the previous key, so that no other party, including this
//! server, can replace a site's key.

mod logged;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _,
    PaginatorTrait as _, QueryFilter as _, QueryOrder as _,
};
use serde_json::json;
use undertone_api::id::{OrganizationId, WorkerId};
use undertone_api::log::leaf::KeyEvent;
use undertone_api::problem::Code;
use undertone_api::signed::{KeyRotation, SiteKeys, public_key};
use undertone_api::worker::KeyChanged;
use uuid::Uuid;

use crate::auth::Place;
use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::{receipt, worker, worker_key};
use crate::service::audit_log::{self, AuditAction, AuditAuthor, NewAuditEntry};
use crate::service::notification::{MemberNotice, tell};
use crate::service::presence;

pub use logged::AT_ONCE;
pub(crate) use logged::{adopt_keys, log_key_event, newest_key};

/// Records the change of a site's key. A site that lost the response may repeat the request.
///
/// # Errors
/// `unauthenticated` for a retired worker; `bad_signature` when one of the keys has not signed it, or it does not
/// continue the known changes; `already_exists` when the new key belongs to another worker.
pub async fn rotate(ctx: &Ctx, rotation: &KeyRotation) -> Result<(), Error> {
    let change = rotation.open().map_err(|error| bad(error.to_string()))?;
    // An unauthenticated caller must cause no write and no wait for the writer.
    if worker::Entity::find_by_id(change.worker.0).one(ctx.db.read()).await?.is_none() {
        return Err(unknown());
    }
    let recorded = ctx
        .db
        .write("rotate a site's key", async |tx| {
            let row = worker::Entity::find_by_id(change.worker.0).one(tx).await?;
            let row = row.ok_or_else(unknown)?;
            if row.retired_at.is_some() {
                return Err(presence::retired());
            }
            let history = rotations(tx, row.id).await?;
            if history.last().is_some_and(|last| last.by_old.payload == rotation.by_old.payload) {
                return Ok(false);
            }
            let current =
                public_key(&row.public_key).map_err(|error| Error::internal("reading a site's key", error))?;
            let mut keys = SiteKeys::leading_to(current, &history)
                .map_err(|error| Error::internal("reading the changes of a site's key", error))?;
            keys.follow(rotation).map_err(|error| bad(error.to_string()))?;
            let last = receipt::Entity::find()
                .filter(receipt::Column::WorkerId.eq(row.id))
                .order_by_desc(receipt::Column::Sequence)
                .one(tx)
                .await?;
            if let Some(last) = last {
                let sequence = last.sequence as u64;
                if sequence > change.receipts || (sequence == change.receipts && last.digest != change.last) {
                    return Err(bad(format!(
                        "the site has signed receipt {sequence} with the key that it says ended with receipt {}",
                        change.receipts
                    )));
                }
            }
            let owner = worker::Entity::find().filter(worker::Column::PublicKey.eq(&change.new)).one(tx).await?;
            if owner.is_some() {
                return Err(Error::problem(Code::AlreadyExists, "another worker has this key"));
            }
            let change_row = worker_key::Model {
                worker_id: row.id,
                number: i32::try_from(change.number).map_err(|_| bad("the number of the change is out of range"))?,
                public_key: change.new.clone(),
                receipts: i64::try_from(change.receipts).map_err(|_| bad("the number of receipts is out of range"))?,
                payload: rotation.by_old.payload.clone(),
                by_old: rotation.by_old.signature.clone(),
                by_new: rotation.by_new.signature.clone(),
                recorded_at: ctx.now(),
            };
            change_row.into_active_model().insert(tx).await?;
            let (worker, organization): (WorkerId, OrganizationId) = (row.id.into(), row.organization_id.into());
            let row = worker::Model { public_key: change.new.clone(), ..row };
            let row = row.into_active_model().reset_all().update(tx).await?;
            log_key_event(ctx, tx, &row, KeyEvent::Rotated).await?;
            let act = NewAuditEntry {
                by: AuditAuthor::Worker(worker),
                what: AuditAction::WorkerKeyRotated,
                place: Place::Organization(organization),
                subject: Some(("worker", worker.to_string())),
                detail: json!({ "number": change.number, "old": change.old, "new": change.new }),
            };
            audit_log::record(ctx, tx, act).await?;
            // A thief of the old key could make this change as well: the organization's admins are notified.
            tell(ctx, tx, MemberNotice::SiteKeyRotated { worker: &row, number: change.number }).await?;
            Ok(true)
        })
        .await?;
    if recorded {
        tracing::info!(worker.id = %change.worker, change.number, "a site's key was rotated");
    }
    Ok(())
}

/// Returns every key of a worker, with the receipts that each has signed.
///
/// # Errors
/// 404 when there is no such worker.
pub(crate) async fn load_keys(connection: &impl ConnectionTrait, worker: WorkerId) -> Result<SiteKeys, Error> {
    let row = worker::Entity::find_by_id(worker.0).one(connection).await?.ok_or_else(|| Error::not_found("worker"))?;
    let current = public_key(&row.public_key).map_err(|error| Error::internal("reading a worker's key", error))?;
    SiteKeys::leading_to(current, &rotations(connection, worker.0).await?)
        .map_err(|error| Error::internal("reading the changes of a site's key", error))
}

/// Returns the number of changes of a worker's key. Changes are never undone, so an equal number means the same
/// changes.
///
/// # Errors
/// When the database fails.
pub(crate) async fn changed(connection: &impl ConnectionTrait, worker: WorkerId) -> Result<u64, Error> {
    let rows = worker_key::Entity::find().filter(worker_key::Column::WorkerId.eq(worker.0));
    Ok(rows.count(connection).await?)
}

/// Returns the changes of a worker's key, oldest first.
///
/// # Errors
/// When the database fails.
pub(crate) async fn rotations(connection: &impl ConnectionTrait, worker: Uuid) -> Result<Vec<KeyRotation>, Error> {
    let rows = worker_key::Entity::find()
        .filter(worker_key::Column::WorkerId.eq(worker))
        .order_by_asc(worker_key::Column::Number)
        .all(connection)
        .await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// Returns the changes of workers' keys for display, oldest first.
///
/// # Errors
/// When the database fails, or a stored change is invalid.
pub(crate) async fn changes(
    connection: &impl ConnectionTrait,
    workers: Vec<Uuid>,
) -> Result<HashMap<Uuid, Vec<KeyChanged>>, Error> {
    let rows = worker_key::Entity::find()
        .filter(worker_key::Column::WorkerId.is_in(workers))
        .order_by_asc(worker_key::Column::Number)
        .all(connection)
        .await?;
    let mut by_worker: HashMap<Uuid, Vec<KeyChanged>> = HashMap::new();
    for row in rows {
        let worker = row.worker_id;
        let change = KeyRotation::from(row)
            .open()
            .map_err(|error| Error::internal("reading the changes of a site's key", error))?;
        let (number, receipts, at) = (change.number, change.receipts, change.at);
        let entry = KeyChanged { number, old: change.old, new: change.new, receipts, at };
        by_worker.entry(worker).or_default().push(entry);
    }
    Ok(by_worker)
}

fn unknown() -> Error {
    bad("the worker is not known here")
}

fn bad(detail: impl Into<String>) -> Error {
    Error::problem(Code::BadSignature, detail)
}
