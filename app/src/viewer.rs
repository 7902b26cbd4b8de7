//! A member's probable permissions, so that pages omit actions that the service would refuse. The service alone
//! decides.

use undertone_api::id::{ConsortiumId, OrganizationId};
use undertone_api::member::{Member, Role, RoleScope};

fn holds(member: &Member, scope: RoleScope, role: Role) -> bool {
    member.grants.iter().any(|grant| grant.scope == scope && grant.role == role)
}

/// Returns whether the member may decide about an organization's data.
pub(crate) fn stewards(member: &Member, organization: OrganizationId) -> bool {
    holds(member, RoleScope::Organization(organization), Role::DataSteward)
}

/// Returns whether the member may invite members of an organization and enrol its workers.
pub(crate) fn runs(member: &Member, organization: OrganizationId) -> bool {
    holds(member, RoleScope::Organization(organization), Role::OrganizationAdmin)
}

/// Returns whether the member may invite organizations.
pub(crate) fn admits(member: &Member, consortium: ConsortiumId) -> bool {
    member.operator || holds(member, RoleScope::Consortium(consortium), Role::ConsortiumAdmin)
}

/// Returns whether the member may declare in how many organizations of a consortium one person may be.
pub(crate) fn attests(member: &Member, consortium: ConsortiumId) -> bool {
    holds(member, RoleScope::Consortium(consortium), Role::ConsortiumAdmin)
}

/// Returns whether the member may delete some models of a consortium: an organization's admin those of its worker.
pub(crate) fn deletes_models(member: &Member, consortium: ConsortiumId) -> bool {
    holds(member, RoleScope::Consortium(consortium), Role::ConsortiumAdmin)
        || member.grants.iter().any(|grant| grant.role == Role::OrganizationAdmin)
}

/// Returns whether the member only answers questions here.
pub(crate) fn only_annotates(member: &Member) -> bool {
    !member.operator && !member.grants.is_empty() && member.grants.iter().all(|grant| grant.role == Role::Annotator)
}

/// Returns whether the member may answer the questions of jobs.
pub(crate) fn answers(member: &Member) -> bool {
    let roles = [Role::ConsortiumAdmin, Role::DataSteward, Role::Researcher, Role::Annotator];
    member.grants.iter().any(|grant| roles.contains(&grant.role))
}

/// Returns whether the member may export questions with all answers.
pub(crate) fn reads_questions(member: &Member) -> bool {
    let roles = [Role::ConsortiumAdmin, Role::DataSteward, Role::Researcher, Role::Auditor];
    member.grants.iter().any(|grant| roles.contains(&grant.role))
}

/// Returns whether the member may import answers from elsewhere.
pub(crate) fn imports(member: &Member) -> bool {
    member.grants.iter().any(|grant| matches!(grant.role, Role::ConsortiumAdmin | Role::Researcher))
}

/// Returns whether the member may read the audit log of a consortium.
pub(crate) fn reads_log(member: &Member, consortium: ConsortiumId) -> bool {
    holds(member, RoleScope::Consortium(consortium), Role::ConsortiumAdmin)
        || member.grants.iter().any(|grant| grant.role == Role::Auditor)
}

/// Returns whether the member may read the audit log of an organization.
pub(crate) fn reads_log_of(member: &Member, organization: OrganizationId) -> bool {
    runs(member, organization)
        || holds(member, RoleScope::Organization(organization), Role::Auditor)
        || member
            .grants
            .iter()
            .any(|grant| matches!(grant.scope, RoleScope::Consortium(_)) && grant.role == Role::Auditor)
}

/// Returns whether the member may plan and propose jobs in any organization.
pub(crate) fn researches(member: &Member) -> bool {
    member.grants.iter().any(|grant| grant.role == Role::Researcher)
}
