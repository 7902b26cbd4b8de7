//! `/jobs/{id}/...`: pause, hold, resumption and repetition of jobs; and the review of a job by an owner.

use axum::extract::State;
use axum::http::StatusCode;
use undertone_api::id::{DatasetId, JobId};
use undertone_api::job::{Job, JobReview, LeaveRequest, PauseRequest};
use undertone_api::problem::Problem;

use super::extract::{Caller, Json, Path};
use super::problem::Rejection;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::{approval, job};

/// Pause a job: its workers suspend their parts, no deadline runs, its reservations stay
#[utoipa::path(post, path = "/jobs/{id}/pause", tag = "jobs", operation_id = "pause_job", params(("id" = JobId, Path)), request_body = PauseRequest,
    responses((status = 200, body = Job), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn pause(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<JobId>,
    Json(pause): Json<PauseRequest>,
) -> Result<Json<Job>, Rejection> {
    Ok(Json(job::pause(&ctx, &actor, id, &pause).await?))
}

/// Resume a paused job; it stays paused while stewards or sites hold it
#[utoipa::path(post, path = "/jobs/{id}/resume", tag = "jobs", operation_id = "resume_job", params(("id" = JobId, Path)),
    responses((status = 200, body = Job), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn resume(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<JobId>,
) -> Result<Json<Job>, Rejection> {
    Ok(Json(job::resume(&ctx, &actor, id).await?))
}

/// Hold a job for a dataset, as a steward, which pauses the job
#[utoipa::path(post, path = "/jobs/{id}/datasets/{dataset}/hold", tag = "jobs", operation_id = "hold_job", params(("id" = JobId, Path), ("dataset" = DatasetId, Path)), request_body = PauseRequest,
    responses((status = 200, body = Job), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn hold(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path((id, dataset)): Path<(JobId, DatasetId)>,
    Json(pause): Json<PauseRequest>,
) -> Result<Json<Job>, Rejection> {
    Ok(Json(job::hold_dataset(&ctx, &actor, id, dataset, &pause).await?))
}

/// End the hold on a job for a dataset, as a steward
#[utoipa::path(post, path = "/jobs/{id}/datasets/{dataset}/release", tag = "jobs", operation_id = "release_job", params(("id" = JobId, Path), ("dataset" = DatasetId, Path)),
    responses((status = 200, body = Job), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn release(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path((id, dataset)): Path<(JobId, DatasetId)>,
) -> Result<Json<Job>, Rejection> {
    Ok(Json(job::release_dataset(&ctx, &actor, id, dataset).await?))
}

/// Leave a job that its workers run, for a dataset, as a steward: final, and its unused reservation is returned
#[utoipa::path(post, path = "/jobs/{id}/datasets/{dataset}/leave", tag = "jobs", operation_id = "leave_job", params(("id" = JobId, Path), ("dataset" = DatasetId, Path)), request_body = LeaveRequest,
    responses((status = 200, body = Job), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn leave(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path((id, dataset)): Path<(JobId, DatasetId)>,
    Json(leave): Json<LeaveRequest>,
) -> Result<Json<Job>, Rejection> {
    Ok(Json(job::leave(&ctx, &actor, id, dataset, &leave).await?))
}

/// Propose a failed, cancelled or refused job again, with new approvals and charges
#[utoipa::path(post, path = "/jobs/{id}/retry", tag = "jobs", operation_id = "retry_job", params(("id" = JobId, Path)),
    responses((status = 201, body = Job), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn retry(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<JobId>,
) -> Result<(StatusCode, Json<Job>), Rejection> {
    Ok((StatusCode::CREATED, Json(job::retry(&ctx, &actor, id).await?)))
}

/// Show a job's request to a dataset: the manifest byte for byte, its cost, and its disclosures
#[utoipa::path(get, path = "/jobs/{id}/datasets/{dataset}/review", tag = "jobs", operation_id = "review_job", params(("id" = JobId, Path), ("dataset" = DatasetId, Path)),
    responses((status = 200, body = JobReview), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn review(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path((id, dataset)): Path<(JobId, DatasetId)>,
) -> Result<Json<JobReview>, Rejection> {
    Ok(Json(approval::review(&ctx, &actor, id, dataset).await?))
}
