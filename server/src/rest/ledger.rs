//! `/datasets/{id}/ledger`: reservations, payments and refunds; `/log`: the signed heads over all of them;
//! `/consortia/{id}/ledger/bundle`: an export for verification elsewhere.

use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use time::OffsetDateTime;
use undertone_api::budget::{EntryKind, LedgerEntry};
use undertone_api::id::{ConsortiumId, DatasetId, JobId};
use undertone_api::ledger::EntryFilter;
use undertone_api::log::bundle::BundleLine;
use undertone_api::log::view::{ConsistencyProof, ConsistencyQuery, SignedHead};
use undertone_api::page::{Page, PageQuery};

use super::extract::{Caller, Json, Path, Query};
use super::problem::Rejection;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::{bundle, ledger, log};

/// A filter of a ledger's rows.
#[derive(Debug, Clone, Default, Deserialize, utoipa::IntoParams)]
pub(super) struct EntryQuery {
    /// The `next` of the previous page.
    cursor: Option<String>,
    /// Items on a page: 1 to 200, 50 by default.
    limit: Option<u32>,
    /// Only rows of this kind.
    kind: Option<EntryKind>,
    /// Only rows that this job caused.
    job: Option<JobId>,
    /// Only rows written at this moment or later.
    #[serde(default, with = "time::serde::rfc3339::option")]
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<OffsetDateTime>,
    /// Only rows written before this moment.
    #[serde(default, with = "time::serde::rfc3339::option")]
    #[param(value_type = Option<String>, format = DateTime)]
    until: Option<OffsetDateTime>,
}

/// Read a dataset's ledger, newest first
#[utoipa::path(get, path = "/datasets/{id}/ledger", tag = "datasets", operation_id = "list_entries", params(("id" = DatasetId, Path), EntryQuery),
    responses((status = 200, body = Page<LedgerEntry>), Rejection))]
pub(super) async fn entries(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<DatasetId>,
    Query(query): Query<EntryQuery>,
) -> Result<Json<Page<LedgerEntry>>, Rejection> {
    let EntryQuery { cursor, limit, kind, job, since, until } = query;
    let filter = EntryFilter { kind, job, since, until };
    Ok(Json(ledger::search(&ctx, &actor, id, &filter, &PageQuery { cursor, limit }).await?))
}

/// Read the newest signed head of the server's log
#[utoipa::path(get, path = "/log/head", tag = "log", operation_id = "get_head",
    responses((status = 200, body = SignedHead), Rejection))]
pub(super) async fn head(State(ctx): State<Ctx>, Caller(actor): Caller) -> Result<Json<SignedHead>, Rejection> {
    Ok(Json(log::head(&ctx, &actor).await?))
}

/// List the signed heads of the server's log, newest first
#[utoipa::path(get, path = "/log/heads", tag = "log", operation_id = "list_heads", params(PageQuery),
    responses((status = 200, body = Page<SignedHead>), Rejection))]
pub(super) async fn heads(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<SignedHead>>, Rejection> {
    Ok(Json(log::heads(&ctx, &actor, &page).await?))
}

/// Prove that one size of the log continues another
#[utoipa::path(get, path = "/log/consistency", tag = "log", operation_id = "prove_consistency", params(ConsistencyQuery),
    responses((status = 200, body = ConsistencyProof), Rejection))]
pub(super) async fn consistency(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Query(asked): Query<ConsistencyQuery>,
) -> Result<Json<ConsistencyProof>, Rejection> {
    Ok(Json(log::consistency(&ctx, &actor, asked).await?))
}

/// Export a consortium's ledgers, to check them without the server
///
/// One JSON object on each line, a `Line`. `undertone-server verify --bundle FILE` examines it. It is complete only
/// with its last line, `end`.
#[utoipa::path(get, path = "/consortia/{id}/ledger/bundle", tag = "consortia", operation_id = "export_ledger", params(("id" = ConsortiumId, Path)),
    responses((status = 200, body = BundleLine, content_type = "application/x-ndjson"), Rejection))]
pub(super) async fn bundle(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<ConsortiumId>,
) -> Result<Response, Rejection> {
    let lines = bundle::export_consortium(&ctx, &actor, id).await?;
    let headers = [
        (header::CONTENT_TYPE, "application/x-ndjson".to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"ledger-{id}.jsonl\"")),
        (header::CACHE_CONTROL, "private, no-store".to_owned()),
    ];
    Ok((headers, Body::from_stream(lines)).into_response())
}
