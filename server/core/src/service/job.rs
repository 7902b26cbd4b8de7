//! Jobs: proposal, lists, views, cancellation. The ledger decides about a job's costs before any worker receives it.

mod cancel;
mod draft;
pub mod hold;
mod lapse;
pub mod leave;
mod propose;
pub mod refused;
mod repeat;
pub mod state;
#[cfg(test)]
mod tests;

use undertone_api::id::JobId;
use undertone_api::job::{Job, JobProgress};

use crate::auth::Actor;
use crate::ctx::Ctx;
use crate::error::Error;
use crate::rule::job::load_readable_job;
use crate::view::job as view;

pub use crate::view::job::list::{JobFilter, list, search};
pub use crate::view::job::released::count_releases;
pub use cancel::cancel;
pub use draft::{draft_create, draft_delete, draft_get, draft_list, draft_propose, draft_update};
pub use hold::{hold_dataset, pause, release_dataset, resume};
pub(crate) use lapse::lapse;
pub use leave::leave;
pub use propose::propose;
pub(crate) use propose::violations;
pub use repeat::{clone_spec, retry};

/// Returns a job in full.
///
/// # Errors
/// 404 when there is none that the caller may know.
pub async fn get(ctx: &Ctx, actor: &Actor, id: JobId) -> Result<Job, Error> {
    let row = load_readable_job(ctx, actor, id).await?;
    view::view_job(ctx, actor, row).await
}

/// Returns the present progress of a job.
///
/// # Errors
/// 404 when there is none that the caller may know.
pub async fn progress(ctx: &Ctx, actor: &Actor, id: JobId) -> Result<JobProgress, Error> {
    let row = load_readable_job(ctx, actor, id).await?;
    view::progress(ctx, Some(actor), row).await
}
