//! Expiry: proposals without all answers, and manifests past their end. The operation is idempotent, so every replica
//! may run it.

use sea_orm::{ColumnTrait as _, EntityTrait as _, ExprTrait as _, QueryFilter as _};
use time::{Duration, OffsetDateTime};
use undertone_api::id::JobId;
use undertone_api::job::{JobState, JobStep};

use super::state;
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::column::ColumnEnum;
use crate::model::job;
use crate::model::participant::ApprovalState;
use crate::rule::job::{load_job, load_participants};
use crate::service::audit_log::{AuditAction, AuditAuthor};
use crate::service::react;

/// Returns the deadline for the answers to a job that is proposed now.
pub(super) fn answer_by(ctx: &Ctx) -> OffsetDateTime {
    ctx.now() + Duration::days(i64::from(ctx.config.answer_days))
}

/// Refuses proposed jobs past their deadline for answers, and fails active jobs past the end of their manifest: no site
/// would continue them.
///
/// # Errors
/// When the database fails.
pub(crate) async fn lapse(ctx: &Ctx) -> Result<(), Error> {
    let now = ctx.now();
    let proposed = job::Column::State.eq(JobState::Proposed.to_text()).and(job::Column::AnswerBy.lt(now));
    let others = [JobState::Queued, JobState::Running, JobState::Paused].map(ColumnEnum::to_text);
    let under_way = job::Column::State.is_in(others).and(job::Column::NotAfter.lt(now));
    let due = job::Entity::find().filter(sea_orm::Condition::any().add(proposed).add(under_way));
    for found in due.all(ctx.db.read()).await? {
        let id = JobId(found.id);
        ctx.db
            .write("lapse job", async |tx| {
                let row = load_job(tx, id).await?;
                one(ctx, tx, row, now).await
            })
            .await?;
        react::after_job_change(ctx, id).await;
    }
    Ok(())
}

async fn one(ctx: &Ctx, tx: &Tx, row: job::Model, now: OffsetDateTime) -> Result<(), Error> {
    let passed = |time: Option<OffsetDateTime>| time.is_some_and(|time| time < now);
    let step = match *row.state {
        JobState::Proposed if passed(row.answer_by) => JobStep::Refuse,
        JobState::Queued | JobState::Running | JobState::Paused if passed(row.not_after) => JobStep::Fail,
        _ => return Ok(()),
    };
    let reason = if step == JobStep::Refuse {
        let parts = load_participants(tx, JobId(row.id)).await?;
        let silent = parts.iter().filter(|part| part.approval == ApprovalState::Pending);
        let names: Vec<_> = silent.map(|part| part.dataset_name.as_str()).collect();
        let days = row.answer_by.map_or(0, |by| (by - row.created_at).whole_days());
        let days = if days == 1 { "a day".to_owned() } else { format!("{days} days") };
        format!("no answer for {} within {days}", names.join(", "))
    } else {
        "the time that its manifest gives it is over: no site goes on with it".to_owned()
    };
    tracing::info!(job.id = %row.id, reason, "a job's time is over");
    if step == JobStep::Fail {
        state::step(ctx, tx, AuditAuthor::System, row, step, Some(reason)).await?;
        return Ok(());
    }
    // No owner refused it: the log states that it expired.
    let row = state::apply_step(ctx, tx, row, step, Some(reason.clone())).await?;
    state::log(ctx, tx, AuditAuthor::System, &row, AuditAction::JobExpired, Some(reason)).await
}
