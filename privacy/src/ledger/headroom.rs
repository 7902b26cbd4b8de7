//! The remaining loss at every order: all information about an account, or about a target, that a planner needs.

use libm::log;
use serde::{Deserialize, Serialize};

use super::Cost;
use super::budget::{Budget, gaussian_shares, ln_share, shares};
use super::certificate::certify;
use crate::adjacency::Adjacency;
use crate::curve::OrderGrid;
use crate::event::Event;
use crate::fixed::Fixed;
use crate::unit::{Delta, Epsilon, Order};

/// The most releases of one job that are searched for.
const MOST_PLANNED: u64 = 1 << 24;

/// The remaining loss at every order.
///
/// A cost fits when at some order its loss is at most the remaining loss there, and its side mass at most the remaining
/// side mass.
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
    /// Returns the headroom of a budget without charges; empty without a budget.
    pub(super) fn of_budget(budget: Option<&Budget>, grid: &OrderGrid) -> Self {
        let (left, side) = budget.map_or_else(
            || (vec![None; grid.len()], Fixed::ZERO),
            |budget| (budget.shares(), Fixed::floor(budget.side_delta().get())),
        );
        Self { grid: grid.clone(), left, side_delta: side }
    }

    /// Returns the headroom of a guarantee (ε, δ) for a plan whose parameters are fixed before its first output: the
    /// whole δ at every order of the grid. It must not decide the admission of jobs chosen later; accounts do that.
    pub fn of_guarantee(epsilon: Epsilon, delta: Delta, grid: &OrderGrid) -> Self {
        if *grid == OrderGrid::gaussian() {
            return Self { grid: grid.clone(), left: gaussian_shares(epsilon, delta.get()), side_delta: Fixed::ZERO };
        }
        let ln_delta = if delta.get() > 0.0 { log(delta.get()) } else { f64::NEG_INFINITY };
        let left = shares(epsilon.get(), ln_delta, grid);
        Self { grid: grid.clone(), left, side_delta: Fixed::ZERO }
    }

    /// Returns the whole headroom of the Rényi filter for (ε, δ): δ in equal parts for the orders (the disjunction
    /// lemma; see [`crate::ledger`]), or of the Gaussian filter on its grid. An account with this budget, and without a part of δ set aside, starts with it.
    pub fn of_filter(epsilon: Epsilon, delta: Delta, grid: &OrderGrid) -> Self {
        let left = if *grid == OrderGrid::gaussian() {
            gaussian_shares(epsilon, delta.get())
        } else {
            shares(epsilon.get(), ln_share(delta.get(), grid.len()), grid)
        };
        Self { grid: grid.clone(), left, side_delta: Fixed::ZERO }
    }

    /// Returns the headroom after a charge: an order whose loss is exceeded is dead. An exceeded side mass, or a charge
    /// on another grid, leaves no headroom.
    #[must_use]
    pub fn after(&self, charged: &Cost) -> Self {
        let side_left = self.side_delta.minus(charged.side_delta());
        let left = if side_left.is_some() && charged.grid() == &self.grid {
            let losses = charged.losses().map(|(_, loss)| loss);
            self.left.iter().zip(losses).map(|(left, loss)| left.and_then(|left| left.minus(loss))).collect()
        } else {
            vec![None; self.grid.len()]
        };
        Self { grid: self.grid.clone(), left, side_delta: side_left.unwrap_or(Fixed::ZERO) }
    }

    /// Returns the orders on which to price a cost.
    pub fn grid(&self) -> &OrderGrid {
        &self.grid
    }

    /// Iterates over the orders, with the remaining nats of each (`None` where the order is dead).
    pub fn remaining(&self) -> impl Iterator<Item = (Order, Option<Fixed>)> + '_ {
        self.grid.orders().iter().copied().zip(self.left.iter().copied())
    }

    /// Returns the remaining side mass.
    pub fn side_delta(&self) -> Fixed {
        self.side_delta
    }

    /// Returns the number of releases of this cost that fit; `u64::MAX` when they cost nothing. A cost on another grid
    /// never fits.
    pub fn releases(&self, cost: &Cost) -> u64 {
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

    /// Returns the greatest number of releases of an event that one job may plan by its Gaussian certificate at the side mass
    /// δ₀; 0 when none fits or the event cannot be certified. Certificates grow with the number, so doubling and bisection find
    /// it; the answer has been certified itself.
    pub fn certified_releases(&self, event: &Event, adjacency: Adjacency, side: Delta) -> u64 {
        let fits = |count: u64| certify(event, count, adjacency, side).is_ok_and(|cost| self.admits(&cost));
        let (mut low, mut high) = (0, 1);
        while fits(high) {
            if high >= MOST_PLANNED {
                return high;
            }
            (low, high) = (high, high * 2);
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if fits(middle) { low = middle } else { high = middle }
        }
        low
    }

    /// Returns true if this cost fits.
    pub fn admits(&self, cost: &Cost) -> bool {
        self.releases(cost) > 0
    }
}
