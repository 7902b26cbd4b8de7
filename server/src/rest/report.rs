//! `/jobs/{id}/report`: the report of a job, as a file for programs and as one for people; and a new proposal from such
//! a file.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use undertone_api::id::{ConsortiumId, JobId};
use undertone_api::job::Job;
use undertone_api::report::ReportFile;

use super::extract::{Caller, Json, Path};
use super::openapi::response::WrongState;
use super::problem::Rejection;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::report;

/// Download a job's report
///
/// Arms, learning curves, audits, the cost at every level, and the whole spec: `POST /consortia/{id}/jobs/again`
/// proposes the same job from it.
#[utoipa::path(get, path = "/jobs/{id}/report", tag = "jobs", operation_id = "get_report", params(("id" = JobId, Path)),
    responses((status = 200, body = ReportFile), WrongState, Rejection))]
pub(super) async fn show(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<JobId>,
) -> Result<Json<ReportFile>, Rejection> {
    Ok(Json(report::take(&ctx, &actor, id).await?))
}

/// Download a job's report as a self-contained page
#[utoipa::path(get, path = "/jobs/{id}/report.html", tag = "jobs", operation_id = "get_report_document", params(("id" = JobId, Path)),
    responses((status = 200, body = String, content_type = "text/html"),
        WrongState, Rejection))]
pub(super) async fn document(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<JobId>,
) -> Result<Response, Rejection> {
    let report = report::take(&ctx, &actor, id).await?;
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"report-{id}.html\"")),
        (header::CACHE_CONTROL, "private, no-store".to_owned()),
    ];
    Ok((headers, undertone_app::report_document(&report)).into_response())
}

/// Propose the job of a report again
///
/// Exactly the spec that was signed then; propose a changed one with `POST /consortia/{id}/jobs`. The owners must
/// approve it again.
#[utoipa::path(post, path = "/consortia/{id}/jobs/again", tag = "jobs", operation_id = "propose_job_again", params(("id" = ConsortiumId, Path)), request_body = ReportFile,
    responses((status = 201, body = Job), Rejection))]
pub(super) async fn again(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<ConsortiumId>,
    Json(file): Json<ReportFile>,
) -> Result<(StatusCode, Json<Job>), Rejection> {
    Ok((StatusCode::CREATED, Json(report::again(&ctx, &actor, id, &file).await?)))
}
