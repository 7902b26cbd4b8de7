use ed25519_dalek::SigningKey;
use time::{Duration, OffsetDateTime};
use undertone_api::id::WorkerId;
use undertone_api::log::peers::{PeerError, PeerHead};
use undertone_api::signed::{HeadObservation, KeyChange, KeyRotation, LogHead, Signed, key_id};
use uuid::Uuid;

use super::{OLD_AFTER, compare, confirm, list_peers, observation};
use crate::folder::Folder;
use crate::keys::SiteKey;
use crate::peer_keys::PinError;
use crate::store::Store;
use crate::testing::log::{TestLog, stranger};
use crate::testing::{WORKER, server_key};
use crate::witness::{WitnessVerdict, alarm, judge, question};

const AT: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;
const PEER: WorkerId = WorkerId(Uuid::from_u128(77));

/// A site that has verified the head of `log`.
struct TestSite {
    store: Store,
    key: SiteKey,
    _dir: tempfile::TempDir,
}

impl TestSite {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let folder = Folder::new(dir.path());
        let key = SiteKey::load_or_make(&folder.key()).expect("the folder is writable");
        let store = Store::create(&folder.ledger()).expect("the folder is writable");
        Self { store, key, _dir: dir }
    }

    fn witness(&self, log: &TestLog) -> (LogHead, Signed) {
        let request = question(&self.store).expect("readable");
        let answer = log.answer(request.known.as_ref(), &[]);
        let verdict = judge(&self.store, &server_key().verifying_key(), &request, &answer, AT).expect("writable");
        assert_eq!(verdict, WitnessVerdict::Holds(0));
        observation(&self.store, WORKER, &self.key, AT).expect("readable").expect("a head was verified").0
    }

    fn compare(&self, own: &(LogHead, Signed), peer: PeerHead, now: OffsetDateTime) -> super::HeadComparison {
        compare(&self.store, &server_key().verifying_key(), own, &[peer], now).expect("writable")
    }

    fn peer(&self) -> super::KnownPeer {
        let mut peers = self.store.read(list_peers).expect("readable");
        assert_eq!(peers.len(), 1);
        peers.remove(0)
    }
}

fn peer_key(seed: u8) -> SigningKey {
    SigningKey::from_bytes(&[seed; 32])
}

fn log_of(leaves: std::ops::Range<i64>) -> TestLog {
    let mut log = TestLog::default();
    for leaf in leaves {
        log.push(stranger(leaf));
    }
    log
}

/// Returns the peer's observation of `log`, relayed to a site that has verified `shown` of the same size or larger.
fn relayed(log: &TestLog, shown: &TestLog, key: &SigningKey, observed_at: OffsetDateTime) -> PeerHead {
    let head = log.head().expect("not empty");
    let document = HeadObservation { worker: PEER, head: head.clone(), observed_at };
    PeerHead {
        worker: PEER,
        worker_name: "ward".to_owned(),
        organization_name: "South".to_owned(),
        public_key: hex::encode(key.verifying_key().to_bytes()),
        rotations: Vec::new(),
        observation: Signed::new(&document, key).expect("it has a JSON form"),
        consistency: shown.answer(Some(&head), &[]).consistency,
        position: None,
        sighting: None,
    }
}

#[test]
fn agreeing_peer_is_stored_with_its_newest_head() {
    let site = TestSite::new();
    let log = log_of(0..5);
    let own = site.witness(&log);
    for (size, at) in [(3, AT), (5, AT + Duration::hours(1)), (4, AT)] {
        let peer = relayed(&log_of(0..size), &log, &peer_key(2), at);
        let comparison = site.compare(&own, peer, AT + Duration::hours(2));
        assert_eq!((comparison.agreed, comparison.fork), (1, None), "{:?}", comparison.rejected);
    }
    let peer = site.peer();
    assert_eq!((peer.size, peer.observed_at), (5, AT + Duration::hours(1)), "an older one does not replace it");
    assert!(!peer.is_confirmed && !peer.has_conflict);
    assert!(site.store.read(alarm::open).expect("readable").is_none());
}

#[test]
fn fork_between_two_sites_raises_an_alarm_with_both_heads() {
    let site = TestSite::new();
    let log = log_of(0..5);
    let own = site.witness(&log);
    let elsewhere = log_of(100..105);
    let comparison = site.compare(&own, relayed(&elsewhere, &log, &peer_key(2), AT), AT);
    assert_eq!(comparison.fork, Some(PeerError::Forked { worker: PEER, theirs: 5, ours: 5 }));
    let alarm = site.store.read(alarm::open).expect("readable").expect("an alarm is open");
    let theirs = elsewhere.head().expect("not empty");
    let evidence: serde_json::Value = serde_json::from_str(&alarm.evidence).expect("JSON");
    assert_eq!(evidence["own_head"]["payload"], own.1.payload.as_str());
    let observation: HeadObservation =
        serde_json::from_str(evidence["peer_observation"]["payload"].as_str().expect("text")).expect("a document");
    assert_eq!(observation.head, theirs, "the head that the server signed for the peer is in the evidence");
}

#[test]
fn observation_forged_by_the_server_is_no_agreement() {
    let site = TestSite::new();
    let log = log_of(0..5);
    let own = site.witness(&log);
    site.compare(&own, relayed(&log, &log, &peer_key(2), AT), AT);
    // The server hides a fork by an observation that it signs with a key of its own.
    let forged = relayed(&log, &log, &peer_key(3), AT + Duration::days(9));
    let comparison = site.compare(&own, forged, AT + Duration::days(9));
    assert_eq!((comparison.agreed, comparison.rejected.len()), (0, 1));
    let peer = site.peer();
    assert!(peer.has_conflict, "the other key is noted");
    assert!(
        peer.is_old(AT + OLD_AFTER + Duration::SECOND) && !peer.is_old(AT + OLD_AFTER),
        "it does not count as news"
    );
}

#[test]
fn confirmed_fingerprint_decides_between_two_keys() {
    let site = TestSite::new();
    let log = log_of(0..5);
    let own = site.witness(&log);
    site.compare(&own, relayed(&log, &log, &peer_key(2), AT), AT);
    site.compare(&own, relayed(&log, &log, &peer_key(3), AT), AT);
    let fingerprint = |seed| key_id(&peer_key(seed).verifying_key());
    assert!(!confirm(&site.store, "ward", &fingerprint(4), AT).expect("writable"), "neither key");
    let short = confirm(&site.store, "ward", &fingerprint(3)[..63], AT);
    assert!(matches!(short, Err(PinError::Fingerprint(_))), "{short:?}");
    assert!(!confirm(&site.store, "other", &fingerprint(3), AT).expect("writable"), "another name");
    assert!(confirm(&site.store, "ward", &fingerprint(3).to_uppercase(), AT).expect("writable"));
    let peer = site.peer();
    assert!(peer.is_confirmed && !peer.has_conflict);
    assert_eq!(peer.fingerprint, fingerprint(3));
    let comparison = site.compare(&own, relayed(&log, &log, &peer_key(3), AT), AT);
    assert_eq!(comparison.agreed, 1);
}

#[test]
fn rotated_key_of_a_peer_is_followed() {
    let site = TestSite::new();
    let log = log_of(0..5);
    let own = site.witness(&log);
    site.compare(&own, relayed(&log, &log, &peer_key(2), AT), AT);
    let (old, new) = (peer_key(2), peer_key(3));
    let change = KeyChange {
        worker: PEER,
        number: 1,
        old: hex::encode(old.verifying_key().to_bytes()),
        new: hex::encode(new.verifying_key().to_bytes()),
        receipts: 0,
        last: String::new(),
        at: AT,
    };
    let rotation = KeyRotation {
        by_old: Signed::new(&change, &old).expect("it has a JSON form"),
        by_new: Signed::new(&change, &new).expect("it has a JSON form"),
    };
    let peer = PeerHead { rotations: vec![rotation], ..relayed(&log, &log, &new, AT) };
    assert_eq!(site.compare(&own, peer, AT).agreed, 1);
    assert!(key_id(&new.verifying_key()).starts_with(&site.peer().fingerprint));
}
