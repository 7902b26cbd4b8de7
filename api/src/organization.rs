//! Organizations and the links by which people and organizations join.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::id::{ConsortiumId, InvitationId, OrganizationId};
use crate::member::Role;
use crate::retirement::Retirement;
use crate::worker::Worker;

/// An owner of datasets and workers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Organization {
    /// Id.
    pub id: OrganizationId,
    /// Name, unique on the server.
    pub name: String,
    /// Number of members.
    pub members: u32,
    /// Number of datasets.
    pub datasets: u32,
    /// Its workers, each with the time of its last contact.
    pub workers: Vec<Worker>,
    /// When it joined.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: OffsetDateTime,
    /// Its retirement from the consortium that the request names, if one is in force; absent where the request names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retirement: Option<Retirement>,
}

/// The purpose of a one-time link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = InvitationPurpose))]
#[serde(tag = "purpose", rename_all = "snake_case")]
pub enum InvitationPurpose {
    /// Become an operator of this server. The first start creates the first such link; operators create the others.
    Operator,
    /// Bring a new organization into a consortium, as its first admin, steward and researcher.
    Organization {
        /// The inviting consortium.
        consortium: ConsortiumId,
    },
    /// Answer the questions of a consortium's jobs, without a role in an organization.
    Annotator {
        /// The inviting consortium.
        consortium: ConsortiumId,
    },
    /// Join an organization as a member.
    Member {
        /// The inviting organization.
        organization: OrganizationId,
        /// The roles that the new member receives.
        roles: Vec<Role>,
    },
}

/// An invitation in the inviter's view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Invitation {
    /// Id.
    pub id: InvitationId,
    /// The purpose.
    #[serde(flatten)]
    pub purpose: InvitationPurpose,
    /// A note about the recipient.
    pub label: String,
    /// The link, only in the response that creates it. The server stores a hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// When it stops working.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub expires_at: OffsetDateTime,
    /// Whether it was used.
    pub used: bool,
    /// Whether it was withdrawn.
    #[serde(default)]
    pub withdrawn: bool,
}

/// An invitation in its bearer's view, before acceptance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct InvitationPreview {
    /// The purpose.
    #[serde(flatten)]
    pub purpose: InvitationPurpose,
    /// The name of the inviting consortium or organization, if there is one.
    pub from: Option<String>,
}

/// A new invitation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewInvitation {
    /// The purpose.
    #[serde(flatten)]
    pub purpose: InvitationPurpose,
    /// A note about the recipient: 1 to 100 characters.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 100))]
    pub label: String,
}
