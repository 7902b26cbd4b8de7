//! The loss of one dataset, in every displayed figure. Costs are rounded up, remainders down.

use undertone_privacy::curve::OrderGrid;
use undertone_privacy::ledger::Balance;
use undertone_privacy::{Delta, convert, mechanism};

use super::release::{expected_share, least_noise};
use super::{AccountBalances, AccountKey, AccountQuote, PlanAccount, PlanParty, PricedPlan};
use crate::dataset::Dataset;
use crate::job::Charge;

/// Returns ε at δ of a charge by itself, as reports count it, over more orders than an account keeps; rounded up,
/// `None` if it is infinite or has no price.
pub fn epsilon_alone(charge: &Charge, delta: Delta) -> Option<f64> {
    let curve = mechanism::curve(&charge.event, charge.adjacency, &OrderGrid::reporting()).ok()?;
    convert::epsilon(&curve.times(charge.event.count_charges(charge.releases)), delta).map(f64::from)
}

impl PlanParty {
    /// Returns the figures of a dataset that pays `charge`, without the tight ε, which the server computes.
    pub fn from_charge(
        dataset: &Dataset,
        charge: Charge,
        balances: &AccountBalances,
        priced: Option<&PricedPlan>,
    ) -> Self {
        let without = || Balance::new(None);
        let balance = balances.balance(AccountKey::from_charge(dataset, &charge)).cloned().unwrap_or_else(without);
        let budget = balance.budget();
        let quote = priced.and_then(|priced| priced.find_quote(dataset.id)).filter(|_| budget.is_some());
        let (rounds_left, jobs_left) = quote.map_or((0, 0), AccountQuote::count_further);
        let rounds_that_fit = priced.zip(quote).map_or(0, |(priced, quote)| priced.rounds_that_fit(quote));
        let rate = expected_share(&charge.event);
        let passes = |rounds: u32| priced.zip(rate).map(|(priced, rate)| priced.epochs(rounds, rate));
        Self {
            dataset: dataset.id,
            dataset_name: dataset.name.clone(),
            limit: budget.map(|budget| budget.epsilon().get()),
            delta: budget.map(|budget| budget.delta().get()),
            epsilon: budget.and_then(|budget| epsilon_alone(&charge, budget.delta())),
            would_be: quote.map(|quote| quote.project(0).epsilon).filter(|epsilon| epsilon.is_finite()),
            left: quote.and_then(AccountQuote::remaining),
            left_fraction: quote.map(AccountQuote::remaining_fraction),
            rounds_left,
            jobs_left,
            epochs: priced.and_then(|priced| passes(priced.rounds)),
            rounds_that_fit,
            epochs_that_fit: passes(rounds_that_fit),
            tight_epsilon: None,
            insider_epsilon: budget.and_then(|budget| {
                let event = charge.event.to_insider()?;
                epsilon_alone(&Charge { event, ..charge.clone() }, budget.delta())
            }),
            curve: priced.zip(quote).map(|(priced, quote)| priced.curve(quote)).unwrap_or_default(),
            releases_that_fit: AccountQuote::paying(&balance, &charge).releases_that_fit(),
            accounts: match quote {
                Some(own) => PlanAccount::list(dataset, &charge, balances, own, priced.map(|priced| priced.rounds)),
                None => PlanAccount::list(dataset, &charge, balances, &AccountQuote::paying(&balance, &charge), None),
            },
            least_noise: least_noise(&balance, &charge),
            charge,
        }
    }
}
