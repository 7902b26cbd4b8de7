//! Budgets, and what they leave at every order.

use libm::log;
use serde::{Deserialize, Serialize};

use crate::convert;
use crate::curve::OrderGrid;
use crate::fixed::Fixed;
use crate::special::UNIT;
use crate::unit::{Delta, Epsilon};

/// The frozen grids an account may keep. Chosen once for the life of the account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GridKind {
    /// For ε up to about 10.
    #[default]
    Standard,
    /// For ε in the hundreds, where the useful orders are near 1.
    Research,
}

impl GridKind {
    /// The orders of the grid.
    pub fn orders(self) -> OrderGrid {
        match self {
            Self::Standard => OrderGrid::standard(),
            Self::Research => OrderGrid::research(),
        }
    }

    /// The grid that serves this ε best: research above 10.
    pub fn for_epsilon(epsilon: Epsilon) -> Self {
        if epsilon.get() > 10.0 { Self::Research } else { Self::Standard }
    }
}

/// Why numbers are not a budget.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum BudgetError {
    /// A Gaussian release always needs some δ.
    #[error("delta must be greater than 0: a Gaussian release has no pure guarantee")]
    NoDelta,
    /// The side share must leave something for the conversion.
    #[error("side_delta must be less than delta")]
    SideDelta,
    /// Not one order of the grid has a positive share.
    #[error(
        "epsilon {epsilon} is too small for delta {delta}: no order of the grid could ever admit a release; raise epsilon or delta"
    )]
    Hopeless {
        /// The ε asked for.
        epsilon: f64,
        /// The δ asked for.
        delta: f64,
    },
}

/// A lifetime limit (ε, δ) on what one account may lose, and how it is kept.
///
/// δ is split in two: `side_delta` may be used by releases that have a δ of their own; the rest pays for turning Rényi
/// loss into ε, in equal parts for the orders of the grid.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct Budget {
    epsilon: Epsilon,
    delta: Delta,
    side_delta: Delta,
    grid: GridKind,
}

impl Budget {
    /// A budget that keeps a quarter of δ for releases with a δ of their own. (The price of that quarter is ln(4/3)/(α−1)
    /// of ε at order α: 0.04 at α = 8.)
    ///
    /// # Errors
    /// [`BudgetError`] when δ is 0 or no order of the grid could ever admit anything.
    pub fn new(epsilon: Epsilon, delta: Delta, grid: GridKind) -> Result<Self, BudgetError> {
        let side_delta = Delta::new(delta.get() / 4.0).map_err(|_| BudgetError::SideDelta)?;
        Self::with_side_delta(epsilon, delta, side_delta, grid)
    }

    /// A budget with an explicit part of δ for releases that have a δ of their own.
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

    /// The limit on ε.
    pub const fn epsilon(&self) -> Epsilon {
        self.epsilon
    }

    /// The limit on δ, both parts together.
    pub const fn delta(&self) -> Delta {
        self.delta
    }

    /// The part of δ for releases with a δ of their own.
    pub const fn side_delta(&self) -> Delta {
        self.side_delta
    }

    /// Which orders the account keeps.
    pub const fn grid(&self) -> GridKind {
        self.grid
    }

    /// B(α) = ε − ln(1−1/α) + (ln(δ_conv/|Λ|) + ln α)/(α−1) at every order, rounded down; `None` where it is negative: such
    /// an order is dead from the start.
    pub fn shares(&self) -> Vec<Option<Fixed>> {
        let grid = self.grid.orders();
        let ln_delta = self.ln_delta_share(grid.len());
        shares(self.epsilon.get(), ln_delta, &grid)
    }

    /// ln(δ_conv / |Λ|), rounded down.
    pub(super) fn ln_delta_share(&self, orders: usize) -> f64 {
        let left = if self.side_delta.get() == 0.0 {
            self.delta.get()
        } else {
            (self.delta.get() - self.side_delta.get()).next_down()
        };
        ln_share(left, orders)
    }
}

/// ln(δ / number of orders), rounded down; −∞ at δ = 0.
fn ln_share(delta: f64, orders: usize) -> f64 {
    if delta <= 0.0 {
        return f64::NEG_INFINITY;
    }
    let share = log(delta) - log(orders as f64);
    share - 4.0 * UNIT * (share.abs() + 4.0)
}

/// ε less the conversion's overhead at every order, rounded down; `None` where negative.
fn shares(epsilon: f64, ln_delta: f64, grid: &OrderGrid) -> Vec<Option<Fixed>> {
    grid.orders()
        .iter()
        .map(|&order| {
            let (overhead, magnitude) = convert::overhead(order, ln_delta);
            let share = epsilon - overhead - 6.0 * UNIT * (epsilon + magnitude);
            (share >= 0.0).then(|| Fixed::floor(share))
        })
        .collect()
}

/// What may still be lost at every order: all a planner needs to know of an account, or of a target (ε, δ).
///
/// A cost fits when at some order its loss is at most what is left there, and its side mass at most what is left of that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Headroom {
    /// The orders.
    grid: OrderGrid,
    /// Nats left at each order; `None` where the order is dead.
    left: Vec<Option<Fixed>>,
    /// Side mass left.
    side_delta: Fixed,
}

impl Headroom {
    /// What a budget has before anything is charged; nothing without a budget.
    pub(super) fn of_budget(budget: Option<&Budget>, grid: &OrderGrid) -> Self {
        let (left, side) = budget.map_or_else(
            || (vec![None; grid.len()], Fixed::ZERO),
            |budget| (budget.shares(), Fixed::floor(budget.side_delta().get())),
        );
        Self { grid: grid.clone(), left, side_delta: side }
    }

    /// The room in a guarantee (ε, δ) for a plan whose parameters are fixed before its first output: the whole δ at every
    /// order of the grid. It must not decide the admission of jobs chosen later; accounts do that.
    pub fn of_guarantee(epsilon: Epsilon, delta: Delta, grid: &OrderGrid) -> Self {
        let ln_delta = if delta.get() > 0.0 { log(delta.get()) } else { f64::NEG_INFINITY };
        let left = shares(epsilon.get(), ln_delta, grid);
        Self { grid: grid.clone(), left, side_delta: Fixed::ZERO }
    }

    /// The whole room of the Rényi filter for (ε, δ): δ in equal parts for the orders. What an account with this budget,
    /// and nothing of δ set aside, starts with.
    pub fn of_filter(epsilon: Epsilon, delta: Delta, grid: &OrderGrid) -> Self {
        let left = shares(epsilon.get(), ln_share(delta.get(), grid.len()), grid);
        Self { grid: grid.clone(), left, side_delta: Fixed::ZERO }
    }

    /// What is left after a charge: an order whose loss is exceeded is dead. A side mass that is exceeded, or a charge on
    /// another grid, leaves nothing at all.
    #[must_use]
    pub fn after(&self, charged: &super::Cost) -> Self {
        let side_left = self.side_delta.minus(charged.side_delta());
        let left = if side_left.is_some() && charged.grid() == &self.grid {
            let losses = charged.losses().map(|(_, loss)| loss);
            self.left.iter().zip(losses).map(|(left, loss)| left.and_then(|left| left.minus(loss))).collect()
        } else {
            vec![None; self.grid.len()]
        };
        Self { grid: self.grid.clone(), left, side_delta: side_left.unwrap_or(Fixed::ZERO) }
    }

    /// The orders on which to price what is to fit.
    pub fn grid(&self) -> &OrderGrid {
        &self.grid
    }

    /// Every order, with the nats left there (`None` where the order is dead).
    pub fn left(&self) -> impl Iterator<Item = (crate::unit::Order, Option<Fixed>)> + '_ {
        self.grid.orders().iter().copied().zip(self.left.iter().copied())
    }

    /// The side mass left.
    pub fn side_delta(&self) -> Fixed {
        self.side_delta
    }

    /// How many releases of this cost fit; `u64::MAX` when they cost nothing. A cost on another grid never fits.
    pub fn releases(&self, cost: &super::Cost) -> u64 {
        if cost.grid() != &self.grid {
            return 0;
        }
        let count = |left: Fixed, cost: Fixed| {
            left.quotient(cost).map_or(u64::MAX, |count| u64::try_from(count).unwrap_or(u64::MAX))
        };
        let best = self
            .left
            .iter()
            .zip(cost.losses())
            .filter_map(|(left, (_, loss))| left.map(|left| count(left, loss)))
            .max()
            .unwrap_or(0);
        best.min(count(self.side_delta, cost.side_delta()))
    }

    /// Does this cost fit?
    pub fn admits(&self, cost: &super::Cost) -> bool {
        self.releases(cost) > 0
    }
}

/// What a budget looks like in a row.
#[derive(Serialize, Deserialize)]
struct Stored {
    epsilon: Epsilon,
    delta: Delta,
    #[serde(default)]
    side_delta: Option<Delta>,
    #[serde(default)]
    grid: GridKind,
}

impl TryFrom<Stored> for Budget {
    type Error = BudgetError;
    fn try_from(stored: Stored) -> Result<Self, BudgetError> {
        match stored.side_delta {
            Some(side) => Self::with_side_delta(stored.epsilon, stored.delta, side, stored.grid),
            None => Self::new(stored.epsilon, stored.delta, stored.grid),
        }
    }
}

impl From<Budget> for Stored {
    fn from(budget: Budget) -> Self {
        Self { epsilon: budget.epsilon, delta: budget.delta, side_delta: Some(budget.side_delta), grid: budget.grid }
    }
}
