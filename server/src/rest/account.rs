//! `/me/...`: the caller's own second factor, sessions and password; `/password-resets`: links to set a new password.

use axum::extract::State;
use axum::http::StatusCode;
use undertone_api::account::{
    ChangePassword, FactorCode, FactorOffer, FactorProof, FactorStatus, NewPassword, NewReset, OpenSession,
    PasswordReset, RecoveryCodes, ResetPreview,
};
use undertone_api::id::SessionId;
use undertone_api::page::{Page, PageQuery};

use super::extract::{Caller, CallerAddress, Json, Path, Query, take_page};
use super::openapi::response::SpentLink;
use super::problem::Rejection;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::{factor, password, reset, sessions};

/// Show the state of the caller's second factor
#[utoipa::path(get, path = "/me/second-factor", tag = "account", operation_id = "show_second_factor",
    responses((status = 200, body = FactorStatus), Rejection))]
pub(super) async fn factor(State(ctx): State<Ctx>, Caller(actor): Caller) -> Result<Json<FactorStatus>, Rejection> {
    Ok(Json(factor::state(&ctx, &actor).await?))
}

/// Create a secret for the caller's authenticator
///
/// Only this response contains the secret. It takes effect with its first code, within 15 minutes.
#[utoipa::path(post, path = "/me/second-factor", tag = "account", operation_id = "offer_second_factor",
    responses((status = 201, body = FactorOffer), Rejection))]
pub(super) async fn offer(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
) -> Result<(StatusCode, Json<FactorOffer>), Rejection> {
    Ok((StatusCode::CREATED, Json(factor::offer(&ctx, &actor).await?)))
}

/// Switch the second factor on, with a code of the offered secret
///
/// Only this response contains the ten recovery codes. Each replaces the authenticator once.
#[utoipa::path(put, path = "/me/second-factor", tag = "account", operation_id = "confirm_second_factor", request_body = FactorCode,
    responses((status = 200, body = RecoveryCodes), Rejection))]
pub(super) async fn confirm(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Json(code): Json<FactorCode>,
) -> Result<Json<RecoveryCodes>, Rejection> {
    Ok(Json(factor::confirm(&ctx, &actor, &code).await?))
}

/// Switch the second factor off
///
/// After 5 wrong codes within 15 minutes: `rate_limited`.
#[utoipa::path(post, path = "/me/second-factor/off", tag = "account", operation_id = "drop_second_factor", request_body = FactorProof,
    responses((status = 204), Rejection))]
pub(super) async fn off(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Json(proof): Json<FactorProof>,
) -> Result<StatusCode, Rejection> {
    factor::drop(&ctx, &actor, &proof).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Create new recovery codes
///
/// The previous codes become invalid.
#[utoipa::path(post, path = "/me/second-factor/recovery-codes", tag = "account", operation_id = "renew_recovery_codes", request_body = FactorCode,
    responses((status = 201, body = RecoveryCodes), Rejection))]
pub(super) async fn recovery_codes(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Json(code): Json<FactorCode>,
) -> Result<(StatusCode, Json<RecoveryCodes>), Rejection> {
    Ok((StatusCode::CREATED, Json(factor::renew_codes(&ctx, &actor, &code).await?)))
}

/// List the caller's sessions, the last used first
#[utoipa::path(get, path = "/me/sessions", tag = "account", operation_id = "list_sessions", params(PageQuery),
    responses((status = 200, body = Page<OpenSession>), Rejection))]
pub(super) async fn sessions(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<OpenSession>>, Rejection> {
    let all = sessions::list(&ctx, &actor).await?;
    Ok(Json(take_page(all, &page, |session| session.id.0)?))
}

/// End all other sessions of the caller
#[utoipa::path(delete, path = "/me/sessions", tag = "account", operation_id = "end_other_sessions",
    responses((status = 204), Rejection))]
pub(super) async fn end_others(State(ctx): State<Ctx>, Caller(actor): Caller) -> Result<StatusCode, Rejection> {
    sessions::end_others(&ctx, &actor).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// End a session of the caller
#[utoipa::path(delete, path = "/me/sessions/{id}", tag = "account", operation_id = "end_session", params(("id" = SessionId, Path, description = "The session")),
    responses((status = 204), Rejection))]
pub(super) async fn end(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<SessionId>,
) -> Result<StatusCode, Rejection> {
    sessions::end(&ctx, &actor, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Change the caller's password
///
/// Every other session ends. The API keys are revoked unless `keep_keys` is true.
#[utoipa::path(put, path = "/me/password", tag = "account", operation_id = "change_password", request_body = ChangePassword,
    responses((status = 204), Rejection))]
pub(super) async fn password(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Json(change): Json<ChangePassword>,
) -> Result<StatusCode, Rejection> {
    password::change(&ctx, &actor, &change).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Create a link with which a member sets a new password
///
/// For operators. Only this response contains the link; it works once, for 24 hours, and ends every session of the
/// member. The member's second factor stays unless `clear_second_factor` is true, which is recorded.
#[utoipa::path(post, path = "/password-resets", tag = "account", operation_id = "create_password_reset", request_body = NewReset,
    responses((status = 201, body = PasswordReset), Rejection))]
pub(super) async fn reset(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Json(new): Json<NewReset>,
) -> Result<(StatusCode, Json<PasswordReset>), Rejection> {
    Ok((StatusCode::CREATED, Json(reset::create(&ctx, &actor, &new).await?)))
}

/// Show the effect of a reset link
#[utoipa::path(get, path = "/password-resets/{token}", tag = "account", operation_id = "preview_password_reset", security(()), params(("token" = String, Path, description = "The last part of the link")),
    responses((status = 200, body = ResetPreview), SpentLink, Rejection))]
pub(super) async fn preview(
    State(ctx): State<Ctx>,
    CallerAddress(address): CallerAddress,
    Path(token): Path<String>,
) -> Result<Json<ResetPreview>, Rejection> {
    Ok(Json(reset::preview(&ctx, address, &token).await?))
}

/// Set a new password with a reset link
#[utoipa::path(post, path = "/password-resets/{token}", tag = "account", operation_id = "redeem_password_reset", security(()), params(("token" = String, Path, description = "The last part of the link")), request_body = NewPassword,
    responses((status = 204), SpentLink, Rejection))]
pub(super) async fn redeem(
    State(ctx): State<Ctx>,
    CallerAddress(address): CallerAddress,
    Path(token): Path<String>,
    Json(new): Json<NewPassword>,
) -> Result<StatusCode, Rejection> {
    reset::redeem(&ctx, address, &token, &new).await?;
    Ok(StatusCode::NO_CONTENT)
}
