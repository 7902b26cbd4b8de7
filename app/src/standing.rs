//! What an account's balance is, in full: enough for the browser to decide about a plan by the rules, and to the bit, by
//! which the server and the site will.

use serde::{Deserialize, Serialize};
use undertone_api::budget::Account;
use undertone_api::dataset::Dataset;
use undertone_api::job::Charge;
use undertone_api::plan::{After, Books, Key, PlanAccount, Purse, epsilon_alone};
use undertone_privacy::ledger::Balance;
use undertone_privacy::mechanism::PriceError;
use undertone_privacy::{Adjacency, Event, PrivacyUnit};

use crate::component::gauge::{Ghost, Reading};
use crate::words;

/// One account of a dataset's lineage with its balance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// Who is protected.
    pub unit: PrivacyUnit,
    /// Against which change.
    pub adjacency: Adjacency,
    /// The budget, what is spent and what is reserved, at every order.
    pub balance: Balance,
}

/// Whether an account has a budget. One without is there only to record what went out in the clear.
pub fn budgeted(account: &Account) -> bool {
    account.epsilon.get() > 0.0
}

/// What a charge does to every other limited account of a dataset, in a sentence each, and whether that account admits it: each limit
/// bounds what all jobs release, whichever unit they protect.
pub fn others(dataset: &Dataset, charge: &Charge, standings: &[Standing]) -> Vec<(String, bool)> {
    let mut books = Books::default();
    for Standing { unit, adjacency, balance } in standings {
        books.add(Key::new(dataset.organization, dataset.lineage, *unit, *adjacency), balance.clone());
    }
    PlanAccount::others(dataset, charge, &books).iter().map(|account| (words::account(account), account.fits)).collect()
}

/// What an account would pay for a charge.
#[derive(Debug, Clone, PartialEq)]
pub struct Payment {
    /// The account as it stands.
    pub reading: Reading,
    /// The account with the charge.
    pub ghost: Ghost,
    /// ε of the charge by itself at the account's δ, rounded up: as reports count it, over more orders than the account
    /// keeps, and so below what the account moves by; infinite when no ε covers it.
    pub own: f64,
    /// ε that would be left to the limit, rounded down; negative when it does not fit, nothing when no ε covers it.
    pub left: Option<f64>,
    /// The part of the filter's budget that would be left, rounded down; 0 when it does not fit.
    pub left_fraction: f64,
    /// What one release is.
    pub event: Event,
    /// Releases it would reserve.
    pub releases: u64,
    /// Most releases of the kind that fit into what is left.
    pub releases_that_fit: u64,
    /// More rounds, and more jobs like this one, for which there would be room afterwards.
    pub further: (u64, u64),
}

/// Why a charge has no payment.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NoPayment {
    /// The account has no budget.
    #[error("no budget has been set for this unit")]
    NoBudget,
    /// The charge cannot be priced, or not on this account.
    #[error("{0}")]
    Unpriced(String),
}

impl Standing {
    /// What this account would pay for `charge`: the ledger's own rules, tried on a copy of the balance.
    ///
    /// # Errors
    /// [`NoPayment`] when there is no budget or no price.
    pub fn payment(&self, charge: &Charge) -> Result<Payment, NoPayment> {
        self.share(&Purse::paying(&self.balance, charge), charge)
    }

    /// The same of one charge among all that a plan asks of the account.
    ///
    /// # Errors
    /// [`NoPayment`] when there is no budget or no price.
    pub fn share(&self, purse: &Purse, charge: &Charge) -> Result<Payment, NoPayment> {
        let reading = Reading::of(&self.balance.summary(), self.unit).ok_or(NoPayment::NoBudget)?;
        let budget = self.balance.budget().ok_or(NoPayment::NoBudget)?;
        let unpriced = |error: PriceError| NoPayment::Unpriced(error.to_string());
        self.balance.price(&charge.event, charge.adjacency).map_err(unpriced)?;
        let After { epsilon, fraction, fits } = purse.after(0);
        Ok(Payment {
            reading,
            ghost: Ghost { committed: epsilon, fraction, fits },
            own: epsilon_alone(charge, budget.delta()).unwrap_or(f64::INFINITY),
            left: purse.left(),
            left_fraction: purse.left_fraction(),
            event: charge.event.clone(),
            releases: charge.releases,
            releases_that_fit: purse.releases_that_fit(),
            further: purse.further(),
        })
    }
}

#[cfg(all(test, feature = "ssr"))]
mod tests {
    use undertone_api::job::Charge;
    use undertone_privacy::{Epsilon, Event, PrivacyUnit};

    use super::{Standing, others};
    use crate::fixture;

    #[test]
    fn other_limits_are_listed_and_say_no_where_a_job_has_no_price() {
        let datasets = fixture::datasets();
        let (id, standings) = fixture::standings().into_iter().next().expect("somebody has a budget");
        let dataset = datasets.iter().find(|dataset| dataset.id == id).expect("it is there");
        let speaker = standings.into_iter().next().expect("it has a budget");
        let record = Standing { unit: PrivacyUnit::Record, ..speaker.clone() };
        let event = Event::Pure { epsilon: Epsilon::new(0.01).expect("in range") };
        let charge = |unit| Charge { unit, adjacency: speaker.adjacency, event: event.clone(), releases: 1 };
        let said = others(dataset, &charge(PrivacyUnit::Speaker), &[speaker.clone(), record.clone()]);
        let [(text, true)] = &said[..] else { panic!("{said:?}") };
        assert!(text.contains("from ε") && text.contains("to ε"), "{text}");
        let said = others(dataset, &charge(PrivacyUnit::Record), &[speaker.clone(), record.clone()]);
        let [(text, false)] = &said[..] else { panic!("{said:?}") };
        assert!(text.contains("propose the job with the unit `speaker`"), "{text}");
        assert!(others(dataset, &charge(PrivacyUnit::Speaker), std::slice::from_ref(&speaker)).is_empty());
    }
}
