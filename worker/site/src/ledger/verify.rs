//! Verifies that rows, receipts and sums of a ledger agree: checks chains and signatures, and repeats every admission.

use std::collections::BTreeMap;

use ed25519_dalek::VerifyingKey;
use rusqlite::Connection;
use undertone_api::budget::EntryKind;
use undertone_api::signed::{Receipt, SiteKeys};

use super::rows::no_receipt;
use crate::books::{
    AccountKey, BooksError, CertificateCheck, LedgerBooks, LedgerEntry, OpenRelease, entries, open_releases, receipts,
    replay,
};
use crate::rotation::rotations;

/// The result of a verification.
#[derive(Debug, Clone, PartialEq)]
pub struct LedgerSummary {
    /// The number of rows of the ledger.
    pub entries: u64,
    /// The number of releases without noise.
    pub published: u64,
    /// The number of signed receipts.
    pub receipts: u64,
    /// Digest of the last receipt; empty without one. A recorded digest later reveals a truncated chain.
    pub head: String,
    /// The resulting books.
    pub books: LedgerBooks,
}

/// Verifies the whole ledger of a site whose present key is `key`. Checks the chains of the rows, the chain and every
/// signature of the receipts, and that each release has exactly one matching receipt. Also checks that the rules admit
/// every row in its order and yield the same sums.
///
/// # Errors
/// [`BooksError`] with the first invalid row.
pub fn verify(db: &Connection, key: &VerifyingKey) -> Result<LedgerSummary, BooksError> {
    let books = LedgerBooks::read(db)?;
    cross_check(db, &books, CertificateCheck::Computed)?;
    let (rows, open) = (entries(db)?, open_releases(db)?);
    let keys = SiteKeys::leading_to(*key, &rotations(db)?)?;
    let mut released = releases(&rows, &open);
    let mut previous = no_receipt();
    let (mut count, mut head) = (0, String::new());
    for (signed, sequence) in receipts(db)?.into_iter().zip(1_u64..) {
        let wrong = |problem: &str| BooksError::Receipt { sequence, problem: problem.to_owned() };
        let receipt: Receipt =
            signed.open(keys.key_of_receipt(sequence)).map_err(|error| wrong(&format!("does not hold: {error}")))?;
        if receipt.sequence != sequence || receipt.previous != previous {
            return Err(wrong("does not follow the one before it"));
        }
        match released.remove(&sequence) {
            Some(ReleaseRow::Paid(row)) => {
                let agrees = row.event == receipt.event
                    && row.job == receipt.job
                    && row.dataset == receipt.dataset
                    && row.manifest == receipt.manifest
                    && row.account == AccountKey::new(receipt.lineage, receipt.unit, receipt.adjacency);
                if !agrees {
                    return Err(wrong("says something else than its row of the ledger"));
                }
            }
            Some(ReleaseRow::Published(row)) => {
                if (row.job, row.lineage, &row.event) != (receipt.job, receipt.lineage, &receipt.event) {
                    return Err(wrong("says something else than its row of the releases in the clear"));
                }
            }
            None => return Err(wrong("has no row")),
        }
        previous = signed.digest();
        head.clone_from(&previous);
        count = sequence;
    }
    if let Some(sequence) = released.keys().next() {
        return Err(BooksError::Receipt { sequence: *sequence, problem: "is missing".to_owned() });
    }
    Ok(LedgerSummary { entries: rows.len() as u64, published: open.len() as u64, receipts: count, head, books })
}

enum ReleaseRow<'a> {
    Paid(&'a LedgerEntry),
    Published(&'a OpenRelease),
}

fn releases<'a>(rows: &'a [LedgerEntry], open: &'a [OpenRelease]) -> BTreeMap<u64, ReleaseRow<'a>> {
    let commits = rows.iter().filter(|row| row.kind == EntryKind::Commit);
    // A commit without a receipt is stored under 0, which no receipt has, and is reported as missing.
    let payments = commits.map(|row| (row.receipt.unwrap_or(0), ReleaseRow::Paid(row)));
    payments.chain(open.iter().map(|row| (row.receipt, ReleaseRow::Published(row)))).collect()
}

/// Checks that the rules, applied row by row, yield the same books as the sums of the rows.
///
/// # Errors
/// [`BooksError`] when a row was not admissible or the sums differ.
pub(super) fn cross_check(db: &Connection, books: &LedgerBooks, check: CertificateCheck) -> Result<(), BooksError> {
    let rows = entries(db)?;
    let replayed = replay(&rows, check)?;
    let agree = replayed.len() == books.accounts.len()
        && replayed.iter().all(|(key, account)| books.accounts.get(key).is_some_and(|book| book.account == *account));
    if agree {
        Ok(())
    } else {
        Err(BooksError::Row {
            sequence: rows.len() as u64,
            problem: "and those before it do not come to the sums of the account".to_owned(),
        })
    }
}
