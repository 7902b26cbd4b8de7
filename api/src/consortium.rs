//! Consortia: organizations that learn together.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::id::{ConsortiumId, OrganizationId};

/// A consortium.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Consortium {
    /// Id.
    pub id: ConsortiumId,
    /// Name, unique on the server.
    pub name: String,
    /// What it is about, one paragraph.
    pub description: String,
    /// The organizations in it.
    pub organizations: Vec<OrganizationId>,
    /// Founded.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: OffsetDateTime,
}

/// A consortium to be founded. Its founder becomes consortium admin; the founder's organization, named here or made
/// with it, becomes its first member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewConsortium {
    /// Name: 1 to 100 characters.
    pub name: String,
    /// Description: up to 1,000 characters.
    #[serde(default)]
    pub description: String,
    /// The founding organization, when it exists already.
    #[serde(default)]
    pub organization: Option<OrganizationId>,
    /// The name of the founding organization, when it is to be made: 1 to 100 characters.
    #[serde(default)]
    pub organization_name: Option<String>,
}
