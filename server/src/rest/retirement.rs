//! Retirement and restoration of workers, members, organizations and accounts.

use axum::extract::State;
use axum::http::StatusCode;
use undertone_api::id::{ConsortiumId, MemberId, OrganizationId, WorkerId};
use undertone_api::member::Member;
use undertone_api::organization::Organization;
use undertone_api::page::{Page, PageQuery};
use undertone_api::retirement::{AccountState, RetiredMember, StatedReason};
use undertone_api::worker::{Enrolment, Worker};

use super::extract::{Caller, Json, Path, Query, take_page};
use super::problem::Rejection;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::{retirement, worker};

/// Retire a worker
///
/// Its calls fail at once, its leases end, and its key can no longer be rotated. Its signatures stay verifiable, and
/// its spending stays charged. Its parts in jobs end: a proposed job is refused; a queued or running job continues with
/// the other parties while its quorum allows.
#[utoipa::path(post, path = "/organizations/{id}/workers/{worker}/retirement", tag = "organizations", operation_id = "retire_worker",
    params(("id" = OrganizationId, Path), ("worker" = WorkerId, Path)), request_body = StatedReason,
    responses((status = 200, body = Worker), Rejection))]
pub(super) async fn retire_worker(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path((id, worker)): Path<(OrganizationId, WorkerId)>,
    Json(stated): Json<StatedReason>,
) -> Result<Json<Worker>, Rejection> {
    Ok(Json(retirement::retire_worker(&ctx, &actor, id, worker, &stated).await?))
}

/// Write off a worker whose site does not return
///
/// Its parts in jobs end as in a retirement, and its reservations stay spent. It keeps its access: the site reverses
/// the write-off by returning with its key and its receipts.
#[utoipa::path(post, path = "/organizations/{id}/workers/{worker}/write-off", tag = "organizations", operation_id = "write_off_worker",
    params(("id" = OrganizationId, Path), ("worker" = WorkerId, Path)), request_body = StatedReason,
    responses((status = 200, body = Worker), Rejection))]
pub(super) async fn write_off_worker(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path((id, worker)): Path<(OrganizationId, WorkerId)>,
    Json(stated): Json<StatedReason>,
) -> Result<Json<Worker>, Rejection> {
    Ok(Json(retirement::write_off_worker(&ctx, &actor, id, worker, &stated).await?))
}

/// Restore a retired worker
///
/// Its former key signs in again. A worker that was replaced stays retired.
#[utoipa::path(post, path = "/organizations/{id}/workers/{worker}/restoration", tag = "organizations", operation_id = "restore_worker",
    params(("id" = OrganizationId, Path), ("worker" = WorkerId, Path)), request_body = StatedReason,
    responses((status = 200, body = Worker), Rejection))]
pub(super) async fn restore_worker(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path((id, worker)): Path<(OrganizationId, WorkerId)>,
    Json(stated): Json<StatedReason>,
) -> Result<Json<Worker>, Rejection> {
    Ok(Json(retirement::restore_worker(&ctx, &actor, id, worker, &stated).await?))
}

/// Create a token for the replacement of a retired worker
///
/// The new site enrolls with a key of its own and takes over the datasets with their lineages and accounts. Past
/// spending stays charged.
#[utoipa::path(post, path = "/organizations/{id}/workers/{worker}/replacement", tag = "organizations", operation_id = "replace_worker",
    params(("id" = OrganizationId, Path), ("worker" = WorkerId, Path)),
    responses((status = 201, body = Enrolment), Rejection))]
pub(super) async fn replace_worker(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path((id, retired)): Path<(OrganizationId, WorkerId)>,
) -> Result<(StatusCode, Json<Enrolment>), Rejection> {
    Ok((StatusCode::CREATED, Json(worker::invite_replacement(&ctx, &actor, id, retired).await?)))
}

/// List the retired members of an organization, the last retired first
#[utoipa::path(get, path = "/organizations/{id}/retired-members", tag = "organizations", operation_id = "list_retired_members",
    params(("id" = OrganizationId, Path), PageQuery),
    responses((status = 200, body = Page<RetiredMember>), Rejection))]
pub(super) async fn list_retired_members(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<OrganizationId>,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<RetiredMember>>, Rejection> {
    let all = retirement::list_retired_members(&ctx, &actor, id).await?;
    Ok(Json(take_page(all, &page, |item| item.member.id.0)?))
}

/// Retire a member of an organization
///
/// Their roles there, their sessions and their open links end at once; their API keys too if no other role remains.
#[utoipa::path(post, path = "/organizations/{id}/members/{member}/retirement", tag = "organizations", operation_id = "retire_member",
    params(("id" = OrganizationId, Path), ("member" = MemberId, Path)), request_body = StatedReason,
    responses((status = 200, body = RetiredMember), Rejection))]
pub(super) async fn retire_member(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path((id, member)): Path<(OrganizationId, MemberId)>,
    Json(stated): Json<StatedReason>,
) -> Result<Json<RetiredMember>, Rejection> {
    Ok(Json(retirement::retire_member(&ctx, &actor, id, member, &stated).await?))
}

/// Restore a retired member of an organization, with their former roles there
#[utoipa::path(post, path = "/organizations/{id}/members/{member}/restoration", tag = "organizations", operation_id = "restore_member",
    params(("id" = OrganizationId, Path), ("member" = MemberId, Path)), request_body = StatedReason,
    responses((status = 200, body = Member), Rejection))]
pub(super) async fn restore_member(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path((id, member)): Path<(OrganizationId, MemberId)>,
    Json(stated): Json<StatedReason>,
) -> Result<Json<Member>, Rejection> {
    Ok(Json(retirement::restore_member(&ctx, &actor, id, member, &stated).await?))
}

/// Retire an organization from a consortium
///
/// Its members lose the consortium at once, and its parts in the consortium's jobs end. It keeps its data, its workers and its other
/// consortia. Its ledgers and receipts stay readable and verifiable.
#[utoipa::path(post, path = "/consortia/{id}/organizations/{organization}/retirement", tag = "consortia", operation_id = "retire_organization",
    params(("id" = ConsortiumId, Path), ("organization" = OrganizationId, Path)), request_body = StatedReason,
    responses((status = 200, body = Organization), Rejection))]
pub(super) async fn retire_organization(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path((id, organization)): Path<(ConsortiumId, OrganizationId)>,
    Json(stated): Json<StatedReason>,
) -> Result<Json<Organization>, Rejection> {
    Ok(Json(retirement::retire_organization(&ctx, &actor, id, organization, &stated).await?))
}

/// Restore a retired organization in a consortium
#[utoipa::path(post, path = "/consortia/{id}/organizations/{organization}/restoration", tag = "consortia", operation_id = "restore_organization",
    params(("id" = ConsortiumId, Path), ("organization" = OrganizationId, Path)), request_body = StatedReason,
    responses((status = 200, body = Organization), Rejection))]
pub(super) async fn restore_organization(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path((id, organization)): Path<(ConsortiumId, OrganizationId)>,
    Json(stated): Json<StatedReason>,
) -> Result<Json<Organization>, Rejection> {
    Ok(Json(retirement::restore_organization(&ctx, &actor, id, organization, &stated).await?))
}

/// List the accounts of the server, by name
///
/// For operators.
#[utoipa::path(get, path = "/members", tag = "account", operation_id = "list_accounts", params(PageQuery),
    responses((status = 200, body = Page<AccountState>), Rejection))]
pub(super) async fn list_accounts(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<AccountState>>, Rejection> {
    let all = retirement::list_accounts(&ctx, &actor).await?;
    Ok(Json(take_page(all, &page, |item| item.member.id.0)?))
}

/// Retire an account
///
/// For operators. Its sessions, API keys, roles and open links end at once. The last operator cannot be retired.
#[utoipa::path(post, path = "/members/{id}/retirement", tag = "account", operation_id = "retire_account",
    params(("id" = MemberId, Path)), request_body = StatedReason,
    responses((status = 200, body = AccountState), Rejection))]
pub(super) async fn retire_account(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<MemberId>,
    Json(stated): Json<StatedReason>,
) -> Result<Json<AccountState>, Rejection> {
    Ok(Json(retirement::retire_account(&ctx, &actor, id, &stated).await?))
}

/// Restore a retired account with its roles
///
/// For operators. Its sessions and API keys stay ended.
#[utoipa::path(post, path = "/members/{id}/restoration", tag = "account", operation_id = "restore_account",
    params(("id" = MemberId, Path)), request_body = StatedReason,
    responses((status = 200, body = AccountState), Rejection))]
pub(super) async fn restore_account(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<MemberId>,
    Json(stated): Json<StatedReason>,
) -> Result<Json<AccountState>, Rejection> {
    Ok(Json(retirement::restore_account(&ctx, &actor, id, &stated).await?))
}
