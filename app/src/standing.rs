//! What a charge does to an account, computed from its full balance: in the browser by the same rules, and to the same
//! bits, as on the server and at the site.

use undertone_api::budget::{Account, AccountStanding};
use undertone_api::dataset::Dataset;
use undertone_api::id::DatasetId;
use undertone_api::job::Charge;
use undertone_api::plan::{AccountBalances, AccountKey, AccountQuote, PlanAccount, ProjectedAccount, epsilon_alone};
use undertone_privacy::Event;
use undertone_privacy::ledger::FilterKind;
use undertone_privacy::mechanism::PriceError;

use crate::component::gauge::{GaugeReading, PlanGhost};
use crate::words;

/// Returns whether an account has a budget. One without only records releases in the clear.
pub fn budgeted(account: &Account) -> bool {
    account.epsilon.get() > 0.0
}

/// Returns the effect of a charge on every other limited account of a dataset, in a sentence each, and whether that
/// account admits it: each limit bounds the releases of all jobs, whichever unit they protect. `rounds` are those of the plan.
pub fn others(
    dataset: &Dataset,
    charge: &Charge,
    standings: &[AccountStanding],
    rounds: Option<u32>,
) -> Vec<(String, bool)> {
    let mut balances = AccountBalances::default();
    add_balances(&mut balances, dataset, standings);
    PlanAccount::list_others(dataset, charge, &balances, rounds)
        .iter()
        .map(|account| (words::account(account), account.fits))
        .collect()
}

/// Returns the balances of all datasets by account: two versions of a dataset share one.
pub fn collect_balances(datasets: &[Dataset], standings: &[(DatasetId, Vec<AccountStanding>)]) -> AccountBalances {
    let mut balances = AccountBalances::default();
    for (id, all) in standings {
        if let Some(dataset) = datasets.iter().find(|dataset| dataset.id == *id) {
            add_balances(&mut balances, dataset, all);
        }
    }
    balances
}

fn add_balances(balances: &mut AccountBalances, dataset: &Dataset, standings: &[AccountStanding]) {
    for AccountStanding { unit, adjacency, balance } in standings {
        balances.add(AccountKey::new(dataset.organization, dataset.lineage, *unit, *adjacency), balance.clone());
    }
}

/// Returns the accounts of a dataset.
pub fn find_standings(standings: &[(DatasetId, Vec<AccountStanding>)], dataset: DatasetId) -> &[AccountStanding] {
    standings.iter().find(|(id, _)| *id == dataset).map_or(&[][..], |(_, all)| all)
}

/// The charge to an account, with its effects.
#[derive(Debug, Clone, PartialEq)]
pub struct Payment {
    /// The present account.
    pub reading: GaugeReading,
    /// The account with the charge.
    pub ghost: PlanGhost,
    /// ε of the charge by itself at the account's δ, rounded up: as reports count it, over more orders than the account
    /// keeps, and so below the account's increase; infinite if no ε covers it.
    pub own: f64,
    /// ε that would remain below the limit, rounded down; negative if it does not fit, `None` if no ε covers it.
    pub left: Option<f64>,
    /// The filter by which the account admits jobs.
    pub filter: FilterKind,
    /// One release.
    pub event: Event,
    /// The number of releases to reserve.
    pub releases: u64,
    /// The most releases of the kind that fit into the remainder.
    pub releases_that_fit: u64,
    /// The number of further rounds, and of further jobs like this one, that would fit afterwards.
    pub further: (u64, u64),
}

/// The reason why a charge has no payment.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NoPayment {
    /// The account has no budget.
    #[error("no budget has been set for this unit")]
    NoBudget,
    /// The charge cannot be priced, or not on this account.
    #[error("{0}")]
    Unpriced(String),
}

impl Payment {
    /// Computes the payment of an account for `charge`: the ledger's own rules, on a copy of the balance.
    ///
    /// # Errors
    /// [`NoPayment`] if there is no budget or no price.
    pub fn for_charge(standing: &AccountStanding, charge: &Charge) -> Result<Self, NoPayment> {
        Self::for_share(standing, &AccountQuote::paying(&standing.balance, charge), charge)
    }

    /// Computes the payment of one charge among all charges of a plan to the account.
    ///
    /// # Errors
    /// [`NoPayment`] if there is no budget or no price.
    pub fn for_share(standing: &AccountStanding, quote: &AccountQuote, charge: &Charge) -> Result<Self, NoPayment> {
        let AccountStanding { unit, balance, .. } = standing;
        let reading = GaugeReading::from_summary(&balance.summary(), *unit).ok_or(NoPayment::NoBudget)?;
        let budget = balance.budget().ok_or(NoPayment::NoBudget)?;
        let unpriced = |error: PriceError| NoPayment::Unpriced(error.to_string());
        if balance.filter() == FilterKind::Renyi {
            balance.price(&charge.event, charge.adjacency).map_err(unpriced)?;
        } else if !quote.is_priced() {
            balance.job_cost(&charge.event, charge.releases, charge.adjacency).map_err(unpriced)?;
        }
        let ProjectedAccount { epsilon, fits, .. } = quote.project(0);
        Ok(Self {
            reading,
            ghost: PlanGhost { committed: epsilon, fits },
            own: epsilon_alone(charge, budget.delta()).unwrap_or(f64::INFINITY),
            left: quote.remaining(),
            filter: balance.filter(),
            event: charge.event.clone(),
            releases: charge.releases,
            releases_that_fit: quote.releases_that_fit(),
            further: quote.count_further(),
        })
    }
}

#[cfg(all(test, feature = "ssr"))]
mod tests {
    use undertone_api::budget::AccountStanding;
    use undertone_api::job::Charge;
    use undertone_privacy::{Epsilon, Event, PrivacyUnit};

    use super::others;
    use crate::testing::example;

    #[test]
    fn other_limits_are_listed_and_say_no_where_a_job_has_no_price() {
        let datasets = example::datasets();
        let (id, standings) = example::standings().into_iter().next().expect("somebody has a budget");
        let dataset = datasets.iter().find(|dataset| dataset.id == id).expect("it is there");
        let speaker = standings.into_iter().next().expect("it has a budget");
        let record = AccountStanding { unit: PrivacyUnit::Record, ..speaker.clone() };
        let event = Event::Pure { epsilon: Epsilon::new(0.01).expect("in range") };
        let charge = |unit| Charge { unit, adjacency: speaker.adjacency, event: event.clone(), releases: 1 };
        let sentences = others(dataset, &charge(PrivacyUnit::Speaker), &[speaker.clone(), record.clone()], None);
        let [(text, true)] = &sentences[..] else { panic!("{sentences:?}") };
        assert!(text.contains("from ε") && text.contains("to ε"), "{text}");
        let sentences = others(dataset, &charge(PrivacyUnit::Record), &[speaker.clone(), record.clone()], None);
        let [(text, false)] = &sentences[..] else { panic!("{sentences:?}") };
        assert!(text.contains("propose the job with the unit `speaker`"), "{text}");
        assert!(others(dataset, &charge(PrivacyUnit::Speaker), std::slice::from_ref(&speaker), None).is_empty());
    }
}
