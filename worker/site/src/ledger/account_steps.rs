//! The accounts of a lineage that a job charges in one step: the account of its own unit, and those of all other units
//! with a limit. Either all of them admit the step, or none is charged.

use time::OffsetDateTime;
use undertone_api::id::JobId;
use undertone_api::job::Charge;
use undertone_privacy::PrivacyUnit;
use undertone_privacy::ledger::{Balance, Budget, Draft, FilterKind, JobCertificate, JobCost};

use super::error::LedgerError;
use super::release_context::ReleaseContext;
use crate::books::{AccountBook, AccountKey, JobReservation, LedgerBooks, OtherAccount, reservation_id};
use crate::policy::{LifetimeLimit, UnitLimits};

/// A step of one account.
#[derive(Debug)]
pub(super) struct AccountStep {
    key: AccountKey,
    /// The new account, if this step opens it.
    begins: Option<AccountBook>,
    draft: Draft,
    /// The job's reservation here; `None` for a step of a job that already has one.
    reserved: Option<JobReservation>,
}

impl AccountStep {
    /// Returns the limit that decided the step.
    fn budget(&self) -> Option<Budget> {
        self.draft.balance().budget().copied()
    }
}

/// Whether the charge states the planned number of a job's releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlannedLength {
    /// It does, as in a manifest.
    Known,
    /// It states only the releases that were made: the job may have stopped because of its outputs.
    Unknown,
}

impl PlannedLength {
    /// Returns the cost of a charge to an account.
    fn price(self, balance: &Balance, charge: &Charge) -> Result<JobCost, LedgerError> {
        let Charge { event, adjacency, releases, .. } = charge;
        Ok(match self {
            Self::Known => balance.job_cost(event, *releases, *adjacency)?,
            Self::Unknown => balance.cost_of_unplanned(event, *releases, *adjacency)?,
        })
    }
}

/// Returns the steps that reserve for a job on every account that it charges, its own first, under the present limits.
pub(super) fn reserve(
    books: &LedgerBooks,
    under: &ReleaseContext,
    limits: &UnitLimits,
) -> Result<Vec<AccountStep>, LedgerError> {
    let own = under.account();
    let mut steps = vec![step(books, under, own, &under.charge, Some(limits.own), PlannedLength::Known)?];
    for (unit, limit) in others(books, own, limits) {
        let unpriced = |error| LedgerError::Unpriced(under.charge.explain_refusal(unit, error));
        let charge = under.charge.for_unit(unit).map_err(unpriced)?;
        let step = step(books, under, own.for_unit(unit), &charge, limit, PlannedLength::Known);
        steps.push(step.map_err(|source| LedgerError::OtherUnit { unit, source: Box::new(source) })?);
    }
    Ok(steps)
}

/// Returns the units other than the job's own that have a limit: those of the policy, and those for which the lineage
/// has an account. An account keeps its promised limit when the policy no longer sets one.
fn others(books: &LedgerBooks, own: AccountKey, limits: &UnitLimits) -> Vec<(PrivacyUnit, Option<LifetimeLimit>)> {
    let mut all: Vec<_> = limits.others.iter().map(|(unit, limit)| (*unit, Some(*limit))).collect();
    for key in books.accounts.keys().filter(|key| key.is_sibling(own)) {
        if !all.iter().any(|(unit, _)| *unit == key.unit) {
            all.push((key.unit, None));
        }
    }
    all
}

/// Returns the step that reserves on one account; without `limit`, under the account's present limit.
pub(super) fn step(
    books: &LedgerBooks,
    under: &ReleaseContext,
    key: AccountKey,
    charge: &Charge,
    limit: Option<LifetimeLimit>,
    plan: PlannedLength,
) -> Result<AccountStep, LedgerError> {
    let standing = books.accounts.get(&key).and_then(|book| book.account.balance().budget().copied());
    let budget = match (limit, standing) {
        // The orders of an account never change.
        (Some(limit), Some(standing)) => {
            let kept = standing.grid().filter();
            if kept != limit.filter {
                return Err(LedgerError::Filter { unit: key.unit, kept, stated: limit.filter });
            }
            limit.budget(Some(standing.grid()))?
        }
        (Some(limit), None) => limit.budget(None)?,
        (None, Some(standing)) => standing,
        (None, None) => return Err(LedgerError::NotReserved),
    };
    if standing.is_none() && budget.grid().filter() == FilterKind::Gaussian && books.has_jobs_to_take_in(key) {
        return Err(LedgerError::LateFilter { unit: key.unit });
    }
    let begins = if books.accounts.contains_key(&key) { None } else { Some(books.open_account(key, budget)?) };
    let book = books.accounts.get(&key).or(begins.as_ref()).ok_or(LedgerError::NotReserved)?;
    let mut balance = book.account.balance().clone();
    balance.set_budget(budget)?;
    let cost = plan.price(&balance, charge)?;
    let draft = book.account.draft_reserve_job(budget, reservation_id(under.job), &cost, charge.releases)?;
    let reserved = JobReservation {
        event: charge.event.clone(),
        protects: under.charge.unit,
        releases: charge.releases,
        certificate: cost.certificate(charge.releases),
        manifest: under.manifest.clone(),
        dataset: under.dataset,
    };
    Ok(AccountStep { key, begins, draft, reserved: Some(reserved) })
}

/// The terms under which a job's accounts admitted it, as stated in the reservation's row.
pub(super) struct ReservationTerms {
    /// The limit of the job's own account.
    pub(super) budget: Option<Budget>,
    /// The charge to the job's own account, under the Gaussian filter.
    pub(super) certificate: Option<JobCertificate>,
    /// The accounts of other units.
    pub(super) others: Vec<OtherAccount>,
}

/// Returns the terms of the steps of a reservation.
pub(super) fn reservation_terms(steps: &[AccountStep]) -> ReservationTerms {
    let certificate = |step: &AccountStep| step.reserved.as_ref().and_then(|reserved| reserved.certificate);
    let other = |step: &AccountStep| {
        let event = step.reserved.as_ref()?.event.clone();
        Some(OtherAccount { unit: step.key.unit, event, budget: step.budget()?, certificate: certificate(step) })
    };
    ReservationTerms {
        budget: steps.first().and_then(AccountStep::budget),
        certificate: steps.first().and_then(certificate),
        others: steps.iter().skip(1).filter_map(other).collect(),
    }
}

/// Returns the steps that pay for one release of a job on every account that it charges.
pub(super) fn commit(books: &LedgerBooks, own: AccountKey, job: JobId) -> Result<Vec<AccountStep>, LedgerError> {
    let mut steps = Vec::new();
    for (key, book) in list_accounts(books, own, job) {
        let draft = book.account.draft_commit(reservation_id(job))?;
        steps.push(AccountStep { key, begins: None, draft, reserved: None });
    }
    if steps.is_empty() { Err(LedgerError::NotReserved) } else { Ok(steps) }
}

/// Returns the steps that settle a job on every account that it charges, and the number of releases returned to the
/// job's own account.
pub(super) fn settle(books: &LedgerBooks, own: AccountKey, job: JobId) -> Result<(Vec<AccountStep>, u64), LedgerError> {
    let (mut steps, mut left) = (Vec::new(), 0);
    for (key, book) in list_accounts(books, own, job) {
        let (draft, open) = book.account.draft_settle(reservation_id(job))?;
        steps.push(AccountStep { key, begins: None, draft, reserved: None });
        left = if key == own { open } else { left };
    }
    Ok((steps, left))
}

/// Returns the accounts charged by a job that protects the unit of `own`.
fn list_accounts(books: &LedgerBooks, own: AccountKey, job: JobId) -> impl Iterator<Item = (AccountKey, &AccountBook)> {
    let is_charged = move |key: &AccountKey, book: &AccountBook| {
        (*key == own || key.is_sibling(own))
            && book.jobs.get(&job).is_some_and(|reserved| reserved.protects == own.unit)
    };
    books.accounts.iter().filter(move |(key, book)| is_charged(key, book)).map(|(key, book)| (*key, book))
}

/// Applies steps that are on disk to the books.
pub(super) fn adopt(books: &mut LedgerBooks, job: JobId, steps: Vec<AccountStep>) {
    for AccountStep { key, begins, draft, reserved } in steps {
        if let Some(book) = begins {
            books.accounts.entry(key).or_insert(book);
        }
        if let Some(book) = books.accounts.get_mut(&key) {
            book.account.adopt(draft);
            book.jobs.extend(reserved.map(|reserved| (job, reserved)));
        }
    }
}

/// Records the time of a payment on every account that the job charges.
pub(super) fn note_payment(books: &mut LedgerBooks, own: AccountKey, job: JobId, at: OffsetDateTime) {
    let keys: Vec<AccountKey> = list_accounts(books, own, job).map(|(key, _)| key).collect();
    for key in keys {
        if let Some(book) = books.accounts.get_mut(&key) {
            book.first = book.first.or(Some(at));
            book.last = Some(at);
        }
    }
}
