//! Steps worked out but not yet made: a site decides, writes the decision to its disk, and only then counts it. A draft
//! costs the same however long the account's history is; a copy of the whole account would not.

use super::{Account, Balance, Budget, Cost, LedgerError, Reservation, ReservationId};

/// One step of an account: the balance after it, and the one reservation that it makes or changes.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    balance: Balance,
    reservation: Reservation,
}

impl Draft {
    /// What will be spent and reserved.
    pub const fn balance(&self) -> &Balance {
        &self.balance
    }
}

impl Account {
    /// [`Account::reserve`] under this budget, drafted.
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
        if self.reservation(id).is_some() {
            return Err(LedgerError::Duplicate(id));
        }
        let mut balance = self.balance().clone();
        balance.set_budget(budget)?;
        let reservation = balance.reserve(id, per_release, releases)?;
        Ok(Draft { balance, reservation })
    }

    /// [`Account::commit`], drafted.
    ///
    /// # Errors
    /// As [`Account::commit`].
    pub fn draft_commit(&self, id: ReservationId) -> Result<Draft, LedgerError> {
        let mut draft = self.draft(id)?;
        draft.balance.commit(&mut draft.reservation)?;
        Ok(draft)
    }

    /// [`Account::settle`], drafted; with the number of releases that never left.
    ///
    /// # Errors
    /// As [`Account::settle`].
    pub fn draft_settle(&self, id: ReservationId) -> Result<(Draft, u64), LedgerError> {
        let mut draft = self.draft(id)?;
        let left = draft.balance.settle(&mut draft.reservation)?;
        Ok((draft, left))
    }

    /// Makes a step that was drafted. Between the draft and this, nothing else may have changed the account.
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
    fn a_draft_changes_nothing_until_it_is_adopted_and_then_what_the_step_itself_would_have() {
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
        let (draft, left) = drafted.draft_settle(id).unwrap();
        assert_eq!(left, direct.settle(id).unwrap());
        drafted.adopt(draft);
        assert_eq!(drafted, direct);
        assert_eq!(drafted, Account::rebuilt(Some(budget), drafted.reservations().cloned()).unwrap());
    }

    #[test]
    fn what_the_account_refuses_cannot_be_drafted() {
        let (mut account, budget, cost) = account();
        let (known, unknown) = (ReservationId(1), ReservationId(2));
        account.reserve(known, &cost, 1).unwrap();
        assert_eq!(account.draft_reserve(budget, known, &cost, 1), Err(LedgerError::Duplicate(known)));
        assert!(matches!(account.draft_reserve(budget, unknown, &cost, u64::MAX), Err(LedgerError::Refused(_))));
        assert_eq!(account.draft_commit(unknown), Err(LedgerError::Unknown(unknown)));
        let draft = account.draft_commit(known).unwrap();
        account.adopt(draft);
        assert!(matches!(account.draft_commit(known), Err(LedgerError::Exhausted { .. })));
    }
}
