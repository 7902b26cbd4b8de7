//! Who has to say yes before a job may run.

use serde::{Deserialize, Serialize};
use undertone_api::signed::ApprovalRule;

/// Who has to say yes before a job may run here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approval {
    /// This file: whatever it allows may run, as long as all of it together stays within `most_epsilon_automatic`.
    Automatic,
    /// This file and a data steward of the organization, whose signature the site verifies with a key that it pins.
    #[default]
    Steward,
    /// This file and a data steward of the organization, by the server's word.
    Server,
    /// This file and somebody at this machine: `undertone-worker approve <job>`, for exactly one manifest.
    Manual,
}

impl From<Approval> for ApprovalRule {
    fn from(approval: Approval) -> Self {
        match approval {
            Approval::Automatic => Self::Automatic,
            Approval::Steward => Self::Steward,
            Approval::Server => Self::Server,
            Approval::Manual => Self::Manual,
        }
    }
}
