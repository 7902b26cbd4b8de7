//! `/session`: sign-in, renewal and sign-out.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use undertone_api::account::{HalfSession, IdentityProof, SecondStep};
use undertone_api::problem::Code;
use undertone_api::session::{RefreshRequest, Session, SignIn, TokenPair};

use super::extract::{Caller, CallerOrigin, Json};
use super::openapi::response::WrongCredentials;
use super::problem::Rejection;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::session::{self, RenewedSession, SignInResult};

/// Sign in
///
/// A member with a second factor gets 202 and half a session, which only the second step accepts. After 10 wrong
/// sign-ins for an e-mail, or 50 from an address, within 15 minutes: `rate_limited`.
#[utoipa::path(post, path = "/session", tag = "session", operation_id = "sign_in", security(()), request_body = SignIn,
    responses((status = 200, body = Session, description = "Signed in"),
        (status = 202, body = HalfSession, description = "The password is correct, and a second step is required"),
        WrongCredentials, Rejection))]
pub(super) async fn sign_in(
    State(ctx): State<Ctx>,
    CallerOrigin(origin): CallerOrigin,
    Json(credentials): Json<SignIn>,
) -> Result<Response, Rejection> {
    Ok(match session::sign_in(&ctx, origin, &credentials).await? {
        SignInResult::Whole(session) => Json(session).into_response(),
        SignInResult::Half(half) => (StatusCode::ACCEPTED, Json(half)).into_response(),
    })
}

/// Finish a sign-in with a code
///
/// Six digits of the authenticator, or a recovery code; either works once. After 5 wrong codes within 15 minutes:
/// `rate_limited`.
#[utoipa::path(post, path = "/session/second-factor", tag = "session", operation_id = "finish_sign_in", security(()), request_body = SecondStep,
    responses((status = 200, body = Session), WrongCredentials, Rejection))]
pub(super) async fn finish(
    State(ctx): State<Ctx>,
    CallerOrigin(origin): CallerOrigin,
    Json(step): Json<SecondStep>,
) -> Result<Json<Session>, Rejection> {
    Ok(Json(session::finish(&ctx, origin, &step).await?))
}

/// Get the next pair of tokens
///
/// A refresh token works once. If its response was lost, it works again after 30 seconds, until a token of that
/// response is used. Using an older one ends the session.
#[utoipa::path(post, path = "/session/refresh", tag = "session", operation_id = "refresh_session", security(()), request_body = RefreshRequest,
    responses((status = 200, body = TokenPair), WrongCredentials, Rejection))]
pub(super) async fn refresh(
    State(ctx): State<Ctx>,
    Json(refresh): Json<RefreshRequest>,
) -> Result<Json<TokenPair>, Rejection> {
    match session::refresh(&ctx, &refresh.refresh_token).await? {
        RenewedSession::Pair(_, tokens) => Ok(Json(tokens)),
        RenewedSession::Late(_) => Err(Rejection::new(
            Code::Unauthenticated,
            "this token was used a moment ago: use those of that answer, or ask again in 30 seconds if it was lost",
        )),
    }
}

/// Prove the caller's identity again
///
/// By the password, by a code of the second factor, or by a passkey. Operations that create credentials or remove
/// access require a proof that is at most 10 minutes old; a sign-in is one.
#[utoipa::path(post, path = "/session/proof", tag = "session", operation_id = "prove_identity", request_body = IdentityProof,
    responses((status = 204), WrongCredentials, Rejection))]
pub(super) async fn prove(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Json(given): Json<IdentityProof>,
) -> Result<StatusCode, Rejection> {
    session::prove_identity(&ctx, &actor, &given).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Sign out
#[utoipa::path(delete, path = "/session", tag = "session", operation_id = "sign_out",
    responses((status = 204), Rejection))]
pub(super) async fn sign_out(State(ctx): State<Ctx>, Caller(actor): Caller) -> Result<StatusCode, Rejection> {
    session::sign_out(&ctx, &actor).await?;
    Ok(StatusCode::NO_CONTENT)
}
