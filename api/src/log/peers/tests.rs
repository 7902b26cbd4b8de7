use ed25519_dalek::SigningKey;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{PeerError, PeerHead};
use crate::id::WorkerId;
use crate::log::proof::{Subtree, assemble, consistency_path};
use crate::log::{Frontier, leaf_hash};
use crate::signed::{HeadObservation, KeyChange, KeyRotation, LogHead, Signed, key_id};

const PEER: WorkerId = WorkerId(Uuid::from_u128(7));

fn signing_key(seed: u8) -> SigningKey {
    SigningKey::from_bytes(&[seed; 32])
}

fn hex_of(key: &SigningKey) -> String {
    hex::encode(key.verifying_key().to_bytes())
}

/// A history of the log: its leaves.
struct LogHistory(Vec<&'static str>);

impl LogHistory {
    fn head(&self, size: usize) -> LogHead {
        let mut frontier = Frontier::default();
        for leaf in &self.0[..size] {
            frontier.push(leaf_hash(leaf.as_bytes()));
        }
        LogHead {
            size: size as u64,
            root: hex::encode(frontier.root()),
            at: OffsetDateTime::UNIX_EPOCH,
            server: key_id(&signing_key(1).verifying_key()),
        }
    }

    fn consistency(&self, from: usize, to: usize) -> Vec<crate::log::TreeHash> {
        let mut frontier = Frontier::default();
        let mut nodes = std::collections::BTreeMap::new();
        for (position, leaf) in (0_u64..).zip(&self.0) {
            for (level, hash) in (0_u32..).zip(frontier.push(leaf_hash(leaf.as_bytes()))) {
                nodes.insert(Subtree { level, index: position >> level }, hash);
            }
        }
        let path = consistency_path(from as u64, to as u64);
        assemble(&path, |subtree| nodes.get(&subtree).copied()).expect("all nodes are there")
    }
}

/// Returns the peer's observation of `head`, signed with `key` and relayed with `consistency`.
fn relay(head: &LogHead, key: &SigningKey, consistency: Vec<crate::log::TreeHash>) -> PeerHead {
    let head = Signed::new(head, &signing_key(1)).expect("it has a JSON form");
    let observation = HeadObservation { worker: PEER, head, observed_at: OffsetDateTime::UNIX_EPOCH };
    PeerHead {
        worker: PEER,
        worker_name: "ward".to_owned(),
        organization_name: "North".to_owned(),
        public_key: hex_of(key),
        rotations: Vec::new(),
        observation: Signed::new(&observation, key).expect("it has a JSON form"),
        consistency,
        position: None,
        sighting: None,
    }
}

#[test]
fn heads_of_one_history_agree_in_both_orders() {
    let history = LogHistory(vec!["a", "b", "c", "d", "e"]);
    let server = signing_key(1).verifying_key();
    for (theirs, ours) in [(2, 5), (5, 2), (3, 3), (1, 4)] {
        let (small, large) = (theirs.min(ours), theirs.max(ours));
        let peer = relay(&history.head(theirs), &signing_key(2), history.consistency(small, large));
        let verified = peer.verify(&server, &history.head(ours), None).expect("one history");
        assert_eq!((verified.head.size, verified.key), (theirs as u64, signing_key(2).verifying_key()));
    }
}

#[test]
fn heads_of_two_histories_are_a_fork_under_any_proof() {
    let honest = LogHistory(vec!["a", "b", "c", "d", "e"]);
    let other = LogHistory(vec!["a", "b", "X", "d", "e"]);
    let server = signing_key(1).verifying_key();
    for (theirs, ours) in [(5, 5), (4, 5), (5, 4), (3, 5)] {
        let (small, large) = (theirs.min(ours), theirs.max(ours));
        for proof in [honest.consistency(small, large), other.consistency(small, large), Vec::new()] {
            let peer = relay(&other.head(theirs), &signing_key(2), proof);
            let refused = peer.verify(&server, &honest.head(ours), None).expect_err("two histories");
            assert_eq!(refused, PeerError::Forked { worker: PEER, theirs: theirs as u64, ours: ours as u64 });
        }
    }
    // Histories that part later agree on their common beginning.
    let peer = relay(&other.head(2), &signing_key(2), honest.consistency(2, 5));
    peer.verify(&server, &honest.head(5), None).expect("the common beginning");
}

#[test]
fn observation_of_another_key_is_refused() {
    let history = LogHistory(vec!["a", "b"]);
    let server = signing_key(1).verifying_key();
    let peer_key = signing_key(2).verifying_key();
    // The server forges an observation with a key of its own.
    let forged = relay(&history.head(2), &signing_key(3), Vec::new());
    assert_eq!(forged.verify(&server, &history.head(2), Some(&peer_key)), Err(PeerError::Key(PEER)));
    // It claims the known key, and cannot sign with it.
    let claimed = PeerHead { public_key: hex_of(&signing_key(2)), ..forged };
    let refused = claimed.verify(&server, &history.head(2), Some(&peer_key)).expect_err("another signature");
    assert!(matches!(refused, PeerError::Signed { .. }), "{refused}");
    // A head that the server did not sign.
    let mut peer = relay(&history.head(2), &signing_key(2), Vec::new());
    let head = Signed::new(&history.head(2), &signing_key(9)).expect("it has a JSON form");
    let observation = HeadObservation { worker: PEER, head, observed_at: OffsetDateTime::UNIX_EPOCH };
    peer.observation = Signed::new(&observation, &signing_key(2)).expect("it has a JSON form");
    let refused = peer.verify(&server, &history.head(2), Some(&peer_key)).expect_err("no head of the server's");
    assert!(matches!(refused, PeerError::Signed { .. }), "{refused}");
}

#[test]
fn rotated_key_is_followed_by_its_signed_chain() {
    let history = LogHistory(vec!["a", "b"]);
    let server = signing_key(1).verifying_key();
    let rotation = |number: u32, old: &SigningKey, new: &SigningKey| {
        let change = KeyChange {
            worker: PEER,
            number,
            old: hex_of(old),
            new: hex_of(new),
            receipts: u64::from(number),
            last: String::new(),
            at: OffsetDateTime::UNIX_EPOCH,
        };
        KeyRotation {
            by_old: Signed::new(&change, old).expect("it has a JSON form"),
            by_new: Signed::new(&change, new).expect("it has a JSON form"),
        }
    };
    let [first, second, third] = [2, 3, 4].map(signing_key);
    let mut peer = relay(&history.head(2), &third, Vec::new());
    peer.rotations = vec![rotation(1, &first, &second), rotation(2, &second, &third)];
    for key in [&first, &second, &third] {
        let verified = peer.verify(&server, &history.head(2), Some(&key.verifying_key())).expect("a signed chain");
        assert_eq!(verified.key, third.verifying_key());
    }
    let stranger = signing_key(5).verifying_key();
    assert_eq!(peer.verify(&server, &history.head(2), Some(&stranger)), Err(PeerError::Key(PEER)));
    peer.rotations.remove(1);
    let gap = peer.verify(&server, &history.head(2), Some(&first.verifying_key()));
    assert_eq!(gap, Err(PeerError::Key(PEER)));
}
