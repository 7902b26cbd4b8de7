//! Roles of members, in organizations and over consortia, and the withdrawal of invitations.

use axum::extract::State;
use axum::http::StatusCode;
use undertone_api::id::{ConsortiumId, InvitationId, MemberId, OrganizationId};
use undertone_api::member::{Member, NewConsortiumMember, RoleAssignment};
use undertone_api::organization::{Invitation, InvitationPurpose};
use undertone_api::page::{Page, PageQuery};

use super::extract::{Caller, Json, Path, Query, take_page};
use super::problem::Rejection;
use undertone_server_core::auth::Place;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::{invitation, role};

/// Replace the roles of a member in an organization
///
/// The new roles replace the previous ones. The last admin must remain an admin.
#[utoipa::path(put, path = "/organizations/{id}/members/{member}", tag = "organizations", operation_id = "assign_roles",
    params(("id" = OrganizationId, Path), ("member" = MemberId, Path)), request_body = RoleAssignment,
    responses((status = 200, body = Member), Rejection))]
pub(super) async fn assign(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path((id, member)): Path<(OrganizationId, MemberId)>,
    Json(roles): Json<RoleAssignment>,
) -> Result<Json<Member>, Rejection> {
    Ok(Json(role::assign(&ctx, &actor, id, member, &roles).await?))
}

/// Confirm that an e-mail address belongs to a member
///
/// Roles over a consortium are given by address, and only to members whose address an admin of their organization, an
/// operator or the sign-in provider has confirmed.
#[utoipa::path(post, path = "/organizations/{id}/members/{member}/address-confirmation", tag = "organizations", operation_id = "confirm_address",
    params(("id" = OrganizationId, Path), ("member" = MemberId, Path)),
    responses((status = 204), Rejection))]
pub(super) async fn confirm_address(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path((id, member)): Path<(OrganizationId, MemberId)>,
) -> Result<StatusCode, Rejection> {
    role::confirm_address(&ctx, &actor, id, member).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Remove a member from an organization
///
/// The account and its other roles stay. The last admin cannot be removed.
#[utoipa::path(delete, path = "/organizations/{id}/members/{member}", tag = "organizations", operation_id = "remove_member",
    params(("id" = OrganizationId, Path), ("member" = MemberId, Path)),
    responses((status = 204), Rejection))]
pub(super) async fn remove(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path((id, member)): Path<(OrganizationId, MemberId)>,
) -> Result<StatusCode, Rejection> {
    role::remove(&ctx, &actor, id, member).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// List the members with a role over a consortium itself, by name
#[utoipa::path(get, path = "/consortia/{id}/members", tag = "consortia", operation_id = "list_consortium_members",
    params(("id" = ConsortiumId, Path), PageQuery),
    responses((status = 200, body = Page<Member>), Rejection))]
pub(super) async fn list_consortium_members(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<ConsortiumId>,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<Member>>, Rejection> {
    let all = role::list_consortium_members(&ctx, &actor, id).await?;
    Ok(Json(take_page(all, &page, |member| member.id.0)?))
}

/// Give a member of a consortium a role over it
#[utoipa::path(post, path = "/consortia/{id}/members", tag = "consortia", operation_id = "add_consortium_member",
    params(("id" = ConsortiumId, Path)), request_body = NewConsortiumMember,
    responses((status = 201, body = Member), Rejection))]
pub(super) async fn add_consortium_member(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<ConsortiumId>,
    Json(new): Json<NewConsortiumMember>,
) -> Result<(StatusCode, Json<Member>), Rejection> {
    Ok((StatusCode::CREATED, Json(role::add_consortium_member(&ctx, &actor, id, &new).await?)))
}

/// Replace the roles of a member over a consortium
///
/// The new roles replace the previous ones; an empty list removes all. The last admin must remain an admin.
#[utoipa::path(put, path = "/consortia/{id}/members/{member}", tag = "consortia", operation_id = "assign_consortium_roles",
    params(("id" = ConsortiumId, Path), ("member" = MemberId, Path)), request_body = RoleAssignment,
    responses((status = 200, body = Member), Rejection))]
pub(super) async fn assign_over(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path((id, member)): Path<(ConsortiumId, MemberId)>,
    Json(roles): Json<RoleAssignment>,
) -> Result<Json<Member>, Rejection> {
    Ok(Json(role::assign_consortium_roles(&ctx, &actor, id, member, &roles).await?))
}

/// List the links that invite operators, newest first
#[utoipa::path(get, path = "/operators/invitations", tag = "account", operation_id = "list_operator_invitations", params(PageQuery),
    responses((status = 200, body = Page<Invitation>), Rejection))]
pub(super) async fn operator_links(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<Invitation>>, Rejection> {
    let all = invitation::list(&ctx, &actor, &InvitationPurpose::Operator).await?;
    Ok(Json(take_page(all, &page, |item| item.id.0)?))
}

/// Withdraw an unused link for an operator
#[utoipa::path(delete, path = "/operators/invitations/{invitation}", tag = "account", operation_id = "withdraw_operator_invitation",
    params(("invitation" = InvitationId, Path)),
    responses((status = 204), Rejection))]
pub(super) async fn withdraw_operator(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(link): Path<InvitationId>,
) -> Result<StatusCode, Rejection> {
    invitation::withdraw(&ctx, &actor, Place::Server, link).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Withdraw an unused link into an organization
#[utoipa::path(delete, path = "/organizations/{id}/invitations/{invitation}", tag = "organizations", operation_id = "withdraw_member_invitation",
    params(("id" = OrganizationId, Path), ("invitation" = InvitationId, Path)),
    responses((status = 204), Rejection))]
pub(super) async fn withdraw(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path((id, link)): Path<(OrganizationId, InvitationId)>,
) -> Result<StatusCode, Rejection> {
    invitation::withdraw(&ctx, &actor, Place::Organization(id), link).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Withdraw an unused link into a consortium, for an organization or an annotator
#[utoipa::path(delete, path = "/consortia/{id}/invitations/{invitation}", tag = "consortia", operation_id = "withdraw_consortium_invitation",
    params(("id" = ConsortiumId, Path), ("invitation" = InvitationId, Path)),
    responses((status = 204), Rejection))]
pub(super) async fn withdraw_over(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path((id, link)): Path<(ConsortiumId, InvitationId)>,
) -> Result<StatusCode, Rejection> {
    invitation::withdraw(&ctx, &actor, Place::Consortium(id), link).await?;
    Ok(StatusCode::NO_CONTENT)
}
