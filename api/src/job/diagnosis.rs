//! Diagnosis of a stalled subject: the cause, its start, and the possible remedy.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::id::DatasetId;

/// What a thing waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// An owner has not answered the proposal.
    AwaitsOwner,
    /// A worker was enrolled and never connected.
    NeverConnected,
    /// A worker has not been heard of.
    Disconnected,
    /// A worker holds a part, and has not been heard of.
    Silent,
    /// A worker holds a part and is heard of, and its vector is past the round's deadline.
    NoSubmission,
    /// Somebody at the site's terminal has to approve.
    AwaitsTerminal,
    /// The site is busy with another run.
    AwaitsSlot,
    /// The site gave up.
    GaveUp,
    /// The site's disk is full.
    DiskFull,
    /// The site's clock and the server's are far apart.
    ClockSkew,
    /// A round is past its deadline, and too few vectors have come to close it.
    NoQuorum,
    /// The worker's software does not know the job's kind.
    UnknownKind,
    /// Somebody holds the job.
    Held,
}

/// Why something does not go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Diagnosis {
    /// Whose part it is; absent when it is about the whole.
    pub dataset: Option<DatasetId>,
    /// In words: the dataset with its owner, the worker, or the job.
    pub party: String,
    /// What it waits for.
    pub cause: Cause,
    /// Since when, as far as is known.
    #[serde(default, with = "time::serde::rfc3339::option")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub since: Option<OffsetDateTime>,
    /// Why, as a sentence.
    pub reason: String,
    /// What can be done, and by whom, as a sentence.
    pub remedy: String,
}
