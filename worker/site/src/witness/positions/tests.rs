use std::path::PathBuf;
use std::sync::Arc;

use ed25519_dalek::SigningKey;
use time::{Duration, OffsetDateTime};
use undertone_api::id::WorkerId;
use undertone_api::log::peers::PeerHead;
use undertone_api::signed::{HeadObservation, LedgerPosition, LedgerSighting, Signed};
use uuid::Uuid;

use super::{PositionError, compare, contradiction, overrule, own_position, sighting_ages, sightings};
use crate::books;
use crate::folder::Folder;
use crate::keys::SiteKey;
use crate::ledger::Ledger;
use crate::ledger::error::LedgerError;
use crate::ledger::release_context::ReleaseContext;
use crate::store::{Store, StoreError};
use crate::testing::log::{TestLog, stranger};
use crate::testing::{WORKER, clock, gaussian, limit, release_context, server_key, stored_release};
use crate::witness::{judge, peers, question};

const AT: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;
const PEER: WorkerId = WorkerId(Uuid::from_u128(77));

fn peer_key() -> SigningKey {
    SigningKey::from_bytes(&[2; 32])
}

fn job() -> ReleaseContext {
    release_context(gaussian(40.0), 10)
}

/// A site with a ledger that can be put back to an older copy, and one peer whose key it knows.
struct TestSite {
    dir: tempfile::TempDir,
}

impl TestSite {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        SiteKey::load_or_make(&Folder::new(dir.path()).key()).expect("the folder is writable");
        let site = Self { dir };
        site.open().reserve(&job(), &limit(8.0)).expect("there is room");
        site.meet(None, None);
        site
    }

    fn folder(&self) -> Folder {
        Folder::new(self.dir.path())
    }

    fn key(&self) -> SiteKey {
        SiteKey::load(&self.folder().key()).expect("it was made")
    }

    fn store(&self) -> Store {
        Store::create(&self.folder().ledger()).expect("the folder is writable")
    }

    fn open(&self) -> Ledger {
        let store = Arc::new(self.store());
        let lock = self.folder().lock().expect("nobody else writes");
        Ledger::open(store, lock, self.key(), WORKER, clock()).expect("the rows add up")
    }

    fn pay(&self, rounds: std::ops::RangeInclusive<u32>) {
        let ledger = self.open();
        for round in rounds {
            let release = stored_release(&job(), "private", round);
            ledger.commit(&job(), &job().charge.event, &release).map(drop).expect("it is reserved");
        }
    }

    /// Copies the ledger's file, or puts the copy back.
    fn copy(&self, from: &str, to: &str) {
        let file = |name: &str| -> PathBuf { self.dir.path().join(name) };
        for suffix in ["-wal", "-shm"] {
            drop(std::fs::remove_file(file(&format!("{to}{suffix}"))));
        }
        std::fs::copy(file(from), file(to)).expect("the folder is writable");
    }

    /// The answer of the server: the peer agrees about the log, and brings these documents.
    fn meet(&self, position: Option<Signed>, sighting: Option<Signed>) -> super::PositionComparison {
        let store = self.store();
        let mut log = TestLog::default();
        (0..3).for_each(|leaf| log.push(stranger(leaf)));
        let request = question(&store).expect("readable");
        let answer = log.answer(request.known.as_ref(), &[]);
        judge(&store, &server_key().verifying_key(), &request, &answer, AT).expect("writable");
        let own = peers::observation(&store, WORKER, &self.key(), AT).expect("readable").expect("a head").0;
        let head = log.head().expect("not empty");
        let observation = HeadObservation { worker: PEER, head: head.clone(), observed_at: AT };
        let peer = PeerHead {
            worker: PEER,
            worker_name: "ward".to_owned(),
            organization_name: "South".to_owned(),
            public_key: hex::encode(peer_key().verifying_key().to_bytes()),
            rotations: Vec::new(),
            observation: Signed::new(&observation, &peer_key()).expect("it has a JSON form"),
            consistency: log.answer(Some(&head), &[]).consistency,
            position,
            sighting,
        };
        let peers = [peer];
        let agreed = peers::compare(&store, &server_key().verifying_key(), &own, &peers, AT).expect("writable").agreed;
        assert_eq!(agreed, 1);
        compare(&store, WORKER, &self.key(), &peers, AT).expect("writable")
    }

    fn position(&self) -> Signed {
        own_position(&self.store(), WORKER, &self.key(), AT).expect("readable")
    }
}

/// What the peer signs of a position of the site.
fn sighting_of(position: &Signed, key: &SigningKey) -> Signed {
    let sighting = LedgerSighting { observer: PEER, subject: WORKER, position: position.clone(), observed_at: AT };
    Signed::new(&sighting, key).expect("it has a JSON form")
}

#[test]
fn folder_put_back_is_held_until_the_missing_receipts_are_there() {
    let site = TestSite::new();
    site.pay(1..=1);
    site.copy("ledger.db", "copy.db");
    site.pay(2..=3);
    let receipts = site.store().read(books::receipts).expect("readable");
    let sighting = sighting_of(&site.position(), &peer_key());
    site.copy("copy.db", "ledger.db");

    site.open().check_quiet().expect("nobody has said anything yet");
    let comparison = site.meet(None, Some(sighting));
    let older = PositionError::Older { peer: PEER.to_string(), seen: 3, found: 1 };
    assert_eq!((comparison.contradiction, comparison.rejected), (Some(older), Vec::new()));
    let ledger = site.open();
    assert!(matches!(ledger.check_quiet(), Err(LedgerError::Position(_))));
    let unpaid = ledger.commit(&job(), &job().charge.event, &stored_release(&job(), "private", 4));
    assert!(matches!(unpaid, Err(LedgerError::Position(_))), "nothing is paid, so nothing leaves: {unpaid:?}");

    ledger.import(&receipts[1..], Some(limit(8.0))).expect("they are this site's own");
    ledger.check_quiet().expect("the receipts are there");
}

#[test]
fn equal_or_older_sighting_raises_nothing() {
    let site = TestSite::new();
    let first = site.position();
    site.pay(1..=1);
    let second = site.position();
    site.pay(2..=2);
    for position in [first, second, site.position()] {
        let comparison = site.meet(None, Some(sighting_of(&position, &peer_key())));
        assert_eq!((comparison.sightings, comparison.contradiction, comparison.rejected), (1, None, Vec::new()));
    }
    site.open().check_quiet().expect("nothing contradicts the ledger");
}

#[test]
fn forged_sighting_is_passed_over() {
    let site = TestSite::new();
    site.pay(1..=1);
    let ahead = LedgerPosition { worker: WORKER, receipts: 9, digest: "ab".repeat(32), at: AT };
    // The peer, or the server, makes up a position; and the server makes up a sighting of a true one.
    let made_up = Signed::new(&ahead, &peer_key()).expect("it has a JSON form");
    let server = SigningKey::from_bytes(&[9; 32]);
    let elsewhere = LedgerSighting { observer: PEER, subject: PEER, position: site.position(), observed_at: AT };
    let elsewhere = Signed::new(&elsewhere, &peer_key()).expect("it has a JSON form");
    for sighting in [sighting_of(&made_up, &peer_key()), sighting_of(&site.position(), &server), elsewhere] {
        let comparison = site.meet(None, Some(sighting));
        assert_eq!((comparison.sightings, comparison.rejected.len(), comparison.contradiction), (0, 1, None));
    }
    site.open().check_quiet().expect("nothing holds it back");
}

#[test]
fn other_receipt_under_a_seen_number_is_held_until_overruled() {
    let site = TestSite::new();
    site.copy("ledger.db", "copy.db");
    site.pay(1..=1);
    let sighting = sighting_of(&site.position(), &peer_key());
    site.copy("copy.db", "ledger.db");
    site.pay(2..=2);
    let forked = PositionError::Forked { peer: PEER.to_string(), number: 1 };
    assert_eq!(site.meet(None, Some(sighting.clone())).contradiction, Some(forked));
    assert!(matches!(site.open().check_quiet(), Err(LedgerError::Position(_))));
    assert!(overrule(&site.store(), "the disk died", AT).expect("writable"));
    assert!(!overrule(&site.store(), "the disk died", AT).expect("writable"), "nothing holds it back");
    // The peer goes on to show it.
    assert_eq!(site.meet(None, Some(sighting)).contradiction, None);
    site.open().check_quiet().expect("it was overruled");
}

#[test]
fn newest_position_of_a_peer_is_kept_and_handed_back() {
    let site = TestSite::new();
    let position = |receipts, key: &SigningKey| {
        let position = LedgerPosition { worker: PEER, receipts, digest: String::new(), at: AT };
        Signed::new(&position, key).expect("it has a JSON form")
    };
    let newest = position(5, &peer_key());
    for shown in [position(2, &peer_key()), newest.clone(), position(3, &peer_key())] {
        assert!(site.meet(Some(shown), None).rejected.is_empty());
    }
    assert_eq!(site.meet(Some(position(9, &SigningKey::from_bytes(&[9; 32]))), None).rejected.len(), 1);
    let signed = sightings(&site.store(), WORKER, &site.key(), AT).expect("readable");
    let sighting: LedgerSighting = signed[0].open(&site.key().public()).expect("the site signed it");
    assert_eq!((signed.len(), sighting.subject, sighting.position), (1, PEER, newest));
}

#[test]
fn silent_peers_are_counted_by_the_age_of_their_sightings() {
    let site = TestSite::new();
    let ages = |now| site.store().read(|db| sighting_ages(db, now)).expect("readable");
    assert_eq!(ages(AT), (0, 0));
    site.meet(None, Some(sighting_of(&site.position(), &peer_key())));
    assert_eq!((ages(AT + Duration::days(7)), ages(AT + Duration::days(8))), ((1, 0), (1, 1)));
    let none: Result<_, StoreError> = site.store().read(contradiction);
    assert_eq!(none.expect("readable"), None);
}
