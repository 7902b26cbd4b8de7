//! Holds: the parties that keep a job paused, and their reasons. A job is paused while it has a hold.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::reason::check_reason;
use crate::id::DatasetId;
use crate::problem::Violation;

/// A request to pause a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Pause))]
pub struct PauseRequest {
    /// The reason, for the other parties to read: 1 to 500 characters.
    #[cfg_attr(
        feature = "openapi",
        schema(min_length = 1, max_length = 500, example = "the clinic's network is under maintenance until Monday")
    )]
    pub reason: String,
}

impl PauseRequest {
    /// Returns every violation.
    pub fn check(&self) -> Vec<Violation> {
        check_reason(&self.reason)
    }
}

/// The holder of a job, which decides when the job may resume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Holder {
    /// The proposer or an admin of the consortium. Either may resume the job.
    Job,
    /// A steward, for a dataset. Only stewards of the dataset's owner may resume the job.
    Steward,
    /// A site, at its own terminal or because it waits for an answer there. Only the site may resume the job.
    Site,
}

/// A hold in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Hold {
    /// The holder.
    pub holder: Holder,
    /// The held dataset; absent if the whole job is held.
    pub dataset: Option<DatasetId>,
    /// The dataset's name; empty if the whole job is held.
    #[serde(default)]
    pub dataset_name: String,
    /// The holder's name: a member, or the organization of a site.
    pub by: String,
    /// The reason.
    pub reason: String,
    /// When the hold began.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub since: OffsetDateTime,
}
