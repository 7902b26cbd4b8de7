//! Accounts with the Gaussian filter: whole jobs, by certificates in the rows.

use time::OffsetDateTime;
use undertone_api::budget::EntryKind;
use undertone_privacy::PrivacyUnit::{Record, Speaker};
use undertone_privacy::ledger::FilterKind;

use super::super::rows::insert_entry;
use super::{LedgerError, LedgerSite, ReleaseContext, job, release_context};
use crate::books::{AccountKey, LedgerBooks, LedgerEntry};
use crate::policy::{LifetimeLimit, UnitLimits};
use crate::testing::{LINEAGE, gaussian, limit, sampled_gaussian, stored_release};

fn whole_limit(epsilon: f64) -> LifetimeLimit {
    LifetimeLimit { filter: FilterKind::Gaussian, ..limit(epsilon) }
}

fn training(rounds: u64) -> ReleaseContext {
    release_context(sampled_gaussian(0.05, 1.0), rounds)
}

/// Returns the fractions of the limit that are spent, and reserved.
fn fractions(books: &LedgerBooks, under: &ReleaseContext) -> (f64, f64) {
    let summary = books.accounts[&under.account()].account.summary();
    (summary.spent_fraction, summary.reserved_fraction)
}

#[test]
fn long_training_is_admitted_and_spent_by_its_first_release() {
    let site = LedgerSite::new();
    let ledger = site.open();
    let under = training(89);
    assert!(ledger.check(&under, &limit(4.0)).is_err(), "the Rényi filter admits 33 rounds");
    ledger.reserve(&under, &whole_limit(4.0)).expect("there is room");
    let (spent, reserved) = fractions(&ledger.books().expect("it is open"), &under);
    assert!(spent == 0.0 && reserved > 0.9);
    for round in 1..=2 {
        let _ = ledger
            .commit(&under, &under.charge.event, &stored_release(&under, "private", round))
            .expect("it is reserved");
        assert_eq!(fractions(&ledger.books().expect("it is open"), &under), (reserved, 0.0));
    }
    assert_eq!(ledger.settle(&under).expect("it is open"), 87);
    let before = ledger.books().expect("it is open");
    assert_eq!(fractions(&before, &under), (reserved, 0.0), "nothing is returned");
    assert!(ledger.check(&job(41, &training(30)), &whole_limit(4.0)).is_err());
    drop(ledger);
    assert_eq!(site.open().books().expect("it is open"), before);
    assert_eq!(site.verify().expect("every certificate is computed again").books, before);
}

#[test]
fn job_without_a_release_returns_all() {
    let site = LedgerSite::new();
    let ledger = site.open();
    ledger.reserve(&training(89), &whole_limit(4.0)).expect("there is room");
    assert_eq!(ledger.settle(&training(89)).expect("it is open"), 89);
    ledger.reserve(&job(41, &training(89)), &whole_limit(4.0)).expect("all of it is there again");
    site.verify().expect("it adds up");
}

#[test]
fn filter_of_an_account_with_jobs_never_changes() {
    let site = LedgerSite::new();
    let ledger = site.open();
    ledger.reserve(&training(2), &whole_limit(4.0)).expect("there is room");
    let refused = ledger.reserve(&job(41, &training(2)), &limit(8.0)).expect_err("another filter");
    let text = refused.to_string();
    assert!(
        text.contains("names the filter `renyi` for the unit Speaker") && text.contains("set `filter = \"gaussian\"`"),
        "{text}"
    );
    // A limit that begins after jobs of other units would have to contain them.
    let other = LedgerSite::new();
    let ledger = other.open();
    ledger.reserve(&training(2), &limit(4.0)).expect("there is room");
    let limits = UnitLimits { own: limit(8.0), others: vec![(Record, whole_limit(8.0))] };
    let refused = ledger.reserve(&job(41, &training(2)), limits).expect_err("earlier jobs have no certificate");
    assert!(
        matches!(&refused, LedgerError::OtherUnit { unit: Record, source } if matches!(**source, LedgerError::LateFilter { .. })),
        "{refused}"
    );
}

#[test]
fn other_units_have_certificates_of_their_own() {
    let site = LedgerSite::new();
    let ledger = site.open();
    let under = training(20);
    let limits = UnitLimits { own: whole_limit(4.0), others: vec![(Record, whole_limit(40.0))] };
    ledger.reserve(&under, &limits).expect("there is room");
    let books = ledger.books().expect("it is open");
    let certificate = |unit| {
        let key = AccountKey::new(LINEAGE, unit, under.charge.adjacency);
        books.accounts[&key].jobs[&under.job].certificate.expect("it is charged as a whole")
    };
    assert!(certificate(Record).mu() > certificate(Speaker).mu());
    drop(ledger);
    assert_eq!(site.verify().expect("both are computed again").books, books);
}

#[test]
fn row_with_too_little_a_charge_is_found() {
    let site = LedgerSite::new();
    let ledger = site.open();
    ledger.reserve(&training(40), &whole_limit(4.0)).expect("there is room");
    let books = ledger.books().expect("it is open");
    drop(ledger);
    let first = &books.accounts[&training(40).account()];
    let stated = first.jobs[&training(40).job].certificate;
    let louder = job(41, &release_context(sampled_gaussian(0.05, 0.9), 40));
    let row = LedgerEntry {
        kind: EntryKind::Reserve,
        account: louder.account(),
        job: louder.job,
        dataset: louder.dataset,
        manifest: louder.manifest.clone(),
        event: louder.charge.event.clone(),
        count: 40,
        evaluator: undertone_privacy::EVALUATOR_VERSION.to_owned(),
        budget: Some(whole_limit(40.0).budget(None).expect("a budget")),
        certificate: stated,
        receipt: None,
        others: Vec::new(),
        at: OffsetDateTime::UNIX_EPOCH,
    };
    let without = LedgerEntry { certificate: None, ..row.clone() };
    let _ = site.store().write(|tx| insert_entry(tx, &books.entries, &row)).expect("it is written");
    let found = site.verify().expect_err("the event costs more").to_string();
    assert!(found.contains("its certificate is not that of its event"), "{found}");
    let other = LedgerSite::new();
    let _ = other.store().write(|tx| insert_entry(tx, &LedgerBooks::default().entries, &without)).expect("written");
    let found = other.try_open().map(drop).expect_err("it has none").to_string();
    assert!(found.contains("it has no certificate, and the account has the filter `gaussian`"), "{found}");
}

/// The form of a row from before the filter could be chosen, and its hash.
#[test]
fn rows_of_the_default_filter_keep_their_bytes() {
    let site = LedgerSite::new();
    let ledger = site.open();
    ledger.reserve(&release_context(gaussian(4.0), 3), &limit(8.0)).expect("there is room");
    drop(ledger);
    let (payload, hash): (String, String) = site
        .store()
        .read(|db| {
            db.query_row("SELECT payload, hash FROM entry", [], |row| Ok((row.get(0)?, row.get(1)?)))
                .map_err(crate::store::StoreError::sqlite("read a row"))
        })
        .expect("one row");
    assert_eq!(payload, PAYLOAD);
    assert_eq!(hash, "d1f3fbc516dc36656cc8393dfc90a01626704febe7d6b58d85a654226095212b");
}

/// The row as every version writes it.
const PAYLOAD: &str = r#"{"kind":"reserve","lineage":"00000000-0000-0000-0000-000000000006","unit":"speaker","adjacency":"add_remove","job":"00000000-0000-0000-0000-000000000003","dataset":"00000000-0000-0000-0000-000000000004","manifest":"digest","event":{"event":"gaussian","noise_multiplier":4.0},"count":3,"evaluator":"rdp-2","budget":{"epsilon":8.0,"delta":1e-6,"side_delta":2.5e-7,"grid":"standard"},"at":"1970-01-01T00:00:00Z"}"#;
