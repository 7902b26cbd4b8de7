//! The transitions of a job. Every change of state goes through this module, with its consequences for leases and
//! reservations. Admissions and ends get an entry in the consortium's audit log. Callers name the author of each
//! transition.

use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _, QueryFilter as _,
};
use serde_json::json;
use time::Duration;
use undertone_api::id::{ConsortiumId, JobId};
use undertone_api::job::log::LogEvent;
use undertone_api::job::{DatasetUse, JobState, JobStep};
use uuid::Uuid;

use super::refused;
use crate::auth::Place;
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::column::JsonColumn;
use crate::model::participant::{ApprovalState, PartState};
use crate::model::{asking, job, lease, masked_round, participant, round};
use crate::rule::job::load_participants;
use crate::service::audit_log::{self, AuditAction, AuditAuthor, NewAuditEntry};
use crate::service::ledger::{self, ChargeRequest};
use crate::service::{audit, dataset, job_log, notification, restoration, terms};

/// Moves a job to its next state, caused by `by`, and writes the entry in the audit log; `reason` explains a bad end.
///
/// # Errors
/// `wrong_state` when its present state does not have this step.
pub async fn step(
    ctx: &Ctx,
    tx: &Tx,
    by: AuditAuthor,
    row: job::Model,
    step: JobStep,
    reason: Option<String>,
) -> Result<job::Model, Error> {
    let before = *row.state;
    let message = reason.clone();
    let row = apply_step(ctx, tx, row, step, reason).await?;
    if row.state != before
        && let Some(what) = step_action(step)
    {
        log(ctx, tx, by, &row, what, message).await?;
    }
    Ok(row)
}

/// Returns the audit log's name of a step; `None` for steps whose own operation writes a more precise entry.
const fn step_action(step: JobStep) -> Option<AuditAction> {
    match step {
        JobStep::Reserve => Some(AuditAction::JobAdmitted),
        JobStep::Refuse => Some(AuditAction::JobRefused),
        JobStep::Finish => Some(AuditAction::JobFinished),
        JobStep::Fail => Some(AuditAction::JobFailed),
        JobStep::Cancel => Some(AuditAction::JobCancelled),
        JobStep::Start | JobStep::Pause | JobStep::Resume { .. } => None,
    }
}

/// Writes about a job into the audit log of its consortium. The reason of a site is its own free text: the job contains
/// it, the immutable log does not.
pub(super) async fn log(
    ctx: &Ctx,
    tx: &Tx,
    by: AuditAuthor,
    row: &job::Model,
    what: AuditAction,
    reason: Option<String>,
) -> Result<(), Error> {
    let reason = reason.filter(|_| !matches!(by, AuditAuthor::Worker(_)));
    let act = NewAuditEntry {
        by,
        what,
        place: Place::Consortium(ConsortiumId(row.consortium_id)),
        subject: Some(("job", row.id.to_string())),
        detail: json!({ "reason": reason, "rounds_done": row.rounds_done }),
    };
    audit_log::record(ctx, tx, act).await
}

/// Moves a job without an entry in the audit log, for callers that write another entry.
///
/// # Errors
/// As [`step`].
pub(super) async fn apply_step(
    ctx: &Ctx,
    tx: &Tx,
    mut row: job::Model,
    step: JobStep,
    reason: Option<String>,
) -> Result<job::Model, Error> {
    let before = *row.state;
    let after = before.apply(step).map_err(|_| Error::wrong_state(format!("the job is {}", before.label())))?;
    row.state = after.into();
    if step == JobStep::Pause {
        row.paused_at = Some(ctx.now());
    } else if let Some(since) = row.paused_at.take() {
        // No worker ran the job during the pause, so no deadline ran.
        let paused = ctx.now() - since;
        // The deadlines of rounds and pools run from the start, so an earlier pause moves none.
        if row.started_at.is_some() {
            row.paused_for += paused.whole_milliseconds() as i64;
        }
        put_off(tx, row.id, paused).await?;
    }
    if step == JobStep::Start {
        row.started_at = row.started_at.or_else(|| Some(ctx.now()));
    }
    if after.is_over() {
        row.finished_at = Some(ctx.now());
        row.reason = reason.or(row.reason);
    }
    let row = row.into_active_model().reset_all().update(tx).await?;
    if after != before {
        job_log::note(ctx, tx, row.id, None, LogEvent::State { state: after }).await?;
    }
    if step == JobStep::Reserve {
        notification::job::reserved(ctx, tx, &row).await?;
    }
    if after.is_over() {
        settle_untouched(ctx, tx, &row).await?;
        notification::job::ended(ctx, tx, &row, after).await?;
    }
    Ok(row)
}

/// Moves the deadlines of open rounds by `time`.
async fn put_off(tx: &Tx, job: Uuid, time: Duration) -> Result<(), Error> {
    let open = round::Entity::find().filter(round::Column::JobId.eq(job)).filter(round::Column::ClosedAt.is_null());
    for row in open.all(tx).await? {
        let row = round::Model { deadline: row.deadline + time, ..row };
        row.into_active_model().reset_all().update(tx).await?;
    }
    // Their rows are deleted when they close.
    for row in masked_round::Entity::find().filter(masked_round::Column::JobId.eq(job)).all(tx).await? {
        let row = masked_round::Model { phase_at: row.phase_at + time, ..row };
        row.into_active_model().reset_all().update(tx).await?;
    }
    let open = asking::Entity::find().filter(asking::Column::JobId.eq(job)).filter(asking::Column::ClosedAt.is_null());
    for row in open.all(tx).await? {
        let row = asking::Model { deadline: row.deadline + time, ..row };
        row.into_active_model().reset_all().update(tx).await?;
    }
    Ok(())
}

/// Reserves everything and queues the job when no answer is missing, caused by the author `by` of the last answer. If a
/// budget refuses, the server refuses the job. Does nothing while an answer is missing.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub(crate) async fn admit(ctx: &Ctx, tx: &Tx, by: AuditAuthor, row: job::Model) -> Result<job::Model, Error> {
    let id = JobId(row.id);
    let participants = load_participants(tx, id).await?;
    if row.state != JobState::Proposed || participants.iter().any(|part| part.approval == ApprovalState::Pending) {
        return Ok(row);
    }
    // The charges that a worker made and the restored server lacks are unknown: the job waits for the worker.
    if !restoration::waiting(tx, participants.iter().map(|part| part.worker_id)).await?.is_empty() {
        return Ok(row);
    }
    // A large future, so it is on the heap.
    let row = Box::pin(terms::settle(ctx, tx, row)).await?;
    let participants = load_participants(tx, id).await?;
    let refusals = ledger::reserve(ctx, tx, row.id, &asks(&participants)).await?;
    if refusals.is_empty() {
        return step(ctx, tx, by, row, JobStep::Reserve, None).await;
    }
    let datasets = dataset::in_consortium(tx, ConsortiumId(row.consortium_id)).await?;
    let reason = refused::in_words(&refusals, &datasets);
    let row = job::Model { refusals: JsonColumn::new(refusals)?, ..row };
    step(ctx, tx, AuditAuthor::System, row, JobStep::Refuse, Some(reason)).await
}

/// Returns the requests of participants to their accounts.
pub fn asks(participants: &[participant::Model]) -> Vec<ChargeRequest> {
    let request = |part: &participant::Model| {
        Some(ChargeRequest {
            dataset: part.dataset_id.into(),
            dataset_name: part.dataset_name.clone(),
            organization: part.organization_id.into(),
            lineage: part.lineage_id.into(),
            charge: part.charge.as_deref()?.clone(),
        })
    };
    participants.iter().filter_map(request).collect()
}

/// Finishes a running job whose lead has reported and in which no participant is still running. A participant that
/// became silent after the last closed round does not delay the end, and settles when it returns. If it owes a promised
/// audit, the job fails. `by` is the last participant to finish.
pub(crate) async fn finish_if_done(ctx: &Ctx, tx: &Tx, by: AuditAuthor, row: job::Model) -> Result<job::Model, Error> {
    if !is_done(ctx, tx, &row).await? {
        return Ok(row);
    }
    match audit::flaw(tx, &row).await? {
        None => step(ctx, tx, by, row, JobStep::Finish, None).await,
        Some(reason) => step(ctx, tx, by, row, JobStep::Fail, Some(reason)).await,
    }
}

/// Returns whether a running job has its report, and no participant is still running.
pub(crate) async fn is_done(ctx: &Ctx, connection: &impl ConnectionTrait, row: &job::Model) -> Result<bool, Error> {
    // The lead of a job with questions may end early, when no useful question remains; a missing mean is still expected
    // by a participant.
    let rounds_left = !row.asks && row.rounds_done < row.rounds;
    if row.state != JobState::Running || row.report.is_none() || rounds_left {
        return Ok(false);
    }
    for part in load_participants(connection, JobId(row.id)).await? {
        let at_work = part.purpose == DatasetUse::Participate && part.state.is_open();
        if at_work {
            if audit::is_missing(connection, row, &part).await? {
                return Ok(false);
            }
            let lease = lease::Entity::find_by_id((row.id, part.dataset_id)).one(connection).await?;
            if lease.is_some_and(|lease| lease.expires_at > ctx.now()) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Ends the parts of participants that never had a lease and returns their reservations: they provably made no release.
/// The others settle with their last receipts.
async fn settle_untouched(ctx: &Ctx, tx: &Tx, row: &job::Model) -> Result<(), Error> {
    let end = if row.state == JobState::Finished { PartState::Done } else { PartState::Failed };
    for part in load_participants(tx, JobId(row.id)).await? {
        let dataset = part.dataset_id;
        if lease::Entity::find_by_id((row.id, dataset)).one(tx).await?.is_none() {
            let part = participant::Model { state: end.into(), ..part };
            part.into_active_model().reset_all().update(tx).await?;
            ledger::settle(ctx, tx, row.id, dataset).await?;
        } else if matches!(*part.state, PartState::Withdrawn | PartState::Leaving) {
            // Releases may have been made before the retirement or the departure. The part is offered until its worker has accounted for
            // them.
            let part = participant::Model { state: PartState::Running.into(), ..part };
            part.into_active_model().reset_all().update(tx).await?;
        }
    }
    Ok(())
}
