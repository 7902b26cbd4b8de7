//! The kinds of callers.

use undertone_api::id::MemberId;

use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::world::people;

/// The means of a caller's authentication.
pub(super) enum CallerCredential {
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
pub(super) struct TestCaller {
    pub(super) name: &'static str,
    pub(super) means: CallerCredential,
}

impl TestCaller {
    /// Returns the token after `Bearer` in the next request.
    pub(super) async fn token(&self, ctx: &Ctx) -> Option<String> {
        match &self.means {
            CallerCredential::Nobody => None,
            CallerCredential::Session(member) => Some(people::token(ctx, *member).await),
            CallerCredential::Key(key) | CallerCredential::Revoked(key) => Some(key.clone()),
        }
    }
}
