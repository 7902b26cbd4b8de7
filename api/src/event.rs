//! Server-sent events: the current state of a subject, with a version.
//!
//! An event is a state, not a change, so a missed event is harmless once the next one arrives. Its id is the version. A
//! client that reconnects with it (`Last-Event-ID`) receives nothing until there is a newer one.

use serde::{Deserialize, Serialize};

use crate::job::diagnosis::Diagnosis;
use crate::job::{JobProgress, JobSummary};

/// The state of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobEvent {
    /// The fields that lists show.
    pub job: JobSummary,
    /// Rounds, participants and measurements.
    pub progress: JobProgress,
    /// The obstacles of the job, with their causes.
    pub diagnoses: Vec<Diagnosis>,
    /// The number of the newest line of its log; 0 while there is none.
    pub log: u64,
}

/// The state of a consortium.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ConsortiumEvent {
    /// Its newest jobs, at most 50, newest first.
    pub jobs: Vec<JobSummary>,
}

/// A notice to pages that something has changed. The page then requests the new content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeNotice {
    /// The current version.
    pub version: String,
}
