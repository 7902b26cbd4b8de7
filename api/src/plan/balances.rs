//! The balances against which a plan is priced.

use undertone_privacy::ledger::Balance;
use undertone_privacy::{Adjacency, PrivacyUnit};

use crate::dataset::Dataset;
use crate::id::{LineageId, OrganizationId};
use crate::job::Charge;

/// The identity of an account in the consortium's ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AccountKey {
    /// The party.
    pub organization: OrganizationId,
    /// The lineage of its dataset.
    pub lineage: LineageId,
    /// The protected unit.
    pub unit: PrivacyUnit,
    /// The relation in the account's identity: always [`Adjacency::account`] of the charge's.
    adjacency: Adjacency,
}

impl AccountKey {
    /// Returns the account to which charges under `adjacency` go.
    pub const fn new(
        organization: OrganizationId,
        lineage: LineageId,
        unit: PrivacyUnit,
        adjacency: Adjacency,
    ) -> Self {
        Self { organization, lineage, unit, adjacency: adjacency.account() }
    }

    /// Returns the relation in the account's identity.
    pub const fn adjacency(self) -> Adjacency {
        self.adjacency
    }

    /// Returns the account that a charge on a dataset goes to.
    pub const fn from_charge(dataset: &Dataset, charge: &Charge) -> Self {
        Self::new(dataset.organization, dataset.lineage, charge.unit, charge.adjacency)
    }
}

/// The balances against which a plan is priced.
#[derive(Debug, Clone, Default)]
pub struct AccountBalances(Vec<(AccountKey, Balance)>);

impl AccountBalances {
    /// Adds an account; of two with one key the first counts.
    pub fn add(&mut self, key: AccountKey, balance: Balance) {
        if self.balance(key).is_none() {
            self.0.push((key, balance));
        }
    }

    /// Returns the other accounts with a limit that `charge` on `dataset` goes to: those of its lineage that protect
    /// another unit. Releases in the clear are outside every limit and go to none.
    pub fn limited<'a>(
        &'a self,
        dataset: &'a Dataset,
        charge: &'a Charge,
    ) -> impl Iterator<Item = (PrivacyUnit, &'a Balance)> {
        let is_other = |key: &AccountKey| {
            (key.organization, key.lineage) == (dataset.organization, dataset.lineage) && key.unit != charge.unit
        };
        let accounts = self
            .0
            .iter()
            .filter(move |(key, balance)| !charge.is_in_the_clear() && is_other(key) && balance.budget().is_some());
        accounts.map(|(key, balance)| (key.unit, balance))
    }

    /// Returns an account's balance.
    pub fn balance(&self, key: AccountKey) -> Option<&Balance> {
        self.0.iter().find(|(candidate, _)| *candidate == key).map(|(_, balance)| balance)
    }
}
