//! An account: a balance with all its reservations, for a site that keeps both in memory and for rebuilding.

use std::collections::BTreeMap;

use super::{Balance, Budget, Cost, Headroom, LedgerError, Reservation, ReservationId, Summary};
use crate::adjacency::Adjacency;
use crate::event::Event;
use crate::mechanism::PriceError;

/// A balance together with its reservations. The balance is their sum.
#[derive(Debug, Clone, PartialEq)]
pub struct Account {
    balance: Balance,
    reservations: BTreeMap<ReservationId, Reservation>,
}

impl Account {
    /// Makes a new account; without a budget it refuses everything.
    pub fn new(budget: Option<Budget>) -> Self {
        Self { balance: Balance::new(budget), reservations: BTreeMap::new() }
    }

    /// Makes an account from its rows. The balance is computed from them, never read.
    ///
    /// # Errors
    /// [`LedgerError::Duplicate`] when two rows have one id, [`LedgerError::Grid`] when a row is on other orders.
    pub fn rebuilt(budget: Option<Budget>, rows: impl IntoIterator<Item = Reservation>) -> Result<Self, LedgerError> {
        let mut reservations = BTreeMap::new();
        for row in rows {
            if let Some(twice) = reservations.insert(row.id(), row) {
                return Err(LedgerError::Duplicate(twice.id()));
            }
        }
        Ok(Self { balance: Balance::rebuilt(budget, reservations.values())?, reservations })
    }

    /// Returns the spent and reserved costs.
    pub const fn balance(&self) -> &Balance {
        &self.balance
    }

    /// Iterates over the reservations, by id.
    pub fn reservations(&self) -> impl Iterator<Item = &Reservation> {
        self.reservations.values()
    }

    /// Returns one reservation.
    pub fn reservation(&self, id: ReservationId) -> Option<&Reservation> {
        self.reservations.get(&id)
    }

    /// Returns the cost of an event on this account.
    ///
    /// # Errors
    /// [`PriceError`] when the event cannot be priced.
    pub fn price(&self, event: &Event, adjacency: Adjacency) -> Result<Cost, PriceError> {
        self.balance.price(event, adjacency)
    }

    /// Replaces the budget, or sets the first one.
    ///
    /// # Errors
    /// As [`Balance::set_budget`].
    pub fn set_budget(&mut self, budget: Budget) -> Result<(), LedgerError> {
        self.balance.set_budget(budget)
    }

    /// Reserves `releases` releases of `per_release` each, all or nothing, under a fresh id.
    ///
    /// # Errors
    /// [`LedgerError::Duplicate`] when the id is taken, otherwise as [`Balance::reserve`]. Nothing has changed then.
    pub fn reserve(&mut self, id: ReservationId, per_release: &Cost, releases: u64) -> Result<(), LedgerError> {
        if self.reservations.contains_key(&id) {
            return Err(LedgerError::Duplicate(id));
        }
        let reservation = self.balance.reserve(id, per_release, releases)?;
        self.reservations.insert(id, reservation);
        Ok(())
    }

    /// Reserves a job of `releases` releases that is charged as a whole, under a fresh id.
    ///
    /// # Errors
    /// As [`Account::reserve`].
    pub fn reserve_whole(&mut self, id: ReservationId, cost: &Cost, releases: u64) -> Result<(), LedgerError> {
        if self.reservations.contains_key(&id) {
            return Err(LedgerError::Duplicate(id));
        }
        let reservation = self.balance.reserve_whole(id, cost, releases)?;
        self.reservations.insert(id, reservation);
        Ok(())
    }

    /// Commits one release of a reservation. The commit must be durable before the release leaves.
    ///
    /// # Errors
    /// [`LedgerError::Unknown`] without such a reservation, otherwise as [`Balance::commit`]. Nothing has changed then.
    pub fn commit(&mut self, id: ReservationId) -> Result<(), LedgerError> {
        let reservation = self.reservations.get_mut(&id).ok_or(LedgerError::Unknown(id))?;
        self.balance.commit(reservation)
    }

    /// Returns the remainder of a reservation to the budget and closes it. Returns the number of releases that never
    /// left.
    ///
    /// # Errors
    /// [`LedgerError::Unknown`] without such a reservation, otherwise as [`Balance::settle`].
    pub fn settle(&mut self, id: ReservationId) -> Result<u64, LedgerError> {
        let reservation = self.reservations.get_mut(&id).ok_or(LedgerError::Unknown(id))?;
        self.balance.settle(reservation)
    }

    /// Replaces the balance and the one reservation that changed with it.
    pub(super) fn replace(&mut self, balance: Balance, reservation: Reservation) {
        self.balance = balance;
        self.reservations.insert(reservation.id(), reservation);
    }

    /// Returns the headroom for further reservations.
    pub fn headroom(&self) -> Headroom {
        self.balance.headroom()
    }

    /// Returns ε spent, rounded up.
    pub fn epsilon_spent(&self) -> f64 {
        self.balance.epsilon_spent()
    }

    /// Returns the numbers of the gauge.
    pub fn summary(&self) -> Summary {
        self.balance.summary()
    }
}
