//! `/jobs/{id}/log`: the actions of a job's participants, in a fixed vocabulary.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use undertone_api::id::JobId;
use undertone_api::job::log::{LogLine, LogQuery};
use undertone_api::page::Page;

use super::extract::{Caller, Json, Path, Query};
use super::openapi::response::WrongState;
use super::problem::Rejection;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::job_log;

/// Read a job's log, newest first
#[utoipa::path(get, path = "/jobs/{id}/log", tag = "jobs", operation_id = "list_job_log", params(("id" = JobId, Path), LogQuery),
    responses((status = 200, body = Page<LogLine>), WrongState, Rejection))]
pub(super) async fn list(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<JobId>,
    Query(query): Query<LogQuery>,
) -> Result<Json<Page<LogLine>>, Rejection> {
    Ok(Json(job_log::list(&ctx, &actor, id, &query).await?))
}

/// Export a job's whole log as JSON Lines, oldest first
#[utoipa::path(get, path = "/jobs/{id}/log/export", tag = "jobs", operation_id = "export_job_log", params(("id" = JobId, Path)),
    responses((status = 200, body = String, content_type = "application/jsonl"), WrongState, Rejection))]
pub(super) async fn export(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<JobId>,
) -> Result<Response, Rejection> {
    let text = job_log::export(&ctx, &actor, id).await?;
    let name = format!("attachment; filename=\"job-{id}-log.jsonl\"");
    let headers = [(header::CONTENT_TYPE, "application/jsonl".to_owned()), (header::CONTENT_DISPOSITION, name)];
    Ok((headers, [(header::CACHE_CONTROL, "no-store")], text).into_response())
}
