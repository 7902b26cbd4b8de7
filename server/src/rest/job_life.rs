//! `/jobs/{id}/...`: pause, hold, resumption and repetition of jobs; and the review of a job by an owner.

use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use undertone_api::id::{DatasetId, JobId};
use undertone_api::job::{Job, JobReview, LeaveRequest, PartyTerms, PauseRequest, TermName};
use utoipa::IntoParams;

use super::extract::{Caller, Json, Path, Query};
use super::openapi::response::WrongState;
use super::problem::Rejection;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::{approval, job};

/// Pause a job: its workers suspend their parts, no deadline runs, its reservations stay
#[utoipa::path(post, path = "/jobs/{id}/pause", tag = "jobs", operation_id = "pause_job", params(("id" = JobId, Path)), request_body = PauseRequest,
    responses((status = 200, body = Job), Rejection))]
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
    responses((status = 200, body = Job), Rejection))]
pub(super) async fn resume(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<JobId>,
) -> Result<Json<Job>, Rejection> {
    Ok(Json(job::resume(&ctx, &actor, id).await?))
}

/// Hold a job for a dataset, as a steward, which pauses the job
#[utoipa::path(post, path = "/jobs/{id}/datasets/{dataset}/hold", tag = "jobs", operation_id = "hold_job", params(("id" = JobId, Path), ("dataset" = DatasetId, Path)), request_body = PauseRequest,
    responses((status = 200, body = Job), Rejection))]
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
    responses((status = 200, body = Job), Rejection))]
pub(super) async fn release(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path((id, dataset)): Path<(JobId, DatasetId)>,
) -> Result<Json<Job>, Rejection> {
    Ok(Json(job::release_dataset(&ctx, &actor, id, dataset).await?))
}

/// Leave a job that its workers run, for a dataset, as a steward: final, and its unused reservation is returned
#[utoipa::path(post, path = "/jobs/{id}/datasets/{dataset}/leave", tag = "jobs", operation_id = "leave_job", params(("id" = JobId, Path), ("dataset" = DatasetId, Path)), request_body = LeaveRequest,
    responses((status = 200, body = Job), Rejection))]
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
    responses((status = 201, body = Job), Rejection))]
pub(super) async fn retry(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<JobId>,
) -> Result<(StatusCode, Json<Job>), Rejection> {
    Ok((StatusCode::CREATED, Json(job::retry(&ctx, &actor, id).await?)))
}

/// An answer to the open terms of a proposal; an absent term keeps the proposal's value.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct TermsQuery {
    /// z: the noise of the party's gradients, relative to its clip.
    noise_multiplier: Option<f64>,
    /// C: the L2 norm to which each unit's gradient is clipped.
    clip: Option<f64>,
    /// q: the probability with which each unit enters a batch.
    sampling_rate: Option<f64>,
    /// The number of the first rounds in which the party sends a vector.
    rounds: Option<f64>,
}

impl From<TermsQuery> for PartyTerms {
    fn from(query: TermsQuery) -> Self {
        let TermsQuery { noise_multiplier, clip, sampling_rate, rounds } = query;
        let terms = [
            (TermName::NoiseMultiplier, noise_multiplier),
            (TermName::Clip, clip),
            (TermName::SamplingRate, sampling_rate),
            (TermName::Rounds, rounds),
        ];
        terms.into_iter().filter_map(|(term, value)| Some((term, value?))).collect()
    }
}

/// Show a job's request to a dataset: the manifest byte for byte, its cost under an answer to its open terms, and its disclosures
#[utoipa::path(get, path = "/jobs/{id}/datasets/{dataset}/review", tag = "jobs", operation_id = "review_job", params(("id" = JobId, Path), ("dataset" = DatasetId, Path), TermsQuery),
    responses((status = 200, body = JobReview), WrongState, Rejection))]
pub(super) async fn review(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path((id, dataset)): Path<(JobId, DatasetId)>,
    Query(terms): Query<TermsQuery>,
) -> Result<Json<JobReview>, Rejection> {
    Ok(Json(approval::review_terms(&ctx, &actor, id, dataset, &terms.into()).await?))
}
