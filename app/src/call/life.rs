//! The forms about a job's state: drafts, pauses, holds, retries, and limits for automatic approval.

use leptos::prelude::*;
use undertone_api::id::{ConsortiumId, DatasetId, DraftId, JobId};

use super::Fault;
#[cfg(feature = "ssr")]
use super::native;

/// Pauses a job.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "pause")]
pub async fn pause(consortium: ConsortiumId, job: JobId, reason: String) -> Result<(), Fault> {
    let answer = crate::backend::backend()?.pause(job, undertone_api::job::PauseRequest { reason }).await;
    let notice = "The job is paused: no deadline runs, and what is reserved stays reserved.".to_owned();
    native::land(answer, |_| crate::path::job(consortium, job), Some(notice))
}

/// Resumes a job.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "resume")]
pub async fn resume(consortium: ConsortiumId, job: JobId) -> Result<(), Fault> {
    let answer = crate::backend::backend()?.resume(job).await;
    let notice = answer.as_ref().ok().map(native::goes_on);
    native::land(answer, |_| crate::path::job(consortium, job), notice)
}

/// Holds a job for a dataset.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "hold")]
pub async fn hold(consortium: ConsortiumId, job: JobId, dataset: DatasetId, reason: String) -> Result<(), Fault> {
    let answer = crate::backend::backend()?.hold(job, dataset, undertone_api::job::PauseRequest { reason }).await;
    let notice = "You hold the job: it is paused until you or another steward of yours lets it go on.".to_owned();
    native::land(answer, |_| crate::path::job(consortium, job), Some(notice))
}

/// Ends the hold of a job for a dataset.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "release")]
pub async fn release(consortium: ConsortiumId, job: JobId, dataset: DatasetId) -> Result<(), Fault> {
    let answer = crate::backend::backend()?.release(job, dataset).await;
    let notice = answer.as_ref().ok().map(native::goes_on);
    native::land(answer, |_| crate::path::job(consortium, job), notice)
}

/// Proposes a job again.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "retry")]
pub async fn retry(consortium: ConsortiumId, job: JobId) -> Result<(), Fault> {
    let answer = crate::backend::backend()?.retry(job).await;
    let notice = "The same job is proposed again; its owners are asked.".to_owned();
    native::land(answer, |job| crate::path::job(consortium, job.summary.id), Some(notice))
}

/// Makes a draft with a job's title and spec.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "clone")]
pub async fn clone_job(consortium: ConsortiumId, job: JobId) -> Result<(), Fault> {
    let answer = crate::backend::backend()?.clone_job(job).await;
    let notice = "The job is copied into a draft. Nobody was asked about it yet.".to_owned();
    native::land(answer, |draft| crate::path::draft(consortium, draft.id), Some(notice))
}

/// Makes an empty draft.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "begin-draft")]
pub async fn begin_draft(
    consortium: ConsortiumId,
    #[server(default)] title: String,
    kind: String,
) -> Result<(), Fault> {
    let new = undertone_api::job::NewDraft { title, kind, spec: serde_json::json!({}) };
    let answer = crate::backend::backend()?.begin_draft(consortium, new).await;
    native::land(answer, |draft| crate::path::draft(consortium, draft.id), None)
}

/// Replaces a draft.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "write-draft")]
pub async fn write_draft(
    consortium: ConsortiumId,
    draft: DraftId,
    version: u64,
    #[server(default)] title: String,
    kind: String,
    spec: String,
) -> Result<(), Fault> {
    let backend = crate::backend::backend()?;
    let answer = match native::drafted(title, kind, &spec) {
        Ok(new) => backend.write_draft(draft, new, version).await,
        Err(problem) => Err(problem),
    };
    native::land(answer, |_| crate::path::draft(consortium, draft), Some("The draft is saved.".to_owned()))
}

/// Deletes a draft.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "delete-draft")]
pub async fn delete_draft(consortium: ConsortiumId, draft: DraftId) -> Result<(), Fault> {
    let answer = crate::backend::backend()?.delete_draft(draft).await;
    native::land(answer, |()| crate::path::jobs(consortium), Some("The draft is deleted.".to_owned()))
}

/// Proposes a draft.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "propose-draft")]
pub async fn propose_draft(consortium: ConsortiumId, draft: DraftId) -> Result<(), Fault> {
    let answer = crate::backend::backend()?.propose_draft(draft).await;
    let notice = "The job is proposed to the owners of its data.".to_owned();
    native::land(answer, |job| crate::path::job(consortium, job.summary.id), Some(notice))
}

/// Sets the limits for automatic approval of jobs on a dataset.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "set-approval-limit")]
pub async fn set_approval_limit(
    consortium: ConsortiumId,
    dataset: DatasetId,
    epsilon: f64,
    total_epsilon: f64,
    days: i64,
    #[server(default)] kinds: Vec<String>,
) -> Result<(), Fault> {
    let backend = crate::backend::backend()?;
    let answer = match native::approval_limit(backend.now(), epsilon, total_epsilon, days, kinds) {
        Ok(new) => backend.set_approval_limit(dataset, new).await,
        Err(problem) => Err(problem),
    };
    let notice = "Jobs within this limit are approved in your name from now on, until they come to its total, it ends or you \
                withdraw it.";
    native::land(answer, |_| crate::path::dataset(consortium, dataset), Some(notice.to_owned()))
}

/// Withdraws such a limit.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "withdraw-approval-limit")]
pub async fn withdraw_approval_limit(consortium: ConsortiumId, dataset: DatasetId) -> Result<(), Fault> {
    let answer = crate::backend::backend()?.withdraw_approval_limit(dataset).await;
    let notice = "You are asked about every job again. What passed before stays approved.".to_owned();
    native::land(answer, |_| crate::path::dataset(consortium, dataset), Some(notice))
}
