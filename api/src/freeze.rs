//! Frozen accounts: lineages on which nothing new is reserved, because an audit disproved a claim.
//!
//! Site and consortium freeze separately. The site's freeze is cleared at its terminal, the consortium's by a steward
//! of the owner.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::id::{DatasetId, JobId};
use crate::problem::Violation;

/// A freeze of a dataset's lineage, or its end. The newest entry of a lineage states whether the lineage is frozen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Freeze {
    /// The dataset.
    pub dataset: DatasetId,
    /// The position in the history of the lineage, from 1.
    pub number: u32,
    /// Whether the lineage was frozen; false if it was cleared.
    pub frozen: bool,
    /// The job whose audit led to it.
    pub job: JobId,
    /// Why it was frozen, with the figures; or why it was cleared.
    pub reason: String,
    /// The name of the member who cleared it; "audit" for a freeze.
    pub by: String,
    /// The time.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub at: OffsetDateTime,
}

/// A steward's statement that the defect is repaired.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ClearFreeze {
    /// The defect and its repair: 10 to 1,000 characters. The server stores it.
    pub reason: String,
}

impl ClearFreeze {
    /// Returns every violation.
    pub fn check(&self) -> Vec<Violation> {
        if (10..=1000).contains(&self.reason.trim().chars().count()) {
            return Vec::new();
        }
        vec![Violation::new("reason", "say in 10 to 1,000 characters what was broken and how it was mended")]
    }
}
