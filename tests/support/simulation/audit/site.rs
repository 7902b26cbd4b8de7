//! A site's ledger file, read over a connection that cannot write.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use undertone_api::budget::EntryKind;
use undertone_api::id::{DatasetId, JobId};
use undertone_api::signed::{Receipt, Signed};
use undertone_worker::site::books::{self, AccountKey, LedgerEntry};
use undertone_worker::site::keys::SiteKey;
use undertone_worker::site::ledger::{self, Ledger};

use super::super::network::Place;
use super::super::{Failed, StopReason};
use super::record::{TableRecord, rows, version};
use super::sums::{ReservationState, check_cap, projected};

/// Tables of record, with the compared columns.
const RECORD: [(&str, &str); 6] = [
    ("entry", "SELECT sequence, payload, hash FROM entry"),
    ("receipt", "SELECT sequence, payload, signature, digest FROM receipt"),
    ("published", "SELECT sequence, payload, hash FROM published"),
    ("lineage", "SELECT name, lineage FROM lineage"),
    ("manifest", "SELECT job, dataset, digest, payload, signature FROM manifest"),
    ("decision", "SELECT id, job, dataset, manifest, approve, by, reason FROM decision"),
];

/// Payments by place.
#[derive(Debug, Clone, Default)]
pub(crate) struct SitePayments(BTreeMap<Place, u64>);

impl SitePayments {
    /// Returns the number of payments for a place.
    pub(crate) fn attempts(&self, place: &Place) -> u64 {
        self.0.get(place).copied().unwrap_or(0)
    }
}

/// A receipt of the chain.
#[derive(Debug, Clone)]
pub(crate) struct ReceiptLink {
    pub(crate) job: JobId,
    pub(crate) dataset: DatasetId,
    pub(crate) digest: String,
}

/// The state computed from the rows.
#[derive(Debug, Clone, Default)]
pub(crate) struct SiteState {
    pub(crate) receipts: Vec<ReceiptLink>,
    pub(crate) parts: BTreeMap<(JobId, DatasetId), ReservationState>,
    /// Parts whose reservation is never returned: they were open in an older copy that was restored.
    pub(crate) withheld: BTreeSet<(JobId, DatasetId)>,
    /// Whether an older copy of the ledger was ever restored.
    pub(crate) restored: bool,
}

/// The auditor of one site.
pub(crate) struct SiteAuditor {
    db: Connection,
    key: SiteKey,
    record: TableRecord,
    version: i64,
    pub(crate) standing: SiteState,
}

impl SiteAuditor {
    /// Opens the file at a site's folder, for reading.
    pub(crate) fn open(root: &Path, key: SiteKey) -> Result<Self, Failed> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(root.join("ledger.db"), flags)?;
        Ok(Self { db, key, record: TableRecord::default(), version: -1, standing: SiteState::default() })
    }

    /// Closes the file before an older copy replaces it: a connection that closes later would remove the new file's
    /// write-ahead log.
    pub(crate) fn close(&mut self) -> Result<(), Failed> {
        self.db = Connection::open_in_memory()?;
        Ok(())
    }

    /// Opens the older copy that has replaced the file.
    pub(crate) fn reopen(&mut self, root: &Path) -> Result<(), Failed> {
        *self = Self::open(root, self.key.clone())?;
        self.standing.restored = true;
        Ok(())
    }

    /// Returns the number of rows of the ledger and its receipts.
    pub(crate) fn rows(&self) -> Result<u64, Failed> {
        let sql =
            "SELECT (SELECT count(*) FROM entry) + (SELECT count(*) FROM receipt) + (SELECT count(*) FROM published)";
        Ok(self.db.query_row(sql, [], |row| row.get::<_, i64>(0))? as u64)
    }

    /// Returns the payments on disk at this moment.
    pub(crate) fn payments(&self) -> Result<SitePayments, Failed> {
        let mut payments = SitePayments::default();
        for row in rows(&self.db, "SELECT job, dataset, series, round FROM receipt")? {
            *payments.0.entry((row[0].parse()?, row[1].parse()?, row[2].clone(), row[3].parse()?)).or_default() += 1;
        }
        Ok(payments)
    }

    /// Checks the file if it has changed; returns true when it had.
    pub(crate) fn check(&mut self) -> Result<bool, StopReason> {
        let now = version(&self.db)?;
        if now == self.version {
            return Ok(false);
        }
        self.version = now;
        for (table, sql) in RECORD {
            let lines = rows(&self.db, sql)?.into_iter().map(|row| row.join("\u{1f}")).collect();
            self.record.follows(table, lines).map_err(StopReason::Wrong)?;
        }
        self.standing = self.standing()?;
        Ok(true)
    }

    /// Checks that the process's books agree with the disk.
    pub(crate) fn agrees(&self, ledger: &Ledger) -> Result<(), StopReason> {
        let (Ok(held), Ok(read)) = (ledger.books(), books::LedgerBooks::read(&self.db)) else {
            return Err(StopReason::Wrong("the books of a site cannot be read".to_owned()));
        };
        for (key, book) in &held.accounts {
            let parts = self.standing.parts.iter().filter(|((job, _), _)| book.jobs.contains_key(job));
            let parts = parts.filter(|((job, dataset), _)| book.jobs[job].dataset == *dataset).map(|(_, part)| part);
            let balance = book.account.balance();
            projected(balance.spent(), balance.reserved(), key.adjacency(), parts)?.map_err(StopReason::Wrong)?;
        }
        if held == read { Ok(()) } else { Err(StopReason::Wrong("a site's memory and its disk differ".to_owned())) }
    }

    /// Runs the full verification: chains, signatures, admissions.
    pub(crate) fn verify(&self) -> Result<(), StopReason> {
        ledger::verify(&self.db, &self.key.public())
            .map(|_| ())
            .map_err(|error| StopReason::Wrong(format!("a site's ledger does not verify: {error}")))
    }

    fn standing(&self) -> Result<SiteState, StopReason> {
        let mut links = Vec::new();
        let mut attempts: BTreeMap<Place, u32> = BTreeMap::new();
        for (row, number) in
            rows(&self.db, "SELECT payload, signature, digest FROM receipt ORDER BY sequence")?.iter().zip(1..)
        {
            let signed = Signed { payload: row[0].clone(), signature: row[1].clone() };
            let receipt: Receipt = serde_json::from_str(&signed.payload).map_err(Failed::from)?;
            let place = (receipt.job, receipt.dataset, receipt.series.clone(), receipt.round);
            let attempt = attempts.entry(place).or_default();
            *attempt += 1;
            if receipt.sequence != number || receipt.attempt != *attempt || signed.digest() != row[2] {
                return Err(StopReason::Wrong(format!("receipt {number} is out of its order")));
            }
            links.push(ReceiptLink { job: receipt.job, dataset: receipt.dataset, digest: row[2].clone() });
        }
        let mut accounts: BTreeMap<AccountKey, BTreeMap<(JobId, DatasetId), ReservationState>> = BTreeMap::new();
        let mut commits = 0;
        for row in rows(&self.db, "SELECT payload FROM entry ORDER BY sequence")? {
            let entry: LedgerEntry = serde_json::from_str(&row[0]).map_err(Failed::from)?;
            let parts = accounts.entry(entry.account).or_default();
            let place = (entry.job, entry.dataset);
            match (entry.kind, parts.get_mut(&place)) {
                (EntryKind::Reserve, None) => {
                    parts.insert(place, ReservationState::new(entry.event, entry.count));
                    let budget =
                        entry.budget.ok_or_else(|| StopReason::Wrong("a site reserved without a budget".to_owned()))?;
                    check_cap(&budget, entry.account.adjacency(), parts.values())?.map_err(StopReason::Wrong)?;
                }
                (EntryKind::Commit, Some(part)) => {
                    part.commit(&entry.event).map_err(StopReason::Wrong)?;
                    commits += 1;
                    let link = entry.receipt.and_then(|number| links.get(number as usize - 1));
                    if link.is_none_or(|link| (link.job, link.dataset) != place) {
                        return Err(StopReason::Wrong("a payment of a site has no receipt".to_owned()));
                    }
                }
                (EntryKind::Settle, Some(part)) => part.settle(entry.count).map_err(StopReason::Wrong)?,
                _ => {
                    return Err(StopReason::Wrong(
                        "a row of a site's ledger has no reservation, or a second one".to_owned(),
                    ));
                }
            }
        }
        if commits != links.len() {
            return Err(StopReason::Wrong(format!("a site has {commits} payments and {} receipts", links.len())));
        }
        let withheld = rows(&self.db, "SELECT job, dataset FROM withheld")?;
        let withheld = withheld.iter().map(|row| Ok((row[0].parse()?, row[1].parse()?)));
        let withheld = withheld.collect::<Result<_, Failed>>()?;
        let parts = accounts.into_values().flatten().collect();
        Ok(SiteState { receipts: links, parts, withheld, restored: self.standing.restored })
    }
}
