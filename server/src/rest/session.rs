//! `/session`: signing in, renewing, signing out.

use axum::extract::State;
use axum::http::StatusCode;
use undertone_api::problem::{Code, Problem};
use undertone_api::session::{Refresh, Session, SignIn, Tokens};

use super::extract::{Caller, From, Json};
use super::problem::Rejection;
use crate::ctx::Ctx;
use crate::service::session::{self, Renewed};

/// Sign in
///
/// After 10 wrong sign-ins for an e-mail, or 50 from an address, within 15 minutes: `rate_limited`.
#[utoipa::path(post, path = "/session", tag = "session", security(()), request_body = SignIn,
    responses((status = 200, body = Session), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn sign_in(
    State(ctx): State<Ctx>,
    From(from): From,
    Json(credentials): Json<SignIn>,
) -> Result<Json<Session>, Rejection> {
    Ok(Json(session::sign_in(&ctx, from, &credentials).await?))
}

/// Get the next pair of tokens
///
/// A refresh token works once. Using an old one again ends the session.
#[utoipa::path(post, path = "/session/refresh", tag = "session", security(()), request_body = Refresh,
    responses((status = 200, body = Tokens), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn refresh(State(ctx): State<Ctx>, Json(refresh): Json<Refresh>) -> Result<Json<Tokens>, Rejection> {
    match session::refresh(&ctx, &refresh.refresh_token).await? {
        Renewed::Pair(_, tokens) => Ok(Json(tokens)),
        Renewed::Late(_) => {
            Err(Rejection::new(Code::Unauthenticated, "this token was used a moment ago: use those of that answer"))
        }
    }
}

/// Sign out
#[utoipa::path(delete, path = "/session", tag = "session",
    responses((status = 204), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn sign_out(State(ctx): State<Ctx>, Caller(actor): Caller) -> Result<StatusCode, Rejection> {
    session::sign_out(&ctx, &actor).await?;
    Ok(StatusCode::NO_CONTENT)
}
