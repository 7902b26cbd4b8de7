//! Reactions outside the transaction to a committed change of a job. One place, so that no operation forgets one.
//!
//! To add a reaction: a call here. It must be safe to run again, and to be missed: a server may crash before it.

use undertone_api::id::JobId;

use crate::ctx::Ctx;
use crate::service::{certificate, round};

/// Removes the vectors of a job that is over, issues its certificate if one is due, and wakes the tasks that wait for a change.
pub(crate) async fn after_job_change(ctx: &Ctx, id: JobId) {
    round::clear(ctx, id).await;
    certificate::issue_if_due(ctx, id).await;
    ctx.changes().notify();
}
