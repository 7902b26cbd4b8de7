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

/// Answers questions, and does nothing else here.
pub(crate) fn only_annotates(member: &Member) -> bool {
    !member.operator && !member.grants.is_empty() && member.grants.iter().all(|grant| grant.role == Role::Annotator)
}

/// May answer the questions of jobs.
pub(crate) fn answers(member: &Member) -> bool {
    let roles = [Role::ConsortiumAdmin, Role::DataSteward, Role::Researcher, Role::Annotator];
    member.grants.iter().any(|grant| roles.contains(&grant.role))
}

/// May take questions away with everybody's answers.
pub(crate) fn reads_questions(member: &Member) -> bool {
    let roles = [Role::ConsortiumAdmin, Role::DataSteward, Role::Researcher, Role::Auditor];
    member.grants.iter().any(|grant| roles.contains(&grant.role))
}

/// May bring answers that were given elsewhere.
pub(crate) fn imports(member: &Member) -> bool {
    member.grants.iter().any(|grant| matches!(grant.role, Role::ConsortiumAdmin | Role::Researcher))
}

/// May read what was done in a consortium.
pub(crate) fn reads_log(member: &Member, consortium: ConsortiumId) -> bool {
    holds(member, Scope::Consortium(consortium), Role::ConsortiumAdmin)
        || member.grants.iter().any(|grant| grant.role == Role::Auditor)
}

/// May read what was done in an organization.
pub(crate) fn reads_log_of(member: &Member, organization: OrganizationId) -> bool {
    runs(member, organization)
        || holds(member, Scope::Organization(organization), Role::Auditor)
        || member.grants.iter().any(|grant| matches!(grant.scope, Scope::Consortium(_)) && grant.role == Role::Auditor)
}

/// May plan and propose jobs somewhere.
pub(crate) fn researches(member: &Member) -> bool {
    member.grants.iter().any(|grant| grant.role == Role::Researcher)
}
