//! Who is calling: a proven identity with everything that the policy asks, read anew for each request.

use std::collections::{BTreeMap, BTreeSet};

use undertone_api::api_key::KeyScope;
use undertone_api::id::{ApiKeyId, ConsortiumId, MemberId, OrganizationId, SessionId};
use undertone_api::member::{Member, Role, Scope};

/// By what a member was recognized.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Means {
    /// They signed in.
    Session(SessionId),
    /// They signed in, on a server that asks everybody for a second factor, which they do not have yet: they may set it up.
    Confined(SessionId),
    /// A program bears a key of theirs: it may what the member may, as far as the key's scopes reach.
    Key(ApiKeyId, Vec<KeyScope>),
}

/// A signed-in member, or a program with a key of theirs. Only `service::session` and `service::api_key` make one, from a
/// token that holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Actor {
    /// Who.
    pub member: Member,
    /// By what they were recognized.
    pub means: Means,
    /// Every consortium in which the member stands, through a role in it or in one of its organizations, with its
    /// organizations.
    pub consortia: BTreeMap<ConsortiumId, Vec<OrganizationId>>,
    /// Organizations that are retired from a consortium: a role in one of them gives no standing there.
    pub retired: BTreeSet<(ConsortiumId, OrganizationId)>,
    /// Whether the member proved their identity within [`FRESH`](crate::auth::FRESH).
    pub is_fresh: bool,
}

/// The consortia in which roles let a member stand.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Memberships {
    /// Each consortium with its organizations.
    pub consortia: BTreeMap<ConsortiumId, Vec<OrganizationId>>,
    /// Those of the organizations that are retired from the consortium.
    pub retired: BTreeSet<(ConsortiumId, OrganizationId)>,
}

impl Actor {
    /// Returns the caller; `is_fresh` says whether they proved their identity a moment ago.
    pub fn new(member: Member, means: Means, memberships: Memberships, is_fresh: bool) -> Self {
        let Memberships { consortia, retired } = memberships;
        Self { member, means, consortia, retired, is_fresh }
    }

    /// The member's id.
    pub const fn id(&self) -> MemberId {
        self.member.id
    }

    /// The session in which the member signed in; `None` for a key.
    pub const fn session(&self) -> Option<SessionId> {
        match &self.means {
            Means::Session(id) | Means::Confined(id) => Some(*id),
            Means::Key(..) => None,
        }
    }

    /// The key that is used, if one is.
    pub const fn key(&self) -> Option<ApiKeyId> {
        match &self.means {
            Means::Session(_) | Means::Confined(_) => None,
            Means::Key(id, _) => Some(*id),
        }
    }

    /// Whether the member has yet to set up the second factor that this server asks for.
    pub const fn is_confined(&self) -> bool {
        matches!(self.means, Means::Confined(_))
    }

    /// Whether what is used to ask reaches so far: a session reaches everything, a key its scopes, and nothing that is in
    /// none of them. Every key may read.
    pub fn reaches(&self, scope: Option<KeyScope>) -> bool {
        match (&self.means, scope) {
            (Means::Session(_) | Means::Confined(_), _) | (Means::Key(..), Some(KeyScope::Read)) => true,
            (Means::Key(_, scopes), Some(scope)) => scopes.contains(&scope),
            (Means::Key(..), None) => false,
        }
    }

    /// The roles in one organization.
    pub fn roles_in(&self, organization: OrganizationId) -> impl Iterator<Item = Role> {
        self.roles_at(Scope::Organization(organization))
    }

    /// The roles in a consortium itself, not those in its organizations.
    pub fn roles_over(&self, consortium: ConsortiumId) -> impl Iterator<Item = Role> {
        self.roles_at(Scope::Consortium(consortium))
    }

    /// Returns the roles in an organization as far as they give a standing in a consortium: none while it is retired there.
    pub fn roles_within(&self, consortium: ConsortiumId, organization: OrganizationId) -> impl Iterator<Item = Role> {
        let is_retired = self.retired.contains(&(consortium, organization));
        self.roles_in(organization).filter(move |_| !is_retired)
    }

    fn roles_at(&self, scope: Scope) -> impl Iterator<Item = Role> {
        self.member.grants.iter().filter(move |grant| grant.scope == scope).map(|grant| grant.role)
    }

    /// The organizations in which the member has a role.
    pub fn organizations(&self) -> Vec<OrganizationId> {
        let mut own: Vec<OrganizationId> = self
            .member
            .grants
            .iter()
            .filter_map(|grant| match grant.scope {
                Scope::Organization(id) => Some(id),
                Scope::Consortium(_) => None,
            })
            .collect();
        own.sort_unstable();
        own.dedup();
        own
    }
}
