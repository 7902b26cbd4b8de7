//! Whether the process lives, and whether it can do its work: for whatever starts and watches it. No sign-in is needed and
//! nothing but yes or no is told.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use undertone_api::problem::{Code, Problem};

use super::problem::Rejection;
use crate::ctx::Ctx;

/// `/health/live` and `/health/ready`.
pub(super) fn router(ctx: &Ctx) -> Router {
    Router::new()
        .route("/health/live", get(async || StatusCode::NO_CONTENT))
        .route("/health/ready", get(ready))
        .with_state(ctx.clone())
}

async fn ready(State(ctx): State<Ctx>) -> Result<StatusCode, Rejection> {
    if ctx.shutdown.is_cancelled() {
        return Err(Problem::new(Code::Unavailable, "the server is stopping").into());
    }
    ctx.db.ping().await.map_err(|_| Problem::new(Code::Unavailable, "the database does not answer"))?;
    Ok(StatusCode::NO_CONTENT)
}
