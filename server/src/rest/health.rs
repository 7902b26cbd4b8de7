//! Liveness and readiness of the process, for supervisors. No authentication is required, and a response names only the
//! failing part.

pub(crate) mod probe;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::sync::Mutex;
use tokio::time::Instant;
use undertone_api::problem::{Code, Problem};

use self::probe::WriteProbe;
use super::problem::Rejection;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::exchange::object;
use undertone_server_core::service::log;

/// The timeout of a check.
const PATIENCE: Duration = Duration::from_secs(5);

/// The time for which a result is cached: no rate limit applies, and checks have a cost.
const FRESH: Duration = Duration::from_secs(1);

/// Returns the routes `/health/live` and `/health/ready`.
pub(super) fn router(ctx: &Ctx) -> Router {
    let looks = Arc::new((Newest::default(), WriteProbe::default()));
    Router::new()
        .route("/health/live", get(async || StatusCode::NO_CONTENT))
        .route("/health/ready", get(async move |State(ctx): State<Ctx>| ready(&ctx, &looks.0, &looks.1).await))
        .with_state(ctx.clone())
}

/// Answers 204 if the server is ready: it is not stopping, can write to its data folder and to a database with this
/// program's tables, reaches its store, and has the key of the ledger's log.
async fn ready(ctx: &Ctx, newest: &Newest, probe: &WriteProbe) -> Result<StatusCode, Rejection> {
    let trouble = if ctx.shutdown.is_cancelled() {
        Some("the server is stopping")
    } else {
        newest.refresh(Instant::now(), trouble(ctx, probe)).await
    };
    match trouble {
        None => Ok(StatusCode::NO_CONTENT),
        Some(detail) => Err(Rejection::from(Problem::new(Code::Unavailable, detail))),
    }
}

/// Returns a message about the failing part, if any.
async fn trouble(ctx: &Ctx, probe: &WriteProbe) -> Option<&'static str> {
    match with_timeout(async { ctx.db.is_current().await.ok() }).await {
        Some(true) => {}
        Some(false) => {
            return Some("the database's tables do not match this program: run `undertone-server migrate`");
        }
        None => return Some("the database does not answer"),
    }
    if with_timeout(async { log::is_ours(ctx).await.ok() }).await != Some(true) {
        return Some("the ledger's log was signed with another key than `signing.key`");
    }
    let store = with_timeout(async { object::answers(&ctx.store).await.ok() }).await;
    if store.is_none() {
        return Some("the object store does not answer");
    }
    probe.trouble(ctx).await
}

/// The newest check of the parts; concurrent callers wait for it and share its result.
#[derive(Default)]
struct Newest(Mutex<Option<(Instant, Option<&'static str>)>>);

impl Newest {
    /// Returns the result of the newest check if it is fresh at `now`, otherwise that of `look`.
    async fn refresh(&self, now: Instant, look: impl Future<Output = Option<&'static str>>) -> Option<&'static str> {
        let mut newest = self.0.lock().await;
        if let Some((at, found)) = *newest
            && now.saturating_duration_since(at) < FRESH
        {
            return found;
        }
        let reason = look.await;
        *newest = Some((now, reason));
        reason
    }
}

/// Returns the result of a check, or `None` after the timeout.
async fn with_timeout<T>(answer: impl Future<Output = Option<T>>) -> Option<T> {
    tokio::time::timeout(PATIENCE, answer).await.ok().flatten()
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use tokio::time::Instant;

    use super::{FRESH, Newest};

    #[tokio::test]
    async fn health_is_checked_once_a_second() {
        let newest = Newest::default();
        let start = Instant::now();
        assert_eq!(newest.refresh(start, ready(Some("the first look"))).await, Some("the first look"));
        for moment in [start, start + FRESH / 2] {
            assert_eq!(newest.refresh(moment, ready(None)).await, Some("the first look"));
        }
        assert_eq!(newest.refresh(start + FRESH, ready(None)).await, None, "what works again is told a second later");
    }
}
