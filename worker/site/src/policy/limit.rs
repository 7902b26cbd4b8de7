//! Lifetime limits of accounts.

use serde::{Deserialize, Serialize};
use undertone_privacy::ledger::{Budget, BudgetError, FilterKind, GridKind};
use undertone_privacy::{Delta, Epsilon};

/// A lifetime limit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LifetimeLimit {
    /// ε, greater than 0.
    pub epsilon: Epsilon,
    /// δ, greater than 0.
    pub delta: Delta,
    /// The filter by which the account admits jobs; it holds for the life of the account.
    #[serde(default, skip_serializing_if = "FilterKind::is_renyi")]
    pub filter: FilterKind,
}

impl LifetimeLimit {
    /// Makes the limit that a budget keeps.
    pub fn from_budget(budget: &Budget) -> Self {
        Self { epsilon: budget.epsilon(), delta: budget.delta(), filter: budget.grid().filter() }
    }

    /// Returns the limit as a budget on the orders of `grid`; without one, on the orders of the filter that suit ε best.
    ///
    /// # Errors
    /// [`BudgetError`] when no release could ever be admitted.
    pub fn budget(&self, grid: Option<GridKind>) -> Result<Budget, BudgetError> {
        Budget::new(self.epsilon, self.delta, grid.unwrap_or_else(|| self.filter.grid(self.epsilon)))
    }
}

/// Lifetime limits by privacy unit; a unit without one cannot be charged at all.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LifetimeLimits {
    /// For records (utterances).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<LifetimeLimit>,
    /// For speakers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speaker: Option<LifetimeLimit>,
    /// For users of a query log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<LifetimeLimit>,
    /// For words of recordings, in the number that each job states.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words: Option<LifetimeLimit>,
}
