//! What was spent.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use undertone_privacy::{Adjacency, Event, PrivacyUnit};

use super::Document;
use crate::id::{DatasetId, JobId, LineageId, WorkerId};

/// What was spent: signed with the site's key after the site's ledger has committed and fsynced it, before the release
/// is made. Receipts of one site form a chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// Position in the site's chain, from 1.
    pub sequence: u64,
    /// SHA-256 of the previous receipt's payload, hex; of nothing for the first.
    pub previous: String,
    /// The worker.
    pub worker: WorkerId,
    /// The dataset.
    pub dataset: DatasetId,
    /// Its line of versions.
    pub lineage: LineageId,
    /// The job.
    pub job: JobId,
    /// Digest of the manifest under which it ran.
    pub manifest: String,
    /// The series: `private`.
    pub series: String,
    /// The round, from 1.
    pub round: u32,
    /// Which attempt at this round was paid, from 1; more than 1 only after a crash between payment and release.
    pub attempt: u32,
    /// Who is protected.
    pub unit: PrivacyUnit,
    /// Against which change.
    pub adjacency: Adjacency,
    /// The release, with exact parameters.
    pub event: Event,
    /// Version of the code that priced it.
    pub evaluator: String,
    /// When.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
}

impl Document for Receipt {
    const DOMAIN: &'static str = "undertone/receipt/1";
}
