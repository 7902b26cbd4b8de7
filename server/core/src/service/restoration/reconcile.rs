//! The return of lost receipts from a site to a restored server. Each is charged as it was before: one receipt, one set
//! of bytes.

use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, EntityTrait as _, IntoActiveModel as _, PaginatorTrait as _,
    QueryFilter as _,
};
use serde_json::json;
use undertone_api::id::{DatasetId, JobId, OrganizationId, WorkerId};
use undertone_api::job::JobState;
use undertone_api::log::witness::MOST_RECEIPTS;
use undertone_api::problem::{Code, Violation};
use undertone_api::signed::{LogHead, Manifest, Signed};

use super::rebuild::{end_part, rebuild_part};
use super::{newest, waiting};
use crate::auth::Place;
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::column::ColumnEnum as _;
use crate::model::{job, participant, receipt as receipts, reconciliation, worker, write_off};
use crate::rule::job::load_job;
use crate::service::audit_log::{self, AuditAction, AuditAuthor, NewAuditEntry};
use crate::service::job::state;
use crate::service::receipt;

/// The highest number of jobs in one request.
pub const MOST_PARTS: usize = 100;

/// A job with returned receipts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReconciledPart {
    /// The manifest, as this server signed it.
    pub manifest: Signed,
    /// The site's dataset in it.
    pub dataset: DatasetId,
    /// Whether the part is over at the site.
    pub has_ended: bool,
}

/// Returned receipts, at most [`MOST_RECEIPTS`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReturnedReceipts {
    /// Their jobs, at most [`MOST_PARTS`].
    pub parts: Vec<ReconciledPart>,
    /// The receipts, oldest first.
    pub receipts: Vec<Signed>,
    /// The last head that the site verified before the restoration.
    pub head: Option<Signed>,
    /// Whether the server has every receipt of the site now.
    pub is_complete: bool,
}

/// Charges the returned receipts, and ends the reconciliation of the caller when it is complete.
///
/// # Errors
/// `wrong_state` when the server does not wait for this worker, `validation_failed` for more than the bounds,
/// `bad_signature` when a manifest or the head is not signed by this server, and the errors of the receipts. Then
/// nothing of the request is stored.
pub async fn reconcile(ctx: &Ctx, caller: WorkerId, request: &ReturnedReceipts) -> Result<Vec<Signed>, Error> {
    check_bounds(request)?;
    let parts = open_parts(ctx, request)?;
    let head = match &request.head {
        Some(signed) => {
            Some(signed.open::<LogHead>(&ctx.signer.verifying_key()).map_err(|error| refused("head", &error))?)
        }
        None => None,
    };
    let countersigned = ctx
        .db
        .write("reconcile with a site", async |tx| {
            if !waiting(tx, [caller.0]).await?.contains(&caller.0) {
                // The response to the last request was lost.
                return if request.receipts.is_empty() {
                    Ok(Vec::new())
                } else {
                    Err(Error::wrong_state("this server does not wait for receipts of this worker"))
                };
            }
            for (part, manifest) in request.parts.iter().zip(&parts) {
                Box::pin(rebuild_part(ctx, tx, caller, &part.manifest, manifest, part.dataset)).await?;
            }
            let before = count_receipts(tx, caller).await?;
            let countersigned = receipt::accept(ctx, tx, caller, &request.receipts).await?;
            let returned = count_receipts(tx, caller).await? - before;
            for (part, manifest) in request.parts.iter().zip(&parts).filter(|(part, _)| part.has_ended) {
                end_part(ctx, tx, manifest, part.dataset).await?;
            }
            note_progress(ctx, tx, caller, returned, request.is_complete).await?;
            if request.is_complete {
                Box::pin(finish(ctx, tx, caller, head.as_ref())).await?;
            }
            Ok(countersigned)
        })
        .await?;
    if request.is_complete {
        tracing::info!(worker.id = %caller, head.known = head.map(|head| head.size), "a site has reconciled with this server");
    }
    ctx.changes().notify();
    Ok(countersigned)
}

fn check_bounds(request: &ReturnedReceipts) -> Result<(), Error> {
    let mut violations = Vec::new();
    if request.receipts.len() > MOST_RECEIPTS {
        violations.push(Violation::new("receipts", format!("send at most {MOST_RECEIPTS} at once")));
    }
    if request.parts.len() > MOST_PARTS {
        violations.push(Violation::new("parts", format!("send at most {MOST_PARTS} at once")));
    }
    if violations.is_empty() { Ok(()) } else { Err(Error::validation(violations)) }
}

fn open_parts(ctx: &Ctx, request: &ReturnedReceipts) -> Result<Vec<Manifest>, Error> {
    let key = ctx.signer.verifying_key();
    request.parts.iter().map(|part| part.manifest.open(&key).map_err(|error| refused("manifest", &error))).collect()
}

fn refused(document: &str, error: &undertone_api::signed::SignedError) -> Error {
    Error::problem(Code::BadSignature, format!("this server did not sign the {document}: {error}"))
}

async fn count_receipts(tx: &Tx, worker: WorkerId) -> Result<u64, Error> {
    Ok(receipts::Entity::find().filter(receipts::Column::WorkerId.eq(worker.0)).count(tx).await?)
}

async fn note_progress(ctx: &Ctx, tx: &Tx, caller: WorkerId, returned: u64, is_complete: bool) -> Result<(), Error> {
    let Some(restoration) = newest(tx).await? else { return Ok(()) };
    let finished_at = is_complete.then(|| ctx.now());
    let earlier = reconciliation::Entity::find_by_id((restoration.position, caller.0)).one(tx).await?;
    match earlier {
        Some(row) if row.finished_at.is_none() => {
            let receipts = row.receipts + returned as i64;
            let row = reconciliation::Model { receipts, finished_at, ..row };
            row.into_active_model().reset_all().update(tx).await?;
        }
        Some(_) => {}
        None => {
            let row = reconciliation::Model {
                restoration: restoration.position,
                worker_id: caller.0,
                receipts: returned as i64,
                finished_at,
            };
            row.into_active_model().insert(tx).await?;
        }
    }
    Ok(())
}

/// Ends the wait for a worker: notes its return, and admits the proposals that waited for it.
async fn finish(ctx: &Ctx, tx: &Tx, caller: WorkerId, head: Option<&LogHead>) -> Result<(), Error> {
    let row = worker::Entity::find_by_id(caller.0).one(tx).await?.ok_or_else(|| Error::not_found("worker"))?;
    let query = write_off::Entity::find()
        .filter(write_off::Column::WorkerId.eq(caller.0))
        .filter(write_off::Column::ReturnedAt.is_null());
    for written_off in query.all(tx).await? {
        let returned_head = head.map(|head| head.root.clone());
        let written_off = write_off::Model { returned_at: Some(ctx.now()), returned_head, ..written_off };
        written_off.into_active_model().reset_all().update(tx).await?;
    }
    let returned = match newest(tx).await? {
        Some(restoration) => {
            let progress = reconciliation::Entity::find_by_id((restoration.position, caller.0)).one(tx).await?;
            progress.map_or(0, |row| row.receipts)
        }
        None => 0,
    };
    let act = NewAuditEntry {
        by: AuditAuthor::Worker(caller),
        what: AuditAction::WorkerReconciled,
        place: Place::Organization(OrganizationId(row.organization_id)),
        subject: Some(("worker", caller.to_string())),
        detail: json!({ "receipts": returned, "head": head.map(|head| head.size) }),
    };
    audit_log::record(ctx, tx, act).await?;
    let proposed = JobState::Proposed.to_text();
    let own = participant::Entity::find().filter(participant::Column::WorkerId.eq(caller.0)).all(tx).await?;
    let jobs = job::Entity::find()
        .filter(job::Column::Id.is_in(own.iter().map(|part| part.job_id)))
        .filter(job::Column::State.eq(proposed));
    for job in jobs.all(tx).await? {
        let row = load_job(tx, JobId(job.id)).await?;
        Box::pin(state::admit(ctx, tx, AuditAuthor::Worker(caller), row)).await?;
    }
    Ok(())
}
