//! `ETag`: every JSON document that is read has one, `If-None-Match` avoids sending it again, and `If-Match` prevents
//! two people from overwriting each other's changes (checked by the service, in the writing transaction).

#[cfg(test)]
mod tests;

use std::convert::Infallible;

use axum::body::{Body, to_bytes};
use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use undertone_api::problem::Code;

use super::problem::Rejection;
use undertone_server_core::service::version::{self, ExpectedVersion};

/// The versions in `If-Match`; without the header, any version.
#[derive(Debug, Clone)]
pub struct IfMatch(pub ExpectedVersion);

impl<S: Send + Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let named = tags(&parts.headers, &header::IF_MATCH);
        Ok(Self(match named {
            None => ExpectedVersion::Anything,
            Some(tags) if tags.iter().any(|tag| tag == "*") => ExpectedVersion::Anything,
            // A weak tag does not identify a state for writing.
            Some(tags) => ExpectedVersion::OneOf(tags.into_iter().filter(|tag| !tag.starts_with("W/")).collect()),
        }))
    }
}

impl IfMatch {
    /// Returns the expected versions of the written part, for tags of [`of_part`].
    pub(super) fn of_part(self) -> ExpectedVersion {
        let part = |tag: &String| tag.split('.').next().unwrap_or_default().to_owned();
        match self.0 {
            ExpectedVersion::Anything => ExpectedVersion::Anything,
            ExpectedVersion::OneOf(tags) => ExpectedVersion::OneOf(tags.iter().map(part).collect()),
        }
    }
}

/// Returns the tag of a document that contains more than the part that its writers change: the version of that part,
/// and the version of the whole. A reader gets every change; a writer is refused only if the part has changed.
pub(super) fn of_part(part: &str, all: &str) -> String {
    format!("\"{part}.{all}\"")
}

/// Returns the tags of a header, without their quotes.
fn tags(headers: &HeaderMap, name: &HeaderName) -> Option<Vec<String>> {
    let mut values = headers.get_all(name).iter().peekable();
    values.peek()?;
    let texts = values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    Some(texts.map(|tag| tag.trim().trim_matches('"').to_owned()).collect())
}

/// Adds an `ETag` to responses, and sends no body if the client has the current version.
pub(super) async fn conditional(request: Request, next: Next) -> Response {
    if request.method() != Method::GET {
        return next.run(request).await;
    }
    let known = tags(request.headers(), &header::IF_NONE_MATCH);
    let response = next.run(request).await;
    if response.status() != StatusCode::OK {
        return response;
    }
    let response = if response.headers().contains_key(header::ETAG) { response } else { tagged(response).await };
    let own = response.headers().get(header::ETAG).and_then(|tag| tag.to_str().ok()).map(|tag| tag.trim_matches('"'));
    let same = |tag: &String| tag == "*" || Some(tag.trim_start_matches("W/").trim_matches('"')) == own;
    if own.is_none() || !known.is_some_and(|known| known.iter().any(same)) {
        return response;
    }
    let (parts, _) = response.into_parts();
    let mut spared = StatusCode::NOT_MODIFIED.into_response();
    for name in [header::ETAG, header::CACHE_CONTROL] {
        if let Some(value) = parts.headers.get(&name) {
            spared.headers_mut().insert(name, value.clone());
        }
    }
    spared
}

/// Adds the version of its bytes to a JSON document; leaves other responses unchanged.
async fn tagged(response: Response) -> Response {
    let json = response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
    if !json {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // The body was built in memory.
    let Ok(body) = to_bytes(body, usize::MAX).await else {
        return Rejection::new(Code::Internal, "the answer broke off").into_response();
    };
    if let Ok(tag) = HeaderValue::try_from(format!("\"{}\"", version::hash_bytes(&body))) {
        parts.headers.insert(header::ETAG, tag);
    }
    Response::from_parts(parts, Body::from(body))
}
