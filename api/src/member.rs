//! Members and their permissions.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::id::{ConsortiumId, MemberId, OrganizationId};
use crate::problem::Violation;

/// The fewest and the most characters of a password.
pub const PASSWORD_LENGTH: std::ops::RangeInclusive<usize> = 12..=200;

/// A role of a member in an organization, or in a consortium.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Founds and runs a consortium: invites organizations, sees budgets and jobs.
    ConsortiumAdmin,
    /// Runs an organization: invites its members, enrolls its workers.
    OrganizationAdmin,
    /// Is responsible for an organization's data: sets budgets, approves or refuses jobs.
    DataSteward,
    /// Plans and launches jobs, downloads models.
    Researcher,
    /// Reads ledgers, receipts and certificates.
    Auditor,
    /// Answers the questions of jobs, and has no other access.
    Annotator,
}

/// The scope of a role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = RoleScope))]
#[serde(tag = "scope", content = "id", rename_all = "snake_case")]
pub enum RoleScope {
    /// In one consortium.
    Consortium(ConsortiumId),
    /// In one organization.
    Organization(OrganizationId),
}

/// A role in a scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Grant))]
pub struct RoleGrant {
    /// The scope.
    #[serde(flatten)]
    pub scope: RoleScope,
    /// The role.
    pub role: Role,
}

/// A person who signs in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Member {
    /// Id.
    pub id: MemberId,
    /// Display name.
    pub name: String,
    /// E-mail, lower case; shown only to the member and the admins of their organization.
    pub email: String,
    /// Whether the member operates this server.
    pub operator: bool,
    /// Roles.
    pub grants: Vec<RoleGrant>,
    /// When the account was created.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: OffsetDateTime,
}

/// The details with which a person accepts a one-time link and becomes a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewMember {
    /// Name: 1 to 100 characters.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 100))]
    pub name: String,
    /// E-mail address.
    pub email: String,
    /// Password: 12 to 200 characters.
    #[cfg_attr(feature = "openapi", schema(min_length = 12, max_length = 200))]
    pub password: String,
    /// The organization's name, if the link founds one: 1 to 100 characters.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 100))]
    pub organization: Option<String>,
}

impl NewMember {
    /// Returns every violation; none if the input is valid.
    pub fn check(&self) -> Vec<Violation> {
        let mut violations = Vec::new();
        check_name("name", &self.name, &mut violations);
        if let Some(name) = &self.organization {
            check_name("organization", name, &mut violations);
        }
        let address = self.email.trim();
        let well_formed = address.split_once('@').is_some_and(|(user, host)| {
            !user.is_empty() && host.contains('.') && !host.starts_with('.') && !host.ends_with('.')
        });
        if !well_formed || address.len() > 254 || address.chars().any(char::is_whitespace) {
            violations.push(Violation::new("email", "give an e-mail address, such as name@example.org"));
        }
        check_password("password", &self.password, &mut violations);
        violations
    }
}

/// The new roles of a member in a scope. They replace the previous ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Roles))]
pub struct RoleAssignment {
    /// At least one; each at most once.
    pub roles: Vec<Role>,
}

/// A member to be given roles over a consortium itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewConsortiumMember {
    /// The member's e-mail. The member must belong to the consortium already, through an organization or as an
    /// annotator.
    pub email: String,
    /// `consortium_admin`, `auditor` or `annotator`. Present roles remain.
    pub roles: Vec<Role>,
}

/// The choices of a member who accepts a one-time link with an existing account.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Join))]
pub struct JoinRequest {
    /// The organization that joins the consortium, if the link admits one. The member must be its admin.
    #[serde(default)]
    pub organization: Option<OrganizationId>,
    /// The name of a new organization instead: 1 to 100 characters.
    #[serde(default)]
    pub organization_name: Option<String>,
}

/// Checks a password's length: 12 to 200 characters. The server checks whether it is easy to guess.
pub fn check_password(field: &str, password: &str, violations: &mut Vec<Violation>) {
    let length = password.chars().count();
    if !PASSWORD_LENGTH.contains(&length) {
        violations.push(Violation::new(field, format!("use 12 to 200 characters, not {length}")));
    }
}

/// Checks a display name: 1 to 100 characters, no control characters.
pub fn check_name(field: &str, name: &str, violations: &mut Vec<Violation>) {
    let length = name.trim().chars().count();
    if !(1..=100).contains(&length) || name.chars().any(char::is_control) {
        violations.push(Violation::new(field, format!("use 1 to 100 printable characters, not {length}")));
    }
}
