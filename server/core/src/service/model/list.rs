//! The models of a consortium, newest first.

use undertone_api::id::ConsortiumId;
use undertone_api::job::{JobState, JobSummary};
use undertone_api::model::JobModel;
use undertone_api::page::{Page, PageQuery};

use super::of_jobs;
use crate::auth::Actor;
use crate::ctx::Ctx;
use crate::error::Error;
use crate::service::job;

/// Returns the models of a consortium: its finished jobs that match the filter, with their files. Jobs without files
/// are omitted.
///
/// # Errors
/// As [`job::search`].
pub async fn in_consortium(
    ctx: &Ctx,
    actor: &Actor,
    consortium: ConsortiumId,
    filter: &job::Wanted,
    page: &PageQuery,
) -> Result<Page<JobModel>, Error> {
    let filter = job::Wanted { state: Some(JobState::Finished), ..filter.clone() };
    let Page { items: jobs, next } = job::search(ctx, actor, consortium, &filter, page).await?;
    // The search has checked the access to the jobs, and a finished job has passed a promised audit.
    let mut files = of_jobs(ctx.db.read(), jobs.iter().map(|job| job.id.0)).await?;
    let with_files = |job: JobSummary| files.remove(&job.id.0).map(|files| JobModel { job, files });
    Ok(Page { items: jobs.into_iter().filter_map(with_files).collect(), next })
}
