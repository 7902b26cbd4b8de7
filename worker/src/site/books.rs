//! Reading the ledger: rows into accounts, and the proof that rows, receipts and sums agree.
//!
//! Balances are never stored. They are computed from the rows when the ledger is opened, by the rules of
//! `undertone_privacy::ledger`; a row holds an event with exact parameters and prices are worked out here.

use std::collections::BTreeMap;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use undertone_api::budget::EntryKind;
use undertone_api::id::{DatasetId, JobId, LineageId};
use undertone_api::signed::{RotationError, Signed};
use undertone_privacy::ledger::{Account, Budget, LedgerError as RuleError, Reservation, ReservationId};
use undertone_privacy::mechanism::{self, PriceError};
use undertone_privacy::{Adjacency, Event, PrivacyUnit};

use super::store::StoreError;

/// An account of the site: what its budget is for. Observers are insiders: each vector counts as seen by all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AccountKey {
    /// The dataset's line of versions.
    pub lineage: LineageId,
    /// Who is protected.
    pub unit: PrivacyUnit,
    /// Against which change.
    pub adjacency: Adjacency,
}

/// A row of the ledger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// What happened.
    pub kind: EntryKind,
    /// To which account.
    #[serde(flatten)]
    pub account: AccountKey,
    /// Because of which job.
    pub job: JobId,
    /// On which dataset, by the server's id.
    pub dataset: DatasetId,
    /// Digest of the manifest under which it ran.
    pub manifest: String,
    /// The release.
    pub event: Event,
    /// How many of it.
    pub count: u64,
    /// Version of the code that priced it.
    pub evaluator: String,
    /// For a reservation: the limit under which it was admitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// For a commit: its receipt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<u64>,
    /// When.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
}

/// A release in the clear, of data that the policy marked as open.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// Of which line.
    pub lineage: LineageId,
    /// Under which job.
    pub job: JobId,
    /// Its receipt.
    pub receipt: u64,
    /// What it released.
    pub event: Event,
    /// When.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
}

/// The end of a chain of hashed rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Head {
    /// Rows so far.
    pub sequence: u64,
    /// Hash of the last, hex; empty before the first.
    pub hash: String,
}

impl Head {
    /// The head after a row with this payload.
    pub(super) fn then(&self, payload: &str) -> Self {
        let hash = Sha256::new().chain_update(&self.hash).chain_update([0]).chain_update(payload).finalize();
        Self { sequence: self.sequence + 1, hash: hex::encode(hash) }
    }
}

/// What the rows do not say consistently.
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
        /// The first row that does not fit.
        sequence: u64,
    },
    /// A row makes no sense where it stands.
    #[error("row {sequence} of the ledger {problem}")]
    Row {
        /// Its number.
        sequence: u64,
        /// What is wrong.
        problem: String,
    },
    /// A receipt does not hold.
    #[error("receipt {sequence} {problem}")]
    Receipt {
        /// Its number.
        sequence: u64,
        /// What is wrong.
        problem: String,
    },
    /// The changes of the site's key.
    #[error("the changes of this site's key do not lead to the key that is here")]
    Keys(#[from] RotationError),
    /// An event has no price.
    #[error("an event of the ledger cannot be priced: install the worker that wrote it")]
    Price(#[from] PriceError),
    /// The rules contradict the rows.
    #[error("the rows of the ledger contradict its rules")]
    Rule(#[source] Box<RuleError>),
}

impl From<RuleError> for BooksError {
    fn from(error: RuleError) -> Self {
        Self::Rule(Box::new(error))
    }
}

/// A reservation as its row has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Reserved {
    /// The release.
    pub event: Event,
    /// How many were reserved.
    pub releases: u64,
    /// Under which manifest.
    pub manifest: String,
    /// On which dataset.
    pub dataset: DatasetId,
}

/// One account with the jobs it consists of.
#[derive(Debug, Clone, PartialEq)]
pub struct Book {
    /// The account, by the rules.
    pub account: Account,
    /// What each job reserved.
    pub jobs: BTreeMap<JobId, Reserved>,
    /// When the first release was paid.
    pub first: Option<OffsetDateTime>,
    /// When the last release was paid.
    pub last: Option<OffsetDateTime>,
}

/// All accounts, and where the chains end.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Books {
    /// The accounts.
    pub accounts: BTreeMap<AccountKey, Book>,
    /// End of the ledger.
    pub entries: Head,
    /// End of the receipts: the last one's number and digest.
    pub receipts: Head,
    /// End of the releases in the clear.
    pub published: Head,
}

/// The reservation's id in the rules: a job reserves once on an account.
pub(super) const fn reservation_id(job: JobId) -> ReservationId {
    ReservationId(job.0.as_u128())
}

/// Every row of the ledger, its chain checked.
///
/// # Errors
/// [`BooksError`] when a row is missing, changed or unreadable.
pub fn entries(db: &Connection) -> Result<Vec<Entry>, BooksError> {
    chained(db, "entry", "SELECT sequence, payload, hash FROM entry ORDER BY sequence").map(|(rows, _)| rows)
}

/// Every release in the clear, its chain checked.
///
/// # Errors
/// As [`entries`].
pub fn published(db: &Connection) -> Result<Vec<Published>, BooksError> {
    chained(db, "published", "SELECT sequence, payload, hash FROM published ORDER BY sequence").map(|(rows, _)| rows)
}

fn chained<T: for<'de> Deserialize<'de>>(
    db: &Connection,
    table: &'static str,
    sql: &str,
) -> Result<(Vec<T>, Head), BooksError> {
    let mut statement = db.prepare(sql).map_err(StoreError::sqlite("read the ledger"))?;
    let rows = statement
        .query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?)))
        .map_err(StoreError::sqlite("read the ledger"))?;
    let (mut all, mut head) = (Vec::new(), Head::default());
    for row in rows {
        let (sequence, payload, hash) = row.map_err(StoreError::sqlite("read the ledger"))?;
        head = head.then(&payload);
        if head.sequence != sequence as u64 || head.hash != hash {
            return Err(BooksError::Chain { table, sequence: head.sequence });
        }
        all.push(serde_json::from_str(&payload).map_err(StoreError::row)?);
    }
    Ok((all, head))
}

/// Every receipt, oldest first, unchecked.
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

impl Books {
    /// The books, computed from the rows.
    ///
    /// # Errors
    /// [`BooksError`] when the rows do not add up.
    pub fn read(db: &Connection) -> Result<Self, BooksError> {
        let (rows, entries) =
            chained::<Entry>(db, "entry", "SELECT sequence, payload, hash FROM entry ORDER BY sequence")?;
        let (_, published) =
            chained::<Published>(db, "published", "SELECT sequence, payload, hash FROM published ORDER BY sequence")?;
        let mut drafts: BTreeMap<AccountKey, Draft> = BTreeMap::new();
        for (row, sequence) in rows.into_iter().zip(1..) {
            drafts.entry(row.account).or_default().take(row, sequence)?;
        }
        let accounts =
            drafts.into_iter().map(|(key, draft)| Ok((key, draft.finish(key)?))).collect::<Result<_, BooksError>>()?;
        Ok(Self { accounts, entries, receipts: last_receipt(db)?, published })
    }
}

fn last_receipt(db: &Connection) -> Result<Head, BooksError> {
    use rusqlite::OptionalExtension;
    let last = db
        .query_row("SELECT sequence, digest FROM receipt ORDER BY sequence DESC LIMIT 1", [], |row| {
            Ok(Head { sequence: row.get::<_, i64>(0)? as u64, hash: row.get(1)? })
        })
        .optional()
        .map_err(StoreError::sqlite("read receipts"))?;
    Ok(last.unwrap_or_default())
}

/// An account while its rows are read.
#[derive(Default)]
struct Draft {
    budget: Option<Budget>,
    jobs: BTreeMap<JobId, (Reserved, u64, bool)>,
    first: Option<OffsetDateTime>,
    last: Option<OffsetDateTime>,
}

impl Draft {
    fn take(&mut self, row: Entry, sequence: u64) -> Result<(), BooksError> {
        let wrong = |problem: &str| Err(BooksError::Row { sequence, problem: problem.to_owned() });
        let known = self.jobs.get_mut(&row.job);
        match (row.kind, known) {
            (EntryKind::Reserve, None) => {
                if row.budget.is_none() {
                    return wrong("reserves without a budget");
                }
                self.budget = row.budget;
                let Entry { event, count: releases, manifest, dataset, .. } = row;
                self.jobs.insert(row.job, (Reserved { event, releases, manifest, dataset }, 0, false));
            }
            (EntryKind::Reserve, Some(_)) => return wrong("reserves a second time for one job"),
            (_, None) => return wrong("has no reservation before it"),
            (EntryKind::Commit, Some((reserved, committed, settled))) => {
                if *settled || row.count != 1 || row.event != reserved.event {
                    return wrong("commits what was not reserved");
                }
                *committed += 1;
                self.first = self.first.or(Some(row.at));
                self.last = Some(row.at);
            }
            (EntryKind::Settle, Some((reserved, committed, settled))) => {
                if *settled || row.count != reserved.releases.saturating_sub(*committed) {
                    return wrong("gives back what was not left");
                }
                *settled = true;
            }
        }
        Ok(())
    }

    fn finish(self, key: AccountKey) -> Result<Book, BooksError> {
        let Self { budget, jobs, first, last } = self;
        let unpriced = Account::new(budget);
        let rows = jobs
            .iter()
            .map(|(job, (reserved, committed, settled))| {
                let cost = unpriced.price(&reserved.event, key.adjacency)?;
                Ok(Reservation::from_parts(reservation_id(*job), cost, reserved.releases, *committed, *settled)?)
            })
            .collect::<Result<Vec<_>, BooksError>>()?;
        let account = Account::rebuilt(budget, rows)?;
        let jobs = jobs.into_iter().map(|(job, (reserved, _, _))| (job, reserved)).collect();
        Ok(Book { account, jobs, first, last })
    }
}

/// The books as the rules of the ledger make them, row by row: every reservation is admitted again under the budget
/// that its row states. An evaluator of another version cannot be replayed.
pub(super) fn replay(rows: &[Entry]) -> Result<BTreeMap<AccountKey, Account>, BooksError> {
    let mut accounts: BTreeMap<AccountKey, Account> = BTreeMap::new();
    for (row, sequence) in rows.iter().zip(1..) {
        let wrong = |problem: String| BooksError::Row { sequence, problem };
        if row.evaluator != mechanism::EVALUATOR_VERSION {
            return Err(wrong(format!(
                "was priced by evaluator `{}`, this worker has `{}`: verify it with the version that wrote it",
                row.evaluator,
                mechanism::EVALUATOR_VERSION
            )));
        }
        let account = accounts.entry(row.account).or_insert_with(|| Account::new(row.budget));
        match row.kind {
            EntryKind::Reserve => {
                let budget = row.budget.ok_or_else(|| wrong("reserves without a budget".to_owned()))?;
                account.set_budget(budget)?;
                let cost = account.price(&row.event, row.account.adjacency)?;
                account
                    .reserve(reservation_id(row.job), &cost, row.count)
                    .map_err(|error| wrong(format!("was never admissible: {error}")))?;
            }
            EntryKind::Commit => {
                account
                    .commit(reservation_id(row.job))
                    .map_err(|error| wrong(format!("was never paid for: {error}")))?;
            }
            EntryKind::Settle => {
                let left = account.settle(reservation_id(row.job))?;
                if left != row.count {
                    return Err(wrong(format!("gives back {} releases of {left} left", row.count)));
                }
            }
        }
    }
    Ok(accounts)
}
