//! Steps that are computed but not yet applied: a site decides, writes the decision to its disk, and only then applies
//! it. A draft costs the same for any length of the account's history; a copy of the whole account would not.

use super::{Account, Balance, Budget, Cost, LedgerError, Reservation, ReservationId};

/// One step of an account: the balance after it, and the one reservation that it makes or changes.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    balance: Balance,
    reservation: Reservation,
}

impl Draft {
    /// Returns the spent and reserved costs after the step.
    pub const fn balance(&self) -> &Balance {
        &self.balance
    }
}

impl Account {
    /// Drafts [`Account::reserve`] under this budget.
    ///
    /// # Errors
    /// As [`Account::set_budget`] and [`Account::reserve`].
    pub fn draft_reserve(
        &self,
        budget: Budget,
        id: ReservationId,
        per_release: &Cost,
        releases: u64,
    ) -> Result<Draft, LedgerError> {
        self.draft_new(budget, id, |balance| balance.reserve(id, per_release, releases))
    }

    /// Drafts [`Account::reserve_whole`] under this budget.
    ///
    /// # Errors
    /// As [`Account::set_budget`] and [`Account::reserve_whole`].
    pub fn draft_reserve_whole(
        &self,
        budget: Budget,
        id: ReservationId,
        cost: &Cost,
        releases: u64,
    ) -> Result<Draft, LedgerError> {
        self.draft_new(budget, id, |balance| balance.reserve_whole(id, cost, releases))
    }

    fn draft_new(
        &self,
        budget: Budget,
        id: ReservationId,
        reserve: impl FnOnce(&mut Balance) -> Result<Reservation, LedgerError>,
    ) -> Result<Draft, LedgerError> {
        if self.reservation(id).is_some() {
            return Err(LedgerError::Duplicate(id));
        }
        let mut balance = self.balance().clone();
        balance.set_budget(budget)?;
        let reservation = reserve(&mut balance)?;
        Ok(Draft { balance, reservation })
    }

    /// Drafts [`Account::commit`].
    ///
    /// # Errors
    /// As [`Account::commit`].
    pub fn draft_commit(&self, id: ReservationId) -> Result<Draft, LedgerError> {
        let mut draft = self.draft(id)?;
        draft.balance.commit(&mut draft.reservation)?;
        Ok(draft)
    }

    /// Drafts [`Account::settle`]; also returns the number of releases that never left.
    ///
    /// # Errors
    /// As [`Account::settle`].
    pub fn draft_settle(&self, id: ReservationId) -> Result<(Draft, u64), LedgerError> {
        let mut draft = self.draft(id)?;
        let unreleased = draft.balance.settle(&mut draft.reservation)?;
        Ok((draft, unreleased))
    }

    /// Applies a drafted step. The account must not have changed since the draft.
    pub fn adopt(&mut self, draft: Draft) {
        self.replace(draft.balance, draft.reservation);
    }

    fn draft(&self, id: ReservationId) -> Result<Draft, LedgerError> {
        let reservation = self.reservation(id).ok_or(LedgerError::Unknown(id))?.clone();
        Ok(Draft { balance: self.balance().clone(), reservation })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "constants of a test are in range")]
    use super::super::GridKind;
    use super::*;
    use crate::{Adjacency, Delta, Epsilon, Event, NoiseMultiplier};

    fn account() -> (Account, Budget, Cost) {
        let limit = (Epsilon::new(4.0).unwrap(), Delta::new(1e-6).unwrap());
        let budget = Budget::new(limit.0, limit.1, GridKind::Standard).unwrap();
        let account = Account::new(Some(budget));
        let event = Event::Gaussian { noise_multiplier: NoiseMultiplier::new(8.0).unwrap() };
        let cost = account.price(&event, Adjacency::AddRemove).unwrap();
        (account, budget, cost)
    }

    #[test]
    fn adopted_draft_equals_the_direct_step() {
        let (mut drafted, budget, cost) = account();
        let mut direct = drafted.clone();
        let id = ReservationId(7);
        let draft = drafted.draft_reserve(budget, id, &cost, 3).unwrap();
        assert_eq!(drafted, direct);
        drafted.adopt(draft);
        direct.reserve(id, &cost, 3).unwrap();
        assert_eq!(drafted, direct);
        let draft = drafted.draft_commit(id).unwrap();
        assert_eq!(drafted, direct);
        drafted.adopt(draft);
        direct.commit(id).unwrap();
        assert_eq!(drafted, direct);
        let (draft, unreleased) = drafted.draft_settle(id).unwrap();
        assert_eq!(unreleased, direct.settle(id).unwrap());
        drafted.adopt(draft);
        assert_eq!(drafted, direct);
        assert_eq!(drafted, Account::rebuilt(Some(budget), drafted.reservations().cloned()).unwrap());
    }

    #[test]
    fn draft_of_refused_step_is_refused() {
        let (mut account, budget, cost) = account();
        let known = ReservationId(1);
        let unknown = ReservationId(2);
        account.reserve(known, &cost, 1).unwrap();
        assert_eq!(account.draft_reserve(budget, known, &cost, 1), Err(LedgerError::Duplicate(known)));
        assert!(matches!(account.draft_reserve(budget, unknown, &cost, u64::MAX), Err(LedgerError::Refused(_))));
        assert_eq!(account.draft_commit(unknown), Err(LedgerError::Unknown(unknown)));
        let draft = account.draft_commit(known).unwrap();
        account.adopt(draft);
        assert!(matches!(account.draft_commit(known), Err(LedgerError::Exhausted { .. })));
    }
}
