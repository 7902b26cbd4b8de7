//! Plans: what a job would cost each owner and what would be left, before anybody is asked.

use serde::{Deserialize, Serialize};

use crate::budget::Refusal;
use crate::id::{ConsortiumId, DatasetId};
use crate::job::{Charge, NewJob};
use crate::problem::Violation;

/// A job to be planned; it is not proposed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewPlan {
    /// Where it would run.
    pub consortium: ConsortiumId,
    /// The job.
    #[serde(flatten)]
    pub job: NewJob,
}

/// What the job would come to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Plan {
    /// Whether it could be proposed as it stands: nothing wrong with it, and every budget admits it.
    pub admitted: bool,
    /// Everything wrong with it.
    pub violations: Vec<Violation>,
    /// What each dataset that is charged would lose.
    pub parties: Vec<PlanParty>,
    /// The figures of every account that would refuse.
    pub refusals: Vec<Refusal>,
}

/// What one dataset would lose.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PlanParty {
    /// The dataset.
    pub dataset: DatasetId,
    /// Its name.
    pub dataset_name: String,
    /// What it would be charged at worst.
    pub charge: Charge,
    /// The account's limit ε; absent without a budget.
    pub limit: Option<f64>,
    /// δ of the limit; absent without a budget.
    pub delta: Option<f64>,
    /// ε of the job by itself at δ, rounded up; absent when it is infinite or there is no budget.
    pub epsilon: Option<f64>,
    /// ε that spent, reserved and the job would come to, as the account's gauge counts, rounded up; absent when infinite.
    pub would_be: Option<f64>,
    /// What that would leave of the limit, rounded down; negative when it does not fit.
    pub left: Option<f64>,
    /// Most releases of this kind that fit now.
    pub releases_that_fit: u64,
    /// Least noise multiplier with which the asked number of releases fits now; absent when none does, or the release is not
    /// a Gaussian one.
    pub least_noise: Option<f64>,
}
