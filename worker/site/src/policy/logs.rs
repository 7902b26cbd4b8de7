//! `jobs.logs`: what is said of the parts of jobs.

use serde::{Deserialize, Serialize};

/// What the site says of its part in a job, for the job's log at the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Logs {
    /// Nothing.
    None,
    /// Where it is, in closed words and numbers that the server has anyway: see `undertone_api::job::log`.
    #[default]
    States,
}
