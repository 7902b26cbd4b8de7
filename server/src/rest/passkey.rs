//! `/me/passkeys` and `/session/passkey`: the caller's passkeys, and sign-in with one.

use axum::extract::State;
use axum::http::StatusCode;
use undertone_api::id::PasskeyId;
use undertone_api::passkey::{
    NewPasskey, NewPasskeyChallenge, Passkey, PasskeyChallenge, PasskeySignIn, SignInChallenge,
};
use undertone_api::session::Session;

use super::extract::{Caller, CallerOrigin, Json, Path};
use super::openapi::response::WrongCredentials;
use super::problem::Rejection;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::{passkey, session};

/// Create a challenge for a sign-in by a passkey
///
/// With the token of a half session for the second step; without, for a passkey alone. It is valid for five minutes and
/// one sign-in.
#[utoipa::path(post, path = "/session/passkey/challenge", tag = "session", operation_id = "start_passkey_sign_in", security(()), request_body = SignInChallenge,
    responses((status = 200, body = PasskeyChallenge), WrongCredentials, Rejection))]
pub(super) async fn sign_in_challenge(
    State(ctx): State<Ctx>,
    Json(given): Json<SignInChallenge>,
) -> Result<Json<PasskeyChallenge>, Rejection> {
    Ok(Json(session::sign_in_challenge(&ctx, &given.half_token).await?))
}

/// Sign in by a passkey
///
/// Alone, or as the second step after the password. The passkey must verify its user: by PIN, fingerprint or face.
#[utoipa::path(post, path = "/session/passkey", tag = "session", operation_id = "sign_in_by_passkey", security(()), request_body = PasskeySignIn,
    responses((status = 200, body = Session), WrongCredentials, Rejection))]
pub(super) async fn sign_in(
    State(ctx): State<Ctx>,
    CallerOrigin(origin): CallerOrigin,
    Json(given): Json<PasskeySignIn>,
) -> Result<Json<Session>, Rejection> {
    Ok(Json(session::passkey_sign_in(&ctx, origin, &given).await?))
}

/// Create a challenge for the registration of a passkey, or for a proof of identity by one
///
/// It is valid for five minutes, for this session and for one answer.
#[utoipa::path(post, path = "/me/passkeys/challenge", tag = "account", operation_id = "start_passkey", request_body = NewPasskeyChallenge,
    responses((status = 200, body = PasskeyChallenge), Rejection))]
pub(super) async fn challenge(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Json(given): Json<NewPasskeyChallenge>,
) -> Result<Json<PasskeyChallenge>, Rejection> {
    Ok(Json(passkey::challenge(&ctx, &actor, given.purpose).await?))
}

/// List the caller's passkeys, newest first
#[utoipa::path(get, path = "/me/passkeys", tag = "account", operation_id = "list_passkeys",
    responses((status = 200, body = Vec<Passkey>), Rejection))]
pub(super) async fn list(State(ctx): State<Ctx>, Caller(actor): Caller) -> Result<Json<Vec<Passkey>>, Rejection> {
    Ok(Json(passkey::list(&ctx, &actor).await?))
}

/// Register a passkey
///
/// It signs in alone, and is a second factor after the password. At most 10.
#[utoipa::path(post, path = "/me/passkeys", tag = "account", operation_id = "register_passkey", request_body = NewPasskey,
    responses((status = 201, body = Passkey), Rejection))]
pub(super) async fn create(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Json(new): Json<NewPasskey>,
) -> Result<(StatusCode, Json<Passkey>), Rejection> {
    Ok((StatusCode::CREATED, Json(passkey::create(&ctx, &actor, &new).await?)))
}

/// Remove a passkey of the caller
#[utoipa::path(delete, path = "/me/passkeys/{id}", tag = "account", operation_id = "remove_passkey", params(("id" = PasskeyId, Path)),
    responses((status = 204), Rejection))]
pub(super) async fn remove(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<PasskeyId>,
) -> Result<StatusCode, Rejection> {
    passkey::remove(&ctx, &actor, id).await?;
    Ok(StatusCode::NO_CONTENT)
}
