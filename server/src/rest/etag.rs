//! `ETag`: every JSON document that is read has one, `If-None-Match` spares sending it again, and `If-Match` keeps two people
//! from overwriting each other (decided by the service, in the transaction that writes).

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
use crate::service::version::{self, Expected};

/// What stands in `If-Match`; whatever there is, without one.
#[derive(Debug, Clone)]
pub struct IfMatch(pub Expected);

impl<S: Send + Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let named = tags(&parts.headers, &header::IF_MATCH);
        Ok(Self(match named {
            None => Expected::Anything,
            Some(tags) if tags.iter().any(|tag| tag == "*") => Expected::Anything,
            // A weak one names no state to write on.
            Some(tags) => Expected::OneOf(tags.into_iter().filter(|tag| !tag.starts_with("W/")).collect()),
        }))
    }
}

impl IfMatch {
    /// What is believed of the part that is written on, where tags are those of [`of_part`].
    pub(super) fn of_part(self) -> Expected {
        let part = |tag: &String| tag.split('.').next().unwrap_or_default().to_owned();
        match self.0 {
            Expected::Anything => Expected::Anything,
            Expected::OneOf(tags) => Expected::OneOf(tags.iter().map(part).collect()),
        }
    }
}

/// The tag of what is shown with more than its writers decide about: the version of their part, and that of all. Who reads again is
/// sent whatever is new; who writes is refused only where their part is another.
pub(super) fn of_part(part: &str, all: &str) -> String {
    format!("\"{part}.{all}\"")
}

/// The tags of a header, without their quotes.
fn tags(headers: &HeaderMap, name: &HeaderName) -> Option<Vec<String>> {
    let mut values = headers.get_all(name).iter().peekable();
    values.peek()?;
    let texts = values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    Some(texts.map(|tag| tag.trim().trim_matches('"').to_owned()).collect())
}

/// Gives what is read its `ETag`, and sends nothing to whom has it already.
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

/// A JSON document with the version of its bytes; anything else as it is.
async fn tagged(response: Response) -> Response {
    let json = response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
    if !json {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // It was made in memory, whole.
    let Ok(body) = to_bytes(body, usize::MAX).await else {
        return Rejection::new(Code::Internal, "the answer broke off").into_response();
    };
    if let Ok(tag) = HeaderValue::try_from(format!("\"{}\"", version::of_bytes(&body))) {
        parts.headers.insert(header::ETAG, tag);
    }
    Response::from_parts(parts, Body::from(body))
}
