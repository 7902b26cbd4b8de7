//! One request to the dashboard: its caller, and the server that answers it.
//!
//! The server provides a [`DashboardRequest`] as context to the pages and to the server functions under `/ui`, which call
//! the operations of `undertone_server_core::service` with it. A middleware resolves the caller from the cookies before
//! leptos sees the request, and rejects requests to change something from other sites.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use leptos::prelude::{provide_context, use_context};
use time::OffsetDateTime;
use undertone_api::problem::{Code, Problem};
use undertone_server_core::auth::{Actor, Origin, cookie, page_seal};
use undertone_server_core::ctx::Ctx;

/// The result of a page's request.
pub(crate) type Answer<T> = Result<T, Problem>;

/// One request to the dashboard.
pub struct DashboardRequest {
    ctx: Ctx,
    actor: Option<Actor>,
    origin: Origin,
    half_token: Option<String>,
}

impl DashboardRequest {
    /// Makes the request of a caller, `None` without a sign-in; `half_token` is the token of a sign-in that waits for
    /// its second step.
    pub const fn new(ctx: Ctx, actor: Option<Actor>, origin: Origin, half_token: Option<String>) -> Self {
        Self { ctx, actor, origin, half_token }
    }

    /// Returns a function that provides this request as leptos context, any number of times.
    pub fn into_context(self) -> impl Fn() + Clone + Send + Sync + 'static {
        let request = Arc::new(self);
        move || provide_context(Arc::clone(&request))
    }

    /// Takes the current request from the leptos context.
    ///
    /// # Errors
    /// [`Code::Internal`] if the server provided none: a mistake in mounting, not of the caller.
    pub(crate) fn from_context() -> Answer<Arc<Self>> {
        use_context().ok_or_else(|| Problem::new(Code::Internal, "the dashboard was mounted without a request"))
    }

    /// Returns the server's state, the first argument of every operation.
    pub(crate) const fn ctx(&self) -> &Ctx {
        &self.ctx
    }

    /// Returns the caller.
    ///
    /// # Errors
    /// [`Code::Unauthenticated`] without a sign-in.
    pub(crate) fn actor(&self) -> Answer<&Actor> {
        self.actor.as_ref().ok_or_else(|| Problem::new(Code::Unauthenticated, "sign in to continue"))
    }

    /// Returns the caller, if signed in.
    pub(crate) const fn signed_in(&self) -> Option<&Actor> {
        self.actor.as_ref()
    }

    /// Returns the address and device of the caller.
    pub(crate) const fn origin(&self) -> Origin {
        self.origin
    }

    /// Returns the token of the caller's half session.
    ///
    /// # Errors
    /// [`Code::Unauthenticated`] if there is none, or it expired.
    pub(crate) fn half_token(&self) -> Answer<&str> {
        let over = "this took longer than five minutes: sign in again from the beginning";
        self.half_token.as_deref().ok_or_else(|| Problem::new(Code::Unauthenticated, over))
    }

    /// Returns the present time: pages compute durations with it and read no clock themselves.
    pub(crate) fn now(&self) -> OffsetDateTime {
        self.ctx.now()
    }

    /// Returns whether the site is served over TLS, so that the dashboard's own cookies are marked `Secure`.
    pub(crate) fn is_secure(&self) -> bool {
        cookie::is_secure(&self.ctx)
    }

    /// Seals a text that the caller's browser keeps for the next page, as a cookie's value. A secret is bound to the
    /// caller's session. `None` if it cannot be sealed.
    pub(crate) fn seal_text(&self, text: &str, is_secret: bool) -> Option<String> {
        let session = self.signed_in().and_then(Actor::session).filter(|_| is_secret);
        let nonce = self.ctx.random.bytes();
        let sealed = page_seal::seal_page_text(&self.ctx.keys.token(), session, text, self.now(), nonce)?;
        Some(URL_SAFE_NO_PAD.encode(sealed))
    }

    /// Opens such a text; `None` if it was not sealed within the last minute, or is the secret of another session.
    pub(crate) fn open_text(&self, sealed: &str) -> Option<String> {
        let sealed = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let session = self.signed_in().and_then(Actor::session);
        let open = |session| page_seal::open_page_text(&self.ctx.keys.token(), session, &sealed, self.now());
        open(None).or_else(|| open(Some(session?)))
    }
}
