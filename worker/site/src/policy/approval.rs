//! The approvals that a job requires before it may run.

use serde::{Deserialize, Serialize};
use undertone_api::signed::ApprovalRule;

/// The approval that a job requires before it may run here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequiredApproval {
    /// The policy alone: every job that it allows may run, while all of them together stay within
    /// `most_epsilon_automatic`.
    Automatic,
    /// The policy and a data steward of the organization, whose signature the site verifies with a pinned key.
    #[default]
    Steward,
    /// The policy and a data steward of the organization, as stated by the server.
    Server,
    /// The policy and a person at this machine: `undertone-worker approve <job>`, for exactly one manifest.
    Manual,
}

impl From<RequiredApproval> for ApprovalRule {
    fn from(approval: RequiredApproval) -> Self {
        match approval {
            RequiredApproval::Automatic => Self::Automatic,
            RequiredApproval::Steward => Self::Steward,
            RequiredApproval::Server => Self::Server,
            RequiredApproval::Manual => Self::Manual,
        }
    }
}
