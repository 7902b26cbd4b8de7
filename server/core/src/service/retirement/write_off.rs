//! Write-off of a worker whose site will not return. Its parts in jobs end by the rule of `parts`, and its reservations
//! stay spent. No member can undo it: a site that does return signs in with its key and returns its receipts
//! (`service::restoration`).

use sea_orm::{ActiveModelTrait as _, ColumnTrait as _, EntityTrait as _, IntoActiveModel as _, QueryFilter as _};
use undertone_api::id::{OrganizationId, WorkerId};
use undertone_api::retirement::StatedReason;
use undertone_api::worker::Worker;

use super::parts::{self, PartsOf};
use super::worker::{load, record};
use super::{check_request, notify_all};
use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::write_off;
use crate::service::audit_log::{AuditAction, AuditAuthor};
use crate::service::notification::AccessNotice;
use crate::service::{restoration, worker as workers};

/// Writes off a worker of an organization. It gets no offers, and its datasets take part in no new job until its site
/// returns.
///
/// # Errors
/// 404 and 403 as usual, `proof_stale`, `validation_failed` for the reason, `wrong_state` when it is retired or written
/// off already.
pub async fn write_off_worker(
    ctx: &Ctx,
    actor: &Actor,
    organization: OrganizationId,
    id: WorkerId,
    stated: &StatedReason,
) -> Result<Worker, Error> {
    policy::check(actor, Operation::RetireWorker, Place::Organization(organization))?;
    let reason = check_request(actor, stated)?;
    let jobs = ctx
        .db
        .write("write off worker", async |tx| {
            let row = load(tx, organization, id).await?;
            if row.retired_at.is_some() {
                return Err(Error::wrong_state("the worker is retired: its access has ended already"));
            }
            let earlier = write_off::Entity::find()
                .filter(write_off::Column::WorkerId.eq(id.0))
                .filter(write_off::Column::ReturnedAt.is_null());
            if earlier.one(tx).await?.is_some() {
                return Err(Error::wrong_state("the worker is written off already"));
            }
            // The restored database may lack leases of this worker: none of its parts is settled as untouched.
            restoration::hold_leases(ctx, tx, id).await?;
            let written_off = write_off::Model {
                id: ctx.id(),
                worker_id: id.0,
                reason: reason.to_owned(),
                written_off_by: actor.id().0,
                written_off_at: ctx.now(),
                returned_at: None,
                returned_head: None,
            };
            let written_off = written_off.into_active_model().insert(tx).await?;
            let ended = format!("its worker {} was written off", row.name);
            let jobs = parts::withdraw(ctx, tx, AuditAuthor::from(actor), PartsOf::Worker(id), &ended).await?;
            record(ctx, tx, actor, organization, id, AuditAction::WorkerWrittenOff, reason).await?;
            let text = format!("{} wrote off the worker {}: {reason}", actor.member.name, row.name);
            let key = format!("written-off:{}", written_off.id);
            AccessNotice::new(key, &text).for_organization(organization.0).send(ctx, tx).await?;
            Ok(jobs)
        })
        .await?;
    parts::clean_up(ctx, &jobs).await;
    notify_all(ctx);
    tracing::info!(worker.id = %id, jobs = jobs.len(), "a worker was written off");
    workers::get(ctx, id).await
}
