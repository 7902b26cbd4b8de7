//! What the server says by itself, as server-sent events: how something stands now, with a version.
//!
//! An event is a state, not a change: whoever has missed some has lost nothing when the next one comes. Its id is the
//! version; a client that comes back with it (`Last-Event-ID`) is told nothing until there is a newer one.

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

/// That something has changed. Pages get this: what has changed is asked for as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// The version that is there now.
    pub version: String,
}
