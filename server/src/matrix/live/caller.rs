//! The kinds of callers.

use undertone_api::id::MemberId;

use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::world::people;

/// The means of a caller's authentication.
pub(super) enum Means {
    /// None.
    Nobody,
    /// A session. Each request has its own, so that ending one does not affect others.
    Session(MemberId),
    /// An API key of the member.
    Key(String),
    /// A revoked key.
    Revoked(String),
}

/// One kind of caller.
pub(super) struct Caller {
    pub(super) name: &'static str,
    pub(super) means: Means,
}

impl Caller {
    /// Returns the token after `Bearer` in the next request.
    pub(super) async fn token(&self, ctx: &Ctx) -> Option<String> {
        match &self.means {
            Means::Nobody => None,
            Means::Session(member) => Some(people::token(ctx, *member).await),
            Means::Key(key) | Means::Revoked(key) => Some(key.clone()),
        }
    }
}
