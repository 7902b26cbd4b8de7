//! `/jobs`: proposal, approval, progress and end of jobs.

use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use time::OffsetDateTime;
use undertone_api::id::{ConsortiumId, DatasetId, JobId, MemberId};
use undertone_api::job::{self as jobs, ApproveRequest, Job, JobProgress, JobSummary, NewJob, RefuseRequest};
use undertone_api::page::{Page, PageQuery};

use super::extract::{Caller, Json, OptionalJson, Path, Query};
use super::openapi::response::WrongState;
use super::problem::Rejection;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::{approval, job};

/// A filter of a consortium's jobs.
#[derive(Debug, Clone, Default, Deserialize, utoipa::IntoParams)]
pub(super) struct JobQuery {
    /// The `next` of the previous page.
    cursor: Option<String>,
    /// Items on a page: 1 to 200, 50 by default.
    limit: Option<u32>,
    /// Only jobs in this state.
    state: Option<jobs::JobState>,
    /// Only jobs of this kind: `dp_sgd`, `active_learning`, `transcription`.
    kind: Option<String>,
    /// Only jobs that use this dataset.
    dataset: Option<DatasetId>,
    /// Only jobs that this member proposed.
    proposer: Option<MemberId>,
    /// Only jobs proposed at this moment or later.
    #[serde(default, with = "time::serde::rfc3339::option")]
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<OffsetDateTime>,
    /// Only jobs whose title contains this text, ignoring case: at most 100 characters.
    text: Option<String>,
}

/// The manifest to which an owner agrees.
#[derive(Debug, Clone, Default, Deserialize, utoipa::IntoParams)]
pub(super) struct Exactly {
    /// The digest of the manifest that the owner has read. The response is 412 if the job has another; absent to accept
    /// any.
    manifest: Option<String>,
}

/// List a consortium's jobs, newest first
#[utoipa::path(get, path = "/consortia/{id}/jobs", tag = "jobs", operation_id = "list_jobs", params(("id" = ConsortiumId, Path), JobQuery),
    responses((status = 200, body = Page<JobSummary>), Rejection))]
pub(super) async fn list(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<ConsortiumId>,
    Query(query): Query<JobQuery>,
) -> Result<Json<Page<JobSummary>>, Rejection> {
    let JobQuery { cursor, limit, state, kind, dataset, proposer, since, text } = query;
    let filter = job::JobFilter { state, kind, dataset, proposer, since, text };
    Ok(Json(job::search(&ctx, &actor, id, &filter, &PageQuery { cursor, limit }).await?))
}

/// Propose a job to the owners of its datasets
#[utoipa::path(post, path = "/consortia/{id}/jobs", tag = "jobs", operation_id = "propose_job", params(("id" = ConsortiumId, Path)), request_body = NewJob,
    responses((status = 201, body = Job), Rejection))]
pub(super) async fn propose(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<ConsortiumId>,
    Json(new): Json<NewJob>,
) -> Result<(StatusCode, Json<Job>), Rejection> {
    Ok((StatusCode::CREATED, Json(job::propose(&ctx, &actor, id, new).await?)))
}

/// Show a job
#[utoipa::path(get, path = "/jobs/{id}", tag = "jobs", operation_id = "get_job", params(("id" = JobId, Path)),
    responses((status = 200, body = Job), WrongState, Rejection))]
pub(super) async fn show(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<JobId>,
) -> Result<Json<Job>, Rejection> {
    Ok(Json(job::get(&ctx, &actor, id).await?))
}

/// Show the progress of a job
#[utoipa::path(get, path = "/jobs/{id}/progress", tag = "jobs", operation_id = "get_progress", params(("id" = JobId, Path)),
    responses((status = 200, body = JobProgress), WrongState, Rejection))]
pub(super) async fn progress(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<JobId>,
) -> Result<Json<JobProgress>, Rejection> {
    Ok(Json(job::progress(&ctx, &actor, id).await?))
}

/// Cancel a job that is not over
#[utoipa::path(post, path = "/jobs/{id}/cancel", tag = "jobs", operation_id = "cancel_job", params(("id" = JobId, Path)),
    responses((status = 200, body = Job), Rejection))]
pub(super) async fn cancel(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<JobId>,
) -> Result<Json<Job>, Rejection> {
    Ok(Json(job::cancel(&ctx, &actor, id).await?))
}

/// Approve a job for a dataset, as a steward
#[utoipa::path(post, path = "/jobs/{id}/datasets/{dataset}/approve", tag = "jobs", operation_id = "approve_job", params(("id" = JobId, Path), ("dataset" = DatasetId, Path), Exactly),
    request_body(content = Option<ApproveRequest>, description = "The steward's signed approval, if the dataset's site verifies signatures; and the answer to the terms that the proposal leaves to the dataset's owner"),
    responses((status = 200, body = Job), Rejection))]
pub(super) async fn approve(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path((id, dataset)): Path<(JobId, DatasetId)>,
    Query(Exactly { manifest }): Query<Exactly>,
    OptionalJson(body): OptionalJson<ApproveRequest>,
) -> Result<Json<Job>, Rejection> {
    let ApproveRequest { signature, terms } = body.unwrap_or_default();
    let manifest = manifest.as_deref();
    let (signature, terms) = (signature.as_ref(), terms.as_ref());
    Ok(Json(approval::approve_with_terms(&ctx, &actor, id, dataset, manifest, signature, terms).await?))
}

/// Refuse a job for a dataset, as a steward
#[utoipa::path(post, path = "/jobs/{id}/datasets/{dataset}/refuse", tag = "jobs", operation_id = "refuse_job", params(("id" = JobId, Path), ("dataset" = DatasetId, Path)), request_body = RefuseRequest,
    responses((status = 200, body = Job), Rejection))]
pub(super) async fn refuse(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path((id, dataset)): Path<(JobId, DatasetId)>,
    Json(refuse): Json<RefuseRequest>,
) -> Result<Json<Job>, Rejection> {
    Ok(Json(approval::refuse(&ctx, &actor, id, dataset, &refuse).await?))
}
