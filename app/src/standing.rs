//! What an account's balance is, in full: enough for the browser to decide about a plan by the rules, and to the bit, by
//! which the server and the site will.

use serde::{Deserialize, Serialize};
use undertone_api::budget::Account;
use undertone_api::job::Charge;
use undertone_privacy::curve::OrderGrid;
use undertone_privacy::ledger::{Balance, LedgerError, ReservationId};
use undertone_privacy::{Adjacency, Epsilon, PrivacyUnit, convert, mechanism};

use crate::component::gauge::{Ghost, Reading};

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
    /// ε that would be left to the limit, rounded down; 0 when it does not fit.
    pub left: f64,
    /// Releases it would reserve.
    pub releases: u64,
    /// Most releases of the kind that fit into what is left.
    pub releases_that_fit: u64,
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
        let unpriced = |error: &dyn std::fmt::Display| NoPayment::Unpriced(error.to_string());
        let reading = Reading::of(&self.balance.summary(), self.unit).ok_or(NoPayment::NoBudget)?;
        // Plans are of additive noise; the ledger's other formulas would only make the page heavier.
        let cost = mechanism::noise_curve(&charge.event, charge.adjacency, self.balance.grid());
        let cost = cost.map_err(|error| unpriced(&error))?;
        let mut after = self.balance.clone();
        let (ghost, left) = match after.reserve(ReservationId(0), &cost, charge.releases) {
            Ok(_) => {
                let summary = after.summary();
                let ghost =
                    Ghost { committed: summary.committed_epsilon, fraction: summary.committed_fraction, fits: true };
                (ghost, summary.left_epsilon)
            }
            Err(LedgerError::Refused(refusal)) => {
                let committed = refusal.shortfall().and_then(|shortfall| shortfall.would_be).unwrap_or(f64::INFINITY);
                (Ghost { committed, fraction: (committed / reading.limit).max(1.0), fits: false }, 0.0)
            }
            Err(error) => return Err(unpriced(&error)),
        };
        let budget = self.balance.budget().ok_or(NoPayment::NoBudget)?;
        let curve = mechanism::noise_curve(&charge.event, charge.adjacency, &OrderGrid::reporting());
        let curve = curve.map_err(|error| unpriced(&error))?.times(charge.releases);
        let own = convert::epsilon(&curve, budget.delta()).map_or(f64::INFINITY, Epsilon::get);
        let releases_that_fit = self.balance.headroom().releases(&cost);
        Ok(Payment { reading, ghost, own, left, releases: charge.releases, releases_that_fit })
    }
}
