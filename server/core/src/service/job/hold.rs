//! Holds: a job is paused while it has at least one hold, and continues after the last hold ends.
//!
//! During a pause no lease is given or extended, no round opens or closes, and no deadline runs: the length of the
//! pause is added to open deadlines. Reservations stay, and the ledger does not change, so ε stays the same. Only the
//! holder can end a hold: an admin cannot lift a steward's hold, nor a steward a site's.

use sea_orm::{ActiveModelTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _};
use serde_json::json;
use undertone_api::id::{ConsortiumId, DatasetId, JobId, OrganizationId, WorkerId};
use undertone_api::job::{Holder, Job, JobState, JobStep, MOST_REASON, PauseRequest};
use undertone_api::member::Role;
use undertone_api::problem::Code;
use undertone_api::signed::{self, Signed, SiteHold};
use uuid::Uuid;

use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::{job, job_hold, participant, worker};
use crate::rule::hold::{describe_pause, load_open_holds};
use crate::rule::job::{load_job, load_readable_job};
use crate::service::audit_log::{AuditAction, AuditAuthor, NewAuditEntry, record};
use crate::service::job::state;
use crate::service::react;
use crate::view::job as view;

/// The holder of a new or ending hold.
struct HoldOwner<'a> {
    holder: Holder,
    dataset: Option<DatasetId>,
    who: &'a str,
    by: AuditAuthor,
}

/// Pauses a whole job, for its proposer or the consortium's admins.
///
/// # Errors
/// 404 and 403 as usual, `validation_failed` without a reason, `wrong_state` unless workers may run the job or when the
/// same holder holds it already.
pub async fn pause(ctx: &Ctx, actor: &Actor, id: JobId, pause: &PauseRequest) -> Result<Job, Error> {
    let row = load_readable_job(ctx, actor, id).await?;
    may_steer(actor, Operation::PauseJob, &row)?;
    let grip = HoldOwner { holder: Holder::Job, dataset: None, who: &actor.member.name, by: actor.into() };
    hold(ctx, actor, id, &grip, pause).await
}

/// Ends the hold on a whole job; it stays paused while stewards or sites hold it.
///
/// # Errors
/// As [`pause`].
pub async fn resume(ctx: &Ctx, actor: &Actor, id: JobId) -> Result<Job, Error> {
    let row = load_readable_job(ctx, actor, id).await?;
    may_steer(actor, Operation::PauseJob, &row)?;
    let grip = HoldOwner { holder: Holder::Job, dataset: None, who: &actor.member.name, by: actor.into() };
    release(ctx, actor, id, &grip).await
}

/// Holds a job for a dataset, for its owner's stewards. The other sites pause too: a round without a party would differ
/// from the approved one.
///
/// # Errors
/// As [`pause`].
pub async fn hold_dataset(
    ctx: &Ctx,
    actor: &Actor,
    id: JobId,
    dataset: DatasetId,
    pause: &PauseRequest,
) -> Result<Job, Error> {
    load_readable_job(ctx, actor, id).await?;
    let part = part(ctx.db.read(), id, dataset).await?;
    policy::check(actor, Operation::HoldJob, Place::Organization(OrganizationId(part.organization_id)))?;
    let grip = HoldOwner { holder: Holder::Steward, dataset: Some(dataset), who: &actor.member.name, by: actor.into() };
    hold(ctx, actor, id, &grip, pause).await
}

/// Ends the hold of a dataset's stewards.
///
/// # Errors
/// As [`pause`].
pub async fn release_dataset(ctx: &Ctx, actor: &Actor, id: JobId, dataset: DatasetId) -> Result<Job, Error> {
    load_readable_job(ctx, actor, id).await?;
    let part = part(ctx.db.read(), id, dataset).await?;
    policy::check(actor, Operation::HoldJob, Place::Organization(OrganizationId(part.organization_id)))?;
    let grip = HoldOwner { holder: Holder::Steward, dataset: Some(dataset), who: &actor.member.name, by: actor.into() };
    release(ctx, actor, id, &grip).await
}

/// Accepts a site's signed hold for its dataset, or the end of one. The same statement again changes nothing.
///
/// # Errors
/// `bad_signature` when the site's key did not sign it or it is about another manifest, `wrong_state` when no worker
/// can run the job.
pub async fn hold_by_site(ctx: &Ctx, worker: WorkerId, signed: &Signed) -> Result<(), Error> {
    let id = ctx
        .db
        .write("site holds job", async |tx| {
            let site = worker::Entity::find_by_id(worker.0).one(tx).await?.ok_or_else(|| Error::not_found("worker"))?;
            let key = signed::public_key(&site.public_key)
                .map_err(|error| Error::internal("reading a worker's key", error))?;
            let bad = |detail: String| Error::problem(Code::BadSignature, detail);
            let statement: SiteHold = signed.open(&key).map_err(|error| bad(error.to_string()))?;
            let row = load_job(tx, statement.job).await?;
            let part = part(tx, statement.job, statement.dataset).await?;
            if part.worker_id != worker.0 {
                return Err(Error::not_found("job"));
            }
            if !row.is_named_by(&statement.manifest)? {
                return Err(bad("the hold is about another manifest".to_owned()));
            }
            let who = part.organization_name.as_str();
            let grip = HoldOwner {
                holder: Holder::Site,
                dataset: Some(statement.dataset),
                who,
                by: AuditAuthor::Worker(worker),
            };
            let existing = find_hold(tx, row.id, &grip).await?;
            match (statement.hold, existing) {
                (true, None) => {
                    let reason: String =
                        statement.reason.chars().filter(|letter| !letter.is_control()).take(MOST_REASON).collect();
                    place(ctx, tx, row, &grip, &reason, Some(signed)).await?;
                }
                (false, Some(open)) => {
                    Box::pin(lift(ctx, tx, row, open, &grip)).await?;
                }
                (true, Some(_)) | (false, None) => {}
            }
            Ok(statement.job)
        })
        .await?;
    react::after_job_change(ctx, id).await;
    Ok(())
}

/// Checks that the caller may steer the job: its proposer, while a researcher, and the consortium's admins may.
pub(super) fn may_steer(actor: &Actor, operation: Operation, row: &job::Model) -> Result<(), Error> {
    let consortium = ConsortiumId(row.consortium_id);
    policy::check(actor, operation, Place::Consortium(consortium))?;
    let proposed_it = row.proposer_id == actor.id().0;
    // Auditors and annotators have a role over the consortium too.
    let runs_consortium = actor.roles_over(consortium).any(|role| role == Role::ConsortiumAdmin);
    if proposed_it || runs_consortium {
        return Ok(());
    }
    Err(Error::forbidden("only who proposed a job, or an admin of the consortium, pauses or ends it"))
}

async fn hold(ctx: &Ctx, actor: &Actor, id: JobId, grip: &HoldOwner<'_>, pause: &PauseRequest) -> Result<Job, Error> {
    let violations = pause.check();
    if !violations.is_empty() {
        return Err(Error::validation(violations));
    }
    let row = ctx
        .db
        .write("hold job", async |tx| {
            let row = load_job(tx, id).await?;
            if find_hold(tx, row.id, grip).await?.is_some() {
                return Err(Error::wrong_state(
                    "it is held so already: let it go on first to hold it for another reason",
                ));
            }
            place(ctx, tx, row, grip, pause.reason.trim(), None).await
        })
        .await?;
    ctx.changes().notify();
    view::view_job(ctx, actor, row).await
}

async fn release(ctx: &Ctx, actor: &Actor, id: JobId, grip: &HoldOwner<'_>) -> Result<Job, Error> {
    let row = ctx
        .db
        .write("release job", async |tx| {
            let row = load_job(tx, id).await?;
            let Some(open) = find_hold(tx, row.id, grip).await? else {
                let by_others = match *row.state {
                    JobState::Paused => format!("you do not hold it; it is {}", describe_pause(tx, &row).await?),
                    other => format!("the job is {}: nobody holds it", other.label()),
                };
                return Err(Error::wrong_state(by_others));
            };
            Box::pin(lift(ctx, tx, row, open, grip)).await
        })
        .await?;
    react::after_job_change(ctx, id).await;
    let row = load_job(ctx.db.read(), JobId(row.id)).await?;
    view::view_job(ctx, actor, row).await
}

/// Lifts the holds for a dataset whose part was withdrawn: otherwise the other participants would wait.
///
/// # Errors
/// When the database fails.
pub(crate) async fn lift_dataset(
    ctx: &Ctx,
    tx: &Tx,
    by: AuditAuthor,
    mut row: job::Model,
    dataset: DatasetId,
) -> Result<(), Error> {
    for held in load_open_holds(tx, row.id).await? {
        if held.dataset_id == Some(dataset.0) {
            let grip = HoldOwner { holder: *held.holder, dataset: Some(dataset), who: "a retirement", by };
            row = Box::pin(lift(ctx, tx, row, held, &grip)).await?;
        }
    }
    Ok(())
}

async fn place(
    ctx: &Ctx,
    tx: &Tx,
    row: job::Model,
    grip: &HoldOwner<'_>,
    reason: &str,
    signed: Option<&Signed>,
) -> Result<job::Model, Error> {
    let now = *row.state;
    if !now.is_under_way() && now != JobState::Paused {
        return Err(Error::wrong_state(format!(
            "the job is {}: only one that is queued or running is paused",
            now.label()
        )));
    }
    let hold = job_hold::Model {
        id: ctx.id::<Uuid>(),
        job_id: row.id,
        dataset_id: grip.dataset.map(|dataset| dataset.0),
        holder: grip.holder.into(),
        by: grip.who.to_owned(),
        reason: reason.to_owned(),
        payload: signed.map(|signed| signed.payload.clone()),
        signature: signed.map(|signed| signed.signature.clone()),
        since: ctx.now(),
        ended_at: None,
        ended_by: None,
    };
    hold.into_active_model().insert(tx).await?;
    let what = if grip.holder == Holder::Job { AuditAction::JobPaused } else { AuditAction::JobHeld };
    log(ctx, tx, &row, grip, what).await?;
    if now == JobState::Paused { Ok(row) } else { state::step(ctx, tx, grip.by, row, JobStep::Pause, None).await }
}

async fn lift(
    ctx: &Ctx,
    tx: &Tx,
    row: job::Model,
    held: job_hold::Model,
    grip: &HoldOwner<'_>,
) -> Result<job::Model, Error> {
    let ended = job_hold::Model { ended_at: Some(ctx.now()), ended_by: Some(grip.who.to_owned()), ..held };
    ended.into_active_model().reset_all().update(tx).await?;
    if row.state != JobState::Paused {
        return Ok(row);
    }
    log(ctx, tx, &row, grip, AuditAction::JobResumed).await?;
    if !load_open_holds(tx, row.id).await?.is_empty() {
        return Ok(row);
    }
    let has_started = row.started_at.is_some();
    let row = state::step(ctx, tx, grip.by, row, JobStep::Resume { begun: has_started }, None).await?;
    // Its last participant may have finished in the meantime.
    state::finish_if_done(ctx, tx, grip.by, row).await
}

async fn log(ctx: &Ctx, tx: &Tx, row: &job::Model, grip: &HoldOwner<'_>, what: AuditAction) -> Result<(), Error> {
    let act = NewAuditEntry {
        by: grip.by,
        what,
        place: Place::Consortium(ConsortiumId(row.consortium_id)),
        subject: Some(("job", row.id.to_string())),
        detail: json!({ "holder": grip.holder, "dataset": grip.dataset }),
    };
    record(ctx, tx, act).await
}

/// Returns the open hold of this holder.
async fn find_hold(
    connection: &impl ConnectionTrait,
    job: Uuid,
    grip: &HoldOwner<'_>,
) -> Result<Option<job_hold::Model>, Error> {
    let dataset = grip.dataset.map(|dataset| dataset.0);
    let mut open = load_open_holds(connection, job).await?;
    open.retain(|hold| hold.holder == grip.holder && hold.dataset_id == dataset);
    Ok(open.pop())
}

async fn part(connection: &impl ConnectionTrait, job: JobId, dataset: DatasetId) -> Result<participant::Model, Error> {
    let row = participant::Entity::find_by_id((job.0, dataset.0)).one(connection).await?;
    row.ok_or_else(|| Error::not_found("dataset in this job"))
}
