//! Who is calling: a proven identity with everything that the policy asks, read anew for each request.

use std::collections::BTreeMap;

use undertone_api::id::{ConsortiumId, MemberId, OrganizationId, SessionId};
use undertone_api::member::{Member, Role, Scope};

/// A signed-in member. Only `service::session` makes one, from a token that holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Actor {
    /// Who.
    pub member: Member,
    /// In which session.
    pub session: SessionId,
    /// Every consortium in which the member stands, through a role in it or in one of its organizations, with its
    /// organizations.
    pub consortia: BTreeMap<ConsortiumId, Vec<OrganizationId>>,
}

impl Actor {
    /// The member's id.
    pub const fn id(&self) -> MemberId {
        self.member.id
    }

    /// The roles in one organization.
    pub fn roles_in(&self, organization: OrganizationId) -> impl Iterator<Item = Role> {
        self.roles_at(Scope::Organization(organization))
    }

    /// The roles in a consortium itself, not those in its organizations.
    pub fn roles_over(&self, consortium: ConsortiumId) -> impl Iterator<Item = Role> {
        self.roles_at(Scope::Consortium(consortium))
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
