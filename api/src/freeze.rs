//! Frozen accounts: lineages on which nothing new is reserved, because an audit disproved a claim.
//!
//! Site and consortium freeze separately. The site's freeze is cleared at its terminal, the consortium's by a steward
//! of the owner.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::id::{DatasetId, JobId};
use crate::problem::Violation;

/// A freeze, or the end of one. The last of a dataset's line says how it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Freeze {
    /// The dataset.
    pub dataset: DatasetId,
    /// Its place in the history of the dataset's line, from 1.
    pub number: u32,
    /// Frozen, or cleared.
    pub frozen: bool,
    /// The job whose audit led to it.
    pub job: JobId,
    /// Why it was frozen, with the figures; or on what grounds it was cleared.
    pub reason: String,
    /// Who cleared it, by name; "audit" for a freeze.
    pub by: String,
    /// When.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub at: OffsetDateTime,
}

/// A steward's word that what was broken is mended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ClearFreeze {
    /// What was broken and how it was mended: 10 to 1,000 characters; it is kept.
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
