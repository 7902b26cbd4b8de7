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
    /// Its workers and when each was last heard of.
    pub workers: Vec<Worker>,
    /// When it joined.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: OffsetDateTime,
    /// Its retirement from the consortium that the request names, if one is in force; absent where the request names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retirement: Option<Retirement>,
}

/// What a one-time link lets its bearer do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = InvitationPurpose))]
#[serde(tag = "purpose", rename_all = "snake_case")]
pub enum Purpose {
    /// Become an operator of this server. The first such link is made at the first start, the others by operators.
    Operator,
    /// Bring a new organization into a consortium, as its first admin, steward and researcher.
    Organization {
        /// The consortium that invites.
        consortium: ConsortiumId,
    },
    /// Answer the questions of a consortium's jobs, without belonging to an organization.
    Annotator {
        /// The consortium that invites.
        consortium: ConsortiumId,
    },
    /// Join an organization as a member.
    Member {
        /// The organization that invites.
        organization: OrganizationId,
        /// The roles that wait there.
        roles: Vec<Role>,
    },
}

/// An invitation, as the inviter sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Invitation {
    /// Id.
    pub id: InvitationId,
    /// What it is for.
    #[serde(flatten)]
    pub purpose: Purpose,
    /// A note for whom it is.
    pub label: String,
    /// The link; present only in the answer that made it, the server keeps a hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// When it stops working.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub expires_at: OffsetDateTime,
    /// Whether it was used.
    pub used: bool,
    /// Whether it was withdrawn before.
    #[serde(default)]
    pub withdrawn: bool,
}

/// What the bearer of a link is shown before accepting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct InvitationPreview {
    /// What it is for.
    #[serde(flatten)]
    pub purpose: Purpose,
    /// Name of the consortium or organization that invites, when there is one.
    pub from: Option<String>,
}

/// A new invitation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewInvitation {
    /// What it is for.
    #[serde(flatten)]
    pub purpose: Purpose,
    /// A note for whom it is: 1 to 100 characters.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 100))]
    pub label: String,
}
