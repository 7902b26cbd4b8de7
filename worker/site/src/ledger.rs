//! The site's own ledger: reserve, commit, settle. Nothing else at this site permits a private release.
//!
//! One process writes it (it holds the site's [`SiteLock`]). The pure rules take a decision; it is written with its receipt
//! in one transaction, and counted only afterwards. When the disk fails in between, the books are read again from the
//! rows, so that memory never knows less than the disk. The server has no influence here: it may ask for less than the
//! manifest, never for more.

mod account_steps;
pub mod anchor;
pub(crate) mod error;
mod import;
mod publish;
pub(crate) mod recovery;
pub(crate) mod release_context;
pub(crate) mod rows;
pub(crate) mod verify;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, Transaction, params};
use time::OffsetDateTime;
use undertone_api::budget::EntryKind;
use undertone_api::id::{DatasetId, JobId, WorkerId};
use undertone_api::signed::{Receipt, Signed};
use undertone_privacy::mechanism::EVALUATOR_VERSION;
use undertone_privacy::{Delta, Event};

use super::audits::freeze::{self, AccountFreeze};
use super::books::{
    AccountBook, AccountKey, CertificateCheck, ChainHead, JobReservation, LedgerBooks, LedgerEntry, reservation_id,
};
use super::clock::Clock;
use super::folder::SiteLock;
use super::keys::SiteKey;
use super::outbox::{self, StoredRelease};
use super::policy::UnitLimits;
use super::store::{Store, StoreError, sql};
use super::witness::{alarm, positions};
use crate::fault;

use self::account_steps::ReservationTerms;
use self::anchor::{AnchoredHead, LedgerAnchor};
use self::rows::{insert_entry, no_receipt, receipt_digest};

pub use self::error::{ImportError, LedgerError};
pub use self::recovery::ImportSummary;
pub use self::release_context::ReleaseContext;
pub use self::rows::length;
pub use self::verify::{LedgerSummary, verify};

/// A payment: its receipt, and the receipt's number in the site's chain.
#[derive(Debug)]
pub struct ReleasePayment {
    /// The signed receipt.
    pub signed: Signed,
    /// The receipt's number.
    pub receipt: u64,
}

struct LedgerState {
    books: LedgerBooks,
    /// Set when the disk may know more than the books: they are read again before the next decision.
    stale: bool,
}

/// The ledger, open for writing.
pub struct Ledger {
    store: Arc<Store>,
    key: SiteKey,
    worker: WorkerId,
    clock: Clock,
    state: Mutex<LedgerState>,
    anchor: Option<LedgerAnchor>,
    _lock: SiteLock,
}

impl Ledger {
    /// Opens the ledger in `store` for writing; `lock` proves that no other process does.
    ///
    /// # Errors
    /// [`LedgerError::Books`] when its rows are inconsistent: nothing may be released until that is explained.
    pub fn open(
        store: Arc<Store>,
        lock: SiteLock,
        key: SiteKey,
        worker: WorkerId,
        clock: Clock,
    ) -> Result<Self, LedgerError> {
        let books = store.read(LedgerBooks::read)?;
        store.read(|db| verify::cross_check(db, &books, CertificateCheck::Stated))?;
        Ok(Self {
            store,
            key,
            worker,
            clock,
            state: Mutex::new(LedgerState { books, stale: false }),
            anchor: None,
            _lock: lock,
        })
    }

    /// Compares the ledger with `anchor` from now on, before anything leaves and after every payment.
    #[must_use]
    pub fn with_anchor(self, anchor: Option<LedgerAnchor>) -> Self {
        Self { anchor, ..self }
    }

    /// Returns whether anything may leave at all: no alarm about the server is open, the ledger was not just restored, and it
    /// lacks no receipt that its anchor or a peer has seen.
    ///
    /// # Errors
    /// [`LedgerError::Alarm`], [`LedgerError::Restored`], [`LedgerError::Position`] and [`LedgerError::Anchor`] otherwise.
    pub fn check_quiet(&self) -> Result<(), LedgerError> {
        self.store.read(check_quiet)?;
        if self.anchor.is_none() { Ok(()) } else { self.follow_anchor(&self.lock_state()?.books) }
    }

    /// Advances the anchor to the books, or rejects books that are older.
    fn follow_anchor(&self, books: &LedgerBooks) -> Result<(), LedgerError> {
        let Some(anchor) = &self.anchor else { return Ok(()) };
        anchor.follow(&books.receipts, |number| Ok(self.store.read(|db| receipt_digest(db, number))?))
    }

    /// Checks whether the ledger would admit this now. Changes nothing.
    ///
    /// # Errors
    /// The errors of [`Ledger::reserve`].
    pub fn check(&self, under: &ReleaseContext, limits: impl Into<UnitLimits>) -> Result<(), LedgerError> {
        self.check_quiet()?;
        let state = self.lock_state()?;
        match state.books.accounts.get(&under.account()).and_then(|book| existing_reservation(book, under)) {
            Some(standing) => standing,
            None => self
                .check_freeze(under)
                .and_then(|()| account_steps::reserve(&state.books, under, &limits.into()).map(drop)),
        }
    }

    /// Reserves the worst case of a job under the present limits of all units, or nothing; durable when this returns. A
    /// job that already has its reservation keeps it.
    ///
    /// # Errors
    /// [`LedgerError::Rule`] with the figures when the limit does not admit it. [`LedgerError::OtherUnit`] and
    /// [`LedgerError::Unpriced`] when the limit of another unit does not. [`LedgerError::Settled`] and
    /// [`LedgerError::Changed`] for a job that was here before. In these cases nothing has changed.
    pub fn reserve(&self, under: &ReleaseContext, limits: impl Into<UnitLimits>) -> Result<(), LedgerError> {
        self.check_quiet()?;
        let mut state = self.lock_state()?;
        let key = under.account();
        if let Some(standing) = state.books.accounts.get(&key).and_then(|book| existing_reservation(book, under)) {
            return standing;
        }
        self.check_freeze(under)?;
        let steps = account_steps::reserve(&state.books, under, &limits.into())?;
        let ReservationTerms { budget, certificate, others } = account_steps::reservation_terms(&steps);
        let entry =
            LedgerEntry { budget, certificate, others, ..self.entry(EntryKind::Reserve, under, under.charge.releases) };
        let head = self.append(&mut state, |head, tx| Ok(insert_entry(tx, head, &entry)?))?;
        state.books.entries = head;
        account_steps::adopt(&mut state.books, under.job, steps);
        Ok(())
    }

    /// Checks whether the ledger would pay for one release of a job now. Changes nothing.
    ///
    /// # Errors
    /// The errors of [`Ledger::commit`].
    pub fn check_release(&self, under: &ReleaseContext, event: &Event) -> Result<(), LedgerError> {
        self.check_quiet()?;
        let state = self.lock_state()?;
        self.draft_release(&state.books, under, event).map(|_| ())
    }

    /// Returns the steps that would charge one release of a job, one for each account.
    fn draft_release(
        &self,
        books: &LedgerBooks,
        under: &ReleaseContext,
        event: &Event,
    ) -> Result<Vec<account_steps::AccountStep>, LedgerError> {
        let key = under.account();
        let book = books.accounts.get(&key).ok_or(LedgerError::NotReserved)?;
        let reserved = book.jobs.get(&under.job).ok_or(LedgerError::NotReserved)?;
        if reserved.manifest != under.manifest {
            return Err(LedgerError::Changed { found: reserved.releases });
        }
        if reserved.event != *event {
            let (reserved, asked) = (Box::new(reserved.event.clone()), Box::new(event.clone()));
            return Err(LedgerError::OtherEvent { reserved, asked });
        }
        self.check_freeze(under)?;
        account_steps::commit(books, key, under.job)
    }

    /// Pays for one release of a job, whose bytes are stored. Charge, signed receipt and the reference to the bytes are
    /// written in one transaction, and are on disk when this returns.
    ///
    /// # Errors
    /// [`LedgerError`] when nothing is reserved for it, [`LedgerError::Released`] when it was released already or its
    /// bytes are lost. In that case nothing has changed.
    pub fn commit(
        &self,
        under: &ReleaseContext,
        event: &Event,
        release: &StoredRelease,
    ) -> Result<ReleasePayment, LedgerError> {
        let mut state = self.lock_state()?;
        self.follow_anchor(&state.books)?;
        let key = under.account();
        let steps = self.draft_release(&state.books, under, event)?;
        let entry = self.entry(EntryKind::Commit, under, 1);
        let at = entry.at;
        fault::point(fault::BEFORE_COMMIT);
        let last = state.books.receipts.clone();
        let (head, receipts, signed) = self.append(&mut state, |head, tx| {
            check_quiet(tx)?;
            let (receipts, signed) = self.insert_receipt(tx, &last, under, event, release, at)?;
            let entry = LedgerEntry { receipt: Some(receipts.sequence), ..entry };
            Ok((insert_entry(tx, head, &entry)?, receipts, signed))
        })?;
        fault::point(fault::AFTER_COMMIT);
        state.books.entries = head;
        let receipt = receipts.sequence;
        state.books.receipts = receipts;
        account_steps::adopt(&mut state.books, under.job, steps);
        account_steps::note_payment(&mut state.books, key, under.job, at);
        self.follow_anchor(&state.books)?;
        Ok(ReleasePayment { signed, receipt })
    }

    /// Returns the unreleased part of a job's reservation to the account; the job can spend nothing here any more.
    /// Returns the number of releases, 0 when there was nothing to settle. A job that was open in a restored copy of
    /// this ledger gets nothing back: its reservation is permanent.
    ///
    /// # Errors
    /// [`LedgerError`] when the database fails. In that case the reservation remains.
    pub fn settle(&self, under: &ReleaseContext) -> Result<u64, LedgerError> {
        self.settle_account(under.account(), under.job)
    }

    /// Settles, as [`Ledger::settle`], a job of which only the id is known: its reservations for `dataset`, or all of
    /// them.
    ///
    /// # Errors
    /// The errors of [`Ledger::settle`].
    pub fn settle_job(&self, job: JobId, dataset: Option<DatasetId>) -> Result<u64, LedgerError> {
        let keys: Vec<_> = {
            let state = self.lock_state()?;
            let of_part = |reserved: &JobReservation| dataset.is_none_or(|dataset| reserved.dataset == dataset);
            let is_own =
                |key: &AccountKey, reserved: &JobReservation| reserved.protects == key.unit && of_part(reserved);
            let of_job = state.books.accounts.iter();
            let of_job = of_job.filter(|(key, book)| book.jobs.get(&job).is_some_and(|reserved| is_own(key, reserved)));
            of_job.map(|(key, _)| *key).collect()
        };
        keys.into_iter().try_fold(0, |sum, key| Ok(sum + self.settle_account(key, job)?))
    }

    fn settle_account(&self, key: AccountKey, job: JobId) -> Result<u64, LedgerError> {
        let mut state = self.lock_state()?;
        let Some(book) = state.books.accounts.get(&key) else { return Ok(0) };
        let Some(reserved) = book.jobs.get(&job) else { return Ok(0) };
        if book.account.reservation(reservation_id(job)).is_none_or(undertone_privacy::ledger::Reservation::is_settled)
        {
            return Ok(0);
        }
        if self.store.read(|db| recovery::is_withheld(db, job, reserved.dataset))? {
            tracing::warn!(job.id = %job, dataset.id = %reserved.dataset, "the job was open in a copy of this ledger that was put back: nothing that it reserved is given back");
            return Ok(0);
        }
        let (steps, left) = account_steps::settle(&state.books, key, job)?;
        let entry = LedgerEntry {
            kind: EntryKind::Settle,
            account: key,
            job,
            dataset: reserved.dataset,
            manifest: reserved.manifest.clone(),
            event: reserved.event.clone(),
            count: left,
            evaluator: EVALUATOR_VERSION.to_owned(),
            budget: None,
            certificate: None,
            receipt: None,
            others: Vec::new(),
            at: (self.clock)(),
        };
        let head = self.append(&mut state, |head, tx| Ok(insert_entry(tx, head, &entry)?))?;
        state.books.entries = head;
        account_steps::adopt(&mut state.books, job, steps);
        Ok(left)
    }

    /// Returns δ of the job's account; `None` when it has no budget.
    ///
    /// # Errors
    /// [`LedgerError`] when the books must be read again and cannot be.
    pub fn delta(&self, under: &ReleaseContext) -> Result<Option<Delta>, LedgerError> {
        let state = self.lock_state()?;
        let budget =
            state.books.accounts.get(&under.account()).and_then(|book| book.account.balance().budget().copied());
        Ok(budget.map(|budget| budget.delta()))
    }

    /// Returns the current books.
    ///
    /// # Errors
    /// [`LedgerError`] when they must be read again and cannot be.
    pub fn books(&self) -> Result<LedgerBooks, LedgerError> {
        Ok(self.lock_state()?.books.clone())
    }

    /// Checks that no audit's finding freezes the lineage: a frozen account admits and pays nothing. Reads the database
    /// each time, because another process clears the freeze.
    fn check_freeze(&self, under: &ReleaseContext) -> Result<(), LedgerError> {
        match freeze::current_freeze(&self.store, under.lineage)? {
            None => Ok(()),
            Some(AccountFreeze { job, reason, at }) => Err(LedgerError::Frozen { job, reason, at }),
        }
    }

    fn lock_state(&self) -> Result<MutexGuard<'_, LedgerState>, LedgerError> {
        let mut state = self.state.lock().unwrap_or_else(|poisoned: PoisonError<MutexGuard<'_, LedgerState>>| {
            let mut state = poisoned.into_inner();
            state.stale = true;
            state
        });
        if state.stale {
            state.books = self.store.read(LedgerBooks::read)?;
            state.stale = false;
        }
        Ok(state)
    }

    /// Writes in one transaction. When that fails, the books are read again from the disk.
    fn append<T>(
        &self,
        state: &mut LedgerState,
        write: impl FnOnce(&ChainHead, &Transaction<'_>) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        let head = &state.books.entries;
        let result = self.store.write(|tx| write(head, tx));
        state.stale = result.is_err();
        result
    }

    fn entry(&self, kind: EntryKind, under: &ReleaseContext, count: u64) -> LedgerEntry {
        LedgerEntry {
            kind,
            account: under.account(),
            job: under.job,
            dataset: under.dataset,
            manifest: under.manifest.clone(),
            event: under.charge.event.clone(),
            count,
            evaluator: EVALUATOR_VERSION.to_owned(),
            budget: None,
            certificate: None,
            receipt: None,
            others: Vec::new(),
            at: (self.clock)(),
        }
    }

    /// Writes the receipt of a release and the reference to its bytes.
    fn insert_receipt(
        &self,
        tx: &Transaction<'_>,
        last: &ChainHead,
        under: &ReleaseContext,
        event: &Event,
        release: &StoredRelease,
        at: OffsetDateTime,
    ) -> Result<(ChainHead, Signed), LedgerError> {
        let (series, round) = (release.series(), release.round());
        if (release.job(), release.dataset()) != (under.job, under.dataset) {
            return Err(LedgerError::NotReserved);
        }
        let earlier: i64 = tx
            .query_row(
                "SELECT count(*) FROM receipt WHERE job = ?1 AND dataset = ?2 AND series = ?3 AND round = ?4",
                params![under.job.to_string(), under.dataset.to_string(), series, round],
                |row| row.get(0),
            )
            .map_err(StoreError::sqlite("count receipts"))?;
        if earlier > 0 && event.whole_releases().is_some() {
            // The charge of all rounds covers one release of each.
            return Err(LedgerError::Released { series: series.to_owned(), round });
        }
        let previous = if last.sequence == 0 { no_receipt() } else { last.hash.clone() };
        let receipt = Receipt {
            sequence: last.sequence + 1,
            previous,
            worker: self.worker,
            dataset: under.dataset,
            lineage: under.lineage,
            job: under.job,
            manifest: under.manifest.clone(),
            series: series.to_owned(),
            round,
            attempt: u32::try_from(earlier).unwrap_or(u32::MAX).saturating_add(1),
            unit: under.charge.unit,
            adjacency: under.charge.adjacency,
            event: event.clone(),
            evaluator: EVALUATOR_VERSION.to_owned(),
            at,
            tick: release.tick(),
        };
        let signed = self.key.sign(&receipt)?;
        let head = ChainHead { sequence: receipt.sequence, hash: signed.digest() };
        tx.execute(
            "INSERT INTO receipt (sequence, payload, signature, digest) VALUES (?1, ?2, ?3, ?4)",
            params![sql(head.sequence), signed.payload, signed.signature, head.hash],
        )
        .map_err(StoreError::sqlite("write a receipt"))?;
        refer(tx, release, Some(head.sequence))?;
        Ok((head, signed))
    }
}

/// Writes the reference to a stored release.
fn refer(tx: &Transaction<'_>, release: &StoredRelease, receipt: Option<u64>) -> Result<(), LedgerError> {
    if outbox::refer(tx, release, receipt)? {
        return Ok(());
    }
    Err(LedgerError::Released { series: release.series().to_owned(), round: release.round() })
}

/// Compares the ledger in `store` with its anchor and returns the anchor; nothing is written.
///
/// # Errors
/// [`LedgerError::Anchor`] when the ledger does not continue the anchor, or there is none.
pub fn check_anchor(store: &Store, anchor: &LedgerAnchor) -> Result<AnchoredHead, LedgerError> {
    let sequence = rows::length(store)?;
    let hash = store.read(|db| receipt_digest(db, sequence))?.unwrap_or_default();
    anchor.check(&ChainHead { sequence, hash }, |number| Ok(store.read(|db| receipt_digest(db, number))?))
}

/// Refuses while an alarm is open, a restored copy is unchecked, or a peer has seen more. It runs in the transaction that pays, so that
/// nothing slips past what another process raises.
fn check_quiet(db: &Connection) -> Result<(), LedgerError> {
    if let Some(backup_at) = recovery::unchecked_backup(db)? {
        return Err(LedgerError::Restored { backup_at });
    }
    if let Some(error) = positions::contradiction(db)? {
        return Err(error.into());
    }
    match alarm::open(db)? {
        None => Ok(()),
        Some(open) => Err(LedgerError::Alarm { id: open.id, problem: open.problem }),
    }
}

/// Returns the answer for a job that already has a reservation; `None` for a new one.
fn existing_reservation(book: &AccountBook, under: &ReleaseContext) -> Option<Result<(), LedgerError>> {
    let reserved = book.jobs.get(&under.job)?;
    let same = reserved.manifest == under.manifest
        && reserved.event == under.charge.event
        && reserved.releases == under.charge.releases;
    let settled = book
        .account
        .reservation(reservation_id(under.job))
        .is_none_or(undertone_privacy::ledger::Reservation::is_settled);
    Some(match (same, settled) {
        (false, _) => Err(LedgerError::Changed { found: reserved.releases }),
        (true, true) => Err(LedgerError::Settled),
        (true, false) => Ok(()),
    })
}

#[cfg(test)]
mod tests;
