//! `/datasets/{id}/history`, `/accounts/{id}/entries/{sequence}`: the history of a budget, and the proof of one row of
//! a ledger.

use axum::extract::State;
use serde::Deserialize;
use undertone_api::id::{AccountId, DatasetId};
use undertone_api::ledger::{AccountHistory, EntryProof};

use super::extract::{Caller, Json, Path};
use super::problem::Rejection;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::ledger;

/// A row of an account.
#[derive(Debug, Clone, Copy, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct RowPath {
    /// The account.
    id: AccountId,
    /// The row's number in it, from 1.
    sequence: u64,
}

/// Show the history of a dataset's accounts
///
/// Every limit, reservation and return, and as many payments as a chart can show, each with the spent, reserved and
/// remaining budget at that time; and the share of each job. An account of more than 50,000 rows is `too_large`: read
/// its rows instead.
#[utoipa::path(get, path = "/datasets/{id}/history", tag = "datasets", operation_id = "get_history", params(("id" = DatasetId, Path)),
    responses((status = 200, body = Vec<AccountHistory>), Rejection))]
pub(super) async fn history(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<DatasetId>,
) -> Result<Json<Vec<AccountHistory>>, Rejection> {
    Ok(Json(ledger::history(&ctx, &actor, id).await?))
}

/// Show one row of a ledger with its proof
///
/// Its price at every order, the text that is hashed, the steps that lead from it to the root of the log that the
/// server has signed, and the site's receipt.
#[utoipa::path(get, path = "/accounts/{id}/entries/{sequence}", tag = "datasets", operation_id = "get_entry", params(RowPath),
    responses((status = 200, body = EntryProof), Rejection))]
pub(super) async fn entry(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(RowPath { id, sequence }): Path<RowPath>,
) -> Result<Json<EntryProof>, Rejection> {
    Ok(Json(ledger::explain(&ctx, &actor, id, sequence).await?))
}
