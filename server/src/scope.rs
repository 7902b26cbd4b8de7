//! The owner of a request's work, for the fair queues.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use undertone_server_core::fairness::WorkOwner;

/// Runs a request as a stranger's, until the code that authenticates its caller records another owner.
pub(crate) async fn scope_request(request: Request, next: Next) -> Response {
    WorkOwner::Stranger.scope(next.run(request)).await
}
