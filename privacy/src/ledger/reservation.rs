//! One reservation: the worst case of a job on one account, and the number of releases made under it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Cost, LedgerError};

/// The key of a reservation; a UUID fits. Serialized as a decimal string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ReservationId(pub u128);

impl fmt::Display for ReservationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for ReservationId {
    type Err = std::num::ParseIntError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl TryFrom<String> for ReservationId {
    type Error = std::num::ParseIntError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<ReservationId> for String {
    fn from(id: ReservationId) -> Self {
        id.to_string()
    }
}

/// The content of a reservation's row. [`super::Balance::reserve`] makes it; only `commit` and `settle` there change
/// it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StoredReservation", into = "StoredReservation")]
pub struct Reservation {
    id: ReservationId,
    per_release: Cost,
    releases: u64,
    committed: u64,
    settled: bool,
    whole: bool,
}

impl Reservation {
    pub(super) fn new(id: ReservationId, per_release: Cost, releases: u64) -> Self {
        Self { id, per_release, releases, committed: 0, settled: false, whole: false }
    }

    pub(super) fn new_whole(id: ReservationId, cost: Cost, releases: u64) -> Self {
        Self { id, per_release: cost, releases, committed: 0, settled: false, whole: true }
    }

    /// Makes a reservation from its stored parts.
    ///
    /// # Errors
    /// [`LedgerError::Inconsistent`] when more releases are committed than were reserved.
    pub fn from_parts(
        id: ReservationId,
        per_release: Cost,
        releases: u64,
        committed: u64,
        settled: bool,
    ) -> Result<Self, LedgerError> {
        if committed > releases {
            return Err(LedgerError::Inconsistent("more releases committed than reserved"));
        }
        Ok(Self { id, per_release, releases, committed, settled, whole: false })
    }

    /// Makes a reservation of a job that is charged as a whole, from its stored parts; `cost` is that of the job.
    ///
    /// # Errors
    /// As [`Reservation::from_parts`].
    pub fn from_whole_parts(
        id: ReservationId,
        cost: Cost,
        releases: u64,
        committed: u64,
        settled: bool,
    ) -> Result<Self, LedgerError> {
        Ok(Self { whole: true, ..Self::from_parts(id, cost, releases, committed, settled)? })
    }

    /// Returns its key.
    pub const fn id(&self) -> ReservationId {
        self.id
    }

    /// Returns the cost of each release; of a job that is charged as a whole, the cost of the job.
    pub const fn per_release(&self) -> &Cost {
        &self.per_release
    }

    /// Returns true if the first release spends the cost of the whole job, and the others nothing.
    pub const fn is_whole(&self) -> bool {
        self.whole
    }

    /// Returns the cost that the next release spends.
    pub(super) fn next_cost(&self) -> Cost {
        self.per_release.times(u64::from(!self.whole || self.committed == 0))
    }

    /// Returns the number of reserved releases.
    pub const fn releases(&self) -> u64 {
        self.releases
    }

    /// Returns the number of committed releases.
    pub const fn committed(&self) -> u64 {
        self.committed
    }

    /// Returns true once the unreleased part has been returned.
    pub const fn is_settled(&self) -> bool {
        self.settled
    }

    /// Returns the number of releases that it still holds: none once settled.
    pub const fn open(&self) -> u64 {
        if self.settled { 0 } else { self.releases - self.committed }
    }

    /// Returns the cost that was spent under it.
    pub fn spent(&self) -> Cost {
        self.per_release.times(if self.whole { self.committed.min(1) } else { self.committed })
    }

    /// Returns the cost that it still holds.
    pub fn open_cost(&self) -> Cost {
        let open = self.open();
        self.per_release.times(if self.whole { u64::from(self.committed == 0 && open > 0) } else { open })
    }

    /// Counts one release.
    ///
    /// # Errors
    /// [`LedgerError::Settled`] or [`LedgerError::Exhausted`]: there must be room reserved for it.
    pub(super) fn count_release(&mut self) -> Result<(), LedgerError> {
        if self.settled {
            return Err(LedgerError::Settled(self.id));
        }
        if self.committed == self.releases {
            return Err(LedgerError::Exhausted { id: self.id, releases: self.releases });
        }
        self.committed += 1;
        Ok(())
    }

    /// Closes it.
    pub(super) fn close(&mut self) {
        self.settled = true;
    }
}

/// The form of a reservation in a database row.
#[derive(Serialize, Deserialize)]
struct StoredReservation {
    id: ReservationId,
    per_release: Cost,
    releases: u64,
    committed: u64,
    settled: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    whole: bool,
}

impl TryFrom<StoredReservation> for Reservation {
    type Error = LedgerError;
    fn try_from(stored: StoredReservation) -> Result<Self, LedgerError> {
        let StoredReservation { id, per_release, releases, committed, settled, whole } = stored;
        Ok(Self { whole, ..Self::from_parts(id, per_release, releases, committed, settled)? })
    }
}

impl From<Reservation> for StoredReservation {
    fn from(reservation: Reservation) -> Self {
        let Reservation { id, per_release, releases, committed, settled, whole } = reservation;
        Self { id, per_release, releases, committed, settled, whole }
    }
}
