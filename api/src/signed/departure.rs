//! A site's statement that it leaves a job.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::Document;
use crate::id::{DatasetId, JobId};

/// A site's departure from a job for one dataset, signed with the site's key. It is final.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteDeparture {
    /// Digest of the manifest's payload.
    pub manifest: String,
    /// The job.
    pub job: JobId,
    /// The dataset.
    pub dataset: DatasetId,
    /// The reason, readable by the other parties.
    pub reason: String,
    /// Time of the statement.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
}

impl Document for SiteDeparture {
    const DOMAIN: &'static str = "undertone/departure/1";
}
