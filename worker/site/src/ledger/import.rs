//! Imports receipts of this site that its ledger lacks. The server has them, signed by the site's own key, so the
//! ledger is an older copy. They count as spent.
//!
//! The server can neither forge such receipts nor gain by them: an import only reduces the remaining budget. The
//! missing receipts are reserved and paid in one transaction, under a limit as large as necessary, and each job that is
//! new here is settled. Each receipt gets the reference "bytes lost", so that nothing is sent by it again. Reservations
//! of jobs that were open in the copy are never returned, because the server may withhold further receipts. Receipts
//! that contradict existing ones do not belong to an older copy, and are rejected.
//!
//! The planned number of an imported job's releases is unknown, and it may have stopped because of its outputs. So under the
//! Gaussian filter each of its releases is certified by itself.

use std::collections::BTreeMap;

use rusqlite::{Transaction, params};
use time::OffsetDateTime;
use undertone_api::budget::EntryKind;
use undertone_api::id::JobId;
use undertone_api::job::Charge;
use undertone_api::signed::{Receipt, Signed, SignedError, SiteKeys};
use undertone_privacy::ledger::{Account, FilterKind};
use undertone_privacy::mechanism::EVALUATOR_VERSION;
use undertone_privacy::{Delta, Epsilon};

use super::Ledger;
use super::account_steps::{self, PlannedLength, ReservationTerms};
use super::error::{ImportError, LedgerError};
use super::recovery::{self, ImportSummary};
use super::release_context::ReleaseContext;
use super::rows::{insert_entry, insert_row, no_receipt};
use crate::books::{AccountKey, ChainHead, LedgerBooks, LedgerEntry, OpenRelease, receipts};
use crate::outbox;
use crate::policy::{LifetimeLimit, is_exact};
use crate::rotation::rotations;
use crate::store::{StoreError, sql};

/// The highest number of doublings of the limit until the paid releases fit.
const DOUBLINGS: u32 = 60;

impl Ledger {
    /// Compares the ledger with `shown`, the server's receipts from some number on without gaps, and imports the
    /// missing ones as spent. `limit` is the initial limit of accounts that do not exist here. Durable when this
    /// returns.
    ///
    /// # Errors
    /// [`LedgerError::Import`] when they contradict the ledger. In that case nothing has changed.
    pub fn import(&self, shown: &[Signed], limit: Option<LifetimeLimit>) -> Result<ImportSummary, LedgerError> {
        let mut state = self.lock_state()?;
        let at = (self.clock)();
        let mut books = state.books.clone();
        let imported = self.append(&mut state, |_, tx| {
            let keys =
                SiteKeys::leading_to(self.key.public(), &rotations(tx)?).map_err(crate::books::BooksError::from)?;
            let missing = self.missing(tx, &keys, &books.receipts, shown)?;
            let imported =
                ImportSummary { before: books.receipts.sequence, missing: missing.len() as u64, jobs: jobs(&missing) };
            if imported.missing > 0 {
                recovery::withhold(tx, at)?;
            }
            let mut writer = ImportWriter { tx, books: &mut books, at, limit };
            writer.take(&missing)?;
            recovery::record_comparison(tx, imported.before, imported.missing, at)?;
            Ok(imported)
        })?;
        // The next access reads the books again from the rows, which are authoritative.
        state.stale = true;
        Ok(imported)
    }

    /// Returns the shown receipts that the ledger lacks, after checking that each follows the one before it.
    fn missing(
        &self,
        tx: &Transaction<'_>,
        keys: &SiteKeys,
        last: &ChainHead,
        shown: &[Signed],
    ) -> Result<Vec<(Signed, Receipt)>, LedgerError> {
        let own = receipts(tx)?;
        let mut missing = Vec::new();
        let mut head = if last.sequence == 0 { ChainHead { sequence: 0, hash: no_receipt() } } else { last.clone() };
        for signed in shown {
            let claimed: Receipt = serde_json::from_str(&signed.payload)
                .map_err(|error| ImportError::Signature(SignedError::Payload(error.to_string())))?;
            let receipt: Receipt = signed.open(keys.key_of_receipt(claimed.sequence)).map_err(ImportError::from)?;
            let number = receipt.sequence;
            if receipt.worker != self.worker {
                return Err(ImportError::Foreign(number).into());
            }
            let here = usize::try_from(number).ok().and_then(|number| own.get(number.checked_sub(1)?));
            if let Some(here) = here {
                if here.digest() != signed.digest() {
                    return Err(ImportError::Forked(number).into());
                }
                continue;
            }
            if number != head.sequence + 1 || receipt.previous != head.hash {
                return Err(if last.sequence > 0 && number == last.sequence + 1 {
                    ImportError::Forked(last.sequence)
                } else {
                    ImportError::Chain(number)
                }
                .into());
            }
            head = ChainHead { sequence: number, hash: signed.digest() };
            missing.push((signed.clone(), receipt));
        }
        Ok(missing)
    }
}

fn jobs(missing: &[(Signed, Receipt)]) -> Vec<JobId> {
    let mut jobs: Vec<JobId> = missing.iter().map(|(_, receipt)| receipt.job).collect();
    jobs.sort();
    jobs.dedup();
    jobs
}

/// Returns the account of a receipt.
fn account_of(receipt: &Receipt) -> AccountKey {
    AccountKey::new(receipt.lineage, receipt.unit, receipt.adjacency)
}

/// Writes the missing receipts within one transaction, and updates the books in memory.
struct ImportWriter<'a> {
    tx: &'a Transaction<'a>,
    books: &'a mut LedgerBooks,
    at: OffsetDateTime,
    limit: Option<LifetimeLimit>,
}

impl ImportWriter<'_> {
    fn take(&mut self, missing: &[(Signed, Receipt)]) -> Result<(), LedgerError> {
        // A new reservation covers exactly the job's paid releases.
        let mut counts: BTreeMap<(AccountKey, JobId), u64> = BTreeMap::new();
        for (_, receipt) in missing.iter().filter(|(_, receipt)| !is_exact(&receipt.event)) {
            *counts.entry((account_of(receipt), receipt.job)).or_default() += 1;
        }
        let mut reserved = Vec::new();
        for (signed, receipt) in missing {
            if is_exact(&receipt.event) {
                self.publish(receipt)?;
            } else {
                let place = (account_of(receipt), receipt.job);
                if self.book(place).is_none() {
                    self.reserve(receipt, counts.get(&place).copied().unwrap_or(1))?;
                    reserved.push((place, receipt));
                }
                self.commit(receipt)?;
            }
            self.receipt(signed, receipt)?;
        }
        reserved.into_iter().try_for_each(|(_, receipt)| self.settle(receipt))
    }

    fn book(&self, (account, job): (AccountKey, JobId)) -> Option<&Account> {
        self.books.accounts.get(&account).filter(|book| book.jobs.contains_key(&job)).map(|book| &book.account)
    }

    fn entry(&self, kind: EntryKind, receipt: &Receipt, count: u64) -> LedgerEntry {
        LedgerEntry {
            kind,
            account: account_of(receipt),
            job: receipt.job,
            dataset: receipt.dataset,
            manifest: receipt.manifest.clone(),
            event: receipt.event.clone(),
            count,
            evaluator: EVALUATOR_VERSION.to_owned(),
            budget: None,
            certificate: None,
            receipt: None,
            others: Vec::new(),
            at: self.at,
        }
    }

    fn append(&mut self, entry: &LedgerEntry) -> Result<(), LedgerError> {
        self.books.entries = insert_entry(self.tx, &self.books.entries, entry)?;
        Ok(())
    }

    fn reserve(&mut self, receipt: &Receipt, count: u64) -> Result<(), LedgerError> {
        let (unit, adjacency, event) = (receipt.unit, receipt.adjacency, receipt.event.clone());
        let under = ReleaseContext {
            job: receipt.job,
            dataset: receipt.dataset,
            lineage: receipt.lineage,
            manifest: receipt.manifest.clone(),
            charge: Charge { unit, adjacency, event, releases: count },
        };
        let own = under.account();
        let mut steps = vec![self.step(receipt.sequence, &under, own, &under.charge)?];
        let beside: Vec<AccountKey> = self.books.accounts.keys().filter(|key| key.is_sibling(own)).copied().collect();
        for key in beside {
            // A release without a price there still happened: `ledger show` lists it.
            if let Ok(charge) = under.charge.for_unit(key.unit) {
                steps.push(self.step(receipt.sequence, &under, key, &charge)?);
            }
        }
        let ReservationTerms { budget, certificate, others } = account_steps::reservation_terms(&steps);
        let entry = LedgerEntry { budget, certificate, others, ..self.entry(EntryKind::Reserve, receipt, count) };
        self.append(&entry)?;
        account_steps::adopt(self.books, receipt.job, steps);
        Ok(())
    }

    /// Returns the step that reserves on one account, under a limit as large as necessary.
    fn step(
        &self,
        number: u64,
        under: &ReleaseContext,
        key: AccountKey,
        charge: &Charge,
    ) -> Result<account_steps::AccountStep, LedgerError> {
        let standing = self.books.accounts.get(&key).and_then(|book| book.account.balance().budget());
        let present = standing.map(LifetimeLimit::from_budget);
        let without =
            || ImportError::Unfit { number, problem: "policy.toml sets no budget at all; set one".to_owned() };
        let mut limit = present.or(self.limit).ok_or_else(without)?;
        let mut refused = String::new();
        for _ in 0..DOUBLINGS {
            match account_steps::step(self.books, under, key, charge, Some(limit), PlannedLength::Unknown) {
                Ok(step) => return Ok(step),
                Err(LedgerError::Rule(error)) => refused = error.to_string(),
                // The receipts of the restored ledger must be imported: a new account then has the other filter.
                Err(LedgerError::LateFilter { .. }) => {
                    limit.filter = FilterKind::Renyi;
                    continue;
                }
                Err(LedgerError::Price(error)) if limit.filter == FilterKind::Gaussian => refused = error.to_string(),
                Err(error) => return Err(error),
            }
            if limit.filter == FilterKind::Gaussian {
                // Its certificates need a part of δ as well.
                limit.delta = Delta::new(limit.delta.get() * 2.0).unwrap_or(limit.delta);
            }
            let Ok(doubled) = Epsilon::new(limit.epsilon.get() * 2.0) else { break };
            limit.epsilon = doubled;
        }
        Err(ImportError::Unfit { number, problem: refused }.into())
    }

    fn commit(&mut self, receipt: &Receipt) -> Result<(), LedgerError> {
        let unfit = |problem: String| ImportError::Unfit { number: receipt.sequence, problem };
        let key = account_of(receipt);
        let book = self.books.accounts.get(&key).ok_or_else(|| unfit("nothing is reserved".to_owned()))?;
        let reserved = book.jobs.get(&receipt.job).ok_or_else(|| unfit("nothing is reserved".to_owned()))?;
        if reserved.event != receipt.event || reserved.manifest != receipt.manifest {
            return Err(unfit("another release, or another manifest, was reserved".to_owned()).into());
        }
        let steps = account_steps::commit(self.books, key, receipt.job).map_err(|error| unfit(error.to_string()))?;
        let entry = LedgerEntry { receipt: Some(receipt.sequence), ..self.entry(EntryKind::Commit, receipt, 1) };
        self.append(&entry)?;
        account_steps::adopt(self.books, receipt.job, steps);
        Ok(())
    }

    fn settle(&mut self, receipt: &Receipt) -> Result<(), LedgerError> {
        let key = account_of(receipt);
        if !self.books.accounts.contains_key(&key) {
            return Ok(());
        }
        let (steps, left) = account_steps::settle(self.books, key, receipt.job)?;
        let entry = self.entry(EntryKind::Settle, receipt, left);
        self.append(&entry)?;
        account_steps::adopt(self.books, receipt.job, steps);
        Ok(())
    }

    fn publish(&mut self, receipt: &Receipt) -> Result<(), LedgerError> {
        let row = OpenRelease {
            lineage: receipt.lineage,
            job: receipt.job,
            receipt: receipt.sequence,
            event: receipt.event.clone(),
            at: self.at,
        };
        let statement = "INSERT INTO published (sequence, payload, hash) VALUES (?1, ?2, ?3)";
        self.books.published = insert_row(self.tx, statement, &self.books.published, &row)?;
        Ok(())
    }

    fn receipt(&self, signed: &Signed, receipt: &Receipt) -> Result<(), LedgerError> {
        self.tx
            .execute(
                "INSERT INTO receipt (sequence, payload, signature, digest) VALUES (?1, ?2, ?3, ?4)",
                params![sql(receipt.sequence), signed.payload, signed.signature, signed.digest()],
            )
            .map_err(StoreError::sqlite("write a receipt"))?;
        self.tx
            .execute("INSERT INTO acknowledged (receipt) VALUES (?1) ON CONFLICT DO NOTHING", [sql(receipt.sequence)])
            .map_err(StoreError::sqlite("note a receipt"))?;
        outbox::lose(self.tx, receipt)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
