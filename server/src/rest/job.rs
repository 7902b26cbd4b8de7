//! `/jobs`: proposed, approved, watched, ended.

use axum::extract::State;
use axum::http::StatusCode;
use undertone_api::id::{ConsortiumId, DatasetId, JobId};
use undertone_api::job::{Job, JobSummary, NewJob, Progress, Refuse};
use undertone_api::page::{Page, PageQuery};
use undertone_api::problem::Problem;

use super::extract::{Caller, Json, Path, Query};
use super::problem::Rejection;
use crate::ctx::Ctx;
use crate::service::{approval, job};

/// List a consortium's jobs, newest first
#[utoipa::path(get, path = "/consortia/{id}/jobs", tag = "jobs", params(("id" = ConsortiumId, Path), PageQuery),
    responses((status = 200, body = Page<JobSummary>), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<ConsortiumId>,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<JobSummary>>, Rejection> {
    Ok(Json(job::list(&ctx, &actor, id, &page).await?))
}

/// Propose a job to the owners of its datasets
#[utoipa::path(post, path = "/consortia/{id}/jobs", tag = "jobs", params(("id" = ConsortiumId, Path)), request_body = NewJob,
    responses((status = 201, body = Job), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn propose(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<ConsortiumId>,
    Json(new): Json<NewJob>,
) -> Result<(StatusCode, Json<Job>), Rejection> {
    Ok((StatusCode::CREATED, Json(job::propose(&ctx, &actor, id, new).await?)))
}

/// See a job
#[utoipa::path(get, path = "/jobs/{id}", tag = "jobs", params(("id" = JobId, Path)),
    responses((status = 200, body = Job), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn show(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<JobId>,
) -> Result<Json<Job>, Rejection> {
    Ok(Json(job::get(&ctx, &actor, id).await?))
}

/// See how far a job is
#[utoipa::path(get, path = "/jobs/{id}/progress", tag = "jobs", params(("id" = JobId, Path)),
    responses((status = 200, body = Progress), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn progress(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<JobId>,
) -> Result<Json<Progress>, Rejection> {
    Ok(Json(job::progress(&ctx, &actor, id).await?))
}

/// End a job that is not over
#[utoipa::path(post, path = "/jobs/{id}/cancel", tag = "jobs", params(("id" = JobId, Path)),
    responses((status = 200, body = Job), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn cancel(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<JobId>,
) -> Result<Json<Job>, Rejection> {
    Ok(Json(job::cancel(&ctx, &actor, id).await?))
}

/// Agree, as a steward, to what a job does with a dataset
#[utoipa::path(post, path = "/jobs/{id}/datasets/{dataset}/approve", tag = "jobs", params(("id" = JobId, Path), ("dataset" = DatasetId, Path)),
    responses((status = 200, body = Job), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn approve(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path((id, dataset)): Path<(JobId, DatasetId)>,
) -> Result<Json<Job>, Rejection> {
    Ok(Json(approval::approve(&ctx, &actor, id, dataset).await?))
}

/// Refuse, as a steward, what a job would do with a dataset
#[utoipa::path(post, path = "/jobs/{id}/datasets/{dataset}/refuse", tag = "jobs", params(("id" = JobId, Path), ("dataset" = DatasetId, Path)), request_body = Refuse,
    responses((status = 200, body = Job), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn refuse(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path((id, dataset)): Path<(JobId, DatasetId)>,
    Json(refuse): Json<Refuse>,
) -> Result<Json<Job>, Rejection> {
    Ok(Json(approval::refuse(&ctx, &actor, id, dataset, &refuse).await?))
}
