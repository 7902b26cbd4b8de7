//! The balance of one account: what is spent, what is reserved, and the only three ways to change either.

use serde::{Deserialize, Serialize};

use super::budget::{Budget, GridKind, Headroom};
use super::{Cost, LedgerError, Reservation, ReservationId};
use crate::adjacency::Adjacency;
use crate::convert;
use crate::curve::{Curve, OrderGrid};
use crate::event::Event;
use crate::fixed::Fixed;
use crate::mechanism::{self, PriceError};
use crate::unit::{Delta, Epsilon};

/// What a row of an account holds: its budget, if it has one, and the sums of all it was charged.
///
/// Invariant: while the budget stands, some order has spent + reserved within its share. Lowering a budget below what is
/// spent is possible; the account then refuses everything.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct Balance {
    budget: Option<Budget>,
    spent: Curve,
    reserved: Curve,
}

/// The numbers of a budget gauge, all ε at the budget's δ.
///
/// The ε of a loss is the smallest budget (same δ, same split over the same orders) that would have admitted it: it is 0
/// for nothing, never falls when something is charged, is at most the limit by the admission rule, and reaches it exactly
/// when nothing more can be admitted. `reserved_epsilon` is the increase that the open reservations would add to what is
/// spent, `left_epsilon` what is then left to the limit: the three add up to the limit. Costs compose by less than their
/// sum, so a job may be admitted whose own ε is above `left_epsilon`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The limit on ε; `None` without a budget.
    pub limit: Option<Epsilon>,
    /// The δ at which all this holds; `None` without a budget.
    pub delta: Option<Delta>,
    /// ε spent, rounded up.
    pub spent_epsilon: f64,
    /// What open reservations add to that.
    pub reserved_epsilon: f64,
    /// What is left to the limit, rounded down.
    pub left_epsilon: f64,
    /// The fraction of the filter's budget that is spent, in [0, 1], rounded up: at the order where it is least.
    pub spent_fraction: f64,
    /// The fraction that is spent or reserved, in [0, 1], rounded up.
    pub committed_fraction: f64,
    /// The part of δ that releases with a δ of their own have spent or reserved, rounded up.
    pub side_delta: f64,
}

/// A refused reservation: what was spent, asked and left. Depends on public parameters only; nothing was charged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Refusal {
    /// The account has no budget.
    #[error("the account has no budget: set one before asking for a release")]
    NoBudget,
    /// The release costs infinity at every order.
    #[error("a release without noise needs a dataset that is marked public or open")]
    Infinite,
    /// No order has room.
    #[error(
        "the budget of epsilon {limit} at delta {delta} has no room: {spent} spent, {reserved} reserved, {asked} asked, {left} left"
    )]
    OverBudget {
        /// The limit on ε.
        limit: f64,
        /// The δ of the budget.
        delta: f64,
        /// ε spent, rounded up.
        spent: f64,
        /// What open reservations add to it.
        reserved: f64,
        /// ε of what was asked, alone, rounded up.
        asked: f64,
        /// ε left, rounded down.
        left: f64,
        /// The fraction of the filter's budget spent or reserved, rounded up.
        committed_fraction: f64,
    },
    /// The part of δ for releases with a δ of their own has no room.
    #[error(
        "the budget keeps {limit} of its delta for releases with a delta of their own: {committed} spent or reserved, {asked} asked"
    )]
    OverDelta {
        /// The part of δ kept for such releases.
        limit: f64,
        /// What is spent or reserved of it, rounded up.
        committed: f64,
        /// What was asked, rounded up.
        asked: f64,
    },
}

impl Balance {
    /// A new account: nothing spent, nothing reserved. Without a budget it refuses everything.
    pub fn new(budget: Option<Budget>) -> Self {
        let grid = budget.map_or_else(GridKind::default, |budget| budget.grid()).orders();
        Self { budget, spent: Curve::zero(&grid), reserved: Curve::zero(&grid) }
    }

    /// A balance rebuilt from the reservations it consists of.
    ///
    /// # Errors
    /// [`LedgerError::Grid`] when a reservation is on other orders than the budget.
    pub fn rebuilt<'a>(
        budget: Option<Budget>,
        reservations: impl IntoIterator<Item = &'a Reservation>,
    ) -> Result<Self, LedgerError> {
        let mut balance = Self::new(budget);
        for reservation in reservations {
            balance.spent = balance.spent.add(&reservation.spent())?;
            balance.reserved = balance.reserved.add(&reservation.held())?;
        }
        Ok(balance)
    }

    /// The budget, if one is set.
    pub const fn budget(&self) -> Option<&Budget> {
        self.budget.as_ref()
    }

    /// The orders on which costs must be computed.
    pub fn grid(&self) -> &OrderGrid {
        self.spent.grid()
    }

    /// What has been spent.
    pub const fn spent(&self) -> &Curve {
        &self.spent
    }

    /// What open reservations hold.
    pub const fn reserved(&self) -> &Curve {
        &self.reserved
    }

    /// What an event costs on this account's orders.
    ///
    /// # Errors
    /// [`PriceError`] when the event cannot be priced.
    pub fn price(&self, event: &Event, adjacency: Adjacency) -> Result<Cost, PriceError> {
        mechanism::curve(event, adjacency, self.grid())
    }

    /// Replaces the budget, or sets the first one. What is spent and reserved stays.
    ///
    /// # Errors
    /// [`LedgerError::Grid`] when something has been charged on other orders than the new budget keeps.
    pub fn set_budget(&mut self, budget: Budget) -> Result<(), LedgerError> {
        let grid = budget.grid().orders();
        if &grid != self.grid() {
            if !self.spent.is_zero() || !self.reserved.is_zero() {
                return Err(crate::curve::CurveError::GridMismatch.into());
            }
            self.spent = Curve::zero(&grid);
            self.reserved = Curve::zero(&grid);
        }
        self.budget = Some(budget);
        Ok(())
    }

    /// Reserves `releases` releases of `per_release` each, all or nothing.
    ///
    /// # Errors
    /// [`LedgerError::Refused`] when no order has room for all of it, [`LedgerError::Grid`] when the cost is on other
    /// orders. Nothing has changed then.
    pub fn reserve(
        &mut self,
        id: ReservationId,
        per_release: &Cost,
        releases: u64,
    ) -> Result<Reservation, LedgerError> {
        let asked = per_release.times(releases);
        self.check(&asked)?;
        self.reserved = self.reserved.add(&asked)?;
        Ok(Reservation::new(id, per_release.clone(), releases))
    }

    /// Would this cost be admitted now?
    ///
    /// # Errors
    /// As [`Balance::reserve`].
    pub fn check(&self, asked: &Cost) -> Result<(), LedgerError> {
        if asked.grid() != self.grid() {
            return Err(crate::curve::CurveError::GridMismatch.into());
        }
        let Some(budget) = &self.budget else {
            return Err(Refusal::NoBudget.into());
        };
        if asked.is_infinite() {
            return Err(Refusal::Infinite.into());
        }
        let headroom = self.headroom();
        if headroom.admits(asked) {
            return Ok(());
        }
        if asked.side_delta() > headroom.side_delta() {
            let committed = self.spent.side_delta().plus(self.reserved.side_delta());
            return Err(Refusal::OverDelta {
                limit: budget.side_delta().get(),
                committed: committed.to_f64_up(),
                asked: asked.side_delta().to_f64_up(),
            }
            .into());
        }
        let summary = self.summary();
        Err(Refusal::OverBudget {
            limit: budget.epsilon().get(),
            delta: budget.delta().get(),
            spent: summary.spent_epsilon,
            reserved: summary.reserved_epsilon,
            asked: least_budget(budget, asked),
            left: summary.left_epsilon,
            committed_fraction: summary.committed_fraction,
        }
        .into())
    }

    /// Moves one release of a reservation from reserved to spent. Must be durable before the release leaves.
    ///
    /// # Errors
    /// [`LedgerError::Exhausted`] or [`LedgerError::Settled`] when nothing is held for it, [`LedgerError::Inconsistent`]
    /// when the reservation is not part of this balance. Nothing has changed then.
    pub fn commit(&mut self, reservation: &mut Reservation) -> Result<(), LedgerError> {
        let mut after = reservation.clone();
        after.count_release()?;
        let cost = reservation.per_release();
        let reserved =
            self.reserved.without(cost).ok_or(LedgerError::Inconsistent("less is reserved than one release costs"))?;
        self.spent = self.spent.add(cost)?;
        self.reserved = reserved;
        *reservation = after;
        Ok(())
    }

    /// Returns what the reservation still holds, and closes it. Gives the number of releases that never left; settling
    /// twice returns nothing the second time.
    ///
    /// # Errors
    /// [`LedgerError::Inconsistent`] when the reservation is not part of this balance. Nothing has changed then.
    pub fn settle(&mut self, reservation: &mut Reservation) -> Result<u64, LedgerError> {
        let open = reservation.open();
        self.reserved = self
            .reserved
            .without(&reservation.held())
            .ok_or(LedgerError::Inconsistent("less is reserved than the reservation holds"))?;
        reservation.close();
        Ok(open)
    }

    /// What may still be reserved at every order; nothing without a budget.
    pub fn headroom(&self) -> Headroom {
        Headroom::of_budget(self.budget.as_ref(), self.grid()).after(&self.committed())
    }

    /// Spent and reserved together.
    fn committed(&self) -> Curve {
        // Both curves are on one grid, so the sum exists; were it not so, nothing would be admitted.
        self.spent.add(&self.reserved).unwrap_or_else(|_| Curve::infinite(self.grid()))
    }

    /// ε spent, rounded up; 0 without a budget (nothing can have been spent).
    pub fn epsilon_spent(&self) -> f64 {
        self.summary().spent_epsilon
    }

    /// The numbers of the gauge.
    pub fn summary(&self) -> Summary {
        let side_delta = self.spent.side_delta().plus(self.reserved.side_delta()).to_f64_up();
        let Some(budget) = &self.budget else {
            return Summary {
                limit: None,
                delta: None,
                spent_epsilon: 0.0,
                reserved_epsilon: 0.0,
                left_epsilon: 0.0,
                spent_fraction: 0.0,
                committed_fraction: 0.0,
                side_delta,
            };
        };
        let committed = self.committed();
        let limit = budget.epsilon().get();
        let spent_epsilon = least_budget(budget, &self.spent);
        let committed_epsilon = least_budget(budget, &committed).max(spent_epsilon);
        Summary {
            limit: Some(budget.epsilon()),
            delta: Some(budget.delta()),
            spent_epsilon,
            reserved_epsilon: committed_epsilon - spent_epsilon,
            left_epsilon: (limit - committed_epsilon).max(0.0),
            spent_fraction: fraction(budget, &self.spent),
            committed_fraction: fraction(budget, &committed),
            side_delta,
        }
    }
}

/// The smallest ε of a budget, else like this one, that would admit the loss; rounded up, infinite if none would.
/// A loss that this budget admits is never said to need more than this budget.
fn least_budget(budget: &Budget, loss: &Curve) -> f64 {
    if loss.is_zero() {
        return 0.0;
    }
    let ln_delta = budget.ln_delta_share(loss.grid().len());
    let least = loss
        .losses()
        .map(|(order, loss)| convert::epsilon_at(order, loss.to_f64_up(), ln_delta))
        .fold(f64::INFINITY, f64::min);
    let fits = budget.shares().iter().zip(loss.losses()).any(|(share, (_, loss))| share.is_some_and(|s| loss <= s));
    if fits { least.min(budget.epsilon().get()) } else { least }
}

/// The least, over the orders alive, of loss / share; at most 1.
fn fraction(budget: &Budget, loss: &Curve) -> f64 {
    budget
        .shares()
        .into_iter()
        .zip(loss.losses())
        .filter_map(|(share, (_, loss))| share.map(|share| (share, loss)))
        .map(|(share, loss)| match (loss, share) {
            (Fixed::ZERO, _) => 0.0,
            (_, Fixed::ZERO) => 1.0,
            _ => (loss.to_f64_up() / share.to_f64_down()).next_up(),
        })
        .fold(1.0, f64::min)
}

/// What a balance looks like in a row.
#[derive(Serialize, Deserialize)]
struct Stored {
    budget: Option<Budget>,
    spent: Curve,
    reserved: Curve,
}

impl TryFrom<Stored> for Balance {
    type Error = LedgerError;
    fn try_from(stored: Stored) -> Result<Self, LedgerError> {
        let Stored { budget, spent, reserved } = stored;
        let grid = budget.map_or_else(GridKind::default, |budget| budget.grid()).orders();
        if spent.grid() != &grid || reserved.grid() != &grid {
            return Err(crate::curve::CurveError::GridMismatch.into());
        }
        Ok(Self { budget, spent, reserved })
    }
}

impl From<Balance> for Stored {
    fn from(balance: Balance) -> Self {
        Self { budget: balance.budget, spent: balance.spent, reserved: balance.reserved }
    }
}
