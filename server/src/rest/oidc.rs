//! Sign-in at an identity provider, for browsers: `/oidc/start` redirects to the provider, `/oidc/callback` is the
//! provider's redirect back; further providers (`/oidc/start?provider=<id>`) use `/oidc/callback/<id>`. These addresses
//! are outside `/api/v1` and respond with redirects only.
//!
//! The state of a sign-in is in a cookie that is encrypted with a key of the server, valid for ten minutes, and deleted
//! by the response. So only the browser that began it can finish it, once. After a failure, the browser returns to the
//! sign-in page with a word.
//!
//! `/oidc/start?link=true` links the identity to the account of the member who is signed in. The member must be signed in by
//! the same session when the provider sends the browser back. Another site cannot begin this: the start is refused unless
//! the browser says that the request comes from this site (`Sec-Fetch-Site`) or is typed by the user. A member whose proof of
//! identity is stale is led back to the page of identities, which says how to prove it.

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum_extra::extract::cookie::{Cookie, Key, PrivateCookieJar, SameSite};
use serde::{Deserialize, Serialize};
use time::Duration;
use undertone_api::id::SessionId;
use undertone_api::problem::Code;

use super::cookie::identify;
use super::extract::{CallerOrigin, Path, Query, SignedIn};
use super::problem::Rejection;
use undertone_server_core::auth::provider::{ProviderError, SignInAttempt};
use undertone_server_core::auth::{Actor, Origin, Provider, cookie};
use undertone_server_core::ctx::Ctx;
use undertone_server_core::keys::ring::RingKey;
use undertone_server_core::service::oidc;
use undertone_server_core::service::session::SignInResult;

/// The path where a sign-in at the provider begins.
const START: &str = "/oidc/start";
/// The path of the first provider's redirect back.
const CALLBACK: &str = "/oidc/callback";
/// The path of a further provider's redirect back.
const OWN_CALLBACK: &str = "/oidc/callback/{provider}";
/// The time that a person has to sign in at the provider.
const PATIENCE: Duration = Duration::minutes(10);
/// The word for a link that asks for a fresh proof of identity.
const STALE: &str = "stale";
/// The longest address of the final redirect, bytes.
const LONGEST: usize = 1000;

/// A sign-in in progress.
#[derive(Serialize, Deserialize)]
struct PendingSignIn {
    /// The id of the provider.
    provider: String,
    attempt: SignInAttempt,
    /// The final address of the browser.
    to: String,
    /// The secret of an invitation to accept.
    invitation: Option<String>,
    /// The session whose member links the identity; `None` to sign in.
    linking: Option<SessionId>,
    expires_at_unix: i64,
}

#[derive(Deserialize)]
struct StartQuery {
    #[serde(default)]
    to: String,
    invitation: Option<String>,
    #[serde(default)]
    link: bool,
    /// The id of the provider; absent for the first.
    #[serde(default)]
    provider: String,
}

#[derive(Deserialize)]
struct CallbackQuery {
    #[serde(default)]
    state: String,
    code: Option<String>,
    error: Option<String>,
    iss: Option<String>,
}

/// Returns the routes: each further provider has its own callback.
pub(super) fn router(ctx: &Ctx) -> Router {
    Router::new()
        .route(START, get(start))
        .route(CALLBACK, get(callback))
        .route(OWN_CALLBACK, get(own_callback))
        .layer(from_fn_with_state(ctx.clone(), identify))
        .with_state(ctx.clone())
}

async fn start(
    State(ctx): State<Ctx>,
    SignedIn(actor): SignedIn,
    headers: HeaderMap,
    Query(start): Query<StartQuery>,
) -> Response {
    let Some(provider) = find_provider(&ctx, &start.provider) else { return missing() };
    let linking = match (start.link, actor.as_ref().and_then(Actor::session)) {
        (false, _) => None,
        (true, Some(session)) if is_own_request(&headers) => Some(session),
        (true, _) => return back(&ctx, "signed-out"),
    };
    // The linked identity will open the account, so the member proves who they are before the provider is asked.
    if linking.is_some()
        && let Some(Err(error)) = actor.as_ref().map(oidc::check_may_link)
    {
        return match error.code() {
            Code::ProofStale => leave(&ctx, &[], &format!("{}?provider={STALE}", undertone_app::path::KEYS)),
            _ => Rejection::from(error).into_response(),
        };
    }
    let (address, attempt) = match provider.begin(&ctx).await {
        Ok(begun) => begun,
        Err(error) => return back(&ctx, word(&error)),
    };
    let to = match &start.invitation {
        _ if linking.is_some() => undertone_app::path::KEYS.to_owned(),
        Some(secret) => undertone_app::path::accept(secret),
        None => start.to,
    };
    let expires_at_unix = (ctx.now() + PATIENCE).unix_timestamp();
    let provider = provider.id().to_owned();
    let to = own_address(&to);
    let pending = PendingSignIn { provider, attempt, to, invitation: start.invitation, linking, expires_at_unix };
    let Ok(text) = serde_json::to_string(&pending) else { return back(&ctx, "unavailable") };
    let jar = PrivateCookieJar::new(key(ctx.keys.token().current(ctx.now()))).add(sealed(&ctx, text, PATIENCE));
    (jar, redirect(&address)).into_response()
}

/// Returns the provider with an id, or the first one if the id is empty.
fn find_provider<'a>(ctx: &'a Ctx, id: &str) -> Option<&'a Provider> {
    ctx.providers.iter().find(|provider| id.is_empty() || provider.id() == id)
}

async fn callback(
    State(ctx): State<Ctx>,
    CallerOrigin(origin): CallerOrigin,
    SignedIn(actor): SignedIn,
    headers: HeaderMap,
    Query(answer): Query<CallbackQuery>,
) -> Response {
    finish(&ctx, "", origin, actor, &headers, &answer).await
}

async fn own_callback(
    State(ctx): State<Ctx>,
    Path(id): Path<String>,
    CallerOrigin(origin): CallerOrigin,
    SignedIn(actor): SignedIn,
    headers: HeaderMap,
    Query(answer): Query<CallbackQuery>,
) -> Response {
    finish(&ctx, &id, origin, actor, &headers, &answer).await
}

/// Finishes a sign-in at the provider with an id.
async fn finish(
    ctx: &Ctx,
    id: &str,
    origin: Origin,
    actor: Option<Actor>,
    headers: &HeaderMap,
    answer: &CallbackQuery,
) -> Response {
    let Some(provider) = ctx.providers.iter().find(|provider| provider.id() == id) else { return missing() };
    let keys = ctx.keys.token();
    let pending = keys
        .usable(ctx.now(), PATIENCE)
        .find_map(|own| PrivateCookieJar::from_headers(headers, key(own)).get(name(ctx)))
        .and_then(|cookie| serde_json::from_str::<PendingSignIn>(cookie.value()).ok())
        .filter(|pending| pending.provider == id && pending.expires_at_unix > ctx.now().unix_timestamp());
    let Some(pending) = pending else { return back(ctx, "attempt") };
    let Some(code) = &answer.code else {
        // The person or the provider refused. The provider's code does not help the person.
        tracing::info!(provider.error = answer.error.as_deref().is_some(), "the identity provider declined a sign-in");
        return back(ctx, "declined");
    };
    let identity = provider.finish(ctx, &pending.attempt, &answer.state, code, answer.iss.as_deref()).await;
    let identity = match identity {
        Ok(identity) => identity,
        Err(error) => return back(ctx, word(&error)),
    };
    if let Some(session) = pending.linking {
        let explained = |word: &str| leave(ctx, &[], &format!("{}?provider={word}", pending.to));
        let Some(actor) = actor.filter(|actor| actor.session() == Some(session)) else {
            return back(ctx, "signed-out");
        };
        return match oidc::link(ctx, &actor, &identity).await {
            Ok(Ok(())) => leave(ctx, &[], &pending.to),
            Ok(Err(refusal)) => explained(refusal.word()),
            Err(error) if error.code() == Code::ProofStale => explained(STALE),
            Err(error) => Rejection::from(error).into_response(),
        };
    }
    match oidc::enter(ctx, origin, &identity, pending.invitation.as_deref()).await {
        Ok(Ok(SignInResult::Whole(session))) => leave(ctx, &cookie::store_session(ctx, &session.tokens), &pending.to),
        Ok(Ok(SignInResult::Half(half))) => {
            leave(ctx, &[cookie::store_half_session(ctx, &half)], &undertone_app::path::second_factor(&pending.to))
        }
        Ok(Err(refusal)) => back(ctx, refusal.word()),
        Err(error) if error.code() == Code::RateLimited => back(ctx, "limited"),
        Err(error) => Rejection::from(error).into_response(),
    }
}

/// Returns whether the browser states that a page of this site, or the user by hand, made the request (Fetch Metadata).
/// A program without this header holds the session's cookies itself.
fn is_own_request(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site").and_then(|site| site.to_str().ok());
    matches!(site, None | Some("same-origin" | "none"))
}

/// Responds with cookies and a redirect, and deletes the state of the sign-in.
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

/// Redirects to the sign-in page, with a word about the failure.
fn back(ctx: &Ctx, word: &str) -> Response {
    leave(ctx, &[], &format!("{}?provider={word}", undertone_app::path::SIGN_IN))
}

/// Returns the word of a failure; the log contains the details.
fn word(error: &ProviderError) -> &'static str {
    match error {
        ProviderError::Configuration(_) | ProviderError::Unreachable(_) => {
            tracing::error!(%error, "cannot use the identity provider");
            "unavailable"
        }
        ProviderError::Attempt => "attempt",
        ProviderError::Code(_) | ProviderError::Identity(_) => {
            tracing::warn!(%error, "the answer of the identity provider is invalid");
            "refused"
        }
    }
}

fn redirect(to: &str) -> Response {
    let no_store = (header::CACHE_CONTROL, "no-store".to_owned());
    let headers: [(HeaderName, String); 2] = [(header::LOCATION, to.to_owned()), no_store];
    (StatusCode::SEE_OTHER, headers).into_response()
}

/// Returns `to` if it is an address on this site, `/` otherwise.
fn own_address(to: &str) -> String {
    let own = to.starts_with('/') && !to.starts_with("//") && !to.contains('\\') && to.len() <= LONGEST;
    if own && to.chars().all(|letter| letter.is_ascii_graphic()) { to.to_owned() } else { "/".to_owned() }
}

fn missing() -> Response {
    Rejection::new(Code::NotFound, "this server has no identity provider").into_response()
}

/// Derives the key that encrypts the state of a sign-in from a token key, for this purpose only.
fn key(own: &RingKey) -> Key {
    let mut master = b"undertone/oidc-attempt/1".to_vec();
    master.extend_from_slice(own.secret());
    Key::derive_from(&master)
}

fn name(ctx: &Ctx) -> &'static str {
    if cookie::is_secure(ctx) { "__Host-undertone-provider" } else { "undertone-provider" }
}

fn sealed(ctx: &Ctx, value: String, age: Duration) -> Cookie<'static> {
    Cookie::build((name(ctx), value))
        .http_only(true)
        // The provider's redirect comes from another site; `Lax` permits the cookie in it.
        .same_site(SameSite::Lax)
        .secure(cookie::is_secure(ctx))
        .path("/")
        .max_age(age)
        .build()
}

#[cfg(test)]
mod tests;
