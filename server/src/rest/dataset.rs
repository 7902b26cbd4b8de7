//! `/datasets`: the public facts of datasets.

use axum::extract::State;
use undertone_api::dataset::Dataset;
use undertone_api::id::DatasetId;

use super::extract::{Caller, Json, Path};
use super::problem::Rejection;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::dataset;

/// Show a dataset and its accounts
#[utoipa::path(get, path = "/datasets/{id}", tag = "datasets", operation_id = "get_dataset", params(("id" = DatasetId, Path)),
    responses((status = 200, body = Dataset), Rejection))]
pub(super) async fn show(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<DatasetId>,
) -> Result<Json<Dataset>, Rejection> {
    Ok(Json(dataset::get(&ctx, &actor, id).await?))
}
