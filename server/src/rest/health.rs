//! Whether the process lives, and whether it can do its work: for whatever starts and watches it. No sign-in is needed and
//! nothing is told but which part does not work.

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
use crate::ctx::Ctx;
use crate::exchange::object;
use crate::service::log;

/// How long a part may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long an answer about the parts is given again: no rate limit stands before it, and looking costs.
const FRESH: Duration = Duration::from_secs(1);

/// `/health/live` and `/health/ready`.
pub(super) fn router(ctx: &Ctx) -> Router {
    let looks = Arc::new((Newest::default(), WriteProbe::default()));
    Router::new()
        .route("/health/live", get(async || StatusCode::NO_CONTENT))
        .route("/health/ready", get(async move |State(ctx): State<Ctx>| ready(&ctx, &looks.0, &looks.1).await))
        .with_state(ctx.clone())
}

/// Answers 204 when the server is not stopping, can write to its data folder and to a database with the tables of this program,
/// reaches its store, and holds the key that signed the ledger's log.
async fn ready(ctx: &Ctx, newest: &Newest, probe: &WriteProbe) -> Result<StatusCode, Rejection> {
    let trouble = if ctx.shutdown.is_cancelled() {
        Some("the server is stopping")
    } else {
        newest.at(Instant::now(), trouble(ctx, probe)).await
    };
    match trouble {
        None => Ok(StatusCode::NO_CONTENT),
        Some(detail) => Err(Rejection::from(Problem::new(Code::Unavailable, detail))),
    }
}

/// Which part does not work.
async fn trouble(ctx: &Ctx, probe: &WriteProbe) -> Option<&'static str> {
    match within(async { ctx.db.is_current().await.ok() }).await {
        Some(true) => {}
        Some(false) => {
            return Some("the database has other tables than this program: run `undertone-server migrate`");
        }
        None => return Some("the database does not answer"),
    }
    if within(async { log::is_ours(ctx).await.ok() }).await != Some(true) {
        return Some("the ledger's log was signed with another key than `signing.key`");
    }
    let store = within(async { object::answers(&ctx.store).await.ok() }).await;
    if store.is_none() {
        return Some("the object store does not answer");
    }
    probe.trouble(ctx).await
}

/// The newest look at the parts; those who ask meanwhile wait for it and share it.
#[derive(Default)]
struct Newest(Mutex<Option<(Instant, Option<&'static str>)>>);

impl Newest {
    /// What does not work: as the newest look found if that is fresh at `now`, else as `look` finds.
    async fn at(&self, now: Instant, look: impl Future<Output = Option<&'static str>>) -> Option<&'static str> {
        let mut newest = self.0.lock().await;
        if let Some((at, found)) = *newest
            && now.saturating_duration_since(at) < FRESH
        {
            return found;
        }
        let found = look.await;
        *newest = Some((now, found));
        found
    }
}

/// What a part answers in time.
async fn within<T>(answer: impl Future<Output = Option<T>>) -> Option<T> {
    tokio::time::timeout(PATIENCE, answer).await.ok().flatten()
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use tokio::time::Instant;

    use super::{FRESH, Newest};

    #[tokio::test]
    async fn the_parts_are_looked_at_once_a_second_however_many_ask() {
        let (newest, begun) = (Newest::default(), Instant::now());
        assert_eq!(newest.at(begun, ready(Some("the first look"))).await, Some("the first look"));
        for asked in [begun, begun + FRESH / 2] {
            assert_eq!(newest.at(asked, ready(None)).await, Some("the first look"));
        }
        assert_eq!(newest.at(begun + FRESH, ready(None)).await, None, "what works again is told a second later");
    }
}
