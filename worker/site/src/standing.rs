//! Automatic approval: decides whether one more job stays within `jobs.most_epsilon_automatic`, the total of all jobs
//! that the policy approves by itself. Beyond it, a person at the terminal decides.
//!
//! The total counts the jobs that the policy approved, on each account that a job charges and at that account's price:
//! jobs that protect another unit cannot spend a unit's limit again. A settled job counts its releases. A job that
//! never reserved counts nothing once its manifest has expired or its part has ended. Every other job counts its worst
//! case. A job known only by its receipts, as after a restore, counts too, because its approval is unknown. Approvals
//! by the terminal or a steward do not count. The total is kept by the rules of the ledger, as a separate budget; it
//! applies in addition to the lifetime budget.
//!
//! The approvals are read before the books: a job that ends in between is then in the books, with its releases.

use rusqlite::params;
use time::OffsetDateTime;
use undertone_api::id::{DatasetId, JobId};
use undertone_api::job::Charge;
use undertone_api::signed::Manifest;
use undertone_privacy::ledger::{Account, Balance, FilterKind, JobCertificate, JobCost, ReservationId};
use undertone_privacy::transfer::{TransferError, event_at};
use undertone_privacy::{Epsilon, Event};

use super::admission::ExaminedManifest;
use super::books::{AccountBook, AccountKey, JobReservation, LedgerBooks, reservation_id};
use super::jobs::DecisionOrigin;
use super::ledger::error::LedgerError;
use super::policy::{DatasetRules, LifetimeLimit, is_exact};
use super::store::{Store, StoreError};

/// Returns whether the policy may approve a job by itself: there is no total, the job costs this site nothing, or the
/// total has room for this job's worst case. A release without noise is within no total. A job with an earlier policy
/// approval (`approved`) continues once it has its reservation; until then it is checked again. `books` are read when
/// they are needed.
///
/// # Errors
/// [`LedgerError`] when the site's own disk fails.
pub fn may_approve(
    store: &Store,
    rules: &DatasetRules,
    examined: &ExaminedManifest,
    approved: bool,
    now: OffsetDateTime,
    books: impl FnOnce() -> Result<LedgerBooks, LedgerError>,
) -> Result<bool, LedgerError> {
    let Some(most) = rules.most_epsilon_automatic else { return Ok(true) };
    if is_in_the_clear(examined) {
        return Ok(false);
    }
    let Some(charge) = &examined.charge else { return Ok(true) };
    let key = AccountKey::new(examined.local.lineage, charge.unit, charge.adjacency);
    let own = (examined.manifest.job, examined.dataset.id);
    let parts = parts(store)?;
    let books = books()?;
    if approved && books.accounts.get(&key).is_some_and(|book| book.jobs.contains_key(&own.0)) {
        return Ok(true);
    }
    let Ok(limits) = rules.unit_limits(charge.unit) else { return Ok(false) };
    let count = AutomaticTotal { store, books: &books, parts: &parts, own, most, now };
    if !count.has_room(key, charge, limits.own)? {
        return Ok(false);
    }
    // An existing account keeps its promised limit when the policy no longer sets one.
    let others = books.accounts.iter().filter(|(other, _)| other.lineage == key.lineage && other.unit != key.unit);
    let limits_in_force = others.filter_map(|(other, book)| {
        let budget = book.account.balance().budget()?;
        Some((other.unit, LifetimeLimit::from_budget(budget)))
    });
    let accounts: Vec<_> =
        limits_in_force.filter(|(unit, _)| !limits.others.iter().any(|(limited, _)| limited == unit)).collect();
    for (unit, limit) in limits.others.into_iter().chain(accounts) {
        let room = match charge.for_unit(unit) {
            Ok(charge) => count.has_room(key.for_unit(unit), &charge, limit)?,
            Err(_) => false,
        };
        if !room {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The amounts counted against the total, for one account at a time.
struct AutomaticTotal<'a> {
    store: &'a Store,
    books: &'a LedgerBooks,
    parts: &'a [ApprovedPart],
    /// The part that requests approval.
    own: (JobId, DatasetId),
    most: Epsilon,
    now: OffsetDateTime,
}

impl AutomaticTotal<'_> {
    /// Returns whether the total of one account has room for all automatically approved jobs, at this account's prices,
    /// and for `charge` as well.
    fn has_room(&self, key: AccountKey, charge: &Charge, limit: LifetimeLimit) -> Result<bool, LedgerError> {
        // A total that no release could meet admits none.
        let total = LifetimeLimit { epsilon: self.most, ..limit };
        let Ok(budget) = total.budget(None) else { return Ok(false) };
        let mut totals = Vec::new();
        for part in self.parts.iter().filter(|part| (part.job, part.dataset) != self.own) {
            match self.releases(key, part)? {
                Some(Ok(counted)) => add(&mut totals, counted, limit.filter),
                // The part has no price for this unit, so no total can contain it.
                Some(Err(_)) => return Ok(false),
                None => {}
            }
        }
        for part in recovered(self.store)?.into_iter().filter(|part| *part != self.own) {
            match self.reserved(key, part) {
                Some(Ok(counted)) => add(&mut totals, CountedReleases { is_planned: false, ..counted }, limit.filter),
                Some(Err(_)) => return Ok(false),
                None => {}
            }
        }
        add(&mut totals, CountedReleases::from_charge(charge), limit.filter);
        let mut account = Account::new(Some(budget));
        Ok((0_u128..).zip(&totals).all(|(id, counted)| {
            let cost = counted.price(account.balance(), key);
            let releases = counted.releases;
            cost.is_some_and(|cost| releases == 0 || account.reserve_job(ReservationId(id), &cost, releases).is_ok())
        }))
    }

    /// Returns the releases that an approved part counts on one account; `None` when it counts nothing there.
    fn releases(&self, key: AccountKey, part: &ApprovedPart) -> Result<Option<Counted>, StoreError> {
        if own_account(self.books, (part.job, part.dataset)).is_some() {
            return Ok(self.reserved(key, (part.job, part.dataset)));
        }
        if part.ended {
            return Ok(None);
        }
        let manifest = manifest(self.store, part)?;
        if manifest.limits.as_ref().is_some_and(|limits| limits.not_after < self.now) {
            return Ok(None);
        }
        let own = manifest.participants.iter().find(|party| party.dataset == part.dataset);
        let charge = own.filter(|party| party.lineage == key.lineage).and_then(|party| party.charge.as_ref());
        Ok(charge.map(|charge| charge.for_unit(key.unit).map(|charge| CountedReleases::from_charge(&charge))))
    }

    /// Returns the releases that a part with a reservation counts on one account; `None` when it counts nothing there.
    fn reserved(&self, key: AccountKey, part: (JobId, DatasetId)) -> Option<Counted> {
        let (own, book, reserved) = own_account(self.books, part)?;
        let releases = count_releases(book, part.0, reserved);
        if own.lineage != key.lineage || releases == 0 {
            return None;
        }
        let account = self.books.accounts.get(&key).and_then(|book| book.jobs.get(&part.0));
        let whole = reserved.releases;
        Some(event_at(&reserved.event, own.unit, key.unit).map(|event| CountedReleases {
            event,
            releases,
            whole,
            certificate: account.and_then(|reserved| reserved.certificate),
            is_planned: true,
        }))
    }
}

/// Releases at an account's price, or the reason why they have none.
type Counted = Result<CountedReleases, TransferError>;

/// The releases of a job that a total counts.
struct CountedReleases {
    event: Event,
    /// The counted number.
    releases: u64,
    /// The planned number, by which the Gaussian filter counts a job that released anything.
    whole: u64,
    /// The certificate of the job's charge to the account, if it has one.
    certificate: Option<JobCertificate>,
    /// Whether the planned number is known.
    is_planned: bool,
}

impl CountedReleases {
    fn from_charge(charge: &Charge) -> Self {
        let (event, releases) = (charge.event.clone(), charge.releases);
        Self { event, releases, whole: releases, certificate: None, is_planned: true }
    }

    /// Returns the cost on an account with this balance; `None` if it has none.
    fn price(&self, balance: &Balance, key: AccountKey) -> Option<JobCost> {
        let adjacency = key.adjacency();
        if balance.filter() == FilterKind::Renyi {
            return balance.job_cost(&self.event, self.releases, adjacency).ok();
        }
        match &self.certificate {
            Some(stated) => JobCost::from_row(&self.event, self.whole, adjacency, balance.grid(), Some(stated)).ok(),
            None if self.is_planned => balance.job_cost(&self.event, self.whole, adjacency).ok(),
            None => balance.cost_of_unplanned(&self.event, self.releases, adjacency).ok(),
        }
    }
}

/// Returns the account of the unit that a part protects, where it has its reservation.
fn own_account(
    books: &LedgerBooks,
    (job, dataset): (JobId, DatasetId),
) -> Option<(AccountKey, &AccountBook, &JobReservation)> {
    books.accounts.iter().find_map(|(key, book)| {
        let reserved = book.jobs.get(&job)?;
        (reserved.dataset == dataset && reserved.protects == key.unit).then_some((*key, book, reserved))
    })
}

/// Returns whether something would leave without noise.
fn is_in_the_clear(examined: &ExaminedManifest) -> bool {
    let series = examined.manifest.spec.series(std::slice::from_ref(&examined.dataset));
    let charges = examined.charge.iter().map(|charge| charge.event.clone());
    charges.chain(series.iter().filter_map(|series| examined.release(&series.name))).any(|event| is_exact(&event))
}

/// A part of a job here that the policy ever approved by itself, regardless of later decisions.
struct ApprovedPart {
    job: JobId,
    dataset: DatasetId,
    /// Whether its end is recorded: it never reserves any more.
    ended: bool,
}

fn parts(store: &Store) -> Result<Vec<ApprovedPart>, StoreError> {
    let sql = "SELECT manifest.job, manifest.dataset, run.ended IS NOT NULL FROM manifest
        LEFT JOIN run ON run.job = manifest.job AND run.dataset = manifest.dataset
        WHERE EXISTS (SELECT 1 FROM decision WHERE decision.job = manifest.job AND decision.dataset = manifest.dataset
        AND decision.manifest = manifest.digest AND decision.approve AND decision.by = ?1)";
    let rows: Vec<(String, String, bool)> = store.read(|db| {
        db.prepare(sql)
            .and_then(|mut statement| {
                let rows = statement
                    .query_map([DecisionOrigin::Policy.word()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
                rows.collect()
            })
            .map_err(StoreError::sqlite("read what the policy approved"))
    })?;
    rows.into_iter()
        .map(|(job, dataset, ended)| {
            let (job, dataset) = part(&job, &dataset)?;
            Ok(ApprovedPart { job, dataset, ended })
        })
        .collect()
}

/// Returns the parts whose first receipt was imported from the server and that have no approval here: the ledger was an
/// older copy.
fn recovered(store: &Store) -> Result<Vec<(JobId, DatasetId)>, StoreError> {
    let sql = "SELECT DISTINCT receipt.job, receipt.dataset FROM reconciled
        JOIN receipt ON receipt.sequence > reconciled.receipts
        AND receipt.sequence <= reconciled.receipts + reconciled.imported
        WHERE NOT EXISTS (SELECT 1 FROM receipt AS earlier WHERE earlier.job = receipt.job
        AND earlier.dataset = receipt.dataset AND earlier.sequence <= reconciled.receipts)
        AND NOT EXISTS (SELECT 1 FROM decision WHERE decision.job = receipt.job AND decision.dataset = receipt.dataset
        AND decision.approve)";
    let rows: Vec<(String, String)> = store.read(|db| {
        db.prepare(sql)
            .and_then(|mut statement| {
                let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
                rows.collect()
            })
            .map_err(StoreError::sqlite("read what came back"))
    })?;
    rows.iter().map(|(job, dataset)| part(job, dataset)).collect()
}

fn part(job: &str, dataset: &str) -> Result<(JobId, DatasetId), StoreError> {
    Ok((job.parse().map_err(StoreError::row)?, dataset.parse().map_err(StoreError::row)?))
}

/// Returns the releases that a reservation counts: the paid ones once it is settled, all of them until then.
fn count_releases(book: &AccountBook, job: JobId, reserved: &JobReservation) -> u64 {
    match book.account.reservation(reservation_id(job)) {
        Some(row) if row.is_settled() => row.committed(),
        _ => reserved.releases,
    }
}

/// Returns the manifest of a part, the final one if there is one; it was verified before it was stored.
fn manifest(store: &Store, part: &ApprovedPart) -> Result<Manifest, StoreError> {
    let payload: String = store.read(|db| {
        db.query_row(
            "SELECT COALESCE(settled.payload, manifest.payload) FROM manifest
             LEFT JOIN settled_manifest AS settled ON settled.job = manifest.job
             WHERE manifest.job = ?1 AND manifest.dataset = ?2",
            params![part.job.to_string(), part.dataset.to_string()],
            |row| row.get(0),
        )
        .map_err(StoreError::sqlite("read a manifest"))
    })?;
    serde_json::from_str(&payload).map_err(StoreError::row)
}

/// Adds to a list. Under the Rényi filter equal events are one entry, found by linear search: there are few distinct ones.
fn add(all: &mut Vec<CountedReleases>, counted: CountedReleases, filter: FilterKind) {
    // Each mechanism that is charged as a whole counts once.
    let adds_up = filter == FilterKind::Renyi && counted.event.whole_releases().is_none();
    match all.iter_mut().find(|known| adds_up && known.event == counted.event) {
        Some(known) => known.releases = known.releases.saturating_add(counted.releases),
        None => all.push(counted),
    }
}
