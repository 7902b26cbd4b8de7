//! `/organizations`: owners of datasets and workers.

use axum::extract::State;
use axum::http::StatusCode;
use undertone_api::id::OrganizationId;
use undertone_api::member::Member;
use undertone_api::organization::{Invitation, InvitationPurpose, Organization};
use undertone_api::page::{Page, PageQuery};
use undertone_api::worker::{Enrolment, NewEnrolment, Worker};

use super::extract::{Caller, Json, Path, Query, take_page};
use super::problem::Rejection;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::{invitation, member, organization, worker};

/// List the organizations that the caller may see, by name
#[utoipa::path(get, path = "/organizations", tag = "organizations", operation_id = "list_organizations", params(PageQuery),
    responses((status = 200, body = Page<Organization>), Rejection))]
pub(super) async fn list(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<Organization>>, Rejection> {
    let all = organization::list(&ctx, &actor).await?;
    Ok(Json(take_page(all, &page, |item| item.id.0)?))
}

/// Show an organization
#[utoipa::path(get, path = "/organizations/{id}", tag = "organizations", operation_id = "get_organization", params(("id" = OrganizationId, Path)),
    responses((status = 200, body = Organization), Rejection))]
pub(super) async fn show(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<OrganizationId>,
) -> Result<Json<Organization>, Rejection> {
    Ok(Json(organization::get(&ctx, &actor, id).await?))
}

/// List the members of an organization, by name
///
/// Only its admins receive the e-mail addresses; for other callers they are empty.
#[utoipa::path(get, path = "/organizations/{id}/members", tag = "organizations", operation_id = "list_members", params(("id" = OrganizationId, Path), PageQuery),
    responses((status = 200, body = Page<Member>), Rejection))]
pub(super) async fn members(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<OrganizationId>,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<Member>>, Rejection> {
    let all = member::list(&ctx, &actor, id).await?;
    Ok(Json(take_page(all, &page, |item| item.id.0)?))
}

/// List the links that invite members, newest first
#[utoipa::path(get, path = "/organizations/{id}/invitations", tag = "organizations", operation_id = "list_member_invitations", params(("id" = OrganizationId, Path), PageQuery),
    responses((status = 200, body = Page<Invitation>), Rejection))]
pub(super) async fn invitations(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<OrganizationId>,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<Invitation>>, Rejection> {
    let purpose = InvitationPurpose::Member { organization: id, roles: Vec::new() };
    let all = invitation::list(&ctx, &actor, &purpose).await?;
    Ok(Json(take_page(all, &page, |item| item.id.0)?))
}

/// List the workers of an organization, by name
#[utoipa::path(get, path = "/organizations/{id}/workers", tag = "organizations", operation_id = "list_workers", params(("id" = OrganizationId, Path), PageQuery),
    responses((status = 200, body = Page<Worker>), Rejection))]
pub(super) async fn workers(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<OrganizationId>,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<Worker>>, Rejection> {
    let all = worker::list(&ctx, &actor, id).await?;
    Ok(Json(take_page(all, &page, |item| item.id.0)?))
}

/// Create a token with which a worker enrolls
///
/// Only this response contains the token. It works once, for 24 hours: `undertone-worker enroll <token>`.
#[utoipa::path(post, path = "/organizations/{id}/workers", tag = "organizations", operation_id = "enrol_worker", params(("id" = OrganizationId, Path)), request_body = NewEnrolment,
    responses((status = 201, body = Enrolment), Rejection))]
pub(super) async fn enrol(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<OrganizationId>,
    Json(new): Json<NewEnrolment>,
) -> Result<(StatusCode, Json<Enrolment>), Rejection> {
    Ok((StatusCode::CREATED, Json(worker::invite(&ctx, &actor, id, &new).await?)))
}
