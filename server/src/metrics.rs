//! Counts the requests and calls of the interfaces, and serves `/metrics` at its own address, readable without authentication by
//! all clients that can reach the address.

mod calls;
#[cfg(test)]
mod tests;

use std::io;
use std::net::TcpListener;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use tokio::time::Instant;
use undertone_server_core::Ctx;
use undertone_server_core::metrics::Limit;
use undertone_server_core::metrics_text::render;

pub use calls::CallLayer;

/// The content type of the format.
const FORMAT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Serves `/metrics` until `ctx.shutdown` is cancelled.
///
/// # Errors
/// If the listener cannot be used.
pub async fn serve(ctx: &Ctx, listener: TcpListener) -> io::Result<()> {
    let router = Router::new().route("/metrics", get(show)).with_state(ctx.clone());
    let listener = tokio::net::TcpListener::from_std(listener)?;
    axum::serve(listener, router).with_graceful_shutdown(ctx.shutdown.clone().cancelled_owned()).await
}

async fn show(State(ctx): State<Ctx>) -> Response {
    match render(&ctx).await {
        Ok(text) => ([(header::CONTENT_TYPE, FORMAT)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Counts a request with the time until its response began.
pub async fn count(State(ctx): State<Ctx>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    let method = method(request.method());
    let began = Instant::now();
    let response = next.run(request).await;
    ctx.metrics.record_request(method, route, response.status().as_u16(), began.elapsed());
    if response.status() == StatusCode::PAYLOAD_TOO_LARGE {
        ctx.metrics.reach(Limit::RequestSize);
    }
    response
}

/// Returns a method's name. A client may send any word as a method, and each would create a time series.
fn method(method: &http::Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}
