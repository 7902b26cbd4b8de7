//! Plans: a job's cost to each owner, the remaining budgets, the affordable rounds, and the nearest admissible plans,
//! before approval is requested.
//!
//! This module holds the answer of `POST /plans`. It is computed in `price` (the charged accounts), `release` (the
//! composition of one release), `party` (each dataset's figures), `curve` (ε against rounds) and `offer` (the nearest
//! plan that fits). The server and the planner in the browser both call that code, on the same balances, so that they
//! agree to the bit. The ledger alone admits jobs: nothing here decides anything.
//!
//! To make a job kind plannable: implement [`RoundedKind`] for its spec, as in `plan/dp_sgd.rs`, and name it in
//! [`outlook`].

mod account;
mod active_learning;
mod analytics;
mod balances;
mod curve;
mod dp_sgd;
mod evaluation;
mod offer;
mod party;
mod price;
mod rehearsal;
mod release;
#[cfg(test)]
mod tests;
pub mod thresholds;
mod together;
mod transcription;

use serde::{Deserialize, Serialize};

use crate::budget::BudgetRefusal;
use crate::dataset::Dataset;
use crate::id::{ConsortiumId, DatasetId};
use crate::job::{Charge, NewJob, Spec};
use crate::problem::Violation;

pub use account::PlanAccount;
pub use balances::{AccountBalances, AccountKey};
pub use curve::EpsilonCurve;
pub use offer::{FittingChange, PlanParameter, offers};
pub use party::epsilon_alone;
pub use price::{AccountQuote, ChargedDataset, LimitingAccount, PricedPlan, ProjectedAccount, RoundedKind};
pub use rehearsal::PlanRehearsal;
pub use release::least_noise;
pub use together::CombinedCost;

/// A job to be planned; it is not proposed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewPlan {
    /// The consortium in which it would run.
    pub consortium: ConsortiumId,
    /// The job.
    #[serde(flatten)]
    pub job: NewJob,
}

/// The cost of a planned job, and the decision of every budget.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Plan {
    /// Whether it can be proposed as it stands: it has no violations, and every budget admits it.
    pub admitted: bool,
    /// Its violations.
    pub violations: Vec<Violation>,
    /// The loss of each charged dataset.
    pub parties: Vec<PlanParty>,
    /// The figures of every account that would refuse it.
    pub refusals: Vec<BudgetRefusal>,
    /// The rounds that the budgets admit with the plan's own noise and sampling rates; absent if no account is charged.
    #[serde(default)]
    pub buys: Option<AffordableRounds>,
    /// The nearest plans that every budget admits, if this one is refused: with fewer rounds, more noise, or lower
    /// sampling rates, where such a plan exists. Empty if the plan is admitted, or if an account has no budget.
    #[serde(default)]
    pub offers: Vec<PlanOffer>,
    /// The cost of the job to a person who may be in several organizations' data; absent if no account is charged.
    #[serde(default)]
    pub together: Option<CombinedCost>,
    /// The rehearsals of a `dp_sgd` job on the lead's public data, the newest first, at most 5; those that are not over
    /// have no results yet.
    #[serde(default)]
    pub rehearsals: Vec<PlanRehearsal>,
}

/// The rounds that the budgets admit with a plan's own parameters. The unit depends on the job: rounds of training,
/// pools of questions, or transcriptions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Buys))]
pub struct AffordableRounds {
    /// The rounds of the plan.
    pub rounds: u32,
    /// The most rounds that every account admits, after the releases in reserve; at most 100,000.
    pub rounds_that_fit: u32,
    /// The account that sets this limit.
    pub bottleneck: LimitingAccount,
}

impl AffordableRounds {
    /// Returns the limit that a plan's accounts set; `None` if no account is charged.
    pub fn from_plan(priced: &PricedPlan) -> Option<Self> {
        let bottleneck = priced.bottleneck()?;
        Some(Self { rounds: priced.rounds, rounds_that_fit: bottleneck.rounds_that_fit, bottleneck })
    }
}

/// A plan near a refused one that every budget admits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Offer))]
pub struct PlanOffer {
    /// The changed parameter. All others stay as requested.
    pub knob: PlanParameter,
    /// The changed fields.
    pub changes: Vec<PlanChange>,
    /// The offer in a sentence.
    pub sentence: String,
    /// The job with the changes, ready to be proposed.
    pub job: NewJob,
}

/// A changed number of a spec.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Change))]
pub struct PlanChange {
    /// The path of the field: `spec.participants.2.sampling_rate`.
    pub field: String,
    /// The dataset of the field; absent for fields of the whole job.
    pub dataset: Option<DatasetId>,
    /// The requested number.
    pub from: f64,
    /// A fitting number.
    pub to: f64,
}

/// The loss of one dataset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PlanParty {
    /// The dataset.
    pub dataset: DatasetId,
    /// Its name.
    pub dataset_name: String,
    /// The worst-case charge.
    pub charge: Charge,
    /// Every account that the job charges, the account of its own unit first. Each limit of the lineage bounds all
    /// jobs.
    #[serde(default)]
    pub accounts: Vec<PlanAccount>,
    /// The account's limit ε; absent without a budget.
    pub limit: Option<f64>,
    /// δ of the limit; absent without a budget.
    pub delta: Option<f64>,
    /// ε of the job by itself at δ, rounded up; absent when it is infinite or there is no budget.
    pub epsilon: Option<f64>,
    /// ε of the spent and reserved releases and the job together, by the account's gauge, rounded up; absent if it is
    /// infinite.
    pub would_be: Option<f64>,
    /// The remaining ε of the limit, rounded down; negative if the job does not fit.
    pub left: Option<f64>,
    /// The remaining part of the filter's budget, rounded down: 0 to 1, 0 if the job does not fit; absent without a
    /// budget.
    #[serde(default)]
    pub left_fraction: Option<f64>,
    /// The number of further rounds of this kind that would fit.
    #[serde(default)]
    pub rounds_left: u64,
    /// The number of further jobs like this one, with their releases in reserve, that would fit.
    #[serde(default)]
    pub jobs_left: u64,
    /// Expected passes over the data: steps in all rounds times the sampling rate; absent for a job without rounds.
    #[serde(default)]
    pub epochs: Option<f64>,
    /// The most rounds that this account admits, after the releases in reserve; at most 100,000.
    #[serde(default)]
    pub rounds_that_fit: u32,
    /// Expected passes over the data in that many rounds.
    #[serde(default)]
    pub epochs_that_fit: Option<f64>,
    /// ε of the job by itself at δ from its privacy-loss distribution, rounded up. This is the tight number, for
    /// reports about a plan whose parameters are fixed before its first output. It never decides admission. Absent if
    /// it is infinite or cannot be computed, or if there is no budget.
    #[serde(default)]
    pub tight_epsilon: Option<f64>,
    /// ε of the job by itself at δ against the server with all other sites, rounded up: only the own noise of the site is
    /// left then. Absent for a job without masks, if it is infinite, or without a budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub insider_epsilon: Option<f64>,
    /// The resulting ε of the account by the number of rounds.
    #[serde(default)]
    pub curve: EpsilonCurve,
    /// The most releases of this kind that fit now.
    pub releases_that_fit: u64,
    /// The least noise multiplier of every step with which the requested number of releases fits now; absent if none
    /// does, or if the release does not consist of Gaussian steps.
    pub least_noise: Option<f64>,
}

/// Prices a plan of any kind for its accounts; `None` for a job whose cost is not counted in rounds.
pub fn outlook(spec: &Spec, datasets: &[Dataset], balances: &AccountBalances) -> Option<PricedPlan> {
    match spec {
        Spec::DpSgd(spec) => PricedPlan::from_spec(spec, datasets, balances),
        Spec::ActiveLearning(spec) => PricedPlan::from_spec(spec, datasets, balances),
        Spec::Transcription(spec) => PricedPlan::from_spec(spec, datasets, balances),
        Spec::Evaluation(spec) => PricedPlan::from_spec(spec, datasets, balances),
        Spec::Analytics(spec) => PricedPlan::from_spec(spec, datasets, balances),
    }
}

/// Returns the nearest plans of the same kind that every account admits; see [`offers`].
pub fn nearest(job: &NewJob, datasets: &[Dataset], balances: &AccountBalances) -> Vec<PlanOffer> {
    match &job.spec {
        Spec::DpSgd(spec) => offers(spec, datasets, balances)
            .into_iter()
            .map(|offered| {
                let spec = Spec::DpSgd(offered.apply(spec));
                let job = NewJob { title: job.title.clone(), spec };
                offered.into_offer(job)
            })
            .collect(),
        Spec::ActiveLearning(spec) => active_learning::offers(spec, datasets, balances)
            .into_iter()
            .map(|offered| {
                let spec = Spec::ActiveLearning(offered.apply(spec));
                let job = NewJob { title: job.title.clone(), spec };
                offered.into_offer(job)
            })
            .collect(),
        Spec::Transcription(spec) => transcription::offers(spec, datasets, balances)
            .into_iter()
            .map(|offered| {
                let spec = Spec::Transcription(offered.apply(spec));
                let job = NewJob { title: job.title.clone(), spec };
                offered.into_offer(job)
            })
            .collect(),
        Spec::Evaluation(spec) => offers(spec, datasets, balances)
            .into_iter()
            .map(|offered| {
                let spec = Spec::Evaluation(offered.apply(spec));
                let job = NewJob { title: job.title.clone(), spec };
                offered.into_offer(job)
            })
            .collect(),
        Spec::Analytics(spec) => offers(spec, datasets, balances)
            .into_iter()
            .map(|offered| {
                let spec = Spec::Analytics(offered.apply(spec));
                let job = NewJob { title: job.title.clone(), spec };
                offered.into_offer(job)
            })
            .collect(),
    }
}
