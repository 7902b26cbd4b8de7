//! A site's word that a job stops for a while at its dataset, or may go on.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::Document;
use crate::id::{DatasetId, JobId};

/// A site's hold on a job, or the end of one, signed with the site's key. A later word stands before an earlier one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteHold {
    /// Digest of the manifest's payload.
    pub manifest: String,
    /// The job.
    pub job: JobId,
    /// The dataset.
    pub dataset: DatasetId,
    /// Whether it stops; else it may go on.
    pub hold: bool,
    /// Why, fit for others to read; empty when it may go on.
    pub reason: String,
    /// When.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
}

impl Document for SiteHold {
    const DOMAIN: &'static str = "undertone/hold/1";
}
