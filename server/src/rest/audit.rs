//! `/jobs/{id}/audits`: the results of audits; `/datasets/{id}/freezes`: the accounts that they froze.

use axum::extract::State;
use undertone_api::freeze::{ClearFreeze, Freeze};
use undertone_api::id::{DatasetId, JobId};
use undertone_api::job::audit::AuditView;

use super::extract::{Caller, Json, Path};
use super::openapi::response::WrongState;
use super::problem::Rejection;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::{audit, freeze};

/// List the results of a job's audits, as each site signed them
#[utoipa::path(get, path = "/jobs/{id}/audits", tag = "jobs", operation_id = "list_job_audits", params(("id" = JobId, Path)),
    responses((status = 200, body = Vec<AuditView>), WrongState, Rejection))]
pub(super) async fn list(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<JobId>,
) -> Result<Json<Vec<AuditView>>, Rejection> {
    Ok(Json(audit::list(&ctx, &actor, id).await?))
}

/// List the freezes of a dataset's accounts and their ends, newest first
#[utoipa::path(get, path = "/datasets/{id}/freezes", tag = "datasets", operation_id = "list_freezes", params(("id" = DatasetId, Path)),
    responses((status = 200, body = Vec<Freeze>), Rejection))]
pub(super) async fn freezes(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<DatasetId>,
) -> Result<Json<Vec<Freeze>>, Rejection> {
    Ok(Json(freeze::list(&ctx, &actor, id).await?))
}

/// Clear a frozen dataset after the defect is repaired
#[utoipa::path(post, path = "/datasets/{id}/freezes/clear", tag = "datasets", operation_id = "clear_freeze", params(("id" = DatasetId, Path)), request_body = ClearFreeze,
    responses((status = 200, body = Freeze), Rejection))]
pub(super) async fn clear(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<DatasetId>,
    Json(word): Json<ClearFreeze>,
) -> Result<Json<Freeze>, Rejection> {
    Ok(Json(freeze::clear(&ctx, &actor, id, &word).await?))
}
