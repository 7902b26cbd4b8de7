//! What an account's balance is, in full: enough for the browser to decide about a plan by the rules, and to the bit, by
//! which the server and the site will.

use serde::{Deserialize, Serialize};
use undertone_privacy::ledger::Balance;
use undertone_privacy::{Adjacency, PrivacyUnit};

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
