//! The kinds of callers.

use undertone_api::id::MemberId;

use crate::ctx::Ctx;
use crate::service::world::people;

/// By what a caller is recognized.
pub(super) enum Means {
    /// By nothing.
    Nobody,
    /// They have signed in. Each request has a session of its own, so that ending one hurts no other.
    Session(MemberId),
    /// A program of theirs bears a key.
    Key(String),
    /// A key that was revoked.
    Revoked(String),
}

/// One kind of caller.
pub(super) struct Caller {
    pub(super) name: &'static str,
    pub(super) means: Means,
}

impl Caller {
    /// What stands behind `Bearer` in the next request.
    pub(super) async fn token(&self, ctx: &Ctx) -> Option<String> {
        match &self.means {
            Means::Nobody => None,
            Means::Session(member) => Some(people::token(ctx, *member).await),
            Means::Key(key) | Means::Revoked(key) => Some(key.clone()),
        }
    }
}
