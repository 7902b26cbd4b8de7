//! `/audit-log`, `/consortia/{id}/audit-log`, `/organizations/{id}/audit-log`: actions with their actor, place and
//! time.

use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use undertone_api::audit_log::{AuditCheck, AuditEntry, AuditPlace, AuditQuery};
use undertone_api::id::{ConsortiumId, OrganizationId};
use undertone_api::page::{Page, PageQuery};

use super::extract::{Caller, Json, Path, Query};
use super::problem::Rejection;
use undertone_server_core::auth::Actor;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::audit_log::{self, AuditLogExport, AuditLogFormat};

/// The form of an exported log.
#[derive(Debug, Clone, Copy, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct FormatQuery {
    /// `jsonl` by default: one entry as JSON on each line, in order, so that a reader can check the chain. `csv` is a
    /// table.
    #[serde(default)]
    format: AuditLogFormat,
}

/// List the actions on the server itself, newest first
#[utoipa::path(get, path = "/audit-log", tag = "audit log", operation_id = "list_server_log", params(AuditQuery, PageQuery),
    responses((status = 200, body = Page<AuditEntry>), Rejection))]
pub(super) async fn of_server(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Query(wanted): Query<AuditQuery>,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<AuditEntry>>, Rejection> {
    Ok(Json(audit_log::list(&ctx, &actor, AuditPlace::Server, &wanted, &page).await?))
}

/// List the actions in a consortium, newest first
#[utoipa::path(get, path = "/consortia/{id}/audit-log", tag = "audit log", operation_id = "list_consortium_log", params(("id" = ConsortiumId, Path), AuditQuery, PageQuery),
    responses((status = 200, body = Page<AuditEntry>), Rejection))]
pub(super) async fn of_consortium(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<ConsortiumId>,
    Query(wanted): Query<AuditQuery>,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<AuditEntry>>, Rejection> {
    Ok(Json(audit_log::list(&ctx, &actor, AuditPlace::Consortium(id), &wanted, &page).await?))
}

/// List the actions in an organization, newest first
#[utoipa::path(get, path = "/organizations/{id}/audit-log", tag = "audit log", operation_id = "list_organization_log", params(("id" = OrganizationId, Path), AuditQuery, PageQuery),
    responses((status = 200, body = Page<AuditEntry>), Rejection))]
pub(super) async fn of_organization(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<OrganizationId>,
    Query(wanted): Query<AuditQuery>,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<AuditEntry>>, Rejection> {
    Ok(Json(audit_log::list(&ctx, &actor, AuditPlace::Organization(id), &wanted, &page).await?))
}

/// Check the chain of hashes of the server's whole audit log
#[utoipa::path(get, path = "/audit-log/check", tag = "audit log", operation_id = "check_server_log",
    responses((status = 200, body = AuditCheck), Rejection))]
pub(super) async fn check_server(State(ctx): State<Ctx>, Caller(actor): Caller) -> Result<Json<AuditCheck>, Rejection> {
    Ok(Json(audit_log::check(&ctx, &actor, AuditPlace::Server).await?))
}

/// Check the chain of hashes of a consortium's whole audit log
#[utoipa::path(get, path = "/consortia/{id}/audit-log/check", tag = "audit log", operation_id = "check_consortium_log", params(("id" = ConsortiumId, Path)),
    responses((status = 200, body = AuditCheck), Rejection))]
pub(super) async fn check_consortium(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<ConsortiumId>,
) -> Result<Json<AuditCheck>, Rejection> {
    Ok(Json(audit_log::check(&ctx, &actor, AuditPlace::Consortium(id)).await?))
}

/// Check the chain of hashes of an organization's whole audit log
#[utoipa::path(get, path = "/organizations/{id}/audit-log/check", tag = "audit log", operation_id = "check_organization_log", params(("id" = OrganizationId, Path)),
    responses((status = 200, body = AuditCheck), Rejection))]
pub(super) async fn check_organization(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<OrganizationId>,
) -> Result<Json<AuditCheck>, Rejection> {
    Ok(Json(audit_log::check(&ctx, &actor, AuditPlace::Organization(id)).await?))
}

/// Export the server's audit log
///
/// Oldest first; `format` is `jsonl` (each line an `AuditEntry`) or `csv`. The export is an entry itself.
#[utoipa::path(get, path = "/audit-log/export", tag = "audit log", operation_id = "export_server_log", params(AuditQuery, FormatQuery),
    responses((status = 200, content((AuditEntry = "application/x-ndjson"), (String = "text/csv"))),
        Rejection))]
pub(super) async fn export_server(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Query(wanted): Query<AuditQuery>,
    Query(query): Query<FormatQuery>,
) -> Result<Response, Rejection> {
    export(&ctx, &actor, AuditPlace::Server, wanted, query).await
}

/// Export a consortium's audit log
///
/// Oldest first; `format` is `jsonl` (each line an `AuditEntry`) or `csv`. The export is an entry itself.
#[utoipa::path(get, path = "/consortia/{id}/audit-log/export", tag = "audit log", operation_id = "export_consortium_log", params(("id" = ConsortiumId, Path), AuditQuery, FormatQuery),
    responses((status = 200, content((AuditEntry = "application/x-ndjson"), (String = "text/csv"))),
        Rejection))]
pub(super) async fn export_consortium(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<ConsortiumId>,
    Query(wanted): Query<AuditQuery>,
    Query(query): Query<FormatQuery>,
) -> Result<Response, Rejection> {
    export(&ctx, &actor, AuditPlace::Consortium(id), wanted, query).await
}

/// Export an organization's audit log
///
/// Oldest first; `format` is `jsonl` (each line an `AuditEntry`) or `csv`. The export is an entry itself.
#[utoipa::path(get, path = "/organizations/{id}/audit-log/export", tag = "audit log", operation_id = "export_organization_log", params(("id" = OrganizationId, Path), AuditQuery, FormatQuery),
    responses((status = 200, content((AuditEntry = "application/x-ndjson"), (String = "text/csv"))),
        Rejection))]
pub(super) async fn export_organization(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<OrganizationId>,
    Query(wanted): Query<AuditQuery>,
    Query(query): Query<FormatQuery>,
) -> Result<Response, Rejection> {
    export(&ctx, &actor, AuditPlace::Organization(id), wanted, query).await
}

async fn export(
    ctx: &Ctx,
    actor: &Actor,
    place: AuditPlace,
    wanted: AuditQuery,
    query: FormatQuery,
) -> Result<Response, Rejection> {
    let AuditLogExport { name, content_type, body } =
        audit_log::export(ctx, actor, place, wanted, query.format).await?;
    let headers = [
        (header::CONTENT_TYPE, content_type.to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
        (header::CACHE_CONTROL, "private, no-store".to_owned()),
    ];
    Ok((headers, Body::from_stream(body)).into_response())
}
