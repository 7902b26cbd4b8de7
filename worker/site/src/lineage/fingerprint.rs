//! Keyed fingerprints of sources and people: HMAC-SHA-256 under the organization's key, its first 128 bits.
//!
//! Without the key a fingerprint reveals nothing and no guess can be tested. Among n different inputs, two collide with
//! probability at most n²/2¹²⁹. Fingerprints and keys stay at the organization's sites: even keyed, equal fingerprints
//! would reveal to the server which datasets share people, and no noise would hide it.

use std::collections::VecDeque;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::sketch::{FingerprintSketch, from_bytes};

/// The length of an organization's key, bytes.
pub(super) const KEY_LENGTH: usize = 32;
/// The number of rows of a query log that one fingerprint covers: so many consecutive rows do not coincide in two logs
/// by chance.
const RUN: usize = 8;
/// An odd constant (the fractional part of the golden ratio, 128 bits), which makes the fingerprint depend on the order
/// of the rows.
const MULTIPLIER: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;

/// The input of a fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FingerprintKind {
    /// The bytes of a sound file.
    File,
    /// The decoded sound, regardless of its file.
    Audio,
    /// A prepared dataset as a whole: detects a copy of its folder.
    Dataset,
    /// A speaker or a user, by id.
    Person,
    /// Consecutive rows of a query log.
    Rows,
}

impl FingerprintKind {
    pub(super) const ALL: [Self; 5] = [Self::File, Self::Audio, Self::Dataset, Self::Person, Self::Rows];

    /// Returns the name in the database and in fingerprints.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Audio => "audio",
            Self::Dataset => "dataset",
            Self::Person => "person",
            Self::Rows => "rows",
        }
    }

    pub(super) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// Returns the highest number of stored fingerprints of the kind for one lineage, 16 bytes each: every source and
    /// person up to a million, 4 MiB of rows.
    pub(super) const fn most(self) -> usize {
        match self {
            Self::File | Self::Audio | Self::Person => 1 << 20,
            Self::Dataset | Self::Rows => 1 << 18,
        }
    }
}

/// The secret key of an organization's sites for fingerprints. The server never has it.
#[derive(Clone)]
pub(super) struct OrganizationKey(Zeroizing<[u8; KEY_LENGTH]>);

/// Prints its public id, never the secret.
impl std::fmt::Debug for OrganizationKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OrganizationKey({})", self.id())
    }
}

impl OrganizationKey {
    pub(super) fn new(bytes: [u8; KEY_LENGTH]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    pub(super) fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self::new)
    }

    pub(super) fn as_bytes(&self) -> &[u8; KEY_LENGTH] {
        &self.0
    }

    /// Returns the public id of the key: 16 hex digits of a code under it.
    pub(super) fn id(&self) -> String {
        hex::encode(&self.mac().chain_update("undertone organization key\0").finalize().into_bytes()[..8])
    }

    fn mac(&self) -> Hmac<Sha256> {
        Hmac::new_from_slice(self.0.as_slice()).expect("HMAC takes keys of any length")
    }
}

fn fingerprint(mac: &Hmac<Sha256>, kind: FingerprintKind, data: &[u8]) -> u128 {
    let prefix = mac.clone().chain_update("undertone fingerprint 1\0").chain_update(kind.word()).chain_update([0]);
    let code = prefix.chain_update(data).finalize().into_bytes();
    let mut first = [0; 16];
    first.copy_from_slice(&code[..16]);
    u128::from_be_bytes(first)
}

/// The fingerprints of a dataset under one key.
#[derive(Debug, Clone)]
pub(super) struct KeyedSketches {
    /// The key's id.
    pub(super) key: String,
    mac: Hmac<Sha256>,
    sketches: [FingerprintSketch; FingerprintKind::ALL.len()],
    /// Fingerprints of the last rows, at most [`RUN`].
    rows: VecDeque<u128>,
}

impl KeyedSketches {
    fn new(key: &OrganizationKey) -> Self {
        let sketches = FingerprintKind::ALL.map(|kind| FingerprintSketch::new(kind.most()));
        Self { key: key.id(), mac: key.mac(), sketches, rows: VecDeque::with_capacity(RUN + 1) }
    }

    /// Returns the sketch of a kind.
    pub(super) fn sketch(&mut self, kind: FingerprintKind) -> &mut FingerprintSketch {
        &mut self.sketches[kind as usize]
    }

    fn add(&mut self, kind: FingerprintKind, data: &[u8]) {
        let item = fingerprint(&self.mac, kind, data);
        self.sketch(kind).insert(item);
    }

    fn add_row(&mut self, text: &str) {
        let row = fingerprint(&self.mac, FingerprintKind::Rows, text.as_bytes());
        self.rows.push_back(row);
        if self.rows.len() > RUN {
            self.rows.pop_front();
        }
        if self.rows.len() == RUN {
            self.add_run();
        }
    }

    /// Adds the present run of rows. Each row's code is pseudorandom, so a sum with odd weights serves as well as a
    /// code of all rows.
    fn add_run(&mut self) {
        let start = self.rows.len() as u128;
        let run = self.rows.iter().fold(start, |run, row| run.wrapping_mul(MULTIPLIER).wrapping_add(*row));
        self.sketch(FingerprintKind::Rows).insert(run);
    }
}

/// Collects the fingerprints of a dataset, under every key that the site has.
#[derive(Debug, Clone)]
pub struct FingerprintCollector {
    keyed: Vec<KeyedSketches>,
    last_person: String,
    rows: u64,
}

/// A collector on disk, from which an interrupted preparation resumes.
#[derive(Serialize, Deserialize)]
struct SavedCollector {
    rows: u64,
    keyed: Vec<SavedSketches>,
}

/// The fingerprints under one key, on disk: each kind's bytes, base64.
#[derive(Serialize, Deserialize)]
struct SavedSketches {
    key: String,
    kinds: Vec<(FingerprintKind, String)>,
}

impl FingerprintCollector {
    pub(super) fn new(keys: &[OrganizationKey]) -> Self {
        Self { keyed: keys.iter().map(KeyedSketches::new).collect(), last_person: String::new(), rows: 0 }
    }

    /// Adds a sound file by the SHA-256 of its bytes.
    pub fn add_file(&mut self, digest: &[u8]) {
        self.keyed.iter_mut().for_each(|of| of.add(FingerprintKind::File, digest));
    }

    /// Adds decoded sound by the SHA-256 of its samples.
    pub(super) fn add_audio(&mut self, digest: &[u8]) {
        self.keyed.iter_mut().for_each(|of| of.add(FingerprintKind::Audio, digest));
    }

    /// Adds a prepared dataset by its digest.
    pub(super) fn add_dataset(&mut self, digest: &str) {
        self.keyed.iter_mut().for_each(|of| of.add(FingerprintKind::Dataset, digest.as_bytes()));
    }

    /// Adds a speaker or a user; white space around the id is ignored.
    pub fn add_person(&mut self, id: &str) {
        let id = id.trim();
        // Consecutive rows often belong to the same person.
        if id.is_empty() || id == self.last_person {
            return;
        }
        self.keyed.iter_mut().for_each(|of| of.add(FingerprintKind::Person, id.as_bytes()));
        id.clone_into(&mut self.last_person);
    }

    /// Adds the next row of a query log.
    pub fn add_row(&mut self, text: &str) {
        self.rows += 1;
        self.keyed.iter_mut().for_each(|of| of.add_row(text));
    }

    /// Adds a log that is shorter than a run as one run.
    pub(super) fn finish(&mut self) {
        if (1..RUN as u64).contains(&self.rows) {
            self.keyed.iter_mut().for_each(KeyedSketches::add_run);
        }
    }

    pub(super) fn keyed(&mut self) -> &mut [KeyedSketches] {
        &mut self.keyed
    }

    /// Serializes the collector as text, for a later [`FingerprintCollector::resume`].
    pub(super) fn save(&mut self) -> Vec<u8> {
        let saved = |of: &mut KeyedSketches| SavedSketches {
            key: of.key.clone(),
            kinds: FingerprintKind::ALL.map(|kind| (kind, STANDARD.encode(of.sketch(kind).encode()))).to_vec(),
        };
        let saved = SavedCollector { rows: self.rows, keyed: self.keyed.iter_mut().map(saved).collect() };
        serde_json::to_vec(&saved).expect("text and whole numbers")
    }

    /// Restores a collector from [`FingerprintCollector::save`]. Returns false, and changes nothing, for invalid text
    /// or when one of the keys is missing. Runs of rows across the interruption are lost: at most seven for each
    /// interruption.
    pub(super) fn resume(&mut self, saved: &[u8]) -> bool {
        let Ok(SavedCollector { rows, keyed }) = serde_json::from_slice(saved) else { return false };
        let mut all = Vec::new();
        for of in &self.keyed {
            let Some(known) = keyed.iter().find(|known| known.key == of.key) else { return false };
            for (kind, text) in &known.kinds {
                let Some(items) = STANDARD.decode(text).ok().and_then(|bytes| from_bytes(&bytes)) else { return false };
                all.push((of.key.clone(), *kind, items));
            }
        }
        for (key, kind, items) in all {
            if let Some(of) = self.keyed.iter_mut().find(|of| of.key == key) {
                of.sketch(kind).merge(&items);
            }
        }
        self.rows = self.rows.max(rows);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::sketch::count_common;
    use super::{FingerprintCollector, FingerprintKind, OrganizationKey};

    fn collector(key: u8) -> FingerprintCollector {
        FingerprintCollector::new(&[OrganizationKey::new([key; 32])])
    }

    fn log(key: u8, rows: impl Iterator<Item = u32>) -> FingerprintCollector {
        let mut collector = collector(key);
        rows.for_each(|row| collector.add_row(&format!("query {row}")));
        collector.finish();
        collector
    }

    fn common(one: &mut FingerprintCollector, other: &mut FingerprintCollector, kind: FingerprintKind) -> usize {
        let one = one.keyed[0].sketch(kind).items().to_vec();
        count_common(&one, other.keyed[0].sketch(kind).items())
    }

    #[test]
    fn fingerprint_depends_on_key_and_kind() {
        let (mut one, mut other) = (collector(1), collector(2));
        one.add_person("ward-7");
        other.add_person("ward-7");
        assert_eq!(common(&mut one, &mut other, FingerprintKind::Person), 0, "another key");
        let mut again = collector(1);
        again.add_person(" ward-7\t");
        again.add_file(b"ward-7");
        assert_eq!(common(&mut one, &mut again, FingerprintKind::Person), 1);
        let (person, file) = (again.keyed[0].sketches[3].items()[0], again.keyed[0].sketches[0].items()[0]);
        assert_ne!(person, file, "another kind");
    }

    #[test]
    fn rows_are_found_in_an_excerpt_and_not_by_single_queries() {
        let rows = FingerprintKind::Rows;
        let mut whole = log(1, 0..1_000);
        assert_eq!(common(&mut whole, &mut log(1, 300..400), rows), 93, "all runs of eight within it");
        assert!(
            common(&mut whole, &mut log(1, (0..1_000).filter(|row| row % 50 != 0)), rows) > 700,
            "one in 50 left out"
        );
        assert_eq!(common(&mut whole, &mut log(1, (0..1_000).filter(|row| row % 2 == 0)), rows), 0);
        assert_eq!(common(&mut whole, &mut log(1, (0..1_000).rev()), rows), 0, "another order");
        assert_eq!(common(&mut log(1, 0..5), &mut log(1, 0..5), rows), 1, "a short log is one run");
    }

    #[test]
    fn saved_collector_resumes_where_it_stopped() {
        let mut whole = log(1, 0..100);
        let mut first = log(1, 0..60);
        let mut second = collector(1);
        assert!(second.resume(&first.save()));
        (60..100).for_each(|row| second.add_row(&format!("query {row}")));
        assert_eq!(common(&mut whole, &mut second, FingerprintKind::Rows), 93 - 7);
        assert!(!collector(2).resume(&first.save()), "another key");
        assert!(!collector(1).resume(b"{"));
    }

    #[test]
    fn key_does_not_show_in_logs() {
        let key = OrganizationKey::new([0xab; 32]);
        assert!(!format!("{key:?}").contains("abab"));
        assert_eq!(key.id().len(), 16);
    }
}
