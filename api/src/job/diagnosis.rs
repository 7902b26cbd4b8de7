//! Diagnosis of a stalled subject: the cause, its start, and the possible remedy.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::id::DatasetId;

/// The cause of a standstill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Cause))]
#[serde(rename_all = "snake_case")]
pub enum DiagnosisCause {
    /// An owner has not answered the proposal.
    AwaitsOwner,
    /// A worker was enrolled and never connected.
    NeverConnected,
    /// A worker has lost its connection.
    Disconnected,
    /// A worker holds a part and has lost its connection.
    Silent,
    /// A connected worker holds a part, and its vector is past the round's deadline.
    NoSubmission,
    /// The site's terminal has not approved the job yet.
    AwaitsTerminal,
    /// The site is busy with another run.
    AwaitsSlot,
    /// The site gave up.
    GaveUp,
    /// The site's disk is full.
    DiskFull,
    /// The site's clock and the server's are far apart.
    ClockSkew,
    /// A round is past its deadline with too few vectors to close.
    NoQuorum,
    /// The worker's software does not support the job's kind.
    UnknownKind,
    /// A party holds the job.
    Held,
}

/// The reason of a standstill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Diagnosis {
    /// The dataset of the stalled part; absent for the whole job.
    pub dataset: Option<DatasetId>,
    /// The party in words: the dataset with its owner, the worker, or the job.
    pub party: String,
    /// The cause.
    pub cause: DiagnosisCause,
    /// When it began, if known.
    #[serde(default, with = "time::serde::rfc3339::option")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub since: Option<OffsetDateTime>,
    /// The reason, as a sentence.
    pub reason: String,
    /// The remedy and the role that can apply it, as a sentence.
    pub remedy: String,
}
