//! Budgets, and their limits at every order.

use libm::log;
use serde::{Deserialize, Serialize};

use crate::convert;
use crate::curve::{OrderGrid, gaussian_losses};
use crate::fixed::Fixed;
use crate::gaussian::GaussianProfile;
use crate::special::UNIT;
use crate::unit::{Delta, Epsilon};

/// The frozen grids an account may keep, and with them its filter. Chosen once for the life of the account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GridKind {
    /// For ε up to about 10.
    #[default]
    Standard,
    /// For ε in the hundreds, where the useful orders are near 1.
    Research,
    /// For whole jobs charged by Gaussian certificates: the Gaussian filter in place of the Rényi filter, see
    /// [`crate::ledger`].
    Gaussian,
}

impl GridKind {
    /// Returns the orders of the grid.
    pub fn orders(self) -> OrderGrid {
        match self {
            Self::Standard => OrderGrid::standard(),
            Self::Research => OrderGrid::research(),
            Self::Gaussian => OrderGrid::gaussian(),
        }
    }

    /// Returns the grid that serves this ε best: research above 10.
    pub fn for_epsilon(epsilon: Epsilon) -> Self {
        if epsilon.get() > 10.0 { Self::Research } else { Self::Standard }
    }
}

/// Why numbers do not describe a budget.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum BudgetError {
    /// A Gaussian release always needs some δ.
    #[error("delta must be greater than 0: a Gaussian release has no pure guarantee")]
    NoDelta,
    /// The side share must leave some δ for the conversion.
    #[error("side_delta must be less than delta")]
    SideDelta,
    /// Not one order of the grid has a positive share.
    #[error(
        "epsilon {epsilon} is too small for delta {delta}: no order of the grid could ever admit a release; raise epsilon or delta"
    )]
    Hopeless {
        /// The requested ε.
        epsilon: f64,
        /// The requested δ.
        delta: f64,
    },
}

/// A lifetime limit (ε, δ) on the loss of one account, and its split over the orders.
///
/// δ is split in two: `side_delta` is for releases that have a δ of their own; the rest pays for converting Rényi loss
/// to ε, in equal parts for the orders of the grid (the disjunction lemma, see [`crate::ledger`]). All releases that an
/// account with this budget admits are (ε, δ)-differentially private together, for any adaptive choice of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StoredBudget", into = "StoredBudget")]
pub struct Budget {
    epsilon: Epsilon,
    delta: Delta,
    side_delta: Delta,
    grid: GridKind,
}

impl Budget {
    /// Makes a budget that keeps a quarter of δ for releases with a δ of their own. (The price of that quarter is
    /// ln(4/3)/(α−1) of ε at order α: 0.04 at α = 8.)
    ///
    /// # Errors
    /// [`BudgetError`] when δ is 0 or no order of the grid could ever admit anything.
    pub fn new(epsilon: Epsilon, delta: Delta, grid: GridKind) -> Result<Self, BudgetError> {
        let side_delta = Delta::new(delta.get() / 4.0).map_err(|_| BudgetError::SideDelta)?;
        Self::with_side_delta(epsilon, delta, side_delta, grid)
    }

    /// Makes a budget with an explicit part of δ for releases that have a δ of their own.
    ///
    /// # Errors
    /// [`BudgetError`] when δ is 0, the side part is not less than δ, or no order could ever admit anything.
    pub fn with_side_delta(
        epsilon: Epsilon,
        delta: Delta,
        side_delta: Delta,
        grid: GridKind,
    ) -> Result<Self, BudgetError> {
        if delta.get() <= 0.0 {
            return Err(BudgetError::NoDelta);
        }
        if side_delta >= delta {
            return Err(BudgetError::SideDelta);
        }
        let budget = Self { epsilon, delta, side_delta, grid };
        if budget.shares().iter().all(|share| share.is_none_or(|share| share == Fixed::ZERO)) {
            return Err(BudgetError::Hopeless { epsilon: epsilon.get(), delta: delta.get() });
        }
        Ok(budget)
    }

    /// Returns the limit on ε.
    pub const fn epsilon(&self) -> Epsilon {
        self.epsilon
    }

    /// Returns the limit on δ, both parts together.
    pub const fn delta(&self) -> Delta {
        self.delta
    }

    /// Returns the part of δ for releases with a δ of their own: the sum of their δ never exceeds it (accrued δ, apart
    /// from the Rényi filter; see [`crate::ledger`]).
    pub const fn side_delta(&self) -> Delta {
        self.side_delta
    }

    /// Returns the kind of the account's grid.
    pub const fn grid(&self) -> GridKind {
        self.grid
    }

    /// Returns B(α) = ε − ln(1−1/α) + (ln(δ_conv/|Λ|) + ln α)/(α−1) at every order, rounded down; `None` where it is
    /// negative: such an order admits nothing from the start. It is the greatest Rényi loss of order α that is (ε,
    /// δ_conv/|Λ|)-private (Canonne, Kamath and Steinke 2020), and hence the limit of that order's filter (Feldman and
    /// Zrnic 2021; Lécuyer 2021).
    ///
    /// On the Gaussian grid the shares are αμ_B²/2, where μ_B is the greatest μ that is (ε, δ_conv)-private: one limit, written
    /// at every order, so that "some order has room" is Σμ² ≤ μ_B².
    pub fn shares(&self) -> Vec<Option<Fixed>> {
        if self.grid == GridKind::Gaussian {
            return gaussian_shares(self.epsilon, self.conversion_delta());
        }
        let grid = self.grid.orders();
        let ln_delta = self.ln_delta_share(grid.len());
        shares(self.epsilon.get(), ln_delta, &grid)
    }

    /// Returns ln(δ_conv / |Λ|), rounded down.
    pub(super) fn ln_delta_share(&self, orders: usize) -> f64 {
        ln_share(self.conversion_delta(), orders)
    }

    /// Returns δ_conv, the part of δ that is not for releases with a δ of their own, rounded down.
    pub(super) fn conversion_delta(&self) -> f64 {
        if self.side_delta.get() == 0.0 {
            self.delta.get()
        } else {
            (self.delta.get() - self.side_delta.get()).next_down()
        }
    }
}

/// Returns αμ²/2 on the Gaussian grid for the greatest μ that is (ε, δ)-private, rounded down.
pub(super) fn gaussian_shares(epsilon: Epsilon, delta: f64) -> Vec<Option<Fixed>> {
    let mu = Delta::new(delta).map_or(0.0, |delta| GaussianProfile::largest(epsilon, delta).mu());
    let mu_squared = Fixed::floor((mu * mu).next_down());
    let quarter = Fixed::from_units(mu_squared.units() / 4);
    gaussian_losses(quarter, mu_squared, &OrderGrid::gaussian()).into_iter().map(Some).collect()
}

/// Returns ln(δ / number of orders), rounded down; −∞ at δ = 0.
pub(super) fn ln_share(delta: f64, orders: usize) -> f64 {
    if delta <= 0.0 {
        return f64::NEG_INFINITY;
    }
    let share = log(delta) - log(orders as f64);
    share - 4.0 * UNIT * (share.abs() + 4.0)
}

/// Returns ε less the conversion's overhead at every order, rounded down; `None` where negative.
pub(super) fn shares(epsilon: f64, ln_delta: f64, grid: &OrderGrid) -> Vec<Option<Fixed>> {
    grid.orders()
        .iter()
        .map(|&order| {
            let (overhead, magnitude) = convert::overhead(order, ln_delta);
            let share = epsilon - overhead - 6.0 * UNIT * (epsilon + magnitude);
            (share >= 0.0).then(|| Fixed::floor(share))
        })
        .collect()
}

/// The form of a budget in a database row.
#[derive(Serialize, Deserialize)]
struct StoredBudget {
    epsilon: Epsilon,
    delta: Delta,
    #[serde(default)]
    side_delta: Option<Delta>,
    #[serde(default)]
    grid: GridKind,
}

impl TryFrom<StoredBudget> for Budget {
    type Error = BudgetError;
    fn try_from(stored: StoredBudget) -> Result<Self, BudgetError> {
        match stored.side_delta {
            Some(side) => Self::with_side_delta(stored.epsilon, stored.delta, side, stored.grid),
            None => Self::new(stored.epsilon, stored.delta, stored.grid),
        }
    }
}

impl From<Budget> for StoredBudget {
    fn from(budget: Budget) -> Self {
        Self { epsilon: budget.epsilon, delta: budget.delta, side_delta: Some(budget.side_delta), grid: budget.grid }
    }
}
