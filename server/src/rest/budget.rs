//! `/datasets/{id}/budgets`: lifetime limits.

use axum::extract::State;
use undertone_api::budget::{Account, NewBudget};
use undertone_api::id::DatasetId;
use undertone_api::problem::Problem;

use super::extract::{Caller, Json, Path};
use super::problem::Rejection;
use crate::ctx::Ctx;
use crate::service::budget;

/// Set or raise a dataset's lifetime limit for one unit
#[utoipa::path(put, path = "/datasets/{id}/budgets", tag = "datasets", params(("id" = DatasetId, Path)), request_body = NewBudget,
    responses((status = 200, body = Account), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn set(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<DatasetId>,
    Json(new): Json<NewBudget>,
) -> Result<Json<Account>, Rejection> {
    Ok(Json(budget::set(&ctx, &actor, id, new).await?))
}
