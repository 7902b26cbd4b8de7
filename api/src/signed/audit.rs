//! The result of an audit at a site, signed by the site.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use undertone_privacy::{Adjacency, Event, PrivacyUnit};

use super::Document;
use crate::id::{DatasetId, JobId, LineageId, WorkerId};
use crate::job::audit::{Assessment, AuditFinding};

/// The result of an audit of one participant's releases, signed by its site when its part of the job ends. It holds
/// counts about canaries, which are made from no one's data, and figures that follow from them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditStatement {
    /// The worker.
    pub worker: WorkerId,
    /// The job.
    pub job: JobId,
    /// The dataset whose releases were audited.
    pub dataset: DatasetId,
    /// Its lineage.
    pub lineage: LineageId,
    /// Digest of the manifest of these releases.
    pub manifest: String,
    /// The series of the releases: `private`.
    pub series: String,
    /// The protected unit; a canary is one of these.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::unit))]
    pub unit: PrivacyUnit,
    /// The adjacency, the change that the guarantee covers.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::adjacency))]
    pub adjacency: Adjacency,
    /// One release, with exact parameters.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub event: Event,
    /// The releases that the site paid for in this job.
    pub releases: u64,
    /// The finding.
    #[serde(flatten)]
    pub finding: AuditFinding,
    /// The assessment of the claim, at the δ of the site's own account.
    #[serde(flatten)]
    pub assessment: Assessment,
    /// Version of the code that priced the claim.
    pub evaluator: String,
    /// The time.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub at: OffsetDateTime,
}

impl Document for AuditStatement {
    const DOMAIN: &'static str = "undertone/audit/1";
}
