//! The cost of a job to a person who may be in several organizations' data.

use serde::{Deserialize, Serialize};
use undertone_privacy::curve::{Curve, OrderGrid};
use undertone_privacy::ledger::{Balance, Budget, Overlap, across};
use undertone_privacy::{Delta, mechanism};

use super::{AccountBalances, AccountKey};
use crate::dataset::Dataset;
use crate::id::OrganizationId;
use crate::job::Charge;

/// The cost of a job under the consortium's rule about people who may be in several organizations' data. It is only
/// reported: every account admits by its own budget alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = PlanTogether))]
pub struct CombinedCost {
    /// The rule in force.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::overlap))]
    pub overlap: Overlap,
    /// The number of charged organizations.
    pub organizations: u64,
    /// The most of these organizations that may have data of one person.
    pub most: u64,
    /// ε of the job by itself for such a person, at δ, by the Rényi bound, rounded up; absent if it is infinite.
    pub epsilon: Option<f64>,
    /// The least δ of the budgets.
    pub delta: f64,
}

impl CombinedCost {
    /// Combines the charges of a job; `None` if no budget names a δ, or a charge has no price. Two datasets of one
    /// organization may always hold one person.
    pub fn combine(rule: Overlap, charges: &[(&Dataset, Charge)], balances: &AccountBalances) -> Option<Self> {
        let mut parties: Vec<(OrganizationId, Curve)> = Vec::new();
        let mut least: Option<Delta> = None;
        for (dataset, charge) in charges {
            let one = mechanism::curve(&charge.event, charge.adjacency, &OrderGrid::reporting()).ok()?;
            let curve = one.times(charge.event.count_charges(charge.releases));
            match parties.iter_mut().find(|(organization, _)| *organization == dataset.organization) {
                Some((_, sum)) => *sum = sum.add(&curve).ok()?,
                None => parties.push((dataset.organization, curve)),
            }
            let budget = balances.balance(AccountKey::from_charge(dataset, charge)).and_then(Balance::budget);
            least = [least, budget.map(Budget::delta)].into_iter().flatten().reduce(|a, b| if b < a { b } else { a });
        }
        let curves: Vec<Curve> = parties.into_iter().map(|(_, curve)| curve).collect();
        let delta = least?;
        let epsilon = across(rule, &curves, delta).ok()?.map(f64::from);
        let most = rule.most(curves.len()) as u64;
        Some(Self { overlap: rule, organizations: curves.len() as u64, most, epsilon, delta: delta.get() })
    }
}
