use std::collections::BTreeMap;

use ed25519_dalek::SigningKey;
use time::OffsetDateTime;
use undertone_privacy::{Adjacency, Event, PrivacyUnit};
use uuid::Uuid;

use super::{ChargeProof, VerifiedAnswer, WitnessAnswer, WitnessError};
use crate::id::{DatasetId, JobId, LineageId, WorkerId};
use crate::log::leaf::EntryRecord;
use crate::log::proof::{Subtree, assemble, consistency_path, inclusion_path};
use crate::log::{Frontier, LogLeaf, TreeHash, leaf_hash};
use crate::signed::{Countersignature, LogHead, Receipt, Signed, key_id};

/// A server that keeps its log in memory, and one site's receipts.
struct TestServer {
    key: SigningKey,
    frontier: Frontier,
    kept: BTreeMap<Subtree, TreeHash>,
    leaves: Vec<String>,
    heads: Vec<LogHead>,
}

fn receipt(sequence: u64) -> Receipt {
    Receipt {
        sequence,
        previous: String::new(),
        worker: WorkerId(Uuid::nil()),
        dataset: DatasetId(Uuid::nil()),
        lineage: LineageId(Uuid::nil()),
        job: JobId(Uuid::nil()),
        manifest: String::new(),
        series: "private".to_owned(),
        round: sequence as u32,
        attempt: 1,
        unit: PrivacyUnit::Record,
        adjacency: Adjacency::AddRemove,
        event: Event::NonPrivate,
        evaluator: String::new(),
        at: OffsetDateTime::UNIX_EPOCH,
        tick: None,
    }
}

fn digest(receipt: &Receipt) -> String {
    Signed::new(receipt, &SigningKey::from_bytes(&[9; 32])).expect("signed").digest()
}

fn own_receipts(sequences: &[u64]) -> BTreeMap<u64, (String, Receipt)> {
    sequences.iter().map(|sequence| (*sequence, (digest(&receipt(*sequence)), receipt(*sequence)))).collect()
}

impl TestServer {
    fn new() -> Self {
        let key = SigningKey::from_bytes(&[1; 32]);
        Self { key, frontier: Frontier::default(), kept: BTreeMap::new(), leaves: Vec::new(), heads: Vec::new() }
    }

    /// Returns the leaf that charges receipt `sequence`.
    fn leaf(sequence: u64) -> String {
        let receipt = receipt(sequence);
        let entry = EntryRecord {
            previous: String::new(),
            account: Uuid::nil(),
            sequence: sequence as i64,
            kind: "commit".to_owned(),
            job: receipt.job.0,
            dataset: receipt.dataset.0,
            series: Some(receipt.series.clone()),
            round: Some(receipt.round as i32),
            attempt: Some(1),
            event: serde_json::to_string(&receipt.event).expect("JSON"),
            count: 1,
            evaluator: String::new(),
            receipt: Some(digest(&receipt)),
            certificate: None,
            at_unix_milliseconds: 0,
        };
        LogLeaf::Entry(entry).content()
    }

    fn append(&mut self, content: String) {
        let position = self.frontier.size();
        for (level, hash) in (0_u32..).zip(self.frontier.push(leaf_hash(content.as_bytes()))) {
            self.kept.insert(Subtree { level, index: position >> level }, hash);
        }
        self.leaves.push(content);
        self.heads.push(LogHead {
            size: self.frontier.size(),
            root: hex::encode(self.frontier.root()),
            at: OffsetDateTime::UNIX_EPOCH,
            server: key_id(&self.key.verifying_key()),
        });
    }

    /// Makes a server with `receipts` commits, receipt n at position n − 1.
    fn with_receipts(receipts: u64) -> Self {
        let mut server = Self::new();
        for sequence in 1..=receipts {
            server.append(Self::leaf(sequence));
        }
        server
    }

    fn answer(&self, known: u64, receipts: &[u64]) -> WitnessAnswer {
        let size = self.frontier.size();
        let hashes = |path: &[Vec<Subtree>]| assemble(path, |subtree| self.kept.get(&subtree).copied()).expect("kept");
        let proof = |sequence: &u64| {
            let position = sequence - 1;
            let countersignature = Countersignature {
                worker: WorkerId(Uuid::nil()),
                sequence: *sequence,
                receipt: digest(&receipt(*sequence)),
                position,
                at: OffsetDateTime::UNIX_EPOCH,
                server: key_id(&self.key.verifying_key()),
            };
            ChargeProof {
                sequence: *sequence,
                countersignature: Signed::new(&countersignature, &self.key).expect("signed"),
                position,
                leaf: self.leaves[position as usize].clone(),
                inclusion: hashes(&inclusion_path(position, size)),
            }
        };
        WitnessAnswer {
            head: self.heads.last().map(|head| Signed::new(head, &self.key).expect("signed")),
            consistency: hashes(&consistency_path(known, size)),
            receipts: receipts.iter().map(proof).collect(),
            ..WitnessAnswer::default()
        }
    }

    fn check(
        &self,
        answer: &WitnessAnswer,
        head: Option<&LogHead>,
        receipts: &[u64],
    ) -> Result<VerifiedAnswer, WitnessError> {
        answer.check(&self.key.verifying_key(), head, &own_receipts(receipts))
    }
}

#[test]
fn honest_server_proves_receipts_from_any_known_head() {
    let server = TestServer::with_receipts(20);
    for size in 1..=20 {
        let answer = server.answer(size, &[1, 7, 20]);
        let witnessed = server.check(&answer, Some(&server.heads[size as usize - 1]), &[1, 7, 20]).expect("proved");
        assert_eq!(witnessed.head.as_ref(), server.heads.last());
        assert_eq!(witnessed.receipts.keys().copied().collect::<Vec<_>>(), [1, 7, 20]);
    }
    let first = server.check(&server.answer(0, &[2]), None, &[2]).expect("proved");
    assert_eq!(first.receipts[&2].position, 1);
    let empty = TestServer::new();
    assert_eq!(empty.check(&empty.answer(0, &[]), None, &[]).expect("nothing yet").head, None);
}

#[test]
fn a_shorter_log_is_an_older_copy() {
    let longer = TestServer::with_receipts(9);
    let restored = TestServer::with_receipts(8);
    let answer = restored.answer(0, &[]);
    let expected = WitnessError::Shorter { known: 9, now: 8 };
    assert_eq!(restored.check(&answer, longer.heads.last(), &[]), Err(expected));
    let empty = TestServer::new();
    let expected = WitnessError::Shorter { known: 9, now: 0 };
    assert_eq!(empty.check(&empty.answer(0, &[]), longer.heads.last(), &[]), Err(expected));
}

#[test]
fn an_entry_changed_before_the_head_that_a_site_kept_is_a_fork() {
    let original = TestServer::with_receipts(5);
    let mut other = TestServer::new();
    for sequence in 1..=12 {
        other.append(if sequence == 3 { TestServer::leaf(33) } else { TestServer::leaf(sequence) });
    }
    let expected = WitnessError::Forked { known: 5, now: 12 };
    assert_eq!(other.check(&other.answer(5, &[]), original.heads.last(), &[]), Err(expected.clone()));
    // The proof of the true log does not help either.
    let mut patched = other.answer(5, &[]);
    patched.consistency = TestServer::with_receipts(12).answer(5, &[]).consistency;
    assert_eq!(other.check(&patched, original.heads.last(), &[]), Err(expected));
    // Two logs of one size are a fork too.
    let same = WitnessError::Forked { known: 12, now: 12 };
    assert_eq!(other.check(&other.answer(12, &[]), TestServer::with_receipts(12).heads.last(), &[]), Err(same));
}

#[test]
fn only_the_servers_key_makes_heads_and_countersignatures() {
    let server = TestServer::with_receipts(3);
    let stranger = TestServer { key: SigningKey::from_bytes(&[2; 32]), ..TestServer::with_receipts(3) };
    let answer = stranger.answer(0, &[1]);
    assert!(matches!(server.check(&answer, None, &[1]), Err(WitnessError::Signed { what: "head", .. })));
    let mut mixed = server.answer(0, &[1]);
    mixed.receipts = answer.receipts;
    assert!(matches!(server.check(&mixed, None, &[1]), Err(WitnessError::Signed { what: "countersignature", .. })));
}

#[test]
fn swapped_missing_and_altered_proofs_are_distinguished() {
    let server = TestServer::with_receipts(6);
    let mut answer = server.answer(0, &[2, 3]);
    let other = answer.receipts[1].countersignature.clone();
    answer.receipts[0].countersignature = other;
    assert_eq!(server.check(&answer, None, &[2, 3]), Err(WitnessError::Swapped(2)));

    let mut answer = server.answer(0, &[2]);
    answer.receipts[0].leaf = server.leaves[2].clone();
    assert_eq!(server.check(&answer, None, &[2]), Err(WitnessError::Missing(2)));

    let mut altered = TestServer::with_receipts(1);
    altered.append(TestServer::leaf(2).replace("\"round\":2", "\"round\":1"));
    assert_eq!(altered.check(&altered.answer(0, &[2]), None, &[2]), Err(WitnessError::Altered(2)));

    let answer = server.answer(0, &[4]);
    assert!(matches!(server.check(&answer, None, &[2]), Err(WitnessError::Malformed(_))));
}
