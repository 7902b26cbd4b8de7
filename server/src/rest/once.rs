//! `Idempotency-Key`: a POST with a key takes effect once, however often it is sent within 24 hours.
//!
//! A response with data that are shown once (a token, a link, a key, codes) is never stored, so it could not be
//! repeated. A request with a key to such an address is refused, so that it is not executed twice.

#[cfg(test)]
mod tests;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_TYPE, ETAG, LOCATION};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use tracing::Instrument as _;
use undertone_api::problem::Code;

use super::problem::Rejection;
use super::question::LARGEST_IMPORT;
use undertone_server_core::auth::Actor;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::fairness::{WorkOwner, recognize_caller};
use undertone_server_core::service::idempotency::{self, KeyState, PendingRequest, StoredResponse};
use undertone_server_core::service::session;

/// The request header of the key.
pub(super) const KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The header of a stored response.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// The headers that are stored with a response.
const OWN: [HeaderName; 3] = [CONTENT_TYPE, ETAG, LOCATION];

/// Returns whether requests to an address (below `/api/v1`) may have a key.
pub(super) fn concerns(method: &Method, path: &str) -> bool {
    method == Method::POST && !tells_a_secret(path)
}

/// Returns whether a POST to an address (below `/api/v1`) sends or receives data that are shown once: sessions, second
/// factors, links that reset a password, API keys, invitations, enrolment tokens.
pub(super) fn tells_a_secret(path: &str) -> bool {
    let mut parts = path.trim_matches('/').split('/');
    matches!(
        (parts.next(), parts.next(), parts.next(), parts.next()),
        (Some("session" | "password-resets" | "keys"), ..)
            | (Some("me"), Some("second-factor" | "passkeys"), ..)
            | (Some("invitations"), None, ..)
            | (Some("invitations"), Some(_), Some("accept"), None)
            | (Some("organizations"), Some(_), Some("workers"), None)
    ) || path.trim_matches('/').ends_with("/replacement")
}

/// Executes a request with a key once.
pub(super) async fn once(State(ctx): State<Ctx>, request: Request, next: Next) -> Response {
    let key = request.headers().get(KEY).cloned();
    if key.is_some() && request.method() == Method::POST && tells_a_secret(request.uri().path()) {
        let detail = "the response contains a secret and is not stored, so it cannot be repeated: send the request without `Idempotency-Key`";
        return Rejection::new(Code::Malformed, detail).into_response();
    }
    let (Some(key), true) = (key, concerns(request.method(), request.uri().path())) else {
        return next.run(request).await;
    };
    // The handler refuses an unauthenticated caller.
    let actor = request.extensions().get::<Actor>().cloned();
    let token = bearer(&request);
    let Some(actor) = caller(&ctx, actor, token).await else { return next.run(request).await };
    recognize_caller(WorkOwner::from(&actor));
    match begin(&ctx, &actor, &key, request).await {
        Ok((request, KeyState::Never(attempt))) => {
            // The work continues if the caller disconnects: the key serves that purpose.
            let work = async move { finish(&ctx, &attempt, next.run(request).await).await };
            let outcome = tokio::spawn(WorkOwner::current().scope(work).in_current_span()).await;
            outcome.unwrap_or_else(|_| {
                Rejection::new(Code::Internal, "the failure is in the server's log").into_response()
            })
        }
        Ok((_, KeyState::Before(record))) => replay(record),
        Err(rejection) => rejection.into_response(),
    }
}

async fn caller(ctx: &Ctx, known: Option<Actor>, token: Option<String>) -> Option<Actor> {
    match (known, token) {
        (Some(actor), _) => Some(actor),
        (None, Some(token)) => session::authenticate(ctx, &token).await.ok(),
        (None, None) => None,
    }
}

fn bearer(request: &Request) -> Option<String> {
    let text = request.headers().get(header::AUTHORIZATION)?.to_str().ok()?;
    let (_, token) = text.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))?;
    Some(token.trim().to_owned())
}

/// Reads the body, which is part of the request's identity, and restores it.
async fn begin(
    ctx: &Ctx,
    actor: &Actor,
    key: &HeaderValue,
    request: Request,
) -> Result<(Request, KeyState), Rejection> {
    let (parts, body) = request.into_parts();
    let body: Bytes = to_bytes(body, LARGEST_IMPORT)
        .await
        .map_err(|_| Rejection::new(Code::TooLarge, format!("a body has at most {LARGEST_IMPORT} bytes")))?;
    let kind = parts.headers.get(CONTENT_TYPE).map_or(&[][..], HeaderValue::as_bytes);
    let request_bytes = [parts.method.as_str().as_bytes(), parts.uri.to_string().as_bytes(), kind, &body].join(&b'\n');
    let state = idempotency::begin(ctx, actor, key.to_str().unwrap_or_default(), &request_bytes).await?;
    Ok((Request::from_parts(parts, Body::from(body)), state))
}

/// Stores the response. A refusal changed nothing, so its key is free again; a failure of the server may have changed
/// something, so its key is not.
async fn finish(ctx: &Ctx, attempt: &PendingRequest, response: Response) -> Response {
    let status = response.status();
    if status.is_server_error() {
        return response;
    }
    if !status.is_success() {
        logged(idempotency::forget(ctx, attempt).await);
        return response;
    }
    let (parts, body) = response.into_parts();
    let Ok(body) = to_bytes(body, usize::MAX).await else {
        return Rejection::new(Code::Internal, "the response ended early").into_response();
    };
    let headers = OWN.iter().filter_map(|name| Some((name.to_string(), text(&parts.headers, name)?))).collect();
    // Responses to POST are JSON, which is text.
    let record = StoredResponse { status: status.as_u16(), headers, body: String::from_utf8_lossy(&body).into_owned() };
    logged(idempotency::keep(ctx, attempt, &record).await);
    Response::from_parts(parts, Body::from(body))
}

fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

/// Logs an error of storing. The request has taken effect anyway; the next request with the key gets an error.
fn logged(result: Result<(), undertone_server_core::error::Error>) {
    if let Err(error) = result {
        let _ = error.into_problem();
    }
}

fn replay(record: StoredResponse) -> Response {
    let status = StatusCode::from_u16(record.status).unwrap_or(StatusCode::OK);
    let mut response = (status, record.body).into_response();
    let headers = response.headers_mut();
    headers.remove(CONTENT_TYPE);
    for (name, value) in record.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.insert(name, value);
        }
    }
    headers.insert(REPLAYED, HeaderValue::from_static("true"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
