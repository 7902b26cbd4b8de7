//! `/keys`: keys of programs that act for the caller.

use axum::extract::State;
use axum::http::StatusCode;
use undertone_api::api_key::{ApiKey, NewApiKey};
use undertone_api::id::ApiKeyId;
use undertone_api::page::{Page, PageQuery};

use super::extract::{Caller, Json, Path, Query, take_page};
use super::problem::Rejection;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::api_key;

/// List the caller's keys, newest first
///
/// Includes expired and revoked keys. No key can list keys: sign in.
#[utoipa::path(get, path = "/keys", tag = "keys", operation_id = "list_keys", params(PageQuery),
    responses((status = 200, body = Page<ApiKey>), Rejection))]
pub(super) async fn list(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<ApiKey>>, Rejection> {
    let keys = api_key::list(&ctx, &actor).await?;
    Ok(Json(take_page(keys, &page, |key| key.id.0)?))
}

/// Create a key with which a program acts for the caller
///
/// Only this response contains the key. A program sends it as `Authorization: Bearer udk_...`, by REST or gRPC.
#[utoipa::path(post, path = "/keys", tag = "keys", operation_id = "create_key", request_body = NewApiKey,
    responses((status = 201, body = ApiKey), Rejection))]
pub(super) async fn create(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Json(new): Json<NewApiKey>,
) -> Result<(StatusCode, Json<ApiKey>), Rejection> {
    Ok((StatusCode::CREATED, Json(api_key::create(&ctx, &actor, &new).await?)))
}

/// Revoke a key of the caller
///
/// It becomes invalid immediately.
#[utoipa::path(delete, path = "/keys/{id}", tag = "keys", operation_id = "revoke_key", params(("id" = ApiKeyId, Path, description = "The key")),
    responses((status = 204), Rejection))]
pub(super) async fn revoke(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<ApiKeyId>,
) -> Result<StatusCode, Rejection> {
    api_key::revoke(&ctx, &actor, id).await?;
    Ok(StatusCode::NO_CONTENT)
}
