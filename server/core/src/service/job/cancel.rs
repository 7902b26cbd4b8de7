//! The cancellation of a job.

use undertone_api::id::JobId;
use undertone_api::job::{Job, JobStep};

use crate::auth::{Actor, Operation};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::rule::job::{load_job, load_readable_job};
use crate::service::job::{hold, state};
use crate::service::react;
use crate::view::job as view;

/// Ends an unfinished job, for its proposer or the consortium's admins.
///
/// # Errors
/// 404 and 403 as usual, `wrong_state` when it is over.
pub async fn cancel(ctx: &Ctx, actor: &Actor, id: JobId) -> Result<Job, Error> {
    let row = load_readable_job(ctx, actor, id).await?;
    hold::may_steer(actor, Operation::CancelJob, &row)?;
    let reason = format!("cancelled by {}", actor.member.name);
    let row = ctx
        .db
        .write("cancel job", async |tx| {
            let row = load_job(tx, id).await?;
            // The entry in the audit log names the author.
            state::step(ctx, tx, actor.into(), row, JobStep::Cancel, Some(reason.clone())).await
        })
        .await?;
    react::after_job_change(ctx, id).await;
    view::view_job(ctx, actor, row).await
}
