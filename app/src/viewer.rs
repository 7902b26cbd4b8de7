//! What a member may probably do, so that pages do not show what would be refused. It decides nothing: the service does.

use undertone_api::id::{ConsortiumId, OrganizationId};
use undertone_api::member::{Member, Role, Scope};

fn holds(member: &Member, scope: Scope, role: Role) -> bool {
    member.grants.iter().any(|grant| grant.scope == scope && grant.role == role)
}

/// May answer for an organization's data.
pub(crate) fn stewards(member: &Member, organization: OrganizationId) -> bool {
    holds(member, Scope::Organization(organization), Role::DataSteward)
}

/// May invite members of an organization and enrol its workers.
pub(crate) fn runs(member: &Member, organization: OrganizationId) -> bool {
    holds(member, Scope::Organization(organization), Role::OrganizationAdmin)
}

/// May invite organizations.
pub(crate) fn admits(member: &Member, consortium: ConsortiumId) -> bool {
    member.operator || holds(member, Scope::Consortium(consortium), Role::ConsortiumAdmin)
}

/// May declare in how many organizations of a consortium one person may be.
pub(crate) fn attests(member: &Member, consortium: ConsortiumId) -> bool {
    holds(member, Scope::Consortium(consortium), Role::ConsortiumAdmin)
}

/// May plan and propose jobs somewhere.
pub(crate) fn researches(member: &Member) -> bool {
    member.grants.iter().any(|grant| grant.role == Role::Researcher)
}
