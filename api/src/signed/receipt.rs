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
    /// The tick of the site's release clock at which it was paid. Absent from exact releases, and from receipts of workers that had
    /// no clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tick: Option<ReleaseTick>,
}

/// A tick of a public release clock: a release leaves at a multiple of the period after the moment at which its round opened, so that
/// its time does not depend on private data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseTick {
    /// Milliseconds between two ticks, fixed before the private data were looked at.
    pub period_millis: u64,
    /// The tick's number, from 1. More than 1 when the release was not ready at the first one, which can depend on the data.
    pub number: u64,
}

impl Document for Receipt {
    const DOMAIN: &'static str = "undertone/receipt/1";
}
