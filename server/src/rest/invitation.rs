//! `/invitations`: one-time links.

use axum::extract::State;
use axum::http::StatusCode;
use undertone_api::member::NewMember;
use undertone_api::organization::{Invitation, InvitationPreview, NewInvitation};
use undertone_api::problem::Problem;
use undertone_api::session::Session;

use super::extract::{Caller, From, Json, Path};
use super::problem::Rejection;
use crate::ctx::Ctx;
use crate::service::invitation;

/// Invite an organization or an annotator into a consortium, or a member into an organization
///
/// The link is in this answer only. It works once, for 7 days.
#[utoipa::path(post, path = "/invitations", tag = "invitations", request_body = NewInvitation,
    responses((status = 201, body = Invitation), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn create(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Json(new): Json<NewInvitation>,
) -> Result<(StatusCode, Json<Invitation>), Rejection> {
    Ok((StatusCode::CREATED, Json(invitation::create(&ctx, &actor, &new).await?)))
}

/// See what a link is for
#[utoipa::path(get, path = "/invitations/{token}", tag = "invitations", security(()), params(("token" = String, Path, description = "The last part of the link")),
    responses((status = 200, body = InvitationPreview), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn preview(
    State(ctx): State<Ctx>,
    Path(token): Path<String>,
) -> Result<Json<InvitationPreview>, Rejection> {
    Ok(Json(invitation::preview(&ctx, &token).await?))
}

/// Accept a link, and sign in
///
/// Who is a member already gives that e-mail and password, and gains the link's roles.
#[utoipa::path(post, path = "/invitations/{token}/accept", tag = "invitations", security(()), params(("token" = String, Path, description = "The last part of the link")), request_body = NewMember,
    responses((status = 201, body = Session), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn accept(
    State(ctx): State<Ctx>,
    From(from): From,
    Path(token): Path<String>,
    Json(new): Json<NewMember>,
) -> Result<(StatusCode, Json<Session>), Rejection> {
    Ok((StatusCode::CREATED, Json(invitation::accept(&ctx, from, &token, &new).await?)))
}
