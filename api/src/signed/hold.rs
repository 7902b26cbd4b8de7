//! A site's statement that a job pauses at its dataset, or may continue.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::Document;
use crate::id::{DatasetId, JobId};

/// A site's hold on a job, or its end, signed with the site's key. A later statement replaces an earlier one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteHold {
    /// Digest of the manifest's payload.
    pub manifest: String,
    /// The job.
    pub job: JobId,
    /// The dataset.
    pub dataset: DatasetId,
    /// Whether the job pauses; else it may continue.
    pub hold: bool,
    /// The reason, readable by the other parties; empty if the job may continue.
    pub reason: String,
    /// Time of the statement.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
}

impl Document for SiteHold {
    const DOMAIN: &'static str = "undertone/hold/1";
}
