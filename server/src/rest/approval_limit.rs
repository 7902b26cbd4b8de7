//! `/datasets/{id}/approval-limits`: limits within which jobs are approved automatically.

use axum::extract::State;
use axum::http::{HeaderName, StatusCode, header};
use undertone_api::id::DatasetId;
use undertone_api::job::{ApprovalLimit, NewApprovalLimit};

use super::etag::{IfMatch, of_part};
use super::extract::{Caller, Json, Path};
use super::problem::Rejection;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::{approval, version};

/// List the approval limits of a dataset, newest first; at most one is in force
///
/// The `ETag` has two parts. `If-None-Match` compares both. `If-Match` compares only the first, which changes when a
/// limit is set, withdrawn or expires, and not when a job is approved by it or releases something.
#[utoipa::path(get, path = "/datasets/{id}/approval-limits", tag = "datasets", operation_id = "list_approval_limits", params(("id" = DatasetId, Path)),
    responses((status = 200, body = Vec<ApprovalLimit>), Rejection))]
pub(super) async fn list(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<DatasetId>,
) -> Result<([(HeaderName, String); 1], Json<Vec<ApprovalLimit>>), Rejection> {
    let all = approval::limits(&ctx, &actor, id).await?;
    let tag = of_part(&approval::limits_version(&all)?, &version::compute_version(&all)?);
    Ok(([(header::ETAG, tag)], Json(all)))
}

/// Set the limits within which jobs are approved automatically
#[utoipa::path(post, path = "/datasets/{id}/approval-limits", tag = "datasets", operation_id = "set_approval_limit", params(("id" = DatasetId, Path),
        ("If-Match" = Option<String>, Header, description = "The `ETag` of the limits that the caller has read; absent to accept any version")),
    request_body = NewApprovalLimit,
    responses((status = 201, body = ApprovalLimit), Rejection))]
pub(super) async fn set(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<DatasetId>,
    expected: IfMatch,
    Json(new): Json<NewApprovalLimit>,
) -> Result<(StatusCode, Json<ApprovalLimit>), Rejection> {
    Ok((StatusCode::CREATED, Json(approval::limit_set(&ctx, &actor, id, &new, &expected.of_part()).await?)))
}

/// Withdraw the limit in force, so that every job needs an approval again
#[utoipa::path(delete, path = "/datasets/{id}/approval-limits", tag = "datasets", operation_id = "withdraw_approval_limit", params(("id" = DatasetId, Path)),
    responses((status = 200, body = Vec<ApprovalLimit>), Rejection))]
pub(super) async fn withdraw(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<DatasetId>,
) -> Result<Json<Vec<ApprovalLimit>>, Rejection> {
    Ok(Json(approval::limit_withdraw(&ctx, &actor, id).await?))
}
