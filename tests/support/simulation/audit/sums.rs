//! Sums of an account, in whole numbers, computed from its rows.

use undertone_privacy::curve::Curve;
use undertone_privacy::ledger::Budget;
use undertone_privacy::{Adjacency, Event, mechanism};

use super::super::Failed;

/// One reservation, computed from its rows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ReservationState {
    pub(crate) event: Event,
    pub(crate) reserved: u64,
    pub(crate) committed: u64,
    pub(crate) settled: bool,
    /// The number of releases returned by the settlement.
    pub(crate) returned: u64,
    /// The worker of the part, where it is known.
    pub(crate) worker: String,
}

impl ReservationState {
    pub(crate) const fn new(event: Event, reserved: u64) -> Self {
        Self { event, reserved, committed: 0, settled: false, returned: 0, worker: String::new() }
    }

    /// Returns the number of releases that count against the budget.
    const fn count_charged(&self) -> u64 {
        if self.settled { self.committed } else { self.reserved }
    }

    /// Adds one release.
    pub(crate) fn commit(&mut self, event: &Event) -> Result<(), String> {
        if self.settled {
            return Err("a release was committed after its reservation was settled".to_owned());
        }
        if *event != self.event {
            return Err("another release was committed than was reserved".to_owned());
        }
        self.committed += 1;
        if self.committed > self.reserved {
            return Err(format!("{} releases were committed of {} reserved", self.committed, self.reserved));
        }
        Ok(())
    }

    /// Settles the reservation.
    pub(crate) fn settle(&mut self, returned: u64) -> Result<(), String> {
        if self.settled {
            return Err("a reservation was settled twice".to_owned());
        }
        if returned + self.committed != self.reserved {
            return Err(format!(
                "a settlement gave back {returned} of {} releases, and {} were committed",
                self.reserved, self.committed
            ));
        }
        (self.settled, self.returned) = (true, returned);
        Ok(())
    }
}

/// Checks that at least one order keeps all releases within its share of the budget.
///
/// # Errors
/// The outer error when an event has no price, the inner error when the cap is exceeded.
pub(crate) fn check_cap<'a>(
    budget: &Budget,
    adjacency: Adjacency,
    parts: impl Iterator<Item = &'a ReservationState>,
) -> Result<Result<(), String>, Failed> {
    let grid = budget.grid().orders();
    let mut sums = vec![0_u128; grid.len()];
    for part in parts {
        let cost = mechanism::curve(&part.event, adjacency, &grid)?;
        for (sum, (_, loss)) in sums.iter_mut().zip(cost.losses()) {
            *sum += loss.units() * u128::from(part.count_charged());
        }
    }
    let shares = budget.shares();
    let is_within = sums.iter().zip(&shares).any(|(sum, share)| share.is_some_and(|share| *sum <= share.units()));
    Ok(if is_within {
        Ok(())
    } else {
        Err(format!("the cap of epsilon {} is exceeded at every order", budget.epsilon().get()))
    })
}

/// Checks that a projection equals the sum of the rows.
///
/// # Errors
/// The outer error when an event has no price, the inner error when the projection differs.
pub(crate) fn projected<'a>(
    spent: &Curve,
    reserved: &Curve,
    adjacency: Adjacency,
    parts: impl Iterator<Item = &'a ReservationState>,
) -> Result<Result<(), String>, Failed> {
    let grid = spent.grid();
    let (mut paid, mut open) = (vec![0_u128; grid.len()], vec![0_u128; grid.len()]);
    for part in parts {
        let cost = mechanism::curve(&part.event, adjacency, grid)?;
        for (order, (_, loss)) in cost.losses().enumerate() {
            paid[order] += loss.units() * u128::from(part.committed);
            open[order] += loss.units() * u128::from(part.count_charged() - part.committed);
        }
    }
    let same = spent.losses().map(|(_, loss)| loss.units()).eq(paid)
        && reserved.losses().map(|(_, loss)| loss.units()).eq(open);
    Ok(if same { Ok(()) } else { Err("an account's balance is not the sum of its rows".to_owned()) })
}
