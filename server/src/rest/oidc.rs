//! Signing in at a provider, as browsers do it: `/oidc/start` leads there, `/oidc/callback` is where it sends them back.
//! These two are no part of `/api/v1`: they answer with redirects only.
//!
//! What was begun travels in a cookie that is sealed under a key of the server, holds for ten minutes, and is deleted by
//! the answer: whoever began it can finish it, once, and nobody else. What fails leads back to the sign-in page with a word.

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum_extra::extract::cookie::{Cookie, Key, PrivateCookieJar, SameSite};
use serde::{Deserialize, Serialize};
use time::Duration;
use undertone_api::problem::Code;

use super::cookie;
use super::extract::{Query, Whence};
use super::problem::Rejection;
use crate::auth::provider::{Attempt, ProviderError};
use crate::ctx::Ctx;
use crate::service::oidc;
use crate::service::session::Entered;

/// Where signing in at the provider begins.
const START: &str = "/oidc/start";
/// Where the provider sends browsers back to.
const CALLBACK: &str = "/oidc/callback";
/// How long the provider may take to recognize somebody.
const PATIENCE: Duration = Duration::minutes(10);
/// Longest address that is gone on to, in bytes.
const LONGEST: usize = 1000;

/// What was begun.
#[derive(Serialize, Deserialize)]
struct Begun {
    attempt: Attempt,
    /// Where the browser goes in the end.
    to: String,
    /// The secret of an invitation that its bearer wants to accept.
    invitation: Option<String>,
    expires_at_unix: i64,
}

#[derive(Deserialize)]
struct Start {
    #[serde(default)]
    to: String,
    invitation: Option<String>,
}

#[derive(Deserialize)]
struct Callback {
    #[serde(default)]
    state: String,
    code: Option<String>,
    error: Option<String>,
    iss: Option<String>,
}

/// The two addresses.
pub(super) fn router(ctx: &Ctx) -> Router {
    Router::new().route(START, get(start)).route(CALLBACK, get(callback)).with_state(ctx.clone())
}

async fn start(State(ctx): State<Ctx>, Query(start): Query<Start>) -> Response {
    let Some(provider) = &ctx.provider else { return missing() };
    let (address, attempt) = match provider.begin(&ctx).await {
        Ok(begun) => begun,
        Err(error) => return back(&ctx, word(&error)),
    };
    let to = match &start.invitation {
        Some(secret) => undertone_app::path::accept(secret),
        None => start.to,
    };
    let expires_at_unix = (ctx.now() + PATIENCE).unix_timestamp();
    let begun = Begun { attempt, to: own_address(&to), invitation: start.invitation, expires_at_unix };
    let Ok(text) = serde_json::to_string(&begun) else { return back(&ctx, "unavailable") };
    let jar = PrivateCookieJar::new(key(&ctx)).add(sealed(&ctx, text, PATIENCE));
    (jar, redirect(&address)).into_response()
}

async fn callback(
    State(ctx): State<Ctx>,
    Whence(from): Whence,
    headers: HeaderMap,
    Query(answer): Query<Callback>,
) -> Response {
    let Some(provider) = &ctx.provider else { return missing() };
    let begun = PrivateCookieJar::from_headers(&headers, key(&ctx))
        .get(name(&ctx))
        .and_then(|cookie| serde_json::from_str::<Begun>(cookie.value()).ok())
        .filter(|begun| begun.expires_at_unix > ctx.now().unix_timestamp());
    let Some(begun) = begun else { return back(&ctx, "attempt") };
    let Some(code) = &answer.code else {
        // The person said no there, or may not. What the provider calls it is of no use to them.
        tracing::info!(provider.error = answer.error.as_deref().is_some(), "the provider recognized nobody");
        return back(&ctx, "declined");
    };
    let identity = provider.finish(&ctx, &begun.attempt, &answer.state, code, answer.iss.as_deref()).await;
    let identity = match identity {
        Ok(identity) => identity,
        Err(error) => return back(&ctx, word(&error)),
    };
    match oidc::enter(&ctx, from, &identity, begun.invitation.as_deref()).await {
        Ok(Ok(Entered::Whole(session))) => leave(&ctx, &cookie::set(&ctx, &session.tokens), &begun.to),
        Ok(Ok(Entered::Half(half))) => {
            leave(&ctx, &[cookie::set_half(&ctx, &half)], &undertone_app::path::second_factor(&begun.to))
        }
        Ok(Err(refusal)) => back(&ctx, refusal.word()),
        Err(error) => Rejection::from(error).into_response(),
    }
}

/// Ends with cookies and a redirect; what was begun is over.
fn leave(ctx: &Ctx, cookies: &[String], to: &str) -> Response {
    let mut response = redirect(to);
    let over = sealed(ctx, String::new(), Duration::ZERO).to_string();
    for cookie in cookies.iter().chain([&over]) {
        if let Ok(value) = cookie.parse() {
            response.headers_mut().append(header::SET_COOKIE, value);
        }
    }
    response
}

/// Back to the sign-in page, with a word about what failed.
fn back(ctx: &Ctx, word: &str) -> Response {
    leave(ctx, &[], &format!("{}?provider={word}", undertone_app::path::SIGN_IN))
}

/// The word of a failure; the log has the rest.
fn word(error: &ProviderError) -> &'static str {
    match error {
        ProviderError::Configuration(_) | ProviderError::Unreachable(_) => {
            tracing::error!(%error, "the provider of sign-ins cannot be used");
            "unavailable"
        }
        ProviderError::Attempt => "attempt",
        ProviderError::Code(_) | ProviderError::Identity(_) => {
            tracing::warn!(%error, "what the provider answered was not believed");
            "refused"
        }
    }
}

fn redirect(to: &str) -> Response {
    let no_store = (header::CACHE_CONTROL, "no-store".to_owned());
    let headers: [(HeaderName, String); 2] = [(header::LOCATION, to.to_owned()), no_store];
    (StatusCode::SEE_OTHER, headers).into_response()
}

/// `to` when it is an address on this site, `/` otherwise.
fn own_address(to: &str) -> String {
    let own = to.starts_with('/') && !to.starts_with("//") && !to.contains('\\') && to.len() <= LONGEST;
    if own && to.chars().all(|letter| letter.is_ascii_graphic()) { to.to_owned() } else { "/".to_owned() }
}

fn missing() -> Response {
    Rejection::new(Code::NotFound, "this server signs nobody in at a provider").into_response()
}

/// Seals what was begun; made of the key of the access tokens, for this purpose only.
fn key(ctx: &Ctx) -> Key {
    let mut master = b"undertone/oidc-attempt/1".to_vec();
    master.extend_from_slice(&ctx.token_key.0);
    Key::derive_from(&master)
}

fn name(ctx: &Ctx) -> &'static str {
    if cookie::secure(ctx) { "__Host-undertone-provider" } else { "undertone-provider" }
}

fn sealed(ctx: &Ctx, value: String, age: Duration) -> Cookie<'static> {
    Cookie::build((name(ctx), value))
        .http_only(true)
        // The provider's redirect comes from another site; `Lax` lets it bring the cookie along.
        .same_site(SameSite::Lax)
        .secure(cookie::secure(ctx))
        .path("/")
        .max_age(age)
        .build()
}

#[cfg(test)]
mod tests;
