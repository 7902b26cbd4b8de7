//! Jobs: proposal, lists, views, cancellation. The ledger decides about a job's costs before any worker receives it.

mod draft;
pub mod hold;
mod lapse;
mod list;
mod propose;
pub mod refused;
mod repeat;
pub mod state;
#[cfg(test)]
mod tests;
mod view;

use undertone_api::id::{ConsortiumId, JobId};
use undertone_api::job::{Job, JobProgress, JobStep, JobSummary};

use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::service::entity::job;
use crate::service::react;

pub use draft::{MOST_DRAFTS, draft_create, draft_delete, draft_get, draft_list, draft_propose, draft_update};
pub use hold::{hold_dataset, pause, release_dataset, resume};
pub use lapse::lapse;
pub use list::{JobFilter, list, search};
pub use propose::{propose, violations};
pub use repeat::{clone_spec, retry};

/// Returns a job in full.
///
/// # Errors
/// 404 when there is none that the caller may know.
pub async fn get(ctx: &Ctx, actor: &Actor, id: JobId) -> Result<Job, Error> {
    let row = readable(ctx, actor, id).await?;
    view::job(ctx, actor, row).await
}

/// Returns the present progress of a job.
///
/// # Errors
/// 404 when there is none that the caller may know.
pub async fn progress(ctx: &Ctx, actor: &Actor, id: JobId) -> Result<JobProgress, Error> {
    let row = readable(ctx, actor, id).await?;
    view::progress(ctx, Some(actor), row).await
}

/// Ends an unfinished job, for its proposer or the consortium's admins.
///
/// # Errors
/// 404 and 403 as usual, `wrong_state` when it is over.
pub async fn cancel(ctx: &Ctx, actor: &Actor, id: JobId) -> Result<Job, Error> {
    let row = readable(ctx, actor, id).await?;
    hold::may_steer(actor, Operation::CancelJob, &row)?;
    let reason = format!("cancelled by {}", actor.member.name);
    let row = ctx
        .db
        .write("cancel job", async |tx| {
            let row = state::row(tx, id).await?;
            // The entry in the audit log names the author.
            state::step(ctx, tx, actor.into(), row, JobStep::Cancel, Some(reason.clone())).await
        })
        .await?;
    react::after_job_change(ctx, id).await;
    view::job(ctx, actor, row).await
}

/// Returns the list item of a job from its row.
pub fn summary(row: &job::Model) -> JobSummary {
    view::summary(row)
}

/// Returns the row of a job that the caller may read.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub async fn readable(ctx: &Ctx, actor: &Actor, id: JobId) -> Result<job::Model, Error> {
    let row = state::row(ctx.db.read(), id).await?;
    let place = Place::Consortium(ConsortiumId(row.consortium_id));
    policy::check(actor, Operation::ReadJob, place).map_err(|_| Error::not_found("job"))?;
    Ok(row)
}

/// Returns the present progress of a job, with the content that every reader of the job may see.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub async fn standing(ctx: &Ctx, row: job::Model) -> Result<JobProgress, Error> {
    view::progress(ctx, None, row).await
}

/// Returns the view of a job after a change.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub(crate) async fn view_job(ctx: &Ctx, actor: &Actor, row: job::Model) -> Result<Job, Error> {
    view::job(ctx, actor, row).await
}
