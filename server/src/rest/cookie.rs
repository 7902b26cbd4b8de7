//! Staying signed in by cookies, for browsers. Scripts cannot read them, other sites cannot send them along with anything
//! but a plain link, and over TLS they bear the `__Host-` prefix, which binds them to this host.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use axum_extra::extract::cookie::{Cookie, SameSite};
use undertone_api::account::HalfSession;
use undertone_api::problem::Code;
use undertone_api::session::Tokens;

use crate::auth::Actor;
use crate::ctx::Ctx;
use crate::service::session::{self, Renewed};

/// Whether browsers reach the server over TLS, by itself or by what stands before it.
pub fn secure(ctx: &Ctx) -> bool {
    ctx.addresses.http.starts_with("https://")
}

/// The `Set-Cookie` values that make the following requests this session's.
pub fn set(ctx: &Ctx, tokens: &Tokens) -> Vec<String> {
    let access = tokens.access_expires_at - ctx.now();
    let refresh = time::Duration::days(i64::from(ctx.config.session_days));
    vec![
        cookie(ctx, Kind::Access, &tokens.access_token, access),
        cookie(ctx, Kind::Refresh, &tokens.refresh_token, refresh),
    ]
}

/// The `Set-Cookie` values that delete a session's cookies.
pub fn clear(ctx: &Ctx) -> Vec<String> {
    [Kind::Access, Kind::Refresh].map(|kind| cookie(ctx, kind, "", time::Duration::ZERO)).to_vec()
}

/// The `Set-Cookie` value that keeps half a sign-in until its code is given; it opens nothing by itself.
pub fn set_half(ctx: &Ctx, half: &HalfSession) -> String {
    cookie(ctx, Kind::Half, &half.half_token, half.expires_at - ctx.now())
}

/// The `Set-Cookie` value that deletes it.
pub fn clear_half(ctx: &Ctx) -> String {
    cookie(ctx, Kind::Half, "", time::Duration::ZERO)
}

/// The half sign-in of a request.
pub fn half(ctx: &Ctx, headers: &HeaderMap) -> Option<String> {
    read(ctx, headers, Kind::Half).map(str::to_owned)
}

/// Reads the cookies of a request that has no `Authorization`, puts the [`Actor`] into its extensions, and renews the
/// tokens when the access token is over.
pub async fn identify(State(ctx): State<Ctx>, mut request: Request, next: Next) -> Response {
    let mut cookies = Vec::new();
    if !request.headers().contains_key(header::AUTHORIZATION) {
        let (actor, set) = who(&ctx, request.headers()).await;
        cookies = set;
        if let Some(actor) = actor {
            request.extensions_mut().insert(actor);
        }
    }
    let mut response = next.run(request).await;
    // A handler that signs in or out has the last word.
    if !response.headers().contains_key(header::SET_COOKIE) || cookies.is_empty() {
        for cookie in cookies {
            if let Ok(value) = HeaderValue::from_str(&cookie) {
                response.headers_mut().append(header::SET_COOKIE, value);
            }
        }
    }
    response
}

async fn who(ctx: &Ctx, headers: &HeaderMap) -> (Option<Actor>, Vec<String>) {
    if let Some(token) = read(ctx, headers, Kind::Access)
        && let Ok(actor) = session::signed_in(ctx, token).await
    {
        return (Some(actor), Vec::new());
    }
    let Some(token) = read(ctx, headers, Kind::Refresh) else { return (None, Vec::new()) };
    match session::refresh(ctx, token).await {
        Ok(Renewed::Pair(id, tokens)) => (session::actor_of(ctx, id).await.ok(), set(ctx, &tokens)),
        Ok(Renewed::Late(id)) => (session::actor_of(ctx, id).await.ok(), Vec::new()),
        Err(error) if error.code() == Code::Unauthenticated => (None, clear(ctx)),
        Err(error) => {
            // The log has it now; the visitor is nobody for this request and keeps the cookies.
            let _ = error.into_problem();
            (None, Vec::new())
        }
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Access,
    Refresh,
    Half,
}

const fn name(secure: bool, kind: Kind) -> &'static str {
    match (secure, kind) {
        (true, Kind::Access) => "__Host-undertone-access",
        (true, Kind::Refresh) => "__Host-undertone-refresh",
        (true, Kind::Half) => "__Host-undertone-half",
        (false, Kind::Access) => "undertone-access",
        (false, Kind::Refresh) => "undertone-refresh",
        (false, Kind::Half) => "undertone-half",
    }
}

fn cookie(ctx: &Ctx, kind: Kind, value: &str, age: time::Duration) -> String {
    Cookie::build((name(secure(ctx), kind), value))
        .http_only(true)
        .same_site(SameSite::Lax)
        .secure(secure(ctx))
        .path("/")
        .max_age(age)
        .build()
        .to_string()
}

fn read<'a>(ctx: &Ctx, headers: &'a HeaderMap, kind: Kind) -> Option<&'a str> {
    let wanted = name(secure(ctx), kind);
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find_map(|(name, value)| (name == wanted && !value.is_empty()).then_some(value))
}
