//! A refusal, with the spent, requested and remaining amounts. It depends on public parameters only, and charges
//! nothing.

use serde::{Deserialize, Serialize};

use super::Cost;
use super::budget::Budget;
use super::gauge::{Summary, least_limit};

/// Why a reservation was refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Refusal {
    /// The account has no budget.
    #[error("the account has no budget: set one before asking for a release")]
    NoBudget,
    /// The cost, or the resulting total, is infinite at some order.
    #[error("the cost is infinite: a release without noise needs a dataset that is marked public or open")]
    Infinite,
    /// No order has room.
    #[error("the budget has no room: {0}; ask for fewer releases or more noise")]
    OverBudget(BudgetShortfall),
    /// The part of δ for releases with a δ of their own has no room.
    #[error("the budget's delta for releases with a delta of their own has no room: {0}; ask for a smaller delta")]
    OverDelta(BudgetShortfall),
}

impl Refusal {
    /// Returns the numbers, if there are any.
    pub const fn shortfall(&self) -> Option<&BudgetShortfall> {
        match self {
            Self::NoBudget | Self::Infinite => None,
            Self::OverBudget(shortfall) | Self::OverDelta(shortfall) => Some(shortfall),
        }
    }
}

/// The spent, requested and remaining amounts of a refused reservation. Every ε is as in [`Summary`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BudgetShortfall {
    /// The limit on ε.
    pub limit: f64,
    /// The δ of the budget.
    pub delta: f64,
    /// ε spent, rounded up.
    pub spent: f64,
    /// ε that open reservations add to it.
    pub reserved: f64,
    /// ε of the request alone, rounded up; `None` when it is infinite.
    pub asked: Option<f64>,
    /// ε of spent, reserved and requested costs together, rounded up; `None` when it is infinite.
    pub would_be: Option<f64>,
    /// ε left, rounded down.
    pub left: f64,
    /// The fraction of the filter's budget spent or reserved, rounded up.
    pub committed_fraction: f64,
    /// The greatest number of requested charges that would fit: of releases, or of jobs that are charged as a whole.
    pub releases_that_fit: u64,
    /// The part of δ kept for releases with a δ of their own.
    pub side_limit: f64,
    /// The spent or reserved amount of it, rounded up.
    pub side_committed: f64,
    /// The requested amount of it, rounded up.
    pub side_asked: f64,
}

impl BudgetShortfall {
    pub(super) fn new(budget: &Budget, summary: &Summary, asked: &Cost, after: &Cost, releases_that_fit: u64) -> Self {
        let finite = |epsilon: f64| epsilon.is_finite().then_some(epsilon);
        Self {
            limit: budget.epsilon().get(),
            delta: budget.delta().get(),
            spent: summary.spent_epsilon,
            reserved: summary.reserved_epsilon,
            asked: finite(least_limit(budget, asked)),
            would_be: finite(least_limit(budget, after)),
            left: summary.left_epsilon,
            committed_fraction: summary.committed_fraction,
            releases_that_fit,
            side_limit: budget.side_delta().get(),
            side_committed: summary.side_delta,
            side_asked: asked.side_delta().to_f64_up(),
        }
    }
}

impl std::fmt::Display for BudgetShortfall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "epsilon {:.4} spent, {:.4} reserved and {:.4} left of {:.4} at delta {:e}, {:.4} asked ({} such charges fit); \
             side delta {:e} committed and {:e} asked of {:e}",
            self.spent,
            self.reserved,
            self.left,
            self.limit,
            self.delta,
            self.asked.unwrap_or(f64::INFINITY),
            self.releases_that_fit,
            self.side_committed,
            self.side_asked,
            self.side_limit,
        )
    }
}
