//! Members and their permissions.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::account::PASSWORD_LENGTH;
use crate::id::{ConsortiumId, MemberId, OrganizationId};
use crate::problem::Violation;

/// What a member may do in an organization, or in a consortium.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Founds and runs a consortium: invites organizations, sees budgets and jobs.
    ConsortiumAdmin,
    /// Runs an organization: invites its members, enrols its workers.
    OrganizationAdmin,
    /// Answers for an organization's data: sets budgets, approves or refuses jobs.
    DataSteward,
    /// Plans and launches jobs, takes models away.
    Researcher,
    /// Reads ledgers, receipts and certificates.
    Auditor,
    /// Answers the questions of jobs, and sees nothing else.
    Annotator,
}

/// Where a role holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = RoleScope))]
#[serde(tag = "scope", content = "id", rename_all = "snake_case")]
pub enum Scope {
    /// In one consortium.
    Consortium(ConsortiumId),
    /// In one organization.
    Organization(OrganizationId),
}

/// A role at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Grant {
    /// Where.
    #[serde(flatten)]
    pub scope: Scope,
    /// What.
    pub role: Role,
}

/// A person who signs in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Member {
    /// Id.
    pub id: MemberId,
    /// Name, as shown to others.
    pub name: String,
    /// E-mail, lower case; shown only to the member and the admins of their organization.
    pub email: String,
    /// Runs this server.
    pub operator: bool,
    /// Roles.
    pub grants: Vec<Grant>,
    /// When the account was made.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: OffsetDateTime,
}

/// What a person gives to accept a one-time link and become a member.
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
    /// The organization's name, when the link founds one: 1 to 100 characters.
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

/// The roles that a member is to have at a place, instead of those they have there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Roles {
    /// At least one; each at most once.
    pub roles: Vec<Role>,
}

/// Somebody who is to have a role over a consortium itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewConsortiumMember {
    /// Their e-mail: they stand in the consortium already, through an organization or as an annotator.
    pub email: String,
    /// `consortium_admin`, `auditor` or `annotator`; what they have already stays.
    pub roles: Vec<Role>,
}

/// What a member gives to accept a one-time link with the account they have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Join {
    /// The organization that joins the consortium, when the link brings one: one of which the member is an admin.
    #[serde(default)]
    pub organization: Option<OrganizationId>,
    /// Or the name of a new one: 1 to 100 characters.
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
