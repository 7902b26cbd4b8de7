//! Receipts of charges.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use undertone_privacy::{Adjacency, Event, PrivacyUnit};

use super::Document;
use crate::id::{DatasetId, JobId, LineageId, WorkerId};

/// The receipt of a charge: signed with the site's key after the site's ledger has committed and fsynced it, before the
/// release is made. Receipts of one site form a chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// Position in the site's chain, from 1.
    pub sequence: u64,
    /// SHA-256 of the previous receipt's payload, hex; of the empty string for the first.
    pub previous: String,
    /// The worker.
    pub worker: WorkerId,
    /// The dataset.
    pub dataset: DatasetId,
    /// Its lineage.
    pub lineage: LineageId,
    /// The job.
    pub job: JobId,
    /// Digest of the manifest under which it ran.
    pub manifest: String,
    /// The series: `private`.
    pub series: String,
    /// The round, from 1.
    pub round: u32,
    /// The charged attempt at this round, from 1; more than 1 only after a crash between charge and release.
    pub attempt: u32,
    /// The protected unit.
    pub unit: PrivacyUnit,
    /// The adjacency.
    pub adjacency: Adjacency,
    /// The release, with exact parameters.
    pub event: Event,
    /// Version of the code that priced it.
    pub evaluator: String,
    /// Time of the charge.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// The tick of the site's release clock at which it was charged. `None` for exact releases, and from workers
    /// without a clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tick: Option<ReleaseTick>,
}

/// A tick of a public release clock: a release leaves at a multiple of the period after its round opened, so that its
/// time does not depend on private data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseTick {
    /// Milliseconds between two ticks, fixed before the private data were read.
    pub period_millis: u64,
    /// The tick's number, from 1. More than 1 if the release was not ready at the first one, which can depend on the
    /// data.
    pub number: u64,
}

impl Document for Receipt {
    const DOMAIN: &'static str = "undertone/receipt/1";
}
