//! `/datasets/{id}/ledger`: what was reserved, paid and given back; `/log`: the signed heads over all of it;
//! `/consortia/{id}/ledger/bundle`: what somebody takes away to check it elsewhere.

use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use undertone_api::budget::Entry;
use undertone_api::id::{ConsortiumId, DatasetId};
use undertone_api::log::bundle::Line;
use undertone_api::log::view::{Consistency, ConsistencyQuery, SignedHead};
use undertone_api::page::{Page, PageQuery};
use undertone_api::problem::Problem;

use super::extract::{Caller, Json, Path, Query};
use super::problem::Rejection;
use crate::ctx::Ctx;
use crate::service::{bundle, ledger, log};

/// Read a dataset's ledger, newest first
#[utoipa::path(get, path = "/datasets/{id}/ledger", tag = "datasets", params(("id" = DatasetId, Path), PageQuery),
    responses((status = 200, body = Page<Entry>), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn entries(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<DatasetId>,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<Entry>>, Rejection> {
    Ok(Json(ledger::entries(&ctx, &actor, id, &page).await?))
}

/// Read the newest signed head of the server's log
#[utoipa::path(get, path = "/log/head", tag = "log",
    responses((status = 200, body = SignedHead), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn head(State(ctx): State<Ctx>, Caller(actor): Caller) -> Result<Json<SignedHead>, Rejection> {
    Ok(Json(log::head(&ctx, &actor).await?))
}

/// List the signed heads of the server's log, newest first
#[utoipa::path(get, path = "/log/heads", tag = "log", params(PageQuery),
    responses((status = 200, body = Page<SignedHead>), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn heads(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<SignedHead>>, Rejection> {
    Ok(Json(log::heads(&ctx, &actor, &page).await?))
}

/// Prove that one size of the log continues another
#[utoipa::path(get, path = "/log/consistency", tag = "log", params(ConsistencyQuery),
    responses((status = 200, body = Consistency), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn consistency(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Query(asked): Query<ConsistencyQuery>,
) -> Result<Json<Consistency>, Rejection> {
    Ok(Json(log::consistency(&ctx, &actor, asked).await?))
}

/// Take a consortium's ledgers away, to check them without the server
///
/// One JSON object a line, each a `Line`, to be examined by `undertone-server verify --bundle FILE`. It is whole when its last
/// line is there.
#[utoipa::path(get, path = "/consortia/{id}/ledger/bundle", tag = "consortia", params(("id" = ConsortiumId, Path)),
    responses((status = 200, body = Line, content_type = "application/x-ndjson"), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn bundle(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<ConsortiumId>,
) -> Result<Response, Rejection> {
    let lines = bundle::of_consortium(&ctx, &actor, id).await?;
    let headers = [
        (header::CONTENT_TYPE, "application/x-ndjson".to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"ledger-{id}.jsonl\"")),
        (header::CACHE_CONTROL, "private, no-store".to_owned()),
    ];
    Ok((headers, Body::from_stream(lines)).into_response())
}
