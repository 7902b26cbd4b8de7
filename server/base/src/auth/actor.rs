//! The caller: a verified identity with all the facts that the policy needs, loaded again for each request.

use std::collections::{BTreeMap, BTreeSet};

use undertone_api::api_key::KeyScope;
use undertone_api::id::{ApiKeyId, ConsortiumId, MemberId, OrganizationId, SessionId};
use undertone_api::member::{Member, Role, RoleScope};

/// The means by which a member was authenticated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Means {
    /// A signed-in session.
    Session(SessionId),
    /// A signed-in session of a member without a second factor, on a server that requires one. The member may only set
    /// it up.
    Confined(SessionId),
    /// An API key of the member: it permits the member's operations within the key's scopes.
    Key(ApiKeyId, Vec<KeyScope>),
}

/// A signed-in member, or a program with a member's key. Only `service::session` and `service::api_key` construct one,
/// from a valid token.
#[derive(Debug, Clone, PartialEq)]
pub struct Actor {
    /// The member.
    pub member: Member,
    /// The means of authentication.
    pub means: Means,
    /// Every consortium in which the member has a role, directly or through one of its organizations, with its
    /// organizations.
    pub consortia: BTreeMap<ConsortiumId, Vec<OrganizationId>>,
    /// Organizations that are retired from a consortium: a role in one of them gives no standing there.
    pub retired: BTreeSet<(ConsortiumId, OrganizationId)>,
    /// Whether the member proved their identity within [`FRESH`](crate::auth::FRESH).
    pub is_fresh: bool,
}

/// The consortia in which a member has roles.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Memberships {
    /// Each consortium with its organizations.
    pub consortia: BTreeMap<ConsortiumId, Vec<OrganizationId>>,
    /// The organizations that are retired from the consortium.
    pub retired: BTreeSet<(ConsortiumId, OrganizationId)>,
}

impl Actor {
    /// Returns the caller; `is_fresh` states whether the member proved their identity recently.
    pub fn new(member: Member, means: Means, memberships: Memberships, is_fresh: bool) -> Self {
        let Memberships { consortia, retired } = memberships;
        Self { member, means, consortia, retired, is_fresh }
    }

    /// Returns the member's id.
    pub const fn id(&self) -> MemberId {
        self.member.id
    }

    /// Returns the session of a signed-in member; `None` for a key.
    pub const fn session(&self) -> Option<SessionId> {
        match &self.means {
            Means::Session(id) | Means::Confined(id) => Some(*id),
            Means::Key(..) => None,
        }
    }

    /// Returns the key, if the caller uses one.
    pub const fn key(&self) -> Option<ApiKeyId> {
        match &self.means {
            Means::Session(_) | Means::Confined(_) => None,
            Means::Key(id, _) => Some(*id),
        }
    }

    /// Returns whether the member must still set up the second factor that this server requires.
    pub const fn is_confined(&self) -> bool {
        matches!(self.means, Means::Confined(_))
    }

    /// Returns whether the means of authentication covers `scope`. A session covers everything. A key covers its
    /// scopes, and never an operation without a scope. Every key may read.
    pub fn reaches(&self, scope: Option<KeyScope>) -> bool {
        match (&self.means, scope) {
            (Means::Session(_) | Means::Confined(_), _) | (Means::Key(..), Some(KeyScope::Read)) => true,
            (Means::Key(_, scopes), Some(scope)) => scopes.contains(&scope),
            (Means::Key(..), None) => false,
        }
    }

    /// Returns the roles in one organization.
    pub fn roles_in(&self, organization: OrganizationId) -> impl Iterator<Item = Role> {
        self.roles_at(RoleScope::Organization(organization))
    }

    /// Returns the roles in a consortium itself, without those in its organizations.
    pub fn roles_over(&self, consortium: ConsortiumId) -> impl Iterator<Item = Role> {
        self.roles_at(RoleScope::Consortium(consortium))
    }

    /// Returns the roles in an organization that give a standing in a consortium: none while the organization is
    /// retired there.
    pub fn roles_within(&self, consortium: ConsortiumId, organization: OrganizationId) -> impl Iterator<Item = Role> {
        let is_retired = self.retired.contains(&(consortium, organization));
        self.roles_in(organization).filter(move |_| !is_retired)
    }

    fn roles_at(&self, scope: RoleScope) -> impl Iterator<Item = Role> {
        self.member.grants.iter().filter(move |grant| grant.scope == scope).map(|grant| grant.role)
    }

    /// Returns the organizations in which the member has a role.
    pub fn organizations(&self) -> Vec<OrganizationId> {
        let mut own: Vec<OrganizationId> = self
            .member
            .grants
            .iter()
            .filter_map(|grant| match grant.scope {
                RoleScope::Organization(id) => Some(id),
                RoleScope::Consortium(_) => None,
            })
            .collect();
        own.sort_unstable();
        own.dedup();
        own
    }
}
