//! Whether the process lives, and whether it can do its work: for whatever starts and watches it. No sign-in is needed and
//! nothing is told but which part does not work.

use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use undertone_api::problem::{Code, Problem};

use super::problem::Rejection;
use crate::ctx::Ctx;
use crate::exchange::object;
use crate::service::log;

/// How long a part may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// `/health/live` and `/health/ready`.
pub(super) fn router(ctx: &Ctx) -> Router {
    Router::new()
        .route("/health/live", get(async || StatusCode::NO_CONTENT))
        .route("/health/ready", get(ready))
        .with_state(ctx.clone())
}

/// Ready is who is not stopping, reaches a database with the tables of this program and a store, and holds the key that signed the
/// ledger's log.
async fn ready(State(ctx): State<Ctx>) -> Result<StatusCode, Rejection> {
    let not = |detail: &str| Rejection::from(Problem::new(Code::Unavailable, detail));
    if ctx.shutdown.is_cancelled() {
        return Err(not("the server is stopping"));
    }
    let current = within(async { ctx.db.is_current().await.ok() }).await;
    match current {
        Some(true) => {}
        Some(false) => {
            return Err(not("the database has other tables than this program: run `undertone-server migrate`"));
        }
        None => return Err(not("the database does not answer")),
    }
    if within(async { log::is_ours(&ctx).await.ok() }).await != Some(true) {
        return Err(not("the ledger's log was signed with another key than `signing.key`"));
    }
    within(async { object::answers(&ctx.store).await.ok() })
        .await
        .ok_or_else(|| not("the object store does not answer"))?;
    Ok(StatusCode::NO_CONTENT)
}

/// What a part answers in time.
async fn within<T>(answer: impl Future<Output = Option<T>>) -> Option<T> {
    tokio::time::timeout(PATIENCE, answer).await.ok().flatten()
}
