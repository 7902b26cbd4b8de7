//! Sessions in cookies, for browsers. Scripts cannot read the cookies, other sites cannot send them except with plain
//! links, and over TLS they have the `__Host-` prefix, which binds them to this host.

use http::{HeaderMap, header};
use time::Duration;
use undertone_api::account::HalfSession;
use undertone_api::id::MemberId;
use undertone_api::session::TokenPair;

use super::device::{KNOWN, open_device, sign_device};
use super::token::Access;
use crate::ctx::Ctx;

/// Returns whether browsers reach the server over TLS, directly or through a proxy.
pub fn is_secure(ctx: &Ctx) -> bool {
    ctx.addresses.http.starts_with("https://")
}

/// Builds the `Set-Cookie` values that store a session.
pub fn store_session(ctx: &Ctx, tokens: &TokenPair) -> Vec<String> {
    let access_age = tokens.access_expires_at - ctx.now();
    let refresh_age = Duration::days(i64::from(ctx.config.session_days));
    let mut cookies = vec![
        build_cookie(ctx, CookieKind::Access, &tokens.access_token, access_age),
        build_cookie(ctx, CookieKind::Refresh, &tokens.refresh_token, refresh_age),
    ];
    let access = Access::open(&tokens.access_token, &ctx.keys.token(), ctx.now()).ok();
    let device = access.and_then(|access| sign_device(access.member, &ctx.keys.token(), ctx.now()).ok());
    cookies.extend(device.map(|device| build_cookie(ctx, CookieKind::Device, &device, KNOWN)));
    cookies
}

/// Builds the `Set-Cookie` values that delete a session.
pub fn delete_session(ctx: &Ctx) -> Vec<String> {
    [CookieKind::Access, CookieKind::Refresh].map(|kind| build_cookie(ctx, kind, "", Duration::ZERO)).to_vec()
}

/// Builds the `Set-Cookie` value that stores a half session until its second step; by itself it grants no access.
pub fn store_half_session(ctx: &Ctx, half: &HalfSession) -> String {
    build_cookie(ctx, CookieKind::Half, &half.half_token, half.expires_at - ctx.now())
}

/// Builds the `Set-Cookie` values that store the session of a finished second step and delete its half session.
pub fn replace_half_session(ctx: &Ctx, tokens: &TokenPair) -> Vec<String> {
    let mut cookies = store_session(ctx, tokens);
    cookies.push(build_cookie(ctx, CookieKind::Half, "", Duration::ZERO));
    cookies
}

/// Returns the access token of a request.
pub fn read_access<'a>(ctx: &Ctx, headers: &'a HeaderMap) -> Option<&'a str> {
    read_cookie(ctx, headers, CookieKind::Access)
}

/// Returns the refresh token of a request.
pub fn read_refresh<'a>(ctx: &Ctx, headers: &'a HeaderMap) -> Option<&'a str> {
    read_cookie(ctx, headers, CookieKind::Refresh)
}

/// Returns the token of a request's half session.
pub fn read_half_session(ctx: &Ctx, headers: &HeaderMap) -> Option<String> {
    read_cookie(ctx, headers, CookieKind::Half).map(str::to_owned)
}

/// Returns the member of a request's known device.
pub fn read_device(ctx: &Ctx, headers: &HeaderMap) -> Option<MemberId> {
    open_device(read_cookie(ctx, headers, CookieKind::Device)?, &ctx.keys.token(), ctx.now())
}

#[derive(Clone, Copy)]
enum CookieKind {
    Access,
    Refresh,
    Half,
    Device,
}

const fn cookie_name(is_secure: bool, kind: CookieKind) -> &'static str {
    match (is_secure, kind) {
        (true, CookieKind::Access) => "__Host-undertone-access",
        (true, CookieKind::Refresh) => "__Host-undertone-refresh",
        (true, CookieKind::Half) => "__Host-undertone-half",
        (true, CookieKind::Device) => "__Host-undertone-device",
        (false, CookieKind::Access) => "undertone-access",
        (false, CookieKind::Refresh) => "undertone-refresh",
        (false, CookieKind::Half) => "undertone-half",
        (false, CookieKind::Device) => "undertone-device",
    }
}

fn build_cookie(ctx: &Ctx, kind: CookieKind, value: &str, age: Duration) -> String {
    let is_secure = is_secure(ctx);
    let name = cookie_name(is_secure, kind);
    let secure = if is_secure { "; Secure" } else { "" };
    format!("{name}={value}; HttpOnly; SameSite=Lax{secure}; Path=/; Max-Age={}", age.whole_seconds())
}

fn read_cookie<'a>(ctx: &Ctx, headers: &'a HeaderMap, kind: CookieKind) -> Option<&'a str> {
    let cookie_name = cookie_name(is_secure(ctx), kind);
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find_map(|(name, value)| (name == cookie_name && !value.is_empty()).then_some(value))
}
