//! The caller of a request by its cookies, and the renewal of expired access tokens. `auth::cookie` reads and builds the
//! cookies.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use undertone_api::problem::Code;

use crate::connections::ConnectionHandle;
use undertone_server_core::auth::{Actor, cookie};
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::session::{self, RenewedSession};

/// Reads the cookies of a request without `Authorization`, stores the [`Actor`] in its extensions, and renews expired
/// access tokens.
pub async fn identify(State(ctx): State<Ctx>, mut request: Request, next: Next) -> Response {
    let mut cookies = Vec::new();
    if !request.headers().contains_key(header::AUTHORIZATION) {
        let (actor, set) = who(&ctx, request.headers()).await;
        cookies = set;
        if let Some(actor) = actor {
            ConnectionHandle::recognize_member(request.extensions(), &actor);
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
    if let Some(token) = cookie::read_access(ctx, headers)
        && let Ok(actor) = session::signed_in(ctx, token).await
    {
        return (Some(actor), Vec::new());
    }
    let Some(token) = cookie::read_refresh(ctx, headers) else { return (None, Vec::new()) };
    match session::refresh(ctx, token).await {
        Ok(RenewedSession::Pair(id, tokens)) => {
            (session::actor_of(ctx, id).await.ok(), cookie::store_session(ctx, &tokens))
        }
        Ok(RenewedSession::Late(id)) => (session::actor_of(ctx, id).await.ok(), Vec::new()),
        Err(error) if error.code() == Code::Unauthenticated => (None, cookie::delete_session(ctx)),
        Err(error) => {
            // The error is logged; this request continues without a member and keeps the cookies.
            let _ = error.into_problem();
            (None, Vec::new())
        }
    }
}
