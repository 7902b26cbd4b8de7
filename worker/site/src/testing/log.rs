//! An honest log of the server, for tests. A test with a malicious server keeps an older copy of it, or replaces a
//! leaf.

use std::collections::BTreeMap;

use time::OffsetDateTime;
use undertone_api::log::leaf::{EntryRecord, RestorationRecord};
use undertone_api::log::proof::{Subtree, assemble, consistency_path, inclusion_path};
use undertone_api::log::witness::{ChargeProof, KeyProof, RestorationProof, WitnessAnswer};
use undertone_api::log::{Frontier, LogLeaf, TreeHash, leaf_hash};
use undertone_api::signed::{Countersignature, LogHead, Receipt, Restoration, Signed, key_id};
use uuid::Uuid;

use super::server_key;

/// A log with the countersignatures that it issued.
#[derive(Debug, Clone, Default)]
pub struct TestLog {
    frontier: Frontier,
    kept: BTreeMap<Subtree, TreeHash>,
    leaves: Vec<String>,
    /// The countersignatures and positions, by the receipt's number.
    pub countersigned: BTreeMap<u64, (Signed, u64)>,
    statements: Vec<(u64, Signed)>,
}

impl TestLog {
    /// Returns a log of the same leaves, with one of them replaced.
    #[must_use]
    pub fn with(&self, position: u64, leaf: String) -> Self {
        let mut leaves = self.leaves.clone();
        leaves[position as usize] = leaf;
        let mut log = Self { countersigned: self.countersigned.clone(), ..Self::default() };
        for leaf in leaves {
            log.push(leaf);
        }
        log
    }

    /// Returns the number of leaves.
    pub fn size(&self) -> u64 {
        self.frontier.size()
    }

    /// Returns the content of the leaf at a position.
    pub fn leaf(&self, position: u64) -> String {
        self.leaves[position as usize].clone()
    }

    /// Appends a leaf of another party.
    pub fn push(&mut self, leaf: String) {
        let position = self.frontier.size();
        for (level, hash) in (0_u32..).zip(self.frontier.push(leaf_hash(leaf.as_bytes()))) {
            self.kept.insert(Subtree { level, index: position >> level }, hash);
        }
        self.leaves.push(leaf);
    }

    /// Charges a receipt and countersigns it, once.
    pub fn charge(&mut self, signed: &Signed) -> Signed {
        let receipt: Receipt = serde_json::from_str(&signed.payload).expect("it was opened");
        if let Some((known, _)) = self.countersigned.get(&receipt.sequence) {
            return known.clone();
        }
        let position = self.size();
        self.push(entry(&receipt, &signed.digest()).content());
        let countersignature = countersign(&receipt, &signed.digest(), position);
        self.countersigned.insert(receipt.sequence, (countersignature.clone(), position));
        countersignature
    }

    /// Returns the signed head; `None` while the log is empty.
    pub fn head(&self) -> Option<Signed> {
        (self.size() > 0).then(|| {
            let head = LogHead {
                size: self.size(),
                root: hex::encode(self.frontier.root()),
                at: OffsetDateTime::UNIX_EPOCH,
                server: key_id(&server_key().verifying_key()),
            };
            Signed::new(&head, &server_key()).expect("it has a JSON form")
        })
    }

    /// Appends the statement that the log was restored to its present state, as a restored server does.
    pub fn restore(&mut self, reason: &str, at: OffsetDateTime) -> Signed {
        let statement = Restoration {
            size: self.size(),
            root: hex::encode(self.frontier.root()),
            reason: reason.to_owned(),
            at,
            server: key_id(&server_key().verifying_key()),
        };
        let signed = Signed::new(&statement, &server_key()).expect("it has a JSON form");
        self.statements.push((self.size(), signed.clone()));
        self.push(LogLeaf::Restoration(RestorationRecord::new(signed.digest())).content());
        signed
    }

    /// Returns the restorations after the one with this digest, with their proofs.
    pub fn restorations(&self, accepted: Option<&str>) -> Vec<RestorationProof> {
        let hashes = |path: &[Vec<Subtree>]| assemble(path, |subtree| self.kept.get(&subtree).copied()).expect("kept");
        let position = self.statements.iter().position(|(_, signed)| Some(&*signed.digest()) == accepted);
        let news = self.statements.iter().skip(position.map_or(0, |position| position + 1));
        let proofs = news.map(|(position, signed)| RestorationProof {
            statement: signed.clone(),
            consistency: hashes(&consistency_path(*position, self.size())),
            inclusion: hashes(&inclusion_path(*position, self.size())),
        });
        proofs.collect()
    }

    /// Returns the proof of the event of a worker's key at a position.
    pub fn key_proof(&self, position: u64) -> KeyProof {
        let hashes = |path: &[Vec<Subtree>]| assemble(path, |subtree| self.kept.get(&subtree).copied()).expect("kept");
        KeyProof { position, leaf: self.leaf(position), inclusion: hashes(&inclusion_path(position, self.size())) }
    }

    /// Returns the answer to a question.
    pub fn answer(&self, known: Option<&Signed>, receipts: &[u64]) -> WitnessAnswer {
        let head: Option<LogHead> = known.map(|signed| serde_json::from_str(&signed.payload).expect("it is a head"));
        let hashes = |path: &[Vec<Subtree>]| assemble(path, |subtree| self.kept.get(&subtree).copied()).expect("kept");
        let size = self.size();
        let proofs = receipts.iter().filter_map(|number| {
            let (countersignature, position) = self.countersigned.get(number)?;
            Some(ChargeProof {
                sequence: *number,
                countersignature: countersignature.clone(),
                position: *position,
                leaf: self.leaf(*position),
                inclusion: hashes(&inclusion_path(*position, size)),
            })
        });
        WitnessAnswer {
            head: self.head(),
            consistency: head.map_or_else(Vec::new, |head| hashes(&consistency_path(head.size, size))),
            receipts: proofs.collect(),
            ..WitnessAnswer::default()
        }
    }
}

/// Returns the entry that charges a receipt.
pub fn entry(receipt: &Receipt, digest: &str) -> EntryRecord {
    EntryRecord {
        previous: String::new(),
        account: Uuid::from_u128(20),
        sequence: receipt.sequence as i64,
        kind: "commit".to_owned(),
        job: receipt.job.0,
        dataset: receipt.dataset.0,
        series: Some(receipt.series.clone()),
        round: i32::try_from(receipt.round).ok(),
        attempt: i32::try_from(receipt.attempt).ok(),
        event: serde_json::to_string(&receipt.event).expect("it has a JSON form"),
        count: 1,
        evaluator: receipt.evaluator.clone(),
        receipt: Some(digest.to_owned()),
        certificate: None,
        at_unix_milliseconds: 0,
    }
}

/// Returns the leaf of another party's entry.
pub fn stranger(number: i64) -> String {
    let entry = EntryRecord {
        previous: String::new(),
        account: Uuid::from_u128(21),
        sequence: number,
        kind: "reserve".to_owned(),
        job: Uuid::from_u128(22),
        dataset: Uuid::from_u128(23),
        series: None,
        round: None,
        attempt: None,
        event: "{}".to_owned(),
        count: 1,
        evaluator: String::new(),
        receipt: None,
        certificate: None,
        at_unix_milliseconds: 0,
    };
    LogLeaf::Entry(entry).content()
}

/// Returns a countersignature of the test server.
pub fn countersign(receipt: &Receipt, digest: &str, position: u64) -> Signed {
    let document = Countersignature {
        worker: receipt.worker,
        sequence: receipt.sequence,
        receipt: digest.to_owned(),
        position,
        at: OffsetDateTime::UNIX_EPOCH,
        server: key_id(&server_key().verifying_key()),
    };
    Signed::new(&document, &server_key()).expect("it has a JSON form")
}
