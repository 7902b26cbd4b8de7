use std::path::PathBuf;
use std::sync::Arc;

use undertone_api::id::WorkerId;
use uuid::Uuid;

use super::{AnchorError, LedgerAnchor};
use crate::books::ChainHead;
use crate::folder::Folder;
use crate::keys::SiteKey;
use crate::ledger::Ledger;
use crate::ledger::error::LedgerError;
use crate::ledger::release_context::ReleaseContext;
use crate::store::Store;
use crate::testing::{WORKER, clock, gaussian, limit, release_context, stored_release};

/// A site whose anchor is in a folder of its own.
struct AnchoredSite {
    site: tempfile::TempDir,
    elsewhere: tempfile::TempDir,
}

impl AnchoredSite {
    fn new() -> Self {
        let site = tempfile::tempdir().expect("a temporary folder");
        SiteKey::load_or_make(&Folder::new(site.path()).key()).expect("the folder is writable");
        Self { site, elsewhere: tempfile::tempdir().expect("a temporary folder") }
    }

    fn anchor(&self) -> LedgerAnchor {
        LedgerAnchor::new(self.elsewhere.path().join("anchor"), WORKER)
    }

    fn open(&self) -> Ledger {
        let folder = Folder::new(self.site.path());
        let key = SiteKey::load(&folder.key()).expect("it was made");
        let store = Arc::new(Store::create(&folder.ledger()).expect("the folder is writable"));
        let lock = folder.lock().expect("nobody else writes");
        Ledger::open(store, lock, key, WORKER, clock()).expect("the rows add up").with_anchor(Some(self.anchor()))
    }

    /// Copies the ledger's file, or restores the copy.
    fn copy(&self, from: &str, to: &str) {
        let file = |name: &str| -> PathBuf { self.site.path().join(name) };
        for suffix in ["-wal", "-shm"] {
            drop(std::fs::remove_file(file(&format!("{to}{suffix}"))));
        }
        std::fs::copy(file(from), file(to)).expect("the folder is writable");
    }
}

fn job() -> ReleaseContext {
    release_context(gaussian(40.0), 10)
}

fn pay(ledger: &Ledger, round: u32) -> Result<(), LedgerError> {
    ledger.commit(&job(), &job().charge.event, &stored_release(&job(), "private", round)).map(drop)
}

#[test]
fn anchor_follows_every_payment() {
    let site = AnchoredSite::new();
    let ledger = site.open();
    assert!(matches!(ledger.check_quiet(), Err(LedgerError::Anchor(AnchorError::Missing(_)))), "it was not begun");
    site.anchor().begin(&ChainHead::default()).expect("the folder is writable");
    ledger.reserve(&job(), &limit(8.0)).expect("there is room");
    for round in 1..=3 {
        pay(&ledger, round).expect("it is reserved");
        assert_eq!(site.anchor().read().expect("written").receipts, u64::from(round));
    }
    let begun_twice = site.anchor().begin(&ChainHead::default());
    assert!(matches!(begun_twice, Err(AnchorError::Exists(_))));
}

#[test]
fn older_copy_of_the_ledger_releases_nothing() {
    let site = AnchoredSite::new();
    site.anchor().begin(&ChainHead::default()).expect("the folder is writable");
    let ledger = site.open();
    ledger.reserve(&job(), &limit(8.0)).expect("there is room");
    pay(&ledger, 1).expect("it is reserved");
    drop(ledger);
    site.copy("ledger.db", "copy.db");
    let ledger = site.open();
    pay(&ledger, 2).expect("it is reserved");
    drop(ledger);
    site.copy("copy.db", "ledger.db");

    let ledger = site.open();
    let older = |result: Result<(), LedgerError>| {
        matches!(result, Err(LedgerError::Anchor(AnchorError::Older { anchored: 2, found: 1 })))
    };
    assert!(older(ledger.check_quiet()));
    assert!(older(pay(&ledger, 3)), "nothing is paid, so nothing leaves");
    assert!(older(ledger.check_release(&job(), &job().charge.event)));
    // Without the anchor's file nothing leaves either.
    std::fs::remove_file(site.anchor().path()).expect("it is there");
    assert!(matches!(ledger.check_quiet(), Err(LedgerError::Anchor(AnchorError::Missing(_)))));
}

#[test]
fn empty_ledger_in_place_of_the_newest_releases_nothing() {
    let site = AnchoredSite::new();
    site.anchor().begin(&ChainHead::default()).expect("the folder is writable");
    let ledger = site.open();
    ledger.reserve(&job(), &limit(8.0)).expect("there is room");
    pay(&ledger, 1).expect("it is reserved");
    drop(ledger);
    for suffix in ["", "-wal", "-shm"] {
        drop(std::fs::remove_file(site.site.path().join(format!("ledger.db{suffix}"))));
    }

    let ledger = site.open();
    ledger.reserve(&job(), &limit(8.0)).expect_err("a whole budget once more");
    let older = |result: Result<(), LedgerError>| {
        matches!(result, Err(LedgerError::Anchor(AnchorError::Older { anchored: 1, found: 0 })))
    };
    assert!(older(ledger.check_quiet()));
    assert!(older(pay(&ledger, 1)), "nothing is paid, so nothing leaves");
}

#[test]
fn forked_ledger_releases_nothing() {
    let site = AnchoredSite::new();
    site.anchor().begin(&ChainHead::default()).expect("the folder is writable");
    let ledger = site.open();
    ledger.reserve(&job(), &limit(8.0)).expect("there is room");
    pay(&ledger, 1).expect("it is reserved");
    let text = std::fs::read_to_string(site.anchor().path()).expect("written");
    let digest = site.anchor().read().expect("written").digest;
    std::fs::write(site.anchor().path(), text.replace(&digest, &"0".repeat(64))).expect("writable");
    assert!(matches!(ledger.check_quiet(), Err(LedgerError::Anchor(AnchorError::Forked(1)))));
}

#[test]
fn crash_before_the_anchor_is_written_is_no_older_copy() {
    let site = AnchoredSite::new();
    site.anchor().begin(&ChainHead::default()).expect("the folder is writable");
    let ledger = site.open();
    ledger.reserve(&job(), &limit(8.0)).expect("there is room");
    pay(&ledger, 1).expect("it is reserved");
    let before = std::fs::read_to_string(site.anchor().path()).expect("written");
    pay(&ledger, 2).expect("it is reserved");
    drop(ledger);
    std::fs::write(site.anchor().path(), before).expect("writable");
    let ledger = site.open();
    ledger.check_quiet().expect("the ledger is ahead of its anchor");
    assert_eq!(site.anchor().read().expect("written").receipts, 2, "the anchor follows");
}

#[test]
fn unwritable_anchor_holds_the_release_back() {
    let site = AnchoredSite::new();
    site.anchor().begin(&ChainHead::default()).expect("the folder is writable");
    let ledger = site.open();
    ledger.reserve(&job(), &limit(8.0)).expect("there is room");
    // A folder occupies the path of the new file.
    let hidden = crate::folder::hidden(site.anchor().path());
    std::fs::create_dir(&hidden).expect("writable");
    let payment = pay(&ledger, 1);
    assert!(matches!(payment, Err(LedgerError::Anchor(AnchorError::Folder(_)))), "{payment:?}");
    assert!(ledger.check_quiet().is_err(), "nothing leaves by the payment");
    std::fs::remove_dir(&hidden).expect("writable");
    ledger.check_quiet().expect("the anchor follows");
    assert_eq!(site.anchor().read().expect("written").receipts, 1);
}

#[test]
fn anchor_of_another_worker_is_refused() {
    let site = AnchoredSite::new();
    LedgerAnchor::new(site.anchor().path().to_owned(), WorkerId(Uuid::from_u128(99)))
        .begin(&ChainHead::default())
        .expect("the folder is writable");
    assert!(matches!(site.open().check_quiet(), Err(LedgerError::Anchor(AnchorError::Foreign { .. }))));
    std::fs::write(site.anchor().path(), "{}").expect("writable");
    assert!(matches!(site.open().check_quiet(), Err(LedgerError::Anchor(AnchorError::Malformed { .. }))));
}
