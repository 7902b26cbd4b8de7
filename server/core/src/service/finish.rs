//! The end of a participant's part: its last receipts are counted, then the releases that were never made are returned
//! to the account.

use sea_orm::{ActiveModelTrait as _, ColumnTrait as _, EntityTrait as _, IntoActiveModel as _, QueryFilter as _};
use undertone_api::id::{JobId, WorkerId};
use undertone_api::job::JobState;
use undertone_api::job::{JobStep, Report};
use undertone_api::problem::{Code, Violation};
use undertone_api::signed::Signed;

use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::column::{ColumnEnum as _, JsonColumn};
use crate::model::participant::PartState;
use crate::model::{job, participant};
use crate::rule::job::{load_job, load_participants};
use crate::service::audit_log::AuditAuthor;
use crate::service::job::state;
use crate::service::{audit, lease, ledger, question, react, receipt, round};

/// The limit of a reason for giving up, in characters.
const LONGEST_REASON: usize = 1000;

/// The outcome of a part.
#[derive(Debug, Clone, PartialEq)]
pub enum PartOutcome {
    /// Completed; the lead submits the report.
    Done(Option<Report>),
    /// Given up for good, with a reason that other members may read.
    GaveUp(String),
}

/// Ends a participant's part, and countersigns its last receipts. A part of an already ended job submits its last
/// receipts in the same way. A repetition changes nothing.
///
/// # Errors
/// `lease_lost` when a later lease has begun; `validation_failed` when the lead submits no report or one of another
/// kind, or a promised audit is missing; and the errors of the receipts.
pub async fn finish(
    ctx: &Ctx,
    worker: WorkerId,
    token: &str,
    outcome: &PartOutcome,
    receipts: &[Signed],
) -> Result<Vec<Signed>, Error> {
    finish_audited(ctx, worker, token, outcome, None, receipts).await
}

/// Ends a part as [`finish`], with the statement of the audit of the participant's releases.
///
/// # Errors
/// As [`finish`]; `bad_signature` and `validation_failed` for a statement that this worker did not sign, that is about
/// another part, or that is inconsistent.
pub async fn finish_audited(
    ctx: &Ctx,
    worker: WorkerId,
    token: &str,
    outcome: &PartOutcome,
    statement: Option<&Signed>,
    receipts: &[Signed],
) -> Result<Vec<Signed>, Error> {
    let judgement = match statement {
        Some(statement) => Some(audit::judge(ctx, worker, token, statement).await?),
        None => None,
    };
    let (id, countersigned) = ctx
        .db
        .write("finish part", async |tx| {
            let lease = lease::find_lease(tx, worker, token).await?;
            let countersigned = receipt::accept(ctx, tx, worker, receipts).await?;
            let part = participant::Entity::find_by_id((lease.job.0, lease.dataset.0)).one(tx).await?;
            let part = part.ok_or_else(|| Error::not_found("job"))?;
            if matches!(*part.state, PartState::Done | PartState::Failed) {
                return Ok((lease.job, countersigned));
            }
            let row = load_job(tx, lease.job).await?;
            if part.state == PartState::Leaving {
                // The job continued or failed when the party left; only its releases had to be counted.
                set_state(tx, part, PartState::Failed).await?;
                ledger::settle(ctx, tx, lease.job.0, lease.dataset.0).await?;
                return Ok((lease.job, countersigned));
            }
            let disproved = match &judgement {
                Some(judgement) => audit::accept(ctx, tx, &row, &part, judgement).await?,
                None => None,
            };
            Box::pin(end(ctx, tx, AuditAuthor::Worker(worker), row, part, outcome, disproved)).await?;
            // Last, so that all charges are counted before the rest is returned.
            ledger::settle(ctx, tx, lease.job.0, lease.dataset.0).await?;
            Ok((lease.job, countersigned))
        })
        .await?;
    react::after_job_change(ctx, id).await;
    Ok(countersigned)
}

async fn end(
    ctx: &Ctx,
    tx: &Tx,
    by: AuditAuthor,
    mut row: job::Model,
    part: participant::Model,
    outcome: &PartOutcome,
    disproved: Option<String>,
) -> Result<(), Error> {
    let leads = part.position == 0;
    let over = row.state.is_over();
    match outcome {
        PartOutcome::Done(report) => {
            if !over && audit::is_missing(tx, &row, &part).await? {
                let message = "the job promises an audit of these releases: hand in its signed statement";
                return Err(Error::validation(vec![Violation::new("done.audit", message)]));
            }
            if leads && !over {
                row.report = Some(check_report(&row, report.as_ref(), part.charge.is_some())?);
                row = row.into_active_model().reset_all().update(tx).await?;
            }
            set_state(tx, part, PartState::Done).await?;
            // A restored server may have a round open that its sites have ended.
            let lost = if over { None } else { Box::pin(round::find_lost_round(tx, &row)).await? };
            match disproved.or(lost) {
                Some(_) if over => {}
                Some(reason) => {
                    state::step(ctx, tx, by, row, JobStep::Fail, Some(reason)).await?;
                }
                None => {
                    state::finish_if_done(ctx, tx, by, row).await?;
                }
            }
        }
        PartOutcome::GaveUp(reason) => {
            let reason = format!("{}: {}", part.organization_name, short(reason));
            let owes = audit::is_missing(tx, &row, &part).await?;
            set_state(tx, part, PartState::Failed).await?;
            if over {
                return Ok(());
            }
            // A job must not finish without its promised audit.
            if leads || owes || !can_go_on(tx, &row).await? {
                state::step(ctx, tx, by, row, JobStep::Fail, Some(reason)).await?;
            } else {
                let reason = Some(row.reason.map_or(reason.clone(), |before| format!("{before}; {reason}")));
                let row = job::Model { reason, ..row }.into_active_model().reset_all().update(tx).await?;
                state::finish_if_done(ctx, tx, by, row).await?;
            }
        }
    }
    Ok(())
}

/// Finishes jobs whose last running participant has become silent, which no message reports.
pub(crate) async fn finish_silent(ctx: &Ctx) -> Result<(), Error> {
    let reported = job::Entity::find()
        .filter(job::Column::State.eq(JobState::Running.to_text()))
        .filter(job::Column::Report.is_not_null())
        .all(ctx.db.read())
        .await?;
    for found in reported {
        if state::is_done(ctx, ctx.db.read(), &found).await? {
            ctx.db
                .write("finish silent job", async |tx| {
                    let row = load_job(tx, JobId(found.id)).await?;
                    state::finish_if_done(ctx, tx, AuditAuthor::System, row).await
                })
                .await?;
            react::after_job_change(ctx, JobId(found.id)).await;
        }
    }
    Ok(())
}

/// Removes a participant from a job, which continues or fails: its worker or its organization was retired. Its lease
/// ends. A part without any lease returns its reservation; one that had a lease keeps it until the worker accounts for
/// it (`state::settle_untouched`).
///
/// # Errors
/// When the database fails, or the job's state has no such step.
pub async fn withdraw(
    ctx: &Ctx,
    tx: &Tx,
    by: AuditAuthor,
    row: job::Model,
    part: participant::Model,
    reason: &str,
) -> Result<(), Error> {
    let had_lease = lease::end(ctx, tx, row.id, part.dataset_id).await?;
    let state = if had_lease { PartState::Withdrawn } else { PartState::Failed };
    Box::pin(drop_part(ctx, tx, by, row, part, state, reason)).await
}

/// Ends the part of a party that leaves a job, which continues or fails. Its lease stays: with it the worker accounts
/// for its releases, and only then the rest of its reservation is returned. A part without any lease returns it at
/// once.
///
/// # Errors
/// When the database fails, or the job's state has no such step.
pub(super) async fn leave(
    ctx: &Ctx,
    tx: &Tx,
    by: AuditAuthor,
    row: job::Model,
    part: participant::Model,
    reason: &str,
) -> Result<(), Error> {
    let had_lease = lease::exists(tx, row.id, part.dataset_id).await?;
    let state = if had_lease { PartState::Leaving } else { PartState::Failed };
    Box::pin(drop_part(ctx, tx, by, row, part, state, reason)).await
}

/// Sets a part's last state, `Failed` for a part that never had a lease, and lets the job continue or fail without it.
async fn drop_part(
    ctx: &Ctx,
    tx: &Tx,
    by: AuditAuthor,
    row: job::Model,
    part: participant::Model,
    state: PartState,
    reason: &str,
) -> Result<(), Error> {
    let reason = format!("{}: {reason}", part.organization_name);
    let leads = part.position == 0;
    let owes_audit = audit::is_missing(tx, &row, &part).await?;
    let dataset = part.dataset_id;
    set_state(tx, part, state).await?;
    if state == PartState::Failed {
        ledger::settle(ctx, tx, row.id, dataset).await?;
    }
    if leads || owes_audit || !can_go_on(tx, &row).await? {
        state::step(ctx, tx, by, row, JobStep::Fail, Some(reason)).await?;
        return Ok(());
    }
    let reason = Some(row.reason.as_ref().map_or_else(|| reason.clone(), |before| format!("{before}; {reason}")));
    let row = job::Model { reason, ..row }.into_active_model().reset_all().update(tx).await?;
    state::finish_if_done(ctx, tx, by, row).await?;
    Ok(())
}

/// Returns whether every series still has enough contributors for its quorum and enough members for a masked sum, and a
/// job with questions has a pool or can still get one.
async fn can_go_on(tx: &Tx, row: &job::Model) -> Result<bool, Error> {
    let participants = load_participants(tx, JobId(row.id)).await?;
    let planned = &*row.series;
    Ok(question::can_go_on(tx, row, &participants).await?
        && Box::pin(round::find_lost_round(tx, row)).await?.is_none()
        && planned.iter().all(|planned| {
            let remaining = participants
                .iter()
                // The last round has the fewest contributors.
                .filter(|part| !part.state.is_out())
                .filter(|part| planned.series.last_round(part.dataset_id.into()) == planned.series.rounds)
                .count();
            let is_group = planned.series.masked.as_ref().is_none_or(|group| {
                let members = participants.iter().filter(|part| group.index(part.dataset_id.into()).is_some());
                members.filter(|part| !part.state.is_out()).count() >= usize::from(group.smallest_group)
            });
            is_group && remaining >= planned.series.quorum as usize
        }))
}

fn check_report(
    row: &job::Model,
    report: Option<&Report>,
    charged: bool,
) -> Result<JsonColumn<Report, job::Entity>, Error> {
    let wrong = |message: &str| Error::validation(vec![Violation::new("report", message)]);
    let report = report.ok_or_else(|| wrong("the lead hands in the job's report"))?;
    let kind = serde_json::to_value(report).ok().and_then(|value| value["kind"].as_str().map(str::to_owned));
    if kind.as_deref() != Some(&*row.kind) {
        return Err(wrong("the report is of another kind than the job"));
    }
    if charged && !report.tells_no_more(&row.spec) {
        return Err(wrong(
            "it tells more than the spec does, of data that are charged: leave out what was computed of them",
        ));
    }
    let report = JsonColumn::new(report.clone())?;
    if report.text().len() > 1 << 20 {
        return Err(Error::problem(Code::TooLarge, "a report has at most 1 MiB"));
    }
    Ok(report)
}

async fn set_state(tx: &Tx, part: participant::Model, state: PartState) -> Result<(), Error> {
    let part = participant::Model { state: state.into(), ..part };
    part.into_active_model().reset_all().update(tx).await?;
    Ok(())
}

fn short(reason: &str) -> String {
    reason.chars().filter(|character| !character.is_control()).take(LONGEST_REASON).collect()
}
