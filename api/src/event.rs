//! Server-sent events: the current state of a subject, with a version.
//!
//! An event is a state, not a change, so a missed event is harmless once the next one arrives. Its id is the version. A
//! client that reconnects with it (`Last-Event-ID`) receives nothing until there is a newer one.

use serde::{Deserialize, Serialize};

use crate::job::diagnosis::Diagnosis;
use crate::job::{JobSummary, Progress};

/// How a job stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobEvent {
    /// What lists show of it.
    pub job: JobSummary,
    /// Rounds, participants, measurements.
    pub progress: Progress,
    /// What does not go on, and why.
    pub diagnoses: Vec<Diagnosis>,
    /// The number of the newest line of its log; 0 while there is none.
    pub log: u64,
}

/// How a consortium stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ConsortiumEvent {
    /// Its newest jobs, at most 50, newest first.
    pub jobs: Vec<JobSummary>,
}

/// A notice to pages that something has changed. The page then requests the new content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// The current version.
    pub version: String,
}
