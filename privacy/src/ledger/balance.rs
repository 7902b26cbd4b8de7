//! The balance of one account: spent and reserved costs, and the only three ways to change them.

use serde::{Deserialize, Serialize};

use super::budget::{Budget, GridKind};
use super::gauge::Summary;
use super::headroom::Headroom;
use super::refusal::{BudgetShortfall, Refusal};
use super::{Cost, LedgerError, Reservation, ReservationId};
use crate::adjacency::Adjacency;
use crate::curve::{Curve, OrderGrid};
use crate::event::Event;
use crate::mechanism::{self, PriceError};

/// The content of an account's row: its budget, if it has one, and the sums of all its charges.
///
/// All sums are exact and derived from counts, so a balance does not depend on the order of events
/// ([`Balance::rebuilt`] makes the same bits from the rows in any order).
///
/// Invariant: while the budget stands, some order has spent + reserved within its share. A budget may be lowered below
/// the spent cost; the account then refuses everything.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StoredBalance", into = "StoredBalance")]
pub struct Balance {
    budget: Option<Budget>,
    spent: Curve,
    reserved: Curve,
}

impl Balance {
    /// Makes a new account: nothing spent, nothing reserved. Without a budget it refuses everything.
    pub fn new(budget: Option<Budget>) -> Self {
        let grid = budget.map_or_else(GridKind::default, |budget| budget.grid()).orders();
        Self { budget, spent: Curve::zero(&grid), reserved: Curve::zero(&grid) }
    }

    /// Rebuilds a balance from its reservations.
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
            balance.reserved = balance.reserved.add(&reservation.open_cost())?;
        }
        Ok(balance)
    }

    /// Returns the budget, if one is set.
    pub const fn budget(&self) -> Option<&Budget> {
        self.budget.as_ref()
    }

    /// Returns the orders on which costs must be computed.
    pub fn grid(&self) -> &OrderGrid {
        self.spent.grid()
    }

    /// Returns the spent cost.
    pub const fn spent(&self) -> &Curve {
        &self.spent
    }

    /// Returns the cost that open reservations hold.
    pub const fn reserved(&self) -> &Curve {
        &self.reserved
    }

    /// Returns the cost of one release of an event on this account's orders. Accounts on the Gaussian grid are charged by
    /// [`super::certify`].
    ///
    /// # Errors
    /// [`PriceError`] when the event cannot be priced.
    pub fn price(&self, event: &Event, adjacency: Adjacency) -> Result<Cost, PriceError> {
        mechanism::curve(event, adjacency, self.grid())
    }

    /// Replaces the budget, or sets the first one. Spent and reserved costs stay.
    ///
    /// # Errors
    /// [`LedgerError::Grid`] when the account has charges on other orders than the new budget's.
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

    /// Reserves `releases` releases of `per_release` each, all or nothing: the job's worst case, before it may run. Its
    /// length may still depend on its outputs, up to this (filters allow stopping early).
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

    /// Reserves a job of `releases` releases that is charged as a whole, by a certificate for all of them. Its first release
    /// spends all of the cost; nothing is returned when it stops early.
    ///
    /// # Errors
    /// As [`Balance::reserve`].
    pub fn reserve_whole(&mut self, id: ReservationId, cost: &Cost, releases: u64) -> Result<Reservation, LedgerError> {
        self.check(cost, 1)?;
        self.reserved = self.reserved.add(cost)?;
        Ok(Reservation::new_whole(id, cost.clone(), releases))
    }

    /// Checks that [`Balance::reserve`] would admit this now: at some order, spent + reserved + requested is within the
    /// order's share, and the side masses are within theirs. That is the Rényi filter at each order (Feldman and Zrnic
    /// 2021; Lécuyer 2021), several orders by the disjunction lemma; see [`crate::ledger`]. A refusal depends on costs
    /// alone, so it reveals nothing about the data, and is free.
    ///
    /// # Errors
    /// As [`Balance::reserve`].
    pub fn check(&self, per_release: &Cost, releases: u64) -> Result<(), LedgerError> {
        if self.grid() == &OrderGrid::gaussian() && per_release.mu_squared().is_none() {
            // Not the curve of a certificate: another curve on these orders bounds no μ.
            return Err(crate::curve::CurveError::GridMismatch.into());
        }
        let request = per_release.times(releases);
        let after = self.committed().add(&request)?;
        let Some(budget) = &self.budget else {
            return Err(Refusal::NoBudget.into());
        };
        // All orders are charged, so all must be able to hold the sum, even those that do not decide.
        if !after.is_finite() {
            return Err(Refusal::Infinite.into());
        }
        let headroom = self.headroom();
        if headroom.admits(&request) {
            return Ok(());
        }
        let shortfall = BudgetShortfall::new(budget, &self.summary(), &request, &after, headroom.releases(per_release));
        let refusal = if request.side_delta() > headroom.side_delta() {
            Refusal::OverDelta(shortfall)
        } else {
            Refusal::OverBudget(shortfall)
        };
        Err(refusal.into())
    }

    /// Moves one release of a reservation from reserved to spent. The move must be durable before the release leaves.
    ///
    /// # Errors
    /// [`LedgerError::Exhausted`] or [`LedgerError::Settled`] when nothing is held for it, [`LedgerError::Inconsistent`]
    /// when the reservation is not part of this balance. Nothing has changed then.
    pub fn commit(&mut self, reservation: &mut Reservation) -> Result<(), LedgerError> {
        let mut after = reservation.clone();
        after.count_release()?;
        let cost = reservation.next_cost();
        let reserved =
            self.reserved.without(&cost).ok_or(LedgerError::Inconsistent("less is reserved than one release costs"))?;
        self.spent = self.spent.add(&cost)?;
        self.reserved = reserved;
        *reservation = after;
        Ok(())
    }

    /// Returns the remainder of a reservation to the budget, and closes it. Sound because only actual releases are
    /// composed: the filter bounds the sum over the releases that happened. Returns the number of releases that never
    /// left; settling again returns 0.
    ///
    /// # Errors
    /// [`LedgerError::Inconsistent`] when the reservation is not part of this balance. Nothing has changed then.
    pub fn settle(&mut self, reservation: &mut Reservation) -> Result<u64, LedgerError> {
        let open = reservation.open();
        self.reserved = self
            .reserved
            .without(&reservation.open_cost())
            .ok_or(LedgerError::Inconsistent("less is reserved than the reservation holds"))?;
        reservation.close();
        Ok(open)
    }

    /// Returns the remaining headroom at every order; empty without a budget.
    pub fn headroom(&self) -> Headroom {
        Headroom::of_budget(self.budget.as_ref(), self.grid()).after(&self.committed())
    }

    /// Returns spent and reserved costs together.
    fn committed(&self) -> Curve {
        // Both curves are on one grid, so the sum exists; if it did not, nothing would be admitted.
        self.spent.add(&self.reserved).unwrap_or_else(|_| Curve::infinite(self.grid()))
    }

    /// Returns ε spent, rounded up; 0 without a budget (nothing can have been spent).
    pub fn epsilon_spent(&self) -> f64 {
        self.summary().spent_epsilon
    }

    /// Returns the numbers of the gauge.
    pub fn summary(&self) -> Summary {
        Summary::new(self.budget.as_ref(), &self.spent, &self.committed())
    }
}

/// The form of a balance in a database row.
#[derive(Serialize, Deserialize)]
struct StoredBalance {
    budget: Option<Budget>,
    spent: Curve,
    reserved: Curve,
}

impl TryFrom<StoredBalance> for Balance {
    type Error = LedgerError;
    fn try_from(stored: StoredBalance) -> Result<Self, LedgerError> {
        let StoredBalance { budget, spent, reserved } = stored;
        let grid = budget.map_or_else(GridKind::default, |budget| budget.grid()).orders();
        if spent.grid() != &grid || reserved.grid() != &grid {
            return Err(crate::curve::CurveError::GridMismatch.into());
        }
        Ok(Self { budget, spent, reserved })
    }
}

impl From<Balance> for StoredBalance {
    fn from(balance: Balance) -> Self {
        Self { budget: balance.budget, spent: balance.spent, reserved: balance.reserved }
    }
}
