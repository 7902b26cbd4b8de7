//! `jobs.logs`: the disclosure of the states of job parts.

use serde::{Deserialize, Serialize};

/// The information about its part that the site sends to the job's log at the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogDisclosure {
    /// Nothing.
    None,
    /// The state of the part, in a closed vocabulary and numbers that the server already has: see
    /// `undertone_api::job::log`.
    #[default]
    States,
}
