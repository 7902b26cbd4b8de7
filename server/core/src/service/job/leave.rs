//! Departures: a party leaves a job that its workers run.
//!
//! A departure is final. From then on the server takes no vector of the dataset, and no round waits for it. The job
//! continues while its quorum allows; it fails when the lead leaves, or when the part owes a promised audit.
//!
//! Only releases that were never made return to the accounts. A part without any lease made none, so its reservation
//! is settled at once. A part with a lease is `leaving`: its worker stops, settles in its own ledger, and reports its
//! last receipts ([`finish`]). Only then the server returns the rest.

use sea_orm::{ActiveModelTrait as _, EntityTrait as _, IntoActiveModel as _};
use serde_json::json;
use undertone_api::id::{ConsortiumId, DatasetId, JobId, OrganizationId, WorkerId};
use undertone_api::job::{DatasetUse, DepartureOrigin, Job, JobState, LeaveRequest, MOST_REASON};
use undertone_api::problem::Code;
use undertone_api::signed::{self, Signed, SiteDeparture};

use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::participant::PartState;
use crate::model::{departure, job, participant, worker};
use crate::rule::job::{load_job, load_readable_job};
use crate::service::audit_log::{self, AuditAction, AuditAuthor, NewAuditEntry};
use crate::service::job::hold;
use crate::service::{finish, react};
use crate::view::job as view;

/// The author of a departure.
struct DepartureAuthor<'a> {
    origin: DepartureOrigin,
    name: &'a str,
    by: AuditAuthor,
    statement: Option<&'a Signed>,
}

/// Leaves a job for a dataset, as a steward of the dataset's owner.
///
/// # Errors
/// 404 and 403 as usual, `validation_failed` without a reason, `wrong_state` unless the job is queued, running or
/// paused and the dataset's part is open.
pub async fn leave(
    ctx: &Ctx,
    actor: &Actor,
    id: JobId,
    dataset: DatasetId,
    request: &LeaveRequest,
) -> Result<Job, Error> {
    load_readable_job(ctx, actor, id).await?;
    let part = load_part(ctx.db.read(), id, dataset).await?;
    policy::check(actor, Operation::LeaveJob, Place::Organization(OrganizationId(part.organization_id)))?;
    let violations = request.check();
    if !violations.is_empty() {
        return Err(Error::validation(violations));
    }
    let reason = request.reason.trim();
    let author = DepartureAuthor {
        origin: DepartureOrigin::Steward,
        name: &actor.member.name,
        by: actor.into(),
        statement: None,
    };
    ctx.db
        .write("leave job", async |tx| {
            let row = load_job(tx, id).await?;
            let part = load_part(tx, id, dataset).await?;
            Box::pin(depart(ctx, tx, row, part, &author, reason)).await
        })
        .await?;
    react::after_job_change(ctx, id).await;
    let row = load_job(ctx.db.read(), id).await?;
    view::view_job(ctx, actor, row).await
}

/// Accepts a site's signed departure for its dataset. The same statement again changes nothing.
///
/// # Errors
/// `bad_signature` when the site's key did not sign it or it is about another manifest, `wrong_state` when no worker
/// can run the job.
pub async fn leave_by_site(ctx: &Ctx, worker: WorkerId, signed: &Signed) -> Result<(), Error> {
    let id = ctx
        .db
        .write("site leaves job", async |tx| {
            let site = worker::Entity::find_by_id(worker.0).one(tx).await?.ok_or_else(|| Error::not_found("worker"))?;
            let key = signed::public_key(&site.public_key)
                .map_err(|error| Error::internal("reading a worker's key", error))?;
            let bad = |detail: String| Error::problem(Code::BadSignature, detail);
            let statement: SiteDeparture = signed.open(&key).map_err(|error| bad(error.to_string()))?;
            let row = load_job(tx, statement.job).await?;
            let part = load_part(tx, statement.job, statement.dataset).await?;
            if part.worker_id != worker.0 {
                return Err(Error::not_found("job"));
            }
            if !row.is_named_by(&statement.manifest)? {
                return Err(bad("the departure is about another manifest".to_owned()));
            }
            if find_departure(tx, &part).await?.is_some() {
                return Ok(statement.job);
            }
            let is_clean = |letter: &char| !letter.is_control();
            let reason: String = statement.reason.chars().filter(is_clean).take(MOST_REASON).collect();
            let name = part.organization_name.clone();
            let author = DepartureAuthor {
                origin: DepartureOrigin::Site,
                name: &name,
                by: AuditAuthor::Worker(worker),
                statement: Some(signed),
            };
            Box::pin(depart(ctx, tx, row, part, &author, &reason)).await?;
            Ok(statement.job)
        })
        .await?;
    react::after_job_change(ctx, id).await;
    Ok(())
}

async fn depart(
    ctx: &Ctx,
    tx: &Tx,
    row: job::Model,
    part: participant::Model,
    author: &DepartureAuthor<'_>,
    reason: &str,
) -> Result<(), Error> {
    let now = *row.state;
    if now == JobState::Proposed {
        return Err(Error::wrong_state("the job is proposed: refuse it instead, nothing is reserved yet"));
    }
    if !now.is_under_way() && now != JobState::Paused {
        return Err(Error::wrong_state(format!("the job is {}: nobody can leave it", now.label())));
    }
    if *part.purpose != DatasetUse::Participate {
        return Err(Error::wrong_state("the dataset only measures the result: it has no part that could end"));
    }
    if find_departure(tx, &part).await?.is_some() {
        return Err(Error::wrong_state("the dataset has left the job already"));
    }
    // A site may have reported its end before its statement.
    let is_late_statement = author.origin == DepartureOrigin::Site && part.state == PartState::Failed;
    if !part.state.is_open() && !is_late_statement {
        return Err(Error::wrong_state("the dataset's part has ended: there is nothing to leave"));
    }
    let departure = departure::Model {
        job_id: part.job_id,
        dataset_id: part.dataset_id,
        origin: author.origin.into(),
        by: author.name.to_owned(),
        reason: reason.to_owned(),
        rounds_done: row.rounds_done,
        payload: author.statement.map(|signed| signed.payload.clone()),
        signature: author.statement.map(|signed| signed.signature.clone()),
        at: ctx.now(),
    };
    departure.into_active_model().insert(tx).await?;
    let entry = NewAuditEntry {
        by: author.by,
        what: AuditAction::JobLeft,
        place: Place::Consortium(ConsortiumId(row.consortium_id)),
        subject: Some(("job", row.id.to_string())),
        detail: json!({ "origin": author.origin, "dataset": part.dataset_id, "rounds_done": row.rounds_done }),
    };
    audit_log::record(ctx, tx, entry).await?;
    let (id, dataset) = (JobId(row.id), part.dataset_id.into());
    if part.state.is_open() {
        Box::pin(finish::leave(ctx, tx, author.by, row, part, &format!("left the job: {reason}"))).await?;
    }
    // Otherwise its own holds would block the other participants.
    let row = load_job(tx, id).await?;
    Box::pin(hold::lift_dataset(ctx, tx, author.by, row, dataset)).await
}

async fn find_departure(tx: &Tx, part: &participant::Model) -> Result<Option<departure::Model>, Error> {
    Ok(departure::Entity::find_by_id((part.job_id, part.dataset_id)).one(tx).await?)
}

async fn load_part(
    connection: &impl sea_orm::ConnectionTrait,
    job: JobId,
    dataset: DatasetId,
) -> Result<participant::Model, Error> {
    let row = participant::Entity::find_by_id((job.0, dataset.0)).one(connection).await?;
    row.ok_or_else(|| Error::not_found("dataset in this job"))
}
