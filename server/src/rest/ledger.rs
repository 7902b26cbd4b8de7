//! `/datasets/{id}/ledger`: what was reserved, paid and given back.

use axum::extract::State;
use undertone_api::budget::Entry;
use undertone_api::id::DatasetId;
use undertone_api::page::{Page, PageQuery};
use undertone_api::problem::Problem;

use super::extract::{Caller, Json, Path, Query};
use super::problem::Rejection;
use crate::ctx::Ctx;
use crate::service::ledger;

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
