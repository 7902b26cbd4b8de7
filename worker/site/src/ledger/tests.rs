mod gaussian;
mod relation;
mod units;

use std::sync::Arc;

use undertone_api::dataset::Visibility;
use undertone_api::signed::Receipt;
use undertone_privacy::Event;
use undertone_privacy::ledger::{LedgerError as RuleError, Refusal};

use super::Ledger;
use super::error::LedgerError;
use super::release_context::ReleaseContext;
use super::verify::verify;
use crate::books::BooksError;
use crate::folder::{Folder, FolderError};
use crate::keys::SiteKey;
use crate::store::{Store, StoreError};
use crate::testing::{JOB, LINEAGE, OURS, WORKER, charge, clock, gaussian, limit, sampled_gaussian, stored_release};

struct LedgerSite {
    folder: Folder,
    key: SiteKey,
    _dir: tempfile::TempDir,
}

impl LedgerSite {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let folder = Folder::new(dir.path());
        let key = SiteKey::load_or_make(&folder.key()).expect("the folder is writable");
        Self { folder, key, _dir: dir }
    }

    fn store(&self) -> Arc<Store> {
        Arc::new(Store::create(&self.folder.ledger()).expect("the folder is writable"))
    }

    fn open(&self) -> Ledger {
        self.try_open().expect("the rows add up")
    }

    fn try_open(&self) -> Result<Ledger, LedgerError> {
        let lock = self.folder.lock().expect("nobody else writes");
        Ledger::open(self.store(), lock, self.key.clone(), WORKER, clock())
    }

    fn verify(&self) -> Result<super::LedgerSummary, BooksError> {
        self.store().read(|db| verify(db, &self.key.public()))
    }
}

/// Returns the refusal of the rules.
fn rule<T: std::fmt::Debug>(answer: Result<T, LedgerError>) -> RuleError {
    match answer {
        Err(LedgerError::Rule(rule)) => *rule,
        other => panic!("the rules refuse, not {other:?}"),
    }
}

fn release_context(event: Event, releases: u64) -> ReleaseContext {
    ReleaseContext {
        job: JOB,
        dataset: OURS,
        lineage: LINEAGE,
        manifest: "digest".to_owned(),
        charge: charge(event, releases),
    }
}

fn job(number: u128, under: &ReleaseContext) -> ReleaseContext {
    ReleaseContext { job: undertone_api::id::JobId(uuid::Uuid::from_u128(number)), ..under.clone() }
}

#[test]
fn refused_reservation_changes_nothing() {
    let site = LedgerSite::new();
    let ledger = site.open();
    let small = release_context(gaussian(4.0), 2);
    ledger.reserve(&small, &limit(8.0)).expect("there is room");
    let before = ledger.books().expect("it is open");
    let refused = ledger.reserve(&job(40, &release_context(gaussian(0.1), 100)), &limit(8.0));
    assert!(matches!(rule(refused), RuleError::Refused(Refusal::OverBudget { .. })));
    assert_eq!(ledger.books().expect("it is open"), before);
    drop(ledger);
    assert_eq!(site.open().books().expect("it is open"), before);
}

#[test]
fn ledger_reopens_as_it_was_closed() {
    let site = LedgerSite::new();
    let ledger = site.open();
    let (one, two) = (release_context(sampled_gaussian(0.1, 2.0), 5), job(40, &release_context(gaussian(8.0), 3)));
    ledger.reserve(&one, &limit(8.0)).expect("there is room");
    ledger.reserve(&two, &limit(8.0)).expect("there is room");
    for round in 1..=3 {
        let _ =
            ledger.commit(&one, &one.charge.event, &stored_release(&one, "private", round)).expect("it is reserved");
    }
    let _ = ledger.commit(&two, &two.charge.event, &stored_release(&two, "private", 1)).expect("it is reserved");
    assert_eq!(ledger.settle(&two).expect("it is open"), 2);
    let before = ledger.books().expect("it is open");
    drop(ledger);
    assert_eq!(site.open().books().expect("it is open"), before);
    let verified = site.verify().expect("it adds up");
    assert_eq!((verified.entries, verified.receipts, verified.published), (7, 4, 0));
    assert_eq!(verified.books, before);
}

#[test]
fn crash_between_payment_and_release_pays_again() {
    let site = LedgerSite::new();
    let under = release_context(gaussian(4.0), 3);
    let ledger = site.open();
    ledger.reserve(&under, &limit(8.0)).expect("there is room");
    let _ = ledger.commit(&under, &under.charge.event, &stored_release(&under, "private", 1)).expect("it is reserved");
    drop(ledger); // The process crashed here: paid, nothing stored.
    let ledger = site.open();
    let again =
        ledger.commit(&under, &under.charge.event, &stored_release(&under, "private", 1)).expect("it is reserved");
    let receipt: Receipt = again.signed.open(&site.key.public()).expect("the site signed it");
    assert_eq!((receipt.sequence, receipt.round, receipt.attempt), (2, 1, 2));
    let books = ledger.books().expect("it is open");
    let spent: Vec<_> = books
        .accounts
        .values()
        .map(|book| book.account.reservations().map(undertone_privacy::ledger::Reservation::committed).sum::<u64>())
        .collect();
    assert_eq!(spent, [2]);
}

/// Four rounds with correlated noise: the first receipt spends all of their cost, and a round is paid once.
#[test]
fn first_receipt_spends_a_mechanism_and_rounds_are_paid_once() {
    let site = LedgerSite::new();
    let event: Event = serde_json::from_str(
        r#"{"event":"banded_gaussian","sampling_rate":0.5,"noise_multiplier":4.0,"bands":2,"releases":4}"#,
    )
    .expect("it is an event");
    let under = release_context(event, 4);
    let ledger = site.open();
    ledger.reserve(&under, &limit(8.0)).expect("there is room");
    let spent = |ledger: &Ledger| {
        let books = ledger.books().expect("it is open");
        books.accounts.values().next().expect("it has an account").account.balance().spent().clone()
    };
    let commit = |ledger: &Ledger, round| {
        ledger.commit(&under, &under.charge.event, &stored_release(&under, "private", round)).map(|_| ())
    };
    commit(&ledger, 1).expect("it is reserved");
    let whole = spent(&ledger);
    assert!(!whole.is_zero());
    drop(ledger); // The process crashed here: paid, nothing stored.
    let ledger = site.open();
    assert!(matches!(commit(&ledger, 1), Err(LedgerError::Released { round: 1, .. })));
    commit(&ledger, 2).expect("it is reserved");
    assert_eq!(spent(&ledger), whole);
    ledger.settle(&under).expect("it is open");
    assert_eq!(spent(&ledger), whole, "a job that ends early gets nothing back");
    drop(ledger);
    let verified = site.verify().expect("it adds up");
    let books = verified.books.accounts.into_values().next().expect("it has an account");
    assert_eq!(books.account.balance().spent(), &whole);
}

#[test]
fn job_commits_at_most_its_reservation_and_none_once_settled() {
    let site = LedgerSite::new();
    let ledger = site.open();
    let one = release_context(gaussian(4.0), 1);
    ledger.reserve(&one, &limit(8.0)).expect("there is room");
    let _ = ledger.commit(&one, &one.charge.event, &stored_release(&one, "private", 1)).expect("it is reserved");
    let more = ledger.commit(&one, &one.charge.event, &stored_release(&one, "private", 2));
    assert!(matches!(rule(more), RuleError::Exhausted { .. }));
    let two = job(40, &release_context(gaussian(4.0), 2));
    ledger.reserve(&two, &limit(8.0)).expect("there is room");
    let elsewhere = undertone_api::id::DatasetId(uuid::Uuid::from_u128(99));
    assert_eq!(ledger.settle_job(two.job, Some(elsewhere)).expect("it is open"), 0);
    assert_eq!(ledger.settle_job(two.job, None).expect("it is open"), 2);
    assert_eq!(ledger.settle_job(two.job, None).expect("it is open"), 0);
    assert!(ledger.commit(&two, &two.charge.event, &stored_release(&two, "private", 1)).is_err());
    assert!(matches!(ledger.reserve(&two, &limit(8.0)), Err(LedgerError::Settled)));
}

#[test]
fn other_release_or_manifest_than_reserved_is_not_paid() {
    let site = LedgerSite::new();
    let ledger = site.open();
    let under = release_context(gaussian(4.0), 3);
    assert!(matches!(
        ledger.commit(&under, &under.charge.event, &stored_release(&under, "private", 1)),
        Err(LedgerError::NotReserved)
    ));
    ledger.reserve(&under, &limit(8.0)).expect("there is room");
    assert!(matches!(
        ledger.commit(&under, &gaussian(3.9), &stored_release(&under, "private", 1)),
        Err(LedgerError::OtherEvent { .. })
    ));
    let swapped = ReleaseContext { manifest: "another".to_owned(), ..under.clone() };
    assert!(matches!(
        ledger.commit(&swapped, &under.charge.event, &stored_release(&swapped, "private", 1)),
        Err(LedgerError::Changed { .. })
    ));
    assert!(matches!(ledger.reserve(&swapped, &limit(8.0)), Err(LedgerError::Changed { .. })));
}

#[test]
fn raised_limit_admits_more_and_lowered_one_refuses() {
    let site = LedgerSite::new();
    let ledger = site.open();
    let job_of = |number| job(number, &release_context(gaussian(1.0), 1));
    ledger.reserve(&job_of(40), &limit(6.0)).expect("there is room");
    assert!(ledger.reserve(&job_of(41), &limit(6.0)).is_err());
    assert!(ledger.check(&job_of(41), &limit(60.0)).is_ok());
    ledger.reserve(&job_of(41), &limit(60.0)).expect("the limit was raised");
    let _ =
        ledger.commit(&job_of(41), &gaussian(1.0), &stored_release(&job_of(41), "private", 1)).expect("it is reserved");
    let before = ledger.books().expect("it is open");
    assert!(ledger.reserve(&job_of(42), &limit(1.0)).is_err());
    assert_eq!(ledger.books().expect("it is open"), before);
    // A reservation under the higher limit can still be released.
    let _ =
        ledger.commit(&job_of(40), &gaussian(1.0), &stored_release(&job_of(40), "private", 1)).expect("it is reserved");
    site.verify().expect("the rows carry the limits under which they were admitted");
}

#[test]
fn release_in_the_clear_has_a_receipt_and_charges_nothing() {
    let site = LedgerSite::new();
    let ledger = site.open();
    let open = release_context(Event::NonPrivate, 10);
    assert_eq!(rule(ledger.reserve(&open, &limit(8.0))), RuleError::Refused(Refusal::Infinite));
    let payment = ledger
        .publish(&open, Visibility::Open, &Event::NonPrivate, &stored_release(&open, "open", 1))
        .expect("the data are open");
    assert_eq!(payment.receipt, 1);
    let private = job(40, &release_context(gaussian(4.0), 1));
    for visibility in [Visibility::Private, Visibility::Public] {
        let refused = ledger.publish(&private, visibility, &Event::NonPrivate, &stored_release(&private, "open", 1));
        assert!(matches!(refused, Err(LedgerError::NotOpen)), "{visibility:?}");
    }
    let unpaid =
        ledger.publish(&private, Visibility::Open, &private.charge.event, &stored_release(&private, "private", 1));
    assert!(matches!(unpaid, Err(LedgerError::OtherEvent { .. })), "what has a price is paid, not published");
    ledger.reserve(&private, &limit(8.0)).expect("nothing was charged");
    let _ = ledger
        .commit(&private, &private.charge.event, &stored_release(&private, "private", 1))
        .expect("it is reserved");
    drop(ledger);
    let verified = site.verify().expect("both kinds of release are in one chain");
    assert_eq!((verified.published, verified.receipts), (1, 2));
}

#[test]
fn two_processes_never_write_one_ledger() {
    let site = LedgerSite::new();
    let ledger = site.open();
    assert!(matches!(site.folder.lock(), Err(FolderError::Locked(_))));
    drop(ledger);
    assert!(site.folder.lock().is_ok());
}

/// Changes rows after dropping the triggers, as an attacker with access to the file could.
fn tamper(site: &LedgerSite, sql: &str) {
    site.store()
        .write(|tx| {
            let names: Vec<String> = tx
                .prepare("SELECT name FROM sqlite_master WHERE type = 'trigger'")
                .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
                .map_err(StoreError::sqlite("list triggers"))?;
            for name in names {
                tx.execute_batch(&format!("DROP TRIGGER {name}")).map_err(StoreError::sqlite("drop a trigger"))?;
            }
            tx.execute_batch(sql).map_err(StoreError::sqlite("tamper"))
        })
        .expect("the file is ours to damage");
}

fn spent_site() -> LedgerSite {
    let site = LedgerSite::new();
    let ledger = site.open();
    let under = release_context(gaussian(4.0), 3);
    ledger.reserve(&under, &limit(8.0)).expect("there is room");
    for round in 1..=2 {
        let _ = ledger
            .commit(&under, &under.charge.event, &stored_release(&under, "private", round))
            .expect("it is reserved");
    }
    drop(ledger);
    site
}

#[test]
fn changed_or_missing_row_stops_every_release() {
    for sql in [
        "UPDATE entry SET payload = replace(payload, '4.0', '9.0') WHERE sequence = 1",
        "DELETE FROM entry WHERE sequence = 2",
        "UPDATE entry SET hash = 'x' WHERE sequence = 3",
    ] {
        let site = spent_site();
        tamper(&site, sql);
        assert!(matches!(site.verify(), Err(BooksError::Chain { .. })), "{sql}");
        assert!(matches!(site.try_open(), Err(LedgerError::Books(BooksError::Chain { .. }))), "{sql}");
    }
}

#[test]
fn changed_cut_or_orphaned_receipt_is_found() {
    for sql in [
        "UPDATE receipt SET payload = replace(payload, '\"round\":1', '\"round\":3') WHERE sequence = 1",
        // One signature in 256 begins with `00` already.
        "UPDATE receipt SET signature = iif(signature LIKE '00%', '11', '00') || substr(signature, 3) WHERE sequence = 2",
        "DELETE FROM receipt WHERE sequence = 1",
        "DELETE FROM receipt WHERE sequence = 2",
        "DELETE FROM entry WHERE sequence = 3",
    ] {
        let site = spent_site();
        tamper(&site, sql);
        assert!(matches!(site.verify(), Err(BooksError::Receipt { .. })), "{sql}");
    }
}

#[test]
fn receipt_that_another_key_signed_is_found() {
    let site = spent_site();
    let other = LedgerSite::new();
    let verified = site.store().read(|db| verify(db, &other.key.public()));
    assert!(matches!(verified, Err(BooksError::Receipt { sequence: 1, .. })));
}
