//! Sessions in cookies, for browsers. Scripts cannot read the cookies, other sites cannot send them except with plain
//! links, and over TLS they have the `__Host-` prefix, which binds them to this host.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use axum_extra::extract::cookie::{Cookie, SameSite};
use undertone_api::account::HalfSession;
use undertone_api::id::MemberId;
use undertone_api::problem::Code;
use undertone_api::session::TokenPair;

use crate::connections::ConnectionHandle;
use undertone_server_core::auth::{Access, Actor, KNOWN, open_device, sign_device};
use undertone_server_core::ctx::Ctx;
use undertone_server_core::fairness::{WorkOwner, recognize_caller};
use undertone_server_core::service::session::{self, RenewedSession};

/// Returns whether browsers reach the server over TLS, directly or through a proxy.
pub fn secure(ctx: &Ctx) -> bool {
    ctx.addresses.http.starts_with("https://")
}

/// Returns the `Set-Cookie` values that store a session.
pub fn set(ctx: &Ctx, tokens: &TokenPair) -> Vec<String> {
    let access = tokens.access_expires_at - ctx.now();
    let refresh = time::Duration::days(i64::from(ctx.config.session_days));
    let mut cookies = vec![
        cookie(ctx, Kind::Access, &tokens.access_token, access),
        cookie(ctx, Kind::Refresh, &tokens.refresh_token, refresh),
    ];
    let signed_in = Access::open(&tokens.access_token, &ctx.keys.token(), ctx.now()).ok();
    let device = signed_in.and_then(|access| sign_device(access.member, &ctx.keys.token(), ctx.now()).ok());
    cookies.extend(device.map(|device| cookie(ctx, Kind::Device, &device, KNOWN)));
    cookies
}

/// Returns the member of a known device.
pub fn device(ctx: &Ctx, headers: &HeaderMap) -> Option<MemberId> {
    open_device(read(ctx, headers, Kind::Device)?, &ctx.keys.token(), ctx.now())
}

/// Returns the `Set-Cookie` values that delete a session's cookies.
pub fn clear(ctx: &Ctx) -> Vec<String> {
    [Kind::Access, Kind::Refresh].map(|kind| cookie(ctx, kind, "", time::Duration::ZERO)).to_vec()
}

/// Returns the `Set-Cookie` value that stores a half sign-in until the code is given; by itself it grants no access.
pub fn set_half(ctx: &Ctx, half: &HalfSession) -> String {
    cookie(ctx, Kind::Half, &half.half_token, half.expires_at - ctx.now())
}

/// Returns the `Set-Cookie` value that deletes the half sign-in.
pub fn clear_half(ctx: &Ctx) -> String {
    cookie(ctx, Kind::Half, "", time::Duration::ZERO)
}

/// Returns the half sign-in of a request.
pub fn half(ctx: &Ctx, headers: &HeaderMap) -> Option<String> {
    read(ctx, headers, Kind::Half).map(str::to_owned)
}

/// Reads the cookies of a request without `Authorization`, stores the [`Actor`] in its extensions, and renews expired
/// access tokens.
pub async fn identify(State(ctx): State<Ctx>, mut request: Request, next: Next) -> Response {
    let mut cookies = Vec::new();
    if !request.headers().contains_key(header::AUTHORIZATION) {
        let (actor, set) = who(&ctx, request.headers()).await;
        cookies = set;
        if let Some(actor) = actor {
            ConnectionHandle::recognize_in(request.extensions());
            recognize_caller(WorkOwner::from(&actor));
            request.extensions_mut().insert(actor);
        }
    }
    let mut response = next.run(request).await;
    for cookie in cookies {
        // A handler that signs in or out sets the same cookies; its values take precedence.
        if !sets_cookie(response.headers(), cookie_name(&cookie))
            && let Ok(value) = HeaderValue::from_str(&cookie)
        {
            response.headers_mut().append(header::SET_COOKIE, value);
        }
    }
    response
}

/// Returns the name of the cookie that a `Set-Cookie` value sets.
fn cookie_name(set_cookie: &str) -> &str {
    set_cookie.split('=').next().unwrap_or_default()
}

fn sets_cookie(headers: &HeaderMap, name: &str) -> bool {
    let values = headers.get_all(header::SET_COOKIE);
    values.iter().filter_map(|value| value.to_str().ok()).any(|value| cookie_name(value) == name)
}

async fn who(ctx: &Ctx, headers: &HeaderMap) -> (Option<Actor>, Vec<String>) {
    if let Some(token) = read(ctx, headers, Kind::Access)
        && let Ok(actor) = session::signed_in(ctx, token).await
    {
        return (Some(actor), Vec::new());
    }
    let Some(token) = read(ctx, headers, Kind::Refresh) else { return (None, Vec::new()) };
    match session::refresh(ctx, token).await {
        Ok(RenewedSession::Pair(id, tokens)) => (session::actor_of(ctx, id).await.ok(), set(ctx, &tokens)),
        Ok(RenewedSession::Late(id)) => (session::actor_of(ctx, id).await.ok(), Vec::new()),
        Err(error) if error.code() == Code::Unauthenticated => (None, clear(ctx)),
        Err(error) => {
            // The error is logged; this request continues without a member and keeps the cookies.
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
    Device,
}

const fn name(secure: bool, kind: Kind) -> &'static str {
    match (secure, kind) {
        (true, Kind::Access) => "__Host-undertone-access",
        (true, Kind::Refresh) => "__Host-undertone-refresh",
        (true, Kind::Half) => "__Host-undertone-half",
        (true, Kind::Device) => "__Host-undertone-device",
        (false, Kind::Access) => "undertone-access",
        (false, Kind::Refresh) => "undertone-refresh",
        (false, Kind::Half) => "undertone-half",
        (false, Kind::Device) => "undertone-device",
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
