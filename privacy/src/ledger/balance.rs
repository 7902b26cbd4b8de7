//! The balance of one account: what is spent, what is reserved, and the only three ways to change either.

use serde::{Deserialize, Serialize};

use super::budget::{Budget, GridKind};
use super::gauge::Summary;
use super::headroom::Headroom;
use super::refusal::{Refusal, Shortfall};
use super::{Cost, LedgerError, Reservation, ReservationId};
use crate::adjacency::Adjacency;
use crate::curve::{Curve, OrderGrid};
use crate::event::Event;
use crate::mechanism::{self, PriceError};

/// What a row of an account holds: its budget, if it has one, and the sums of all it was charged.
///
/// All sums are exact and derived from counts, so a balance does not depend on the order of what happened
/// ([`Balance::rebuilt`] makes the same bits from the rows in any order).
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

    /// Reserves `releases` releases of `per_release` each, all or nothing: the job's worst case, before it may run. Its length
    /// may still depend on what it shows, up to this (stopping early is what filters allow).
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
        self.check(per_release, releases)?;
        self.reserved = self.reserved.add(&per_release.times(releases))?;
        Ok(Reservation::new(id, per_release.clone(), releases))
    }

    /// Would [`Balance::reserve`] admit this now? Yes while, at some order, spent + reserved + asked is within the order's share
    /// and the side masses are within theirs. That is the Rényi filter at each order (Feldman and Zrnic 2021; Lécuyer
    /// 2021), several orders by the disjunction lemma; see [`crate::ledger`]. A refusal depends on costs alone, so it tells
    /// nothing about the data, and what it costs is nothing.
    ///
    /// # Errors
    /// As [`Balance::reserve`].
    pub fn check(&self, per_release: &Cost, releases: u64) -> Result<(), LedgerError> {
        let asked = per_release.times(releases);
        let after = self.committed().add(&asked)?;
        let Some(budget) = &self.budget else {
            return Err(Refusal::NoBudget.into());
        };
        // All orders are charged, so all must be able to hold the sum, even those that do not decide.
        if !after.is_finite() {
            return Err(Refusal::Infinite.into());
        }
        let headroom = self.headroom();
        if headroom.admits(&asked) {
            return Ok(());
        }
        let shortfall = Shortfall::new(budget, &self.summary(), &asked, &after, headroom.releases(per_release));
        let refusal = if asked.side_delta() > headroom.side_delta() {
            Refusal::OverDelta(shortfall)
        } else {
            Refusal::OverBudget(shortfall)
        };
        Err(refusal.into())
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

    /// Returns what the reservation still holds, and closes it. Sound because only what was released is ever composed: the
    /// filter bounds the sum over the releases that happened. Gives the number of releases that never left; settling
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
        Summary::new(self.budget.as_ref(), &self.spent, &self.committed())
    }
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
