//! Every account that a job charges for one dataset, before and after the job. Costs are rounded up, remainders down.

use serde::{Deserialize, Serialize};
use undertone_privacy::ledger::{Balance, FilterKind};
use undertone_privacy::{Adjacency, PrivacyUnit};

use super::AccountBalances;
use super::party::epsilon_alone;
use super::price::AccountQuote;
use crate::dataset::Dataset;
use crate::job::Charge;

/// An account that a job would charge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PlanAccount {
    /// The protected unit.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::unit))]
    pub unit: PrivacyUnit,
    /// The adjacency, the change that the guarantee covers.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::adjacency))]
    pub adjacency: Adjacency,
    /// The limit ε; absent without a budget.
    pub limit: Option<f64>,
    /// δ of the limit; absent without a budget.
    pub delta: Option<f64>,
    /// ε of the job by itself for this unit, at δ, rounded up; absent if it is infinite or has no price, or if there is
    /// no budget.
    pub epsilon: Option<f64>,
    /// ε spent and reserved before the job, by the account's gauge, rounded up.
    pub before: f64,
    /// ε of the spent and reserved releases and the job together, rounded up; absent if it is infinite or has no price.
    pub after: Option<f64>,
    /// Whether the account admits the job.
    pub fits: bool,
    /// The filter by which the account admits jobs.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::filter))]
    pub filter: FilterKind,
    /// The most rounds of the plan that the account admits by its filter, after the releases in reserve; at most 100,000. Absent
    /// for a job without rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds_that_fit: Option<u32>,
    /// Why the job has no price for this unit, and the remedy; absent if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl PlanAccount {
    /// Returns the accounts of `dataset` that pay for `charge`: its own unit's first, then every other unit with a
    /// limit. `own` is the account of its own unit with all charges of the plan.
    pub(super) fn list(
        dataset: &Dataset,
        charge: &Charge,
        balances: &AccountBalances,
        own: &AccountQuote,
        rounds: Option<u32>,
    ) -> Vec<Self> {
        let others = Self::list_others(dataset, charge, balances, rounds);
        std::iter::once(Self::priced(charge, own, rounds)).chain(others).collect()
    }

    /// Returns the other accounts that `charge` on `dataset` charges, without that of its own unit, for a plan of so many
    /// rounds.
    pub fn list_others(
        dataset: &Dataset,
        charge: &Charge,
        balances: &AccountBalances,
        rounds: Option<u32>,
    ) -> Vec<Self> {
        balances.limited(dataset, charge).map(|(unit, balance)| Self::other(charge, unit, balance, rounds)).collect()
    }

    fn other(charge: &Charge, unit: PrivacyUnit, balance: &Balance, rounds: Option<u32>) -> Self {
        match charge.for_unit(unit) {
            Ok(charge) => Self::priced(&charge, &AccountQuote::paying(balance, &charge), rounds),
            Err(error) => {
                let unpriced = Self::priced(charge, &AccountQuote::refusing(balance, charge), None);
                Self { unit, epsilon: None, reason: Some(charge.explain_refusal(unit, error)), ..unpriced }
            }
        }
    }

    fn priced(charge: &Charge, quote: &AccountQuote, rounds: Option<u32>) -> Self {
        let budget = quote.balance.budget();
        let after = quote.project(0);
        Self {
            unit: charge.unit,
            adjacency: charge.adjacency,
            limit: budget.map(|budget| budget.epsilon().get()),
            delta: budget.map(|budget| budget.delta().get()),
            epsilon: budget.and_then(|budget| epsilon_alone(charge, budget.delta())),
            before: quote.balance.summary().committed_epsilon,
            after: budget.is_some().then_some(after.epsilon).filter(|epsilon| epsilon.is_finite()),
            fits: after.fits,
            filter: quote.balance.filter(),
            rounds_that_fit: rounds.filter(|_| budget.is_some()).map(|rounds| quote.rounds_that_fit(rounds)),
            reason: None,
        }
    }
}
