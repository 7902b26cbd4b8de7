//! The rules of the ledger, pure: what a budget admits, and what reserve, commit and settle do to a balance.
//!
//! A budget (ε, δ) becomes a filter: at each order α of a small frozen grid, the most Rényi loss B(α) that still gives
//! (ε, δ / number of orders). A release is admitted when *some* order has spent + reserved + new within B(α), charged with
//! everything so far; every order is always charged. Splitting δ over the orders is what makes "some order" sound (the
//! disjunction lemma: the first order alive at the end partitions the transcripts). Everything is exact fixed point, so
//! server, worker and browser decide alike.
//!
//! Nothing here reads a clock or a table. `Balance` is what a row of an account holds; [`Reservation`] is what a row of a
//! reservation holds; [`Account`] is both together and can be rebuilt from them.

mod account;
mod balance;
mod budget;
mod consortium;
mod filter;
mod gauge;
mod headroom;
mod refusal;
mod reservation;
#[cfg(test)]
mod schedule;

pub use account::Account;
pub use balance::Balance;
pub use budget::{Budget, BudgetError, GridKind};
pub use consortium::{Overlap, across, combined};
pub use filter::{BasicFilter, Decimal, DecimalError, GdpFilter};
pub use gauge::Summary;
pub use headroom::Headroom;
pub use refusal::{Refusal, Shortfall};
pub use reservation::{Reservation, ReservationId};

use crate::curve::CurveError;

/// What one release charges an account: its curve on the account's grid, from [`crate::mechanism::curve`].
pub type Cost = crate::curve::Curve;

/// Why the ledger did not do what it was told. Nothing has changed when one of these is returned.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LedgerError {
    /// The budget does not admit it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The cost was computed on other orders than the account keeps.
    #[error("the cost is on other orders than the account keeps: price the event on the account's grid")]
    Grid(#[from] CurveError),
    /// A second reservation with an id that is taken.
    #[error("reservation {0} exists already: reserve under a fresh id")]
    Duplicate(ReservationId),
    /// No reservation has this id.
    #[error("there is no reservation {0}: reserve before releasing")]
    Unknown(ReservationId),
    /// Every release of the reservation has been committed.
    #[error("all {releases} releases of reservation {id} are committed: reserve again for more")]
    Exhausted {
        /// The reservation.
        id: ReservationId,
        /// How many releases it was for.
        releases: u64,
    },
    /// The reservation has been settled.
    #[error("reservation {0} is settled: reserve again for more")]
    Settled(ReservationId),
    /// Stored numbers contradict each other; the row named must be rebuilt from its events.
    #[error("the stored balance contradicts its reservations ({0}): rebuild the account from its rows")]
    Inconsistent(&'static str),
}
