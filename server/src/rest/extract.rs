//! Extractors of requests; every rejection is a problem document.

use std::convert::Infallible;
use std::net::IpAddr;

use axum::body::{Body, Bytes};
use axum::extract::rejection::{BytesRejection, FailedToBufferBody, JsonRejection};
use axum::extract::{FromRef, FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use undertone_api::page::{Page, PageQuery};
use undertone_api::problem::{Code, Problem, Violation};
use utoipa::ToSchema;
use uuid::Uuid;

use super::problem::Rejection;
use super::unread::explain;
use crate::caller_address::client_address;
use crate::connections::ConnectionHandle;
use undertone_server_core::auth::{Actor, Origin};
use undertone_server_core::ctx::Ctx;
use undertone_server_core::error::Error;
use undertone_server_core::nul_bytes;
use undertone_server_core::service::session;

/// The caller, by bearer token or by the cookies that [`super::cookie::identify`] has read.
#[derive(Debug, Clone)]
pub struct Caller(pub Actor);

impl<S> FromRequestParts<S> for Caller
where
    Ctx: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Rejection> {
        let ctx = Ctx::from_ref(state);
        if let Some(value) = parts.headers.get(header::AUTHORIZATION) {
            let text = value.to_str().unwrap_or_default();
            let token = text.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
            let (_, token) = token.ok_or_else(|| {
                Rejection::new(Code::Unauthenticated, "send the access token as `Authorization: Bearer`")
            })?;
            let actor = session::authenticate(&ctx, token.trim()).await?;
            ConnectionHandle::recognize_member(&parts.extensions, &actor);
            return Ok(Self(actor));
        }
        let actor = parts.extensions.get::<Actor>().cloned();
        actor.map(Self).ok_or_else(|| Rejection::new(Code::Unauthenticated, "send an access token"))
    }
}

/// The member of the cookies' session; `None` for a visitor. Requires [`super::cookie::identify`].
#[derive(Debug, Clone)]
pub struct SignedIn(pub Option<Actor>);

impl<S: Send + Sync> FromRequestParts<S> for SignedIn {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(parts.extensions.get::<Actor>().cloned()))
    }
}

/// The address of the caller.
#[derive(Debug, Clone, Copy)]
pub struct CallerAddress(pub IpAddr);

impl<S> FromRequestParts<S> for CallerAddress
where
    Ctx: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        Ok(Self(address(&Ctx::from_ref(state), &parts.headers, &parts.extensions)))
    }
}

/// The origin of the request, with the user agent.
#[derive(Debug, Clone, Copy)]
pub struct CallerOrigin(pub Origin);

impl<S> FromRequestParts<S> for CallerOrigin
where
    Ctx: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        Ok(Self(origin(&Ctx::from_ref(state), &parts.headers, &parts.extensions)))
    }
}

/// Returns the origin of a request.
pub fn origin(ctx: &Ctx, headers: &HeaderMap, extensions: &Extensions) -> Origin {
    let agent = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    Origin::new(address(ctx, headers, extensions), agent)
}

/// Returns the peer's address; behind a proxy, the address that the proxy saw.
pub fn address(ctx: &Ctx, headers: &HeaderMap, extensions: &Extensions) -> IpAddr {
    client_address(ctx.config.http_behind_proxy, headers, extensions)
}

/// A JSON body of a request or a response. Texts with U+0000 are refused. The refusal of an unreadable body names every
/// wrong field.
#[derive(Debug, Clone)]
pub struct Json<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + ToSchema> FromRequest<S> for Json<T> {
    type Rejection = Rejection;

    async fn from_request(request: Request, state: &S) -> Result<Self, Rejection> {
        let (parts, body) = request.into_parts();
        let whole = Request::from_parts(parts.clone(), body);
        let body = Bytes::from_request(whole, state).await.map_err(|rejection| unread(rejection.into()))?;
        nul_bytes::refuse_in_json(&body)?;
        let request = Request::from_parts(parts, Body::from(body.clone()));
        match axum::Json::<T>::from_request(request, state).await {
            Ok(axum::Json(value)) => Ok(Self(value)),
            Err(rejection @ JsonRejection::JsonDataError(_)) => {
                let violations = explain::<T>(&body);
                if violations.is_empty() {
                    return Err(unread(rejection));
                }
                Err(Problem::with_violations(Code::Malformed, violations).into())
            }
            Err(rejection) => Err(unread(rejection)),
        }
    }
}

/// An optional JSON body; an empty one counts as absent.
#[derive(Debug, Clone)]
pub struct OptionalJson<T>(pub Option<T>);

impl<S: Send + Sync, T: DeserializeOwned + ToSchema> FromRequest<S> for OptionalJson<T> {
    type Rejection = Rejection;

    async fn from_request(request: Request, state: &S) -> Result<Self, Rejection> {
        let (parts, body) = request.into_parts();
        let whole = Request::from_parts(parts.clone(), body);
        let body = Bytes::from_request(whole, state).await.map_err(|rejection| unread(rejection.into()))?;
        if body.is_empty() {
            return Ok(Self(None));
        }
        let Json(value) = Json::<T>::from_request(Request::from_parts(parts, Body::from(body)), state).await?;
        Ok(Self(Some(value)))
    }
}

/// Converts the rejection of an unreadable body.
fn unread(rejection: JsonRejection) -> Rejection {
    match rejection {
        JsonRejection::BytesRejection(BytesRejection::FailedToBufferBody(FailedToBufferBody::LengthLimitError(_))) => {
            Rejection::new(Code::TooLarge, format!("a body has at most {} bytes", super::wrap::LARGEST_BODY))
        }
        rejection => Rejection::new(Code::Malformed, rejection.body_text()),
    }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        ([(header::CACHE_CONTROL, "no-store")], axum::Json(self.0)).into_response()
    }
}

/// The parameters in the path; an unreadable one, or one with U+0000, is not found.
#[derive(Debug, Clone, Copy)]
pub struct Path<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Rejection> {
        nul_bytes::refuse_encoded(parts.uri.path().as_bytes()).map_err(|_| Error::not_found("address"))?;
        let path = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        path.map(|path| Self(path.0)).map_err(|_| Error::not_found("address").into())
    }
}

/// The query parameters. Every `limit` is from 1 to 200, and texts with U+0000 are refused.
#[derive(Debug, Clone, Copy)]
pub struct Query<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Rejection> {
        nul_bytes::refuse_encoded(parts.uri.query().unwrap_or_default().as_bytes())?;
        limit(parts)?;
        let query = axum::extract::Query::<T>::from_request_parts(parts, state).await;
        query.map(|query| Self(query.0)).map_err(|rejection| Rejection::new(Code::Malformed, rejection.body_text()))
    }
}

/// Refuses a page size out of range; a value that is not a number is refused like any other parameter.
fn limit(parts: &Parts) -> Result<(), Rejection> {
    let Ok(axum::extract::Query(pairs)) = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(&parts.uri)
    else {
        return Ok(());
    };
    let wrong = pairs.iter().any(|(name, value)| {
        name == "limit" && value.parse::<i64>().is_ok_and(|limit| !(1..=i64::from(PageQuery::MAX)).contains(&limit))
    });
    if wrong {
        let violation = Violation::new("limit", format!("ask for 1 to {} items", PageQuery::MAX));
        return Err(Error::validation(vec![violation]).into());
    }
    Ok(())
}

/// Returns a page of a list that is short enough to be read completely; the cursor is the id of the last item before
/// it.
///
/// # Errors
/// `validation_failed` for a cursor without an item.
pub fn take_page<T>(items: Vec<T>, page: &PageQuery, id: impl Fn(&T) -> Uuid) -> Result<Page<T>, Rejection> {
    let start = match &page.cursor {
        None => 0,
        Some(cursor) => {
            let last = items.iter().position(|item| id(item).to_string() == *cursor);
            let wrong = || Error::validation(vec![Violation::new("cursor", "give the `next` of the page before")]);
            last.ok_or_else(wrong)? + 1
        }
    };
    let size = page.size() as usize;
    let total = items.len();
    let items: Vec<T> = items.into_iter().skip(start).take(size).collect();
    let next = if start + items.len() < total { items.last().map(|item| id(item).to_string()) } else { None };
    Ok(Page { items, next })
}

#[cfg(test)]
mod tests {
    use undertone_api::page::PageQuery;
    use uuid::Uuid;

    use super::take_page;

    #[test]
    fn the_pages_of_a_list_are_the_list() {
        let all: Vec<Uuid> = (1..=7).map(Uuid::from_u128).collect();
        let mut items = Vec::new();
        let mut cursor = None;
        loop {
            let page = take_page(all.clone(), &PageQuery { cursor, limit: Some(3) }, |id| *id).expect("a good cursor");
            items.extend(page.items);
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(items, all);
    }

    #[test]
    fn a_strange_cursor_is_refused() {
        let query = PageQuery { cursor: Some("x".to_owned()), limit: None };
        assert!(take_page(vec![Uuid::nil()], &query, |id| *id).is_err());
    }
}
