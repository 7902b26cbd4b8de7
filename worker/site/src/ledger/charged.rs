//! The accounts of a lineage that a job is charged to, in one step: that of the unit which it protects, and that of every other unit
//! with a limit. Either all of them admit it, or none is charged.

use time::OffsetDateTime;
use undertone_api::id::JobId;
use undertone_api::job::Charge;
use undertone_privacy::ledger::{Budget, Draft};
use undertone_privacy::{PrivacyUnit, mechanism};

use super::{LedgerError, Under};
use crate::books::{AccountKey, Book, Books, OtherAccount, Reserved, reservation_id};
use crate::policy::{Limit, UnitLimits};

/// A step of one account.
#[derive(Debug)]
pub(super) struct AccountStep {
    key: AccountKey,
    /// The account, if it begins with this step.
    begins: Option<Book>,
    draft: Draft,
    /// What the job reserves here; nothing for a step of a job that is known.
    reserved: Option<Reserved>,
}

impl AccountStep {
    /// The limit under which the step was decided.
    fn budget(&self) -> Option<Budget> {
        self.draft.balance().budget().copied()
    }
}

/// The step that reserves for a job on every account that it charges, its own first, under the present limits.
pub(super) fn reserve(books: &Books, under: &Under, limits: &UnitLimits) -> Result<Vec<AccountStep>, LedgerError> {
    let own = under.account();
    let mut steps = vec![step(books, under, own, &under.charge, Some(limits.own))?];
    for (unit, limit) in others(books, own, limits) {
        let unpriced = |error| LedgerError::Unpriced(under.charge.explain_refusal(unit, error));
        let charge = under.charge.for_unit(unit).map_err(unpriced)?;
        let step = step(books, under, own.for_unit(unit), &charge, limit);
        steps.push(step.map_err(|source| LedgerError::OtherUnit { unit, source: Box::new(source) })?);
    }
    Ok(steps)
}

/// The units beside a job's own that have a limit: those of the policy, and those of which the lineage has an account. A limit that
/// was once promised keeps its promise when the policy names it no more.
fn others(books: &Books, own: AccountKey, limits: &UnitLimits) -> Vec<(PrivacyUnit, Option<Limit>)> {
    let mut all: Vec<_> = limits.others.iter().map(|(unit, limit)| (*unit, Some(*limit))).collect();
    for key in books.accounts.keys().filter(|key| key.is_beside(own)) {
        if !all.iter().any(|(unit, _)| *unit == key.unit) {
            all.push((key.unit, None));
        }
    }
    all
}

/// The step that reserves on one account; without a limit, under the one that it stands under.
pub(super) fn step(
    books: &Books,
    under: &Under,
    key: AccountKey,
    charge: &Charge,
    limit: Option<Limit>,
) -> Result<AccountStep, LedgerError> {
    let standing = books.accounts.get(&key).and_then(|book| book.account.balance().budget().copied());
    let budget = match (limit, standing) {
        // The orders that an account keeps never change.
        (Some(limit), standing) => limit.budget(standing.as_ref().map(Budget::grid))?,
        (None, Some(standing)) => standing,
        (None, None) => return Err(LedgerError::NotReserved),
    };
    let cost = mechanism::curve(&charge.event, charge.adjacency, &budget.grid().orders())?;
    let begins = if books.accounts.contains_key(&key) { None } else { Some(books.opened(key, budget)?) };
    let book = books.accounts.get(&key).or(begins.as_ref()).ok_or(LedgerError::NotReserved)?;
    let draft = book.account.draft_reserve(budget, reservation_id(under.job), &cost, charge.releases)?;
    let reserved = Reserved {
        event: charge.event.clone(),
        protects: under.charge.unit,
        releases: charge.releases,
        manifest: under.manifest.clone(),
        dataset: under.dataset,
    };
    Ok(AccountStep { key, begins, draft, reserved: Some(reserved) })
}

/// The budget of the first account, and what the row of the reservation says of the others.
pub(super) fn stated(steps: &[AccountStep]) -> (Option<Budget>, Vec<OtherAccount>) {
    let other = |step: &AccountStep| {
        let event = step.reserved.as_ref()?.event.clone();
        Some(OtherAccount { unit: step.key.unit, event, budget: step.budget()? })
    };
    let own = steps.first().and_then(AccountStep::budget);
    (own, steps.iter().skip(1).filter_map(other).collect())
}

/// The step that pays for one release of a job on every account that it is charged to.
pub(super) fn commit(books: &Books, own: AccountKey, job: JobId) -> Result<Vec<AccountStep>, LedgerError> {
    let mut steps = Vec::new();
    for (key, book) in charged(books, own, job) {
        let draft = book.account.draft_commit(reservation_id(job))?;
        steps.push(AccountStep { key, begins: None, draft, reserved: None });
    }
    if steps.is_empty() { Err(LedgerError::NotReserved) } else { Ok(steps) }
}

/// The step that settles a job on every account that it is charged to, and how many releases that gives back.
pub(super) fn settle(books: &Books, own: AccountKey, job: JobId) -> Result<(Vec<AccountStep>, u64), LedgerError> {
    let (mut steps, mut left) = (Vec::new(), 0);
    for (key, book) in charged(books, own, job) {
        let (draft, open) = book.account.draft_settle(reservation_id(job))?;
        steps.push(AccountStep { key, begins: None, draft, reserved: None });
        left = if key == own { open } else { left };
    }
    Ok((steps, left))
}

/// The accounts that a job which protects the unit of `own` is charged to.
fn charged(books: &Books, own: AccountKey, job: JobId) -> impl Iterator<Item = (AccountKey, &Book)> {
    let is_charged = move |key: &AccountKey, book: &Book| {
        (*key == own || key.is_beside(own)) && book.jobs.get(&job).is_some_and(|reserved| reserved.protects == own.unit)
    };
    books.accounts.iter().filter(move |(key, book)| is_charged(key, book)).map(|(key, book)| (*key, book))
}

/// Counts a step that is on disk.
pub(super) fn adopt(books: &mut Books, job: JobId, steps: Vec<AccountStep>) {
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

/// Notes when a job paid, on every account that it is charged to.
pub(super) fn note_payment(books: &mut Books, own: AccountKey, job: JobId, at: OffsetDateTime) {
    let keys: Vec<AccountKey> = charged(books, own, job).map(|(key, _)| key).collect();
    for key in keys {
        if let Some(book) = books.accounts.get_mut(&key) {
            book.first = book.first.or(Some(at));
            book.last = Some(at);
        }
    }
}
