//! Layers around every request: an id, a log line, limits, protection against forged requests, security headers.

use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};
use tower::ServiceBuilder;
use tower_http::csrf::{CsrfLayer, ProtectionError};
use tower_http::request_id::{MakeRequestUuid, PropagateRequestIdLayer, SetRequestIdLayer};
use tower_http::trace::{DefaultOnResponse, TraceLayer};
use tracing::{Level, Span};
use undertone_api::problem::Code;

use super::cookie::identify;
use super::problem::Rejection;
use super::{etag, once, rate};
use crate::metrics;
use crate::rate::RateLimits;
use crate::scope::scope_request;
use crate::telemetry;
use undertone_server_core::auth::cookie;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::metrics::{Limit, Metrics};

/// The largest body of a request, bytes: 1 MiB.
pub(crate) const LARGEST_BODY: usize = 1 << 20;
/// The longest time until a response begins.
pub(crate) const LONGEST: Duration = Duration::from_secs(30);
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The highest number of logged characters of a caller's own request id.
const LONGEST_CALLER_ID: usize = 64;

/// Adds the layers of `/api/v1`: cookies are read, and every error becomes a problem document.
pub(super) fn api(ctx: &Ctx, router: Router) -> Router {
    router
        .fallback(async || Rejection::new(Code::NotFound, "there is no such address"))
        .method_not_allowed_fallback(async || Rejection::new(Code::MethodNotAllowed, "look at the `Allow` header"))
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
        .layer(from_fn(etag::conditional))
        .layer(from_fn_with_state(ctx.clone(), once::once))
        .layer(from_fn_with_state(ctx.clone(), identify))
        .layer(map_response(as_problem))
}

/// Aborts a request whose response does not begin in time, including one whose body does not arrive.
pub(super) async fn bound_time(State(metrics): State<Metrics>, request: Request, next: Next) -> Response {
    if let Ok(response) = tokio::time::timeout(LONGEST, next.run(request)).await {
        return response;
    }
    metrics.reach(Limit::RequestTime);
    Rejection::new(Code::Unavailable, "the answer took too long; try again in a moment").into_response()
}

/// Removes the caller's request id, which may be any text: its first characters become a separate log field, and the
/// server generates the id.
async fn replace_id(mut request: Request, next: Next) -> Response {
    if let Some(id) = request.headers_mut().remove(REQUEST_ID) {
        let id = id.to_str().unwrap_or_default().chars().take(LONGEST_CALLER_ID).collect();
        request.extensions_mut().insert(CallerRequestId(id));
    }
    next.run(request).await
}

/// The caller's own id of its request.
#[derive(Debug, Clone)]
struct CallerRequestId(String);

/// Adds the layers around the complete server, including the dashboard.
pub fn outside(ctx: &Ctx, router: Router) -> Router {
    let mut forged = CsrfLayer::new();
    // Behind a proxy that changes `Host`, pages have this origin. An invalid origin is not trusted.
    if let Ok(layer) = forged.clone().add_trusted_origin(&ctx.addresses.http) {
        forged = layer;
    }
    let trace = TraceLayer::new_for_http()
        .make_span_with(span)
        .on_request(())
        .on_response(DefaultOnResponse::new().level(Level::DEBUG))
        .on_failure(());
    let secure = cookie::is_secure(ctx);
    router.layer(
        ServiceBuilder::new()
            .layer(from_fn(replace_id))
            .layer(SetRequestIdLayer::new(REQUEST_ID, MakeRequestUuid))
            .layer(trace)
            .layer(PropagateRequestIdLayer::new(REQUEST_ID))
            .layer(from_fn(move |request: Request, next: Next| async move { guard(next.run(request).await, secure) }))
            .layer(from_fn_with_state(ctx.clone(), metrics::count))
            .layer(from_fn_with_state((ctx.clone(), RateLimits::new(ctx.config.rates)), rate::limit))
            .layer(from_fn_with_state(ctx.metrics.clone(), bound_time))
            .layer(from_fn(scope_request))
            .layer(forged.with_rejection_response(|_: ProtectionError| {
                Rejection::new(Code::Forbidden, "the request comes from another site").into_response()
            })),
    )
}

/// Makes the span of a request. Addresses may contain one-time secrets, so only the matched pattern is logged.
fn span<B>(request: &axum::http::Request<B>) -> Span {
    let path = request.extensions().get::<MatchedPath>().map_or("-", MatchedPath::as_str);
    let id = request.headers().get(REQUEST_ID).and_then(|id| id.to_str().ok()).unwrap_or("-");
    let span = tracing::info_span!(
        "request",
        request.id = id,
        request.caller_id = tracing::field::Empty,
        http.method = %request.method(),
        http.path = path
    );
    if let Some(CallerRequestId(id)) = request.extensions().get() {
        span.record("request.caller_id", id);
    }
    telemetry::follow(&span, request.headers());
    span
}

/// Converts an error of a layer or of axum itself to a problem document.
async fn as_problem(response: Response) -> Response {
    let is_problem =
        response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/problem+json");
    if is_problem || !(response.status().is_client_error() || response.status().is_server_error()) {
        return response;
    }
    let (code, detail) = match response.status() {
        StatusCode::PAYLOAD_TOO_LARGE => (Code::TooLarge, "the body is too large"),
        StatusCode::SERVICE_UNAVAILABLE => (Code::Unavailable, "the answer took too long; try again in a moment"),
        StatusCode::NOT_FOUND => (Code::NotFound, "there is no such address"),
        status if status.is_client_error() => (Code::Malformed, "the request could not be read"),
        _ => (Code::Internal, "the failure is in the server's log under this request's id"),
    };
    let mut problem = Rejection::new(code, detail).into_response();
    if let Some(allow) = response.headers().get(header::ALLOW) {
        problem.headers_mut().insert(header::ALLOW, allow.clone());
    }
    problem
}

/// Adds headers that restrict a response in browsers. Pages have their own policy with their nonce.
fn guard(mut response: Response, secure: bool) -> Response {
    const ALWAYS: [(&str, &str); 6] = [
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("permissions-policy", "camera=(), microphone=(), geolocation=(), interest-cohort=()"),
    ];
    let headers = response.headers_mut();
    for (name, value) in ALWAYS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    headers
        .entry(header::CONTENT_SECURITY_POLICY)
        .or_insert(HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"));
    if secure {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=31536000"));
    }
    response
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::Router;
    use axum::body::{Body, Bytes};
    use axum::extract::Request;
    use axum::http::{StatusCode, header};
    use axum::middleware::from_fn_with_state;
    use axum::response::Response;
    use axum::routing::{any, get};
    use tower::ServiceExt as _;

    use super::{LONGEST, LONGEST_CALLER_ID, REQUEST_ID, bound_time};
    use crate::testing::TestApp;
    use undertone_server_core::metrics::{Limit, Metrics, Transactions};

    #[tokio::test(start_paused = true)]
    async fn answer_begins_within_its_time_or_is_a_problem() {
        let slow = |time: Duration| get(move || async move { tokio::time::sleep(time).await });
        let instant = Duration::from_millis(1);
        let metrics = Metrics::new(Transactions::default());
        let router: Router = Router::new()
            .route("/in-time", slow(LONGEST.saturating_sub(instant)))
            .route("/late", slow(LONGEST + instant))
            .route("/body", any(async |_: Bytes| "read"))
            .layer(from_fn_with_state(metrics.clone(), bound_time));
        let ask = async |path: &str, body: Body| {
            let request = Request::get(path).body(body).expect("a request");
            router.clone().oneshot(request).await.expect("it never fails")
        };
        assert_eq!(ask("/in-time", Body::empty()).await.status(), StatusCode::OK);
        let silent = Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>());
        for late in [ask("/late", Body::empty()).await, ask("/body", silent).await] {
            assert_eq!(late.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(late.headers()[header::CONTENT_TYPE], "application/problem+json");
            assert!(late.headers().contains_key(header::RETRY_AFTER));
        }
        assert_eq!(metrics.reached(Limit::RequestTime), 2);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn callers_request_id_is_not_the_servers() {
        let app = TestApp::sqlite().await;
        let caller_id = "x".repeat(2 * LONGEST_CALLER_ID);
        let request =
            Request::get("/health/live").header(REQUEST_ID, &caller_id).body(Body::empty()).expect("a request");
        let response: Response = app.router.clone().oneshot(request).await.expect("it never fails");
        let id = response.headers()[REQUEST_ID].to_str().expect("text").to_owned();
        assert!(uuid::Uuid::parse_str(&id).is_ok(), "{id}");
        app.close().await;
    }
}
