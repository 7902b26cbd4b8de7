//! Reads the ledger: builds the accounts from its rows, and verifies that rows, receipts and sums agree.
//!
//! Balances are never stored. They are computed from the rows when the ledger is opened, by the rules of
//! `undertone_privacy::ledger`. A row holds an event with exact parameters; prices are computed here.
//!
//! A row acts on the account of the unit that its job protects and on the accounts of all other limited units of the
//! lineage. Releases from before an account began, or from before this rule, are included where they have a price
//! ([`LedgerBooks::uncovered_releases`] returns the ones without a price).

mod draft;
mod promises;
mod replay;

use std::collections::BTreeMap;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use undertone_api::budget::EntryKind;
use undertone_api::id::{DatasetId, JobId, LineageId};
use undertone_api::signed::{RotationError, Signed};
use undertone_privacy::ledger::{
    Account, Budget, CertificateError, JobCertificate, JobCost, LedgerError as RuleError, Reservation, ReservationId,
};
use undertone_privacy::mechanism::PriceError;
use undertone_privacy::transfer::event_at;
use undertone_privacy::{Adjacency, Event, PrivacyUnit};

use self::draft::{AccountDraft, take_in};
use super::store::StoreError;

pub use promises::promises;
pub(super) use replay::{CertificateCheck, replay};

/// The key of an account of the site. Observers are insiders: each vector counts as seen by all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "StoredKey")]
pub struct AccountKey {
    /// The lineage of the dataset.
    pub lineage: LineageId,
    /// The protected unit.
    pub unit: PrivacyUnit,
    /// The relation of the account: always [`Adjacency::account`] of the charged relation.
    adjacency: Adjacency,
}

/// A key as stored in rows.
#[derive(Deserialize)]
struct StoredKey {
    lineage: LineageId,
    unit: PrivacyUnit,
    adjacency: Adjacency,
}

impl From<StoredKey> for AccountKey {
    fn from(StoredKey { lineage, unit, adjacency }: StoredKey) -> Self {
        Self::new(lineage, unit, adjacency)
    }
}

impl AccountKey {
    /// Returns the account to which charges under `adjacency` go.
    pub const fn new(lineage: LineageId, unit: PrivacyUnit, adjacency: Adjacency) -> Self {
        Self { lineage, unit, adjacency: adjacency.account() }
    }

    /// Returns whether `other` is the account of another unit of the same lineage.
    pub fn is_sibling(self, other: Self) -> bool {
        self != other && self.for_unit(other.unit) == other
    }

    /// Returns the account of another unit of the same lineage.
    #[must_use]
    pub const fn for_unit(self, unit: PrivacyUnit) -> Self {
        Self { unit, ..self }
    }

    /// Returns the relation under whose name the account is kept.
    pub const fn adjacency(self) -> Adjacency {
        self.adjacency
    }
}

/// A row of the ledger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LedgerEntry {
    /// The kind of change.
    pub kind: EntryKind,
    /// The account.
    #[serde(flatten)]
    pub account: AccountKey,
    /// The job.
    pub job: JobId,
    /// The dataset, by the server's id.
    pub dataset: DatasetId,
    /// Digest of the job's manifest.
    pub manifest: String,
    /// The release.
    pub event: Event,
    /// The number of releases.
    pub count: u64,
    /// Version of the code that priced it.
    pub evaluator: String,
    /// For a reservation: the limit under which it was admitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// For a reservation on an account with the Gaussian filter: its charge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<JobCertificate>,
    /// For a commit: its receipt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<u64>,
    /// For a reservation: the accounts of other units that admitted it as well. Its commits and its settlement act on
    /// them too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<OtherAccount>,
    /// The time.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
}

/// An account of another unit than the one that a job protects, as its reservation charges it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OtherAccount {
    /// The protected unit.
    pub unit: PrivacyUnit,
    /// The cost of one release for this unit.
    pub event: Event,
    /// The limit under which the release was admitted.
    pub budget: Budget,
    /// On an account with the Gaussian filter: the charge of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<JobCertificate>,
}

/// A release without noise, of data that the policy marked as open.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenRelease {
    /// The lineage.
    pub lineage: LineageId,
    /// The job.
    pub job: JobId,
    /// Its receipt.
    pub receipt: u64,
    /// The event.
    pub event: Event,
    /// The time.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
}

/// The end of a hash chain of rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChainHead {
    /// The number of rows so far.
    pub sequence: u64,
    /// Hash of the last row, hex; empty before the first.
    pub hash: String,
}

impl LedgerEntry {
    /// Returns the row in the form that charges the account of another unit.
    fn charge_to(&self, other: &OtherAccount) -> Self {
        Self {
            account: self.account.for_unit(other.unit),
            event: other.event.clone(),
            budget: self.budget.and(Some(other.budget)),
            certificate: other.certificate,
            others: Vec::new(),
            ..self.clone()
        }
    }
}

impl ChainHead {
    /// Returns the head after a row with this payload.
    pub(super) fn advance(&self, payload: &str) -> Self {
        let hash = Sha256::new().chain_update(&self.hash).chain_update([0]).chain_update(payload).finalize();
        Self { sequence: self.sequence + 1, hash: hex::encode(hash) }
    }
}

/// Inconsistencies of the ledger.
#[derive(Debug, thiserror::Error)]
pub enum BooksError {
    /// The database cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A chain is broken.
    #[error(
        "row {sequence} of `{table}` was changed, or one before it is missing: restore the database from a backup, and find out who was here"
    )]
    Chain {
        /// The table.
        table: &'static str,
        /// The first row that does not match.
        sequence: u64,
    },
    /// A row is invalid at its position.
    #[error("row {sequence} of the ledger {problem}")]
    Row {
        /// The row's number.
        sequence: u64,
        /// The problem.
        problem: String,
    },
    /// A receipt is invalid.
    #[error("receipt {sequence} {problem}")]
    Receipt {
        /// The receipt's number.
        sequence: u64,
        /// The problem.
        problem: String,
    },
    /// The key's changes do not lead to the site's key.
    #[error("the changes of this site's key do not lead to the key that is here")]
    Keys(#[from] RotationError),
    /// An event has no price.
    #[error("an event of the ledger cannot be priced: install the worker that wrote it")]
    Price(#[from] PriceError),
    /// The charge of a job does not fit its account.
    #[error("the charge of a job in the ledger does not fit its account: {0}")]
    Certificate(#[from] CertificateError),
    /// The rows violate the ledger's rules.
    #[error("the rows of the ledger contradict its rules")]
    Rule(#[source] Box<RuleError>),
}

impl From<RuleError> for BooksError {
    fn from(error: RuleError) -> Self {
        Self::Rule(Box::new(error))
    }
}

/// A reservation as stored in its row.
#[derive(Debug, Clone, PartialEq)]
pub struct JobReservation {
    /// The release as charged to this account.
    pub event: Event,
    /// The unit that the job protects.
    pub protects: PrivacyUnit,
    /// The number of reserved releases.
    pub releases: u64,
    /// The certificate of its charge, under the Gaussian filter.
    pub certificate: Option<JobCertificate>,
    /// Digest of the manifest.
    pub manifest: String,
    /// The dataset.
    pub dataset: DatasetId,
}

/// One account with its jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct AccountBook {
    /// The account, by the rules.
    pub account: Account,
    /// The reservation of each job.
    pub jobs: BTreeMap<JobId, JobReservation>,
    /// The time of the first paid release.
    pub first: Option<OffsetDateTime>,
    /// The time of the last paid release.
    pub last: Option<OffsetDateTime>,
}

/// Releases that a limit does not cover: they protect another unit, and precede that limit or the rule that every unit
/// is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UncoveredReleases {
    /// The unit that they protect.
    pub protects: PrivacyUnit,
    /// The number of jobs.
    pub jobs: u64,
    /// The number of releases.
    pub releases: u64,
}

/// All accounts, and the heads of the chains.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LedgerBooks {
    /// The accounts.
    pub accounts: BTreeMap<AccountKey, AccountBook>,
    /// Head of the ledger.
    pub entries: ChainHead,
    /// Head of the receipts: the last one's number and digest.
    pub receipts: ChainHead,
    /// Head of the releases without noise.
    pub published: ChainHead,
}

/// Returns the id of a job's reservation in the rules: a job reserves once on an account.
pub(super) const fn reservation_id(job: JobId) -> ReservationId {
    ReservationId(job.0.as_u128())
}

/// Returns every row of the ledger, with its chain checked.
///
/// # Errors
/// [`BooksError`] when a row is missing, changed or unreadable.
pub fn entries(db: &Connection) -> Result<Vec<LedgerEntry>, BooksError> {
    read_chain(db, "entry", "SELECT sequence, payload, hash FROM entry ORDER BY sequence").map(|(rows, _)| rows)
}

/// Returns every release without noise, with its chain checked.
///
/// # Errors
/// The errors of [`entries`].
pub fn open_releases(db: &Connection) -> Result<Vec<OpenRelease>, BooksError> {
    read_chain(db, "published", "SELECT sequence, payload, hash FROM published ORDER BY sequence").map(|(rows, _)| rows)
}

fn read_chain<T: for<'de> Deserialize<'de>>(
    db: &Connection,
    table: &'static str,
    sql: &str,
) -> Result<(Vec<T>, ChainHead), BooksError> {
    let mut statement = db.prepare(sql).map_err(StoreError::sqlite("read the ledger"))?;
    let rows = statement
        .query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?)))
        .map_err(StoreError::sqlite("read the ledger"))?;
    let (mut all, mut head) = (Vec::new(), ChainHead::default());
    for row in rows {
        let (sequence, payload, hash) = row.map_err(StoreError::sqlite("read the ledger"))?;
        head = head.advance(&payload);
        if head.sequence != sequence as u64 || head.hash != hash {
            return Err(BooksError::Chain { table, sequence: head.sequence });
        }
        all.push(serde_json::from_str(&payload).map_err(StoreError::row)?);
    }
    Ok((all, head))
}

/// Returns every receipt, oldest first, unchecked.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn receipts(db: &Connection) -> Result<Vec<Signed>, StoreError> {
    let mut statement = db
        .prepare("SELECT payload, signature FROM receipt ORDER BY sequence")
        .map_err(StoreError::sqlite("read receipts"))?;
    let rows = statement
        .query_map([], |row| Ok(Signed { payload: row.get(0)?, signature: row.get(1)? }))
        .map_err(StoreError::sqlite("read receipts"))?;
    rows.collect::<Result<_, _>>().map_err(StoreError::sqlite("read receipts"))
}

impl LedgerBooks {
    /// Computes the books from the rows.
    ///
    /// # Errors
    /// [`BooksError`] when the rows are inconsistent.
    pub fn read(db: &Connection) -> Result<Self, BooksError> {
        let (rows, entries) =
            read_chain::<LedgerEntry>(db, "entry", "SELECT sequence, payload, hash FROM entry ORDER BY sequence")?;
        let (_, published) = read_chain::<OpenRelease>(
            db,
            "published",
            "SELECT sequence, payload, hash FROM published ORDER BY sequence",
        )?;
        let mut drafts: BTreeMap<AccountKey, AccountDraft> = BTreeMap::new();
        let mut charges: BTreeMap<(AccountKey, JobId), Vec<OtherAccount>> = BTreeMap::new();
        for (row, sequence) in rows.into_iter().zip(1..) {
            let (own, job) = (row.account, row.job);
            let others = charges.entry((own, job)).or_insert_with(|| row.others.clone());
            for other in others.iter() {
                let beside = row.charge_to(other);
                drafts.entry(beside.account).or_default().take(beside, own.unit, sequence)?;
            }
            drafts.entry(own).or_default().take(row, own.unit, sequence)?;
        }
        take_in(&mut drafts);
        let accounts =
            drafts.into_iter().map(|(key, draft)| Ok((key, draft.finish(key)?))).collect::<Result<_, BooksError>>()?;
        Ok(Self { accounts, entries, receipts: last_receipt(db)?, published })
    }
}

impl LedgerBooks {
    /// Returns the account of `key`, or the account with which a new limit of `key` begins: it contains the releases of
    /// the lineage's jobs that protect other units, at this account's prices.
    ///
    /// # Errors
    /// [`BooksError`] when it cannot be priced.
    pub(super) fn open_account(&self, key: AccountKey, budget: Budget) -> Result<AccountBook, BooksError> {
        if let Some(book) = self.accounts.get(&key) {
            return Ok(book.clone());
        }
        let (unpriced, mut jobs, mut rows) = (Account::new(Some(budget)), BTreeMap::new(), Vec::new());
        for (own, job, reserved) in self.lineage_jobs(key) {
            let Ok(event) = event_at(&reserved.event, own.unit, key.unit) else { continue };
            let id = reservation_id(job);
            let Some(row) = self.accounts.get(&own).and_then(|book| book.account.reservation(id)) else { continue };
            let cost = unpriced.price(&event, key.adjacency())?;
            let cost = JobCost::for_event(&event, cost);
            rows.push(Reservation::from_job(id, cost, row.releases(), row.committed(), row.is_settled())?);
            jobs.insert(job, JobReservation { event, certificate: None, ..reserved.clone() });
        }
        Ok(AccountBook { account: Account::rebuilt(Some(budget), rows)?, jobs, first: None, last: None })
    }

    /// Returns whether a new account of `key` would begin with jobs of its lineage that protect other units.
    pub(super) fn has_jobs_to_take_in(&self, key: AccountKey) -> bool {
        self.lineage_jobs(key).any(|(own, _, reserved)| event_at(&reserved.event, own.unit, key.unit).is_ok())
    }

    /// Returns the releases that the account of `key` does not cover.
    pub fn uncovered_releases(&self, key: AccountKey) -> Vec<UncoveredReleases> {
        let mut all: Vec<UncoveredReleases> = Vec::new();
        for (own, job, reserved) in self.lineage_jobs(key) {
            let is_charged = self.accounts.get(&key).is_some_and(|book| book.jobs.contains_key(&job));
            let row = self.accounts.get(&own).and_then(|book| book.account.reservation(reservation_id(job)));
            let releases = row.map_or(0, Reservation::committed);
            if is_charged || releases == 0 {
                continue;
            }
            match all.iter_mut().find(|known| known.protects == reserved.protects) {
                Some(known) => (known.jobs, known.releases) = (known.jobs + 1, known.releases + releases),
                None => all.push(UncoveredReleases { protects: reserved.protects, jobs: 1, releases }),
            }
        }
        all
    }

    /// Returns every job of the lineage of `key` that protects another unit, with its own account.
    fn lineage_jobs(&self, key: AccountKey) -> impl Iterator<Item = (AccountKey, JobId, &JobReservation)> {
        let accounts = self.accounts.iter().filter(move |(own, _)| own.is_sibling(key));
        accounts.flat_map(|(own, book)| {
            let jobs = book.jobs.iter().filter(|(_, reserved)| reserved.protects == own.unit);
            jobs.map(|(job, reserved)| (*own, *job, reserved))
        })
    }
}

fn last_receipt(db: &Connection) -> Result<ChainHead, BooksError> {
    use rusqlite::OptionalExtension;
    let last = db
        .query_row("SELECT sequence, digest FROM receipt ORDER BY sequence DESC LIMIT 1", [], |row| {
            Ok(ChainHead { sequence: row.get::<_, i64>(0)? as u64, hash: row.get(1)? })
        })
        .optional()
        .map_err(StoreError::sqlite("read receipts"))?;
    Ok(last.unwrap_or_default())
}
