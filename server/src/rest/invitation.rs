//! `/invitations`: one-time links.

use axum::extract::State;
use axum::http::StatusCode;
use undertone_api::member::{JoinRequest, Member, NewMember};
use undertone_api::organization::{Invitation, InvitationPreview, NewInvitation};
use undertone_api::session::Session;

use super::extract::{Caller, CallerOrigin, Json, Path};
use super::openapi::response::{SpentLink, WrongCredentials};
use super::problem::Rejection;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::invitation;

/// Invite an organization or an annotator into a consortium, or a member into an organization
///
/// Only this response contains the link. It works once, for 7 days.
#[utoipa::path(post, path = "/invitations", tag = "invitations", operation_id = "create_invitation", request_body = NewInvitation,
    responses((status = 201, body = Invitation), Rejection))]
pub(super) async fn create(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Json(new): Json<NewInvitation>,
) -> Result<(StatusCode, Json<Invitation>), Rejection> {
    Ok((StatusCode::CREATED, Json(invitation::create(&ctx, &actor, &new).await?)))
}

/// Show the purpose of a link
#[utoipa::path(get, path = "/invitations/{token}", tag = "invitations", operation_id = "preview_invitation", security(()), params(("token" = String, Path, description = "The last part of the link")),
    responses((status = 200, body = InvitationPreview), SpentLink, Rejection))]
pub(super) async fn preview(
    State(ctx): State<Ctx>,
    Path(token): Path<String>,
) -> Result<Json<InvitationPreview>, Rejection> {
    Ok(Json(invitation::preview(&ctx, &token).await?))
}

/// Accept a link, and sign in
///
/// A person with an account gives its e-mail and password, and gains the link's roles. With a second factor, sign in
/// and join instead.
#[utoipa::path(post, path = "/invitations/{token}/accept", tag = "invitations", operation_id = "accept_invitation", security(()), params(("token" = String, Path, description = "The last part of the link")), request_body = NewMember,
    responses((status = 201, body = Session), WrongCredentials, SpentLink, Rejection))]
pub(super) async fn accept(
    State(ctx): State<Ctx>,
    CallerOrigin(origin): CallerOrigin,
    Path(token): Path<String>,
    Json(new): Json<NewMember>,
) -> Result<(StatusCode, Json<Session>), Rejection> {
    Ok((StatusCode::CREATED, Json(invitation::accept(&ctx, origin, &token, &new).await?)))
}

/// Accept a link with the caller's account
///
/// A link that brings an organization into a consortium needs an organization of which the caller is an admin, or the
/// name of a new one.
#[utoipa::path(post, path = "/invitations/{token}/join", tag = "invitations", operation_id = "join_by_invitation", params(("token" = String, Path, description = "The last part of the link")), request_body = JoinRequest,
    responses((status = 200, body = Member), SpentLink, Rejection))]
pub(super) async fn join(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(token): Path<String>,
    Json(join): Json<JoinRequest>,
) -> Result<Json<Member>, Rejection> {
    Ok(Json(invitation::join(&ctx, &actor, &token, &join).await?))
}
