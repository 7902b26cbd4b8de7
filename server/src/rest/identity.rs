//! `/me/identities`: identities at identity providers.

use axum::extract::State;
use axum::http::StatusCode;
use undertone_api::id::IdentityId;
use undertone_api::session::LinkedIdentity;

use super::extract::{Caller, Json, Path};
use super::problem::Rejection;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::oidc;

/// List the caller's identities at sign-in providers
#[utoipa::path(get, path = "/me/identities", tag = "session", operation_id = "list_identities",
    responses((status = 200, body = Vec<LinkedIdentity>), Rejection))]
pub(super) async fn list(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
) -> Result<Json<Vec<LinkedIdentity>>, Rejection> {
    Ok(Json(oidc::list(&ctx, &actor).await?))
}

/// Unlink an identity of the caller
///
/// It cannot sign in any more, until the member links it again.
#[utoipa::path(delete, path = "/me/identities/{id}", tag = "session", operation_id = "unlink_identity", params(("id" = IdentityId, Path, description = "The identity")),
    responses((status = 204), Rejection))]
pub(super) async fn unlink(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<IdentityId>,
) -> Result<StatusCode, Rejection> {
    oidc::unlink(&ctx, &actor, id).await?;
    Ok(StatusCode::NO_CONTENT)
}
