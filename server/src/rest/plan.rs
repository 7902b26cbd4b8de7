//! `/plans`: the cost of a planned job. Nothing is changed.

use axum::extract::State;
use undertone_api::plan::{NewPlan, Plan};

use super::extract::{Caller, Json};
use super::problem::Rejection;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::plan;

/// Compute the cost of a job to each owner, and whether the budgets admit it
#[utoipa::path(post, path = "/plans", tag = "jobs", operation_id = "plan_job", request_body = NewPlan,
    responses((status = 200, body = Plan), Rejection))]
pub(super) async fn plan(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Json(new): Json<NewPlan>,
) -> Result<Json<Plan>, Rejection> {
    Ok(Json(plan::plan(&ctx, &actor, &new).await?))
}
