//! `/datasets/{id}/budgets`: lifetime limits, and the balances of their accounts.

use axum::extract::State;
use undertone_api::budget::{Account, AccountStanding, NewBudget};
use undertone_api::id::DatasetId;

use super::etag::IfMatch;
use super::extract::{Caller, Json, Path};
use super::problem::Rejection;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::{budget, dataset};

/// List a dataset's accounts with their lifetime limits
///
/// The `ETag` changes when a limit is set and when anything is spent or reserved.
#[utoipa::path(get, path = "/datasets/{id}/budgets", tag = "datasets", operation_id = "list_budgets", params(("id" = DatasetId, Path)),
    responses((status = 200, body = Vec<Account>), Rejection))]
pub(super) async fn list(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<DatasetId>,
) -> Result<Json<Vec<Account>>, Rejection> {
    Ok(Json(dataset::get(&ctx, &actor, id).await?.accounts))
}

/// List the full balances of a dataset's accounts, for planning without the server
#[utoipa::path(get, path = "/datasets/{id}/balances", tag = "datasets", operation_id = "list_balances", params(("id" = DatasetId, Path)),
    responses((status = 200, body = Vec<AccountStanding>), Rejection))]
pub(super) async fn balances(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<DatasetId>,
) -> Result<Json<Vec<AccountStanding>>, Rejection> {
    Ok(Json(budget::balances(&ctx, &actor, id).await?))
}

/// Set or raise a dataset's lifetime limit for one unit
#[utoipa::path(put, path = "/datasets/{id}/budgets", tag = "datasets", operation_id = "set_budget", params(("id" = DatasetId, Path),
        ("If-Match" = Option<String>, Header, description = "The `ETag` of the accounts that the caller has read; absent to accept any version")),
    request_body = NewBudget,
    responses((status = 200, body = Account), Rejection))]
pub(super) async fn set(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<DatasetId>,
    IfMatch(expected): IfMatch,
    Json(new): Json<NewBudget>,
) -> Result<Json<Account>, Rejection> {
    Ok(Json(budget::set_if(&ctx, &actor, id, new, &expected).await?))
}
