//! Replays the ledger by its rules, row by row: every account that a reservation charges admits it again.
//!
//! Rows from before `rdp-2` were admitted by the account of their own unit alone, and are replayed in the same way. A
//! newer row must charge every account that its lineage has at the time, except one whose unit has no price for the
//! event. Receipts that returned after a restore are charged to accounts of any unit.

use std::collections::BTreeMap;

use undertone_api::budget::EntryKind;
use undertone_api::id::JobId;
use undertone_privacy::Event;
use undertone_privacy::ledger::{Account, Budget, CertificateError, JobCertificate, JobCost, Reservation};
use undertone_privacy::mechanism::{self, EVALUATOR_VERSION};
use undertone_privacy::transfer::event_at;

use super::{AccountKey, BooksError, LedgerEntry, reservation_id};

/// A job in its own account.
struct ReplayedJob {
    event: Event,
    releases: u64,
    committed: u64,
    settled: bool,
    /// The charged accounts of other units.
    others: Vec<AccountKey>,
}

/// Whether the certificates of whole jobs are computed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CertificateCheck {
    /// They are taken as they stand in the rows, under the rows' hashes: opening a ledger takes no second for each job.
    Stated,
    /// Each is computed again from its event.
    Computed,
}

struct LedgerReplay {
    check: CertificateCheck,
    accounts: BTreeMap<AccountKey, Account>,
    jobs: BTreeMap<(AccountKey, JobId), ReplayedJob>,
}

/// Replays `rows`, each under the budgets that it states, and returns the resulting accounts.
///
/// # Errors
/// [`BooksError::Row`] at the first row that was not admissible, or whose evaluator is unknown here.
pub(crate) fn replay(
    rows: &[LedgerEntry],
    check: CertificateCheck,
) -> Result<BTreeMap<AccountKey, Account>, BooksError> {
    let mut replay = LedgerReplay { check, accounts: BTreeMap::new(), jobs: BTreeMap::new() };
    for (row, sequence) in rows.iter().zip(1..) {
        replay.follow(row).map_err(|problem| match problem {
            ReplayProblem::Row(problem) => BooksError::Row { sequence, problem },
            ReplayProblem::Books(error) => error,
        })?;
    }
    for key in replay.accounts.keys().copied().collect::<Vec<_>>() {
        replay.take_in(key)?;
    }
    Ok(replay.accounts)
}

/// Reasons why a row cannot be replayed.
enum ReplayProblem {
    Row(String),
    Books(BooksError),
}

impl<E: Into<BooksError>> From<E> for ReplayProblem {
    fn from(error: E) -> Self {
        Self::Books(error.into())
    }
}

impl LedgerReplay {
    fn follow(&mut self, row: &LedgerEntry) -> Result<(), ReplayProblem> {
        if !mechanism::can_verify(&row.evaluator) {
            return Err(ReplayProblem::Row(format!(
                "was priced by evaluator `{}`, this worker has `{EVALUATOR_VERSION}`: verify it with the version that wrote it",
                row.evaluator,
            )));
        }
        match row.kind {
            EntryKind::Reserve => self.reserve(row),
            EntryKind::Commit => self.commit(row),
            EntryKind::Settle => self.settle(row),
        }
    }

    fn reserve(&mut self, row: &LedgerEntry) -> Result<(), ReplayProblem> {
        let budget = row.budget.ok_or_else(|| ReplayProblem::Row("reserves without a budget".to_owned()))?;
        if mechanism::charges_every_unit(&row.evaluator) {
            self.open(row.account, budget)?;
            for other in &row.others {
                self.open(row.account.for_unit(other.unit), other.budget)?;
            }
            self.check_others(row)?;
        }
        self.admit(row, row.account, &row.event, budget, row.certificate)?;
        let mut others = Vec::new();
        for other in &row.others {
            let key = row.account.for_unit(other.unit);
            self.admit(row, key, &other.event, other.budget, other.certificate)?;
            others.push(key);
        }
        let job = ReplayedJob { event: row.event.clone(), releases: row.count, committed: 0, settled: false, others };
        self.jobs.insert((row.account, row.job), job);
        Ok(())
    }

    /// Opens an account if it does not exist, charged with earlier releases of jobs that protect other units.
    fn open(&mut self, key: AccountKey, budget: Budget) -> Result<(), BooksError> {
        self.accounts.entry(key).or_insert_with(|| Account::new(Some(budget)));
        self.take_in(key)
    }

    /// Checks that the row charges each account of its lineage the cost of its event there.
    fn check_others(&mut self, row: &LedgerEntry) -> Result<(), ReplayProblem> {
        let beside: Vec<AccountKey> = self.accounts.keys().filter(|key| key.is_sibling(row.account)).copied().collect();
        for key in beside {
            self.take_in(key)?;
            let stated = row.others.iter().find(|other| row.account.for_unit(other.unit) == key);
            let due = event_at(&row.event, row.account.unit, key.unit).ok();
            if stated.map(|other| &other.event) != due.as_ref() {
                return Err(ReplayProblem::Row(format!(
                    "does not charge the account of the unit {:?} what it costs",
                    key.unit
                )));
            }
        }
        Ok(())
    }

    fn admit(
        &mut self,
        row: &LedgerEntry,
        key: AccountKey,
        event: &Event,
        budget: Budget,
        certificate: Option<JobCertificate>,
    ) -> Result<(), ReplayProblem> {
        let account = self.accounts.entry(key).or_insert_with(|| Account::new(Some(budget)));
        account.set_budget(budget)?;
        let wrong = |error: CertificateError| ReplayProblem::Row(format!("charges a job wrongly: {error}"));
        if let Some(stated) = certificate.filter(|_| self.check == CertificateCheck::Computed) {
            stated.verify(event, key.adjacency()).map_err(wrong)?;
        }
        let grid = account.balance().grid();
        let cost = JobCost::from_row(event, row.count, key.adjacency(), grid, certificate.as_ref()).map_err(wrong)?;
        account
            .reserve_job(reservation_id(row.job), &cost, row.count)
            .map_err(|error| ReplayProblem::Row(format!("was never admissible: {error}")))
    }

    fn commit(&mut self, row: &LedgerEntry) -> Result<(), ReplayProblem> {
        let unpaid = |error: &dyn std::fmt::Display| ReplayProblem::Row(format!("was never paid for: {error}"));
        let job = self.jobs.get_mut(&(row.account, row.job)).ok_or_else(|| unpaid(&"nothing is reserved"))?;
        for key in std::iter::once(&row.account).chain(&job.others) {
            let account = self.accounts.get_mut(key).ok_or_else(|| unpaid(&"there is no such account"))?;
            account.commit(reservation_id(row.job)).map_err(|error| unpaid(&error))?;
        }
        job.committed += 1;
        Ok(())
    }

    fn settle(&mut self, row: &LedgerEntry) -> Result<(), ReplayProblem> {
        let missing = || ReplayProblem::Row("settles what was never reserved".to_owned());
        let job = self.jobs.get_mut(&(row.account, row.job)).ok_or_else(missing)?;
        for key in std::iter::once(&row.account).chain(&job.others) {
            let rest = self.accounts.get_mut(key).ok_or_else(missing)?.settle(reservation_id(row.job))?;
            if rest != row.count {
                return Err(ReplayProblem::Row(format!("gives back {} releases of {rest} left", row.count)));
            }
        }
        job.settled = true;
        Ok(())
    }

    /// Charges an account for jobs of its lineage that protect other units and are not yet charged to it: jobs from
    /// before it began, and from before `rdp-2`. No limit is applied, because these releases already happened.
    fn take_in(&mut self, key: AccountKey) -> Result<(), BooksError> {
        let Some(account) = self.accounts.get(&key) else { return Ok(()) };
        let mut rows: Vec<Reservation> = account.reservations().cloned().collect();
        let before = rows.len();
        for ((own, id), job) in &mut self.jobs {
            if !own.is_sibling(key) || job.others.contains(&key) {
                continue;
            }
            let Ok(event) = event_at(&job.event, own.unit, key.unit) else { continue };
            let cost = JobCost::for_event(&event, account.price(&event, key.adjacency())?);
            rows.push(Reservation::from_job(reservation_id(*id), cost, job.releases, job.committed, job.settled)?);
            job.others.push(key);
        }
        if rows.len() > before {
            let account = Account::rebuilt(account.balance().budget().copied(), rows)?;
            self.accounts.insert(key, account);
        }
        Ok(())
    }
}
