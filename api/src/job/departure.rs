//! Departures: a party leaves a job that its workers run. The job continues without it while its quorum allows.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::reason::check_reason;
use crate::problem::Violation;

/// A request of a steward to leave a job for a dataset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Leave))]
pub struct LeaveRequest {
    /// The reason, for the other parties to read: 1 to 500 characters.
    #[cfg_attr(
        feature = "openapi",
        schema(min_length = 1, max_length = 500, example = "the clinic needs its budget for another study")
    )]
    pub reason: String,
}

impl LeaveRequest {
    /// Returns every violation.
    pub fn check(&self) -> Vec<Violation> {
        check_reason(&self.reason)
    }
}

/// The author of a departure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum DepartureOrigin {
    /// A steward of the dataset's owner, in the dashboard or by an interface.
    Steward,
    /// The site, at its own terminal, with its signature.
    Site,
}

/// A party's departure from a job. It is final: the dataset does not come back into the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Departure {
    /// The author.
    pub origin: DepartureOrigin,
    /// The author's name: a member, or the organization of a site.
    pub by: String,
    /// The reason.
    pub reason: String,
    /// Closed rounds of the job, over all series, when the party left.
    pub rounds_done: u32,
    /// When the server accepted it.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub at: OffsetDateTime,
}
