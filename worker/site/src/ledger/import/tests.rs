use undertone_api::dataset::Visibility;
use undertone_api::signed::Signed;
use undertone_privacy::Event;
use undertone_privacy::ledger::FilterKind;

use super::{ImportError, ImportSummary, LedgerError};
use crate::books;
use crate::folder::Folder;
use crate::keys::SiteKey;
use crate::ledger::recovery::mark_restored;
use crate::ledger::verify::verify;
use crate::policy::LifetimeLimit;
use crate::restore::backup;
use crate::store::Store;
use crate::testing::{JOB, gaussian, ledger_at, limit, release_context, sampled_gaussian, stored_release};

/// Sets up a site that paid for rounds 1 and 2 before its backup. Returns its receipts after rounds 3 and 4, one
/// exact result, and a second job of one release.
fn spent() -> (tempfile::TempDir, Folder, Vec<Signed>) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let folder = Folder::new(dir.path());
    SiteKey::load_or_make(&folder.key()).expect("the folder is writable");
    let job = release_context(gaussian(4.0), 10);
    let pay = |rounds: std::ops::Range<u32>| {
        let ledger = ledger_at(&folder);
        ledger.reserve(&job, &limit(8.0)).expect("there is room");
        for round in rounds {
            ledger.commit(&job, &gaussian(4.0), &stored_release(&job, "private", round)).expect("it is reserved");
        }
        ledger
    };
    drop(pay(1..3));
    let copy = dir.path().join("copy.db");
    Store::create(&folder.ledger()).and_then(|store| store.copy_to(&copy)).expect("it is copied");
    let ledger = pay(3..5);
    ledger
        .publish(&job, Visibility::Open, &Event::NonPrivate, &stored_release(&job, "open", 1))
        .expect("the data are open");
    ledger.settle(&job).expect("it is over");
    let mut other = release_context(gaussian(2.0), 3);
    other.job = undertone_api::id::JobId(uuid::Uuid::from_u128(77));
    ledger.reserve(&other, &limit(8.0)).expect("there is room");
    ledger.commit(&other, &gaussian(2.0), &stored_release(&other, "private", 1)).expect("it is reserved");
    drop(ledger);
    let all = Store::create(&folder.ledger()).expect("it is there").read(books::receipts).expect("it is open");
    for file in ["ledger.db", "ledger.db-wal", "ledger.db-shm"] {
        drop(std::fs::remove_file(dir.path().join(file)));
    }
    std::fs::rename(&copy, folder.ledger()).expect("the folder is writable");
    (dir, folder, all)
}

#[test]
fn missing_receipts_are_imported_as_spent() {
    let (_dir, folder, all) = spent();
    let ledger = ledger_at(&folder);
    let before = ledger.books().expect("it is open");
    // The last receipt of the copy is included, so that a fork is detected.
    let imported = ledger.import(&all[1..], Some(limit(8.0))).expect("they are this site's own");
    assert_eq!((imported.before, imported.missing, imported.jobs.len()), (2, 4, 2));
    let after = ledger.books().expect("it is open");
    assert_eq!((after.receipts.sequence, after.published.sequence), (6, 1));
    let spent = |books: &books::LedgerBooks| books.accounts.values().next().map(|book| book.account.epsilon_spent());
    assert!(spent(&after) > spent(&before));
    assert_eq!(ledger.import(&all, Some(limit(8.0))).expect("nothing is missing").missing, 0);
    drop(ledger);
    // The import survives a restart, and the rules admit every row again.
    let key = SiteKey::load(&folder.key()).expect("it is there").public();
    let store = Store::create(&folder.ledger()).expect("it is there");
    assert_eq!(store.read(|db| verify(db, &key)).expect("every row holds").receipts, 6);
    let ledger = ledger_at(&folder);
    // An imported release is never made a second time.
    for round in [3, 4] {
        let again = ledger.commit(
            &release_context(gaussian(4.0), 10),
            &gaussian(4.0),
            &stored_release(&release_context(gaussian(4.0), 10), "private", round),
        );
        assert!(matches!(again, Err(LedgerError::Released { .. })), "{again:?}");
    }
    // The job unknown to the copy is settled here; the known one continues with its remaining reservation.
    let mut unknown = release_context(gaussian(2.0), 3);
    unknown.job = undertone_api::id::JobId(uuid::Uuid::from_u128(77));
    assert!(ledger.commit(&unknown, &gaussian(2.0), &stored_release(&unknown, "private", 2)).is_err());
    assert!(
        ledger
            .commit(
                &release_context(gaussian(4.0), 10),
                &gaussian(4.0),
                &stored_release(&release_context(gaussian(4.0), 10), "private", 5)
            )
            .is_ok()
    );
    assert_eq!(ledger.settle_job(JOB, None).expect("it is open"), 0, "and gives nothing back when it is over");
}

#[test]
fn imported_release_counts_beyond_the_limit() {
    let (_dir, folder, all) = spent();
    let ledger = ledger_at(&folder);
    ledger.settle_job(JOB, None).expect("somebody settled it");
    let store = Store::create(&folder.ledger()).expect("it is there");
    drop(store);
    // The job is settled in the copy, so later payments for it cannot be imported: all are rejected and nothing is
    // stored.
    // The budget is valid, but too small for one release.
    let little = limit(0.25);
    let refused = ledger.import(&all, Some(little));
    assert!(matches!(refused, Err(LedgerError::Import(ImportError::Unfit { number: 3, .. }))), "{refused:?}");
    assert_eq!(ledger.books().expect("it is open").receipts.sequence, 2);
    drop(ledger);
    let fresh = tempfile::tempdir().expect("a temporary folder");
    let empty = Folder::new(fresh.path());
    std::fs::copy(folder.key(), empty.key()).expect("the folder is writable");
    let ledger = ledger_at(&empty);
    let imported = ledger.import(&all, Some(little)).expect("a limit is no reason to forget");
    assert_eq!(imported.missing, 6);
    // One release alone would fit under the second of these limits; after the imported payments it does not.
    let mut another = release_context(gaussian(4.0), 1);
    another.job = undertone_api::id::JobId(uuid::Uuid::from_u128(78));
    for limit in [little, limit(4.0)] {
        let refused = ledger.reserve(&another, &limit);
        assert!(matches!(refused, Err(LedgerError::Rule(_))), "nothing is left: {refused:?}");
    }
}

#[test]
fn ledger_that_has_forked_is_no_older_copy() {
    let (_dir, folder, all) = spent();
    let ledger = ledger_at(&folder);
    ledger
        .commit(
            &release_context(gaussian(4.0), 10),
            &gaussian(4.0),
            &stored_release(&release_context(gaussian(4.0), 10), "private", 9),
        )
        .expect("nobody asked the server");
    let refused = ledger.import(&all, Some(limit(8.0)));
    assert!(matches!(refused, Err(LedgerError::Import(ImportError::Forked(3)))), "{refused:?}");
    assert_eq!(ledger.books().expect("it is open").receipts.sequence, 3);
}

#[test]
fn foreign_receipts_and_gaps_are_refused() {
    let (_dir, folder, mut all) = spent();
    let ledger = ledger_at(&folder);
    let gap = ledger.import(&all[3..], Some(limit(8.0)));
    assert!(matches!(gap, Err(LedgerError::Import(ImportError::Chain(4)))), "{gap:?}");
    let last = all.last_mut().expect("there are some");
    last.payload = last.payload.replace("private", "prlvate");
    let forged = ledger.import(&all[2..], Some(limit(8.0)));
    assert!(matches!(forged, Err(LedgerError::Import(ImportError::Signature(_)))), "{forged:?}");
    assert_eq!(ledger.books().expect("it is open").receipts.sequence, 2);
}

#[test]
fn restored_ledger_lets_nothing_leave_until_it_was_compared() {
    let (dir, folder, all) = spent();
    let file = dir.path().join("site.backup");
    backup(&folder, &file, None, (crate::testing::clock())()).expect("the site is whole");
    let store = Store::create(&folder.ledger()).expect("it is there");
    mark_restored(&store, "some day", 2, (crate::testing::clock())()).expect("it is noted");
    let ledger = ledger_at(&folder);
    let job = release_context(gaussian(4.0), 10);
    for refused in [
        ledger.commit(&job, &gaussian(4.0), &stored_release(&job, "private", 3)).map(drop),
        ledger.publish(&job, Visibility::Open, &Event::NonPrivate, &stored_release(&job, "open", 1)).map(drop),
        ledger.reserve(&job, &limit(8.0)),
    ] {
        assert!(matches!(refused, Err(LedgerError::Restored { .. })), "{refused:?}");
    }
    assert_eq!(
        ledger.import(&all[1..], Some(limit(8.0))).expect("they are this site's own"),
        ImportSummary { before: 2, missing: 4, jobs: vec![JOB, undertone_api::id::JobId(uuid::Uuid::from_u128(77))] }
    );
    assert!(ledger.commit(&job, &gaussian(4.0), &stored_release(&job, "private", 5)).is_ok());
}

/// The number of releases that a lost job planned is unknown, so each imported one is certified by itself.
#[test]
fn lost_job_of_the_gaussian_filter_is_certified_release_by_release() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let folder = Folder::new(dir.path());
    SiteKey::load_or_make(&folder.key()).expect("the folder is writable");
    let whole = LifetimeLimit { filter: FilterKind::Gaussian, ..limit(4.0) };
    let job = release_context(sampled_gaussian(0.05, 1.0), 60);
    let ledger = ledger_at(&folder);
    ledger.reserve(&job, &whole).expect("there is room");
    for round in 1..=3 {
        ledger.commit(&job, &job.charge.event, &stored_release(&job, "private", round)).expect("it is reserved");
    }
    drop(ledger);
    let receipts = Store::create(&folder.ledger()).expect("it is there").read(books::receipts).expect("it is open");
    for file in ["ledger.db", "ledger.db-wal", "ledger.db-shm"] {
        drop(std::fs::remove_file(dir.path().join(file)));
    }
    let ledger = ledger_at(&folder);
    assert_eq!(ledger.import(&receipts, Some(whole)).expect("they are this site's own").missing, 3);
    let books = ledger.books().expect("it is open");
    let book = books.accounts.values().next().expect("the account is there");
    let certificate = book.jobs[&job.job].certificate.expect("it has one");
    assert_eq!(
        (
            certificate.covers(),
            book.account.reservations().next().map(undertone_privacy::ledger::Reservation::committed)
        ),
        (1, Some(3))
    );
    drop(ledger);
    let key = SiteKey::load(&folder.key()).expect("it is there").public();
    let store = Store::create(&folder.ledger()).expect("it is there");
    assert_eq!(store.read(|db| verify(db, &key)).expect("every row holds").books, books);
}
