//! The present state of a job, as a live page displays it.

use undertone_api::dataset::Visibility;
use undertone_api::id::JobId;
use undertone_api::job::log::LogQuery;
use undertone_api::job::{Job, JobState};
use undertone_server_core::service;

use super::Live;
use super::part::{self, JobFile};
use crate::component::files::sort_job_files;
use crate::path;
use crate::request::{Answer, DashboardRequest};

/// The number of log lines on a job's own page.
const NEWEST_LINES: u32 = 8;

/// Loads a job and its present state.
pub(crate) async fn load_live(request: &DashboardRequest, id: JobId) -> Answer<(Job, Live)> {
    let ctx = request.ctx();
    let actor = request.actor()?;
    // The order matters: a page stops its updates at a final state. If the job ends between the two, the page shows
    // the state before the end, and the event of the end updates it. In the other order it would show an end without
    // a result, and keep it.
    let progress = service::job::progress(ctx, actor, id).await?;
    let job = service::job::get(ctx, actor, id).await?;
    let files = if progress.state.is_over() || matches!(progress.state, JobState::Running | JobState::Paused) {
        service::model::list(ctx, actor, id).await?
    } else {
        Vec::new()
    };
    // Only data that an owner opened can leave in the clear; most jobs have none.
    let has_open_data = progress.participants.iter().any(|party| party.visibility == Visibility::Open);
    let in_the_clear = if has_open_data {
        part::in_the_clear(&job, &service::dataset::list(ctx, actor, job.summary.consortium).await?)
    } else {
        Vec::new()
    };
    let files = sort_job_files(files)
        .into_iter()
        .map(|file| JobFile {
            page: (file.source.is_some() && progress.state == JobState::Finished)
                .then(|| path::model(job.summary.consortium, file.id)),
            href: file.deletion.is_none().then(|| path::artifact_file(file.id)),
            name: file.name,
            size: file.size,
            digest: file.digest,
        })
        .collect();
    let newest = LogQuery { limit: Some(NEWEST_LINES), ..LogQuery::default() };
    let log = service::job_log::list(ctx, actor, id, &newest).await?.items;
    let live = part::live(request.now(), &job, &progress, &in_the_clear, files, &log);
    Ok((job, live))
}
