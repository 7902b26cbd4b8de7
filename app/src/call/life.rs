//! The forms about a job's state: drafts, pauses, holds, retries, and limits for automatic approval.

use leptos::prelude::*;
use undertone_api::id::{ArtifactId, ConsortiumId, DatasetId, DraftId, JobId};

#[cfg(feature = "ssr")]
use super::form;
use crate::fault::Fault;
#[cfg(feature = "ssr")]
use crate::reply;
#[cfg(feature = "ssr")]
use crate::request::DashboardRequest;
#[cfg(feature = "ssr")]
use undertone_api::job::{LeaveRequest, PauseRequest};
#[cfg(feature = "ssr")]
use undertone_api::retirement::StatedReason;
#[cfg(feature = "ssr")]
use undertone_server_core::service;
#[cfg(feature = "ssr")]
use undertone_server_core::service::version::ExpectedVersion;

/// Pauses a job.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "pause")]
pub async fn pause(consortium: ConsortiumId, job: JobId, reason: String) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let answer =
        async { service::job::pause(request.ctx(), request.actor()?, job, &PauseRequest { reason }).await }.await;
    let notice = "The job is paused: no deadline runs, and what is reserved stays reserved.".to_owned();
    reply::land(answer, |_| crate::path::job(consortium, job), Some(notice))
}

/// Resumes a job.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "resume")]
pub async fn resume(consortium: ConsortiumId, job: JobId) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let answer = async { service::job::resume(request.ctx(), request.actor()?, job).await }.await;
    let notice = answer.as_ref().ok().map(form::goes_on);
    reply::land(answer, |_| crate::path::job(consortium, job), notice)
}

/// Deletes the bytes of a model.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "delete-model")]
pub async fn delete_model(consortium: ConsortiumId, artifact: ArtifactId, reason: String) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let reason = StatedReason { reason };
    let answer = async { service::model::delete(request.ctx(), request.actor()?, artifact, &reason).await }.await;
    let notice = "The model is deleted. Its record stays, with your reason.".to_owned();
    reply::land(answer, |_| crate::path::models(consortium), Some(notice))
}

/// Holds a job for a dataset.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "hold")]
pub async fn hold(consortium: ConsortiumId, job: JobId, dataset: DatasetId, reason: String) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let answer = async {
        service::job::hold_dataset(request.ctx(), request.actor()?, job, dataset, &PauseRequest { reason }).await
    }
    .await;
    let notice = "You hold the job: it is paused until you or another steward of yours lets it go on.".to_owned();
    reply::land(answer, |_| crate::path::job(consortium, job), Some(notice))
}

/// Ends the hold of a job for a dataset.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "release")]
pub async fn release(consortium: ConsortiumId, job: JobId, dataset: DatasetId) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let answer = async { service::job::release_dataset(request.ctx(), request.actor()?, job, dataset).await }.await;
    let notice = answer.as_ref().ok().map(form::goes_on);
    reply::land(answer, |_| crate::path::job(consortium, job), notice)
}

/// Leaves a job for a dataset.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "leave")]
pub async fn leave(consortium: ConsortiumId, job: JobId, dataset: DatasetId, reason: String) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let answer =
        async { service::job::leave(request.ctx(), request.actor()?, job, dataset, &LeaveRequest { reason }).await }
            .await;
    let notice =
        "You left the job. The rest of the reservation returns when your worker has accounted for its releases.";
    reply::land(answer, |_| crate::path::job(consortium, job), Some(notice.to_owned()))
}

/// Proposes a job again.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "retry")]
pub async fn retry(consortium: ConsortiumId, job: JobId) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let answer = async { service::job::retry(request.ctx(), request.actor()?, job).await }.await;
    let notice = "The same job is proposed again; its owners are asked.".to_owned();
    reply::land(answer, |job| crate::path::job(consortium, job.summary.id), Some(notice))
}

/// Makes a draft with a job's title and spec.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "clone")]
pub async fn clone_job(consortium: ConsortiumId, job: JobId) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let answer = async { service::job::clone_spec(request.ctx(), request.actor()?, job).await }.await;
    let notice = "The job is copied into a draft. Nobody was asked about it yet.".to_owned();
    reply::land(answer, |draft| crate::path::draft(consortium, draft.id), Some(notice))
}

/// Makes an empty draft.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "begin-draft")]
pub async fn begin_draft(
    consortium: ConsortiumId,
    #[server(default)] title: String,
    kind: String,
) -> Result<(), Fault> {
    let new = undertone_api::job::NewDraft { title, kind, spec: serde_json::json!({}) };
    let request = DashboardRequest::from_context()?;
    let answer = async { service::job::draft_create(request.ctx(), request.actor()?, consortium, &new).await }.await;
    reply::land(answer, |draft| crate::path::draft(consortium, draft.id), None)
}

/// Replaces a draft.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "write-draft")]
pub async fn write_draft(
    consortium: ConsortiumId,
    draft: DraftId,
    version: u64,
    #[server(default)] title: String,
    kind: String,
    spec: String,
) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let answer = async {
        let new = form::drafted(title, kind, &spec)?;
        let expected = ExpectedVersion::Anything;
        service::job::draft_update(request.ctx(), request.actor()?, draft, &new, Some(version), &expected).await
    };
    let answer = answer.await;
    reply::land(answer, |_| crate::path::draft(consortium, draft), Some("The draft is saved.".to_owned()))
}

/// Deletes a draft.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "delete-draft")]
pub async fn delete_draft(consortium: ConsortiumId, draft: DraftId) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let answer = async { service::job::draft_delete(request.ctx(), request.actor()?, draft).await }.await;
    reply::land(answer, |()| crate::path::jobs(consortium), Some("The draft is deleted.".to_owned()))
}

/// Proposes a draft.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "propose-draft")]
pub async fn propose_draft(consortium: ConsortiumId, draft: DraftId) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let answer = async { service::job::draft_propose(request.ctx(), request.actor()?, draft).await }.await;
    let notice = "The job is proposed to the owners of its data.".to_owned();
    reply::land(answer, |job| crate::path::job(consortium, job.summary.id), Some(notice))
}

/// Sets the limits for automatic approval of jobs on a dataset.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "set-approval-limit")]
pub async fn set_approval_limit(
    consortium: ConsortiumId,
    dataset: DatasetId,
    epsilon: f64,
    total_epsilon: f64,
    days: i64,
    #[server(default)] kinds: Vec<String>,
) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let answer = async {
        let new = form::approval_limit(request.now(), epsilon, total_epsilon, days, kinds)?;
        let expected = ExpectedVersion::Anything;
        service::approval::limit_set(request.ctx(), request.actor()?, dataset, &new, &expected).await
    };
    let answer = answer.await;
    let notice = "Jobs within this limit are approved in your name from now on, until they come to its total, it ends or you \
                withdraw it.";
    reply::land(answer, |_| crate::path::dataset(consortium, dataset), Some(notice.to_owned()))
}

/// Withdraws such a limit.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "withdraw-approval-limit")]
pub async fn withdraw_approval_limit(consortium: ConsortiumId, dataset: DatasetId) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let answer = async { service::approval::limit_withdraw(request.ctx(), request.actor()?, dataset).await }.await;
    let notice = "You are asked about every job again. What passed before stays approved.".to_owned();
    reply::land(answer, |_| crate::path::dataset(consortium, dataset), Some(notice))
}
