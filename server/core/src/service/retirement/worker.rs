//! Workers: a retired one is refused at each call, cannot rotate its key and holds no lease.

use sea_orm::{ActiveModelTrait as _, ColumnTrait as _, EntityTrait as _, IntoActiveModel as _, QueryFilter as _};
use serde_json::json;
use undertone_api::id::{OrganizationId, WorkerId};
use undertone_api::log::leaf::KeyEvent;
use undertone_api::retirement::StatedReason;
use undertone_api::worker::Worker;

use super::parts::{self, PartsOf};
use super::{
    RetiredSubject, SubjectKind, authority_of, begin, check_authority, check_request, end, in_force, notify_all,
};
use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::worker;
use crate::service::audit_log::{self, AuditAction, AuditAuthor, NewAuditEntry};
use crate::service::notification::AccessNotice;
use crate::service::{site_key, worker as workers};

/// Retires a worker of an organization. Its calls fail at once, its leases end, and its parts in jobs end by the rule
/// of `parts`.
///
/// # Errors
/// 404 and 403 as usual, `proof_stale`, `validation_failed` for the reason, `wrong_state` when it is retired already.
pub async fn retire_worker(
    ctx: &Ctx,
    actor: &Actor,
    organization: OrganizationId,
    id: WorkerId,
    stated: &StatedReason,
) -> Result<Worker, Error> {
    let place = Place::Organization(organization);
    policy::check(actor, Operation::RetireWorker, place)?;
    let reason = check_request(actor, stated)?;
    let jobs = ctx
        .db
        .write("retire worker", async |tx| {
            let row = load(tx, organization, id).await?;
            if row.retired_at.is_some() {
                return Err(Error::wrong_state("the worker is retired already"));
            }
            let name = row.name.clone();
            let row = worker::Model { retired_at: Some(ctx.now()), ..row };
            let row = row.into_active_model().reset_all().update(tx).await?;
            site_key::log_key_event(ctx, tx, &row, KeyEvent::Retired).await?;
            let row = begin(ctx, tx, actor, subject(id), authority_of(actor, place), reason, Vec::new()).await?;
            let ended = format!("its worker {name} was retired");
            let jobs = parts::withdraw(ctx, tx, AuditAuthor::from(actor), PartsOf::Worker(id), &ended).await?;
            record(ctx, tx, actor, organization, id, AuditAction::WorkerRetired, reason).await?;
            let text = format!("{} retired the worker {name}: {reason}", actor.member.name);
            AccessNotice::retired(row.id, &text).for_organization(organization.0).send(ctx, tx).await?;
            Ok(jobs)
        })
        .await?;
    parts::clean_up(ctx, &jobs).await;
    notify_all(ctx);
    tracing::info!(worker.id = %id, jobs = jobs.len(), "a worker was retired");
    workers::get(ctx, id).await
}

/// Restores a retired worker: its former key signs in again.
///
/// # Errors
/// 404 and 403 as usual, `proof_stale`, `validation_failed` for the reason, `wrong_state` when it is not retired or was
/// replaced.
pub async fn restore_worker(
    ctx: &Ctx,
    actor: &Actor,
    organization: OrganizationId,
    id: WorkerId,
    stated: &StatedReason,
) -> Result<Worker, Error> {
    let place = Place::Organization(organization);
    policy::check(actor, Operation::RetireWorker, place)?;
    let reason = check_request(actor, stated)?;
    ctx.db
        .write("restore worker", async |tx| {
            let row = load(tx, organization, id).await?;
            let retired = in_force(tx, subject(id)).await?;
            let (Some(_), Some(retired)) = (row.retired_at, retired) else {
                return Err(Error::wrong_state("the worker is not retired"));
            };
            check_authority(actor, place, &retired)?;
            let heir = worker::Entity::find().filter(worker::Column::Replaces.eq(id.0)).one(tx).await?;
            if let Some(heir) = heir {
                return Err(Error::wrong_state(format!(
                    "the worker {} replaced it and has its datasets: a replaced worker stays retired",
                    heir.name
                )));
            }
            let name = row.name.clone();
            let row = worker::Model { retired_at: None, ..row };
            let row = row.into_active_model().reset_all().update(tx).await?;
            site_key::log_key_event(ctx, tx, &row, KeyEvent::Restored).await?;
            let act = retired.id;
            end(ctx, tx, actor, retired, reason).await?;
            record(ctx, tx, actor, organization, id, AuditAction::WorkerRestored, reason).await?;
            let text = format!("{} restored the worker {name}: {reason}", actor.member.name);
            AccessNotice::restored(act, &text).for_organization(organization.0).send(ctx, tx).await
        })
        .await?;
    notify_all(ctx);
    tracing::info!(worker.id = %id, "a worker was restored");
    workers::get(ctx, id).await
}

pub(crate) const fn subject(id: WorkerId) -> RetiredSubject {
    RetiredSubject { kind: SubjectKind::Worker, id: id.0, scope: None }
}

/// Returns a worker of an organization.
///
/// # Errors
/// 404 when the organization has no such worker.
pub(super) async fn load(tx: &Tx, organization: OrganizationId, id: WorkerId) -> Result<worker::Model, Error> {
    let row = worker::Entity::find_by_id(id.0).one(tx).await?;
    row.filter(|row| row.organization_id == organization.0).ok_or_else(|| Error::not_found("worker"))
}

/// Records an act upon a worker in the audit log.
///
/// # Errors
/// When the database fails.
pub(super) async fn record(
    ctx: &Ctx,
    tx: &Tx,
    actor: &Actor,
    organization: OrganizationId,
    id: WorkerId,
    what: AuditAction,
    reason: &str,
) -> Result<(), Error> {
    let act = NewAuditEntry {
        by: AuditAuthor::from(actor),
        what,
        place: Place::Organization(organization),
        subject: Some(("worker", id.to_string())),
        detail: json!({ "reason": reason }),
    };
    audit_log::record(ctx, tx, act).await
}
