//! `/me/approval-keys`: keys with which the caller approves jobs as a steward.

use axum::extract::State;
use axum::http::StatusCode;
use undertone_api::approval_key::{NewApprovalKey, OwnApprovalKey};
use undertone_api::id::ApprovalKeyId;

use super::extract::{Caller, Json, Path};
use super::problem::Rejection;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::approval_key;

/// List the caller's approval keys, newest first
#[utoipa::path(get, path = "/me/approval-keys", tag = "account", operation_id = "list_approval_keys",
    responses((status = 200, body = Vec<OwnApprovalKey>), Rejection))]
pub(super) async fn list(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
) -> Result<Json<Vec<OwnApprovalKey>>, Rejection> {
    Ok(Json(approval_key::list(&ctx, &actor).await?))
}

/// Add the public half of an approval key to the caller's list
///
/// A site accepts it only after the site's operator has pinned it at the site's terminal.
#[utoipa::path(post, path = "/me/approval-keys", tag = "account", operation_id = "add_approval_key", request_body = NewApprovalKey,
    responses((status = 201, body = OwnApprovalKey), Rejection))]
pub(super) async fn create(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Json(new): Json<NewApprovalKey>,
) -> Result<(StatusCode, Json<OwnApprovalKey>), Rejection> {
    Ok((StatusCode::CREATED, Json(approval_key::create(&ctx, &actor, &new).await?)))
}

/// Remove an approval key from the caller's list
///
/// Sites that pin it accept it until their operators remove it.
#[utoipa::path(delete, path = "/me/approval-keys/{id}", tag = "account", operation_id = "remove_approval_key", params(("id" = ApprovalKeyId, Path)),
    responses((status = 204), Rejection))]
pub(super) async fn remove(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<ApprovalKeyId>,
) -> Result<StatusCode, Rejection> {
    approval_key::remove(&ctx, &actor, id).await?;
    Ok(StatusCode::NO_CONTENT)
}
