//! A real scheduler and two real executors on this machine, each in a separate process of this test program.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::super::tests::{count_with, random_rows, random_users, reference, texts, write, write_users};
use super::super::{CandidateFile, ClusterEngine, EmbeddedEngine, open};
use crate::config::{self, Queries};
use fleet::TestCluster;

mod fleet;

fn config(fleet: &TestCluster, shared: &Path) -> Queries {
    Queries {
        engine: config::EngineKind::Cluster,
        scheduler: Some(fleet.scheduler()),
        shared: Some(shared.to_owned()),
        tasks: 8,
        ..Queries::default()
    }
}

fn embedded(folder: &Path) -> EmbeddedEngine {
    EmbeddedEngine::new(&Queries::default(), folder).unwrap()
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(2);
    while !holds() {
        assert!(Instant::now() < deadline, "not within two minutes: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn cluster_and_worker_counts_match_and_leave_no_files() {
    let shared = TempDir::new().unwrap();
    let elsewhere = TempDir::new().unwrap();
    let fleet = TestCluster::start();
    let cluster = open(&config(&fleet, shared.path()), elsewhere.path()).unwrap();
    let embedded = embedded(elsewhere.path());
    for (seed, rows) in [(1, 0), (2, 1), (3, 30_000)] {
        let rows = random_rows(seed, rows);
        // Once in the shared folder, once elsewhere.
        for folder in [&shared, &elsewhere] {
            let path = folder.path().join(format!("{seed}.parquet"));
            write(&path, &rows);
            for k in [1, 20] {
                let counts = count_with(cluster.as_ref(), &path, k);
                assert_eq!(counts, reference(&rows, k), "seed {seed}, k {k}");
                assert_eq!(counts, count_with(&embedded, &path, k));
            }
        }
        let users = random_users(seed, rows.len());
        let path = elsewhere.path().join(format!("users {seed}.parquet"));
        write_users(&path, 7, &users);
        assert_eq!(texts(cluster.as_ref(), &path, 3), texts(&embedded, &path, 3));
    }
    // The files that the count put into the shared folder are gone, and so are the executors' files.
    let files: Vec<_> = fs::read_dir(shared.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(files.len(), 3, "{files:?}");
    wait_until("the executors have deleted what they wrote", || fleet.executors.iter().all(|one| one.files() == 0));
}

/// `STRINGS` incompressible texts, each once, every tenth twice.
const STRINGS: u64 = 2_000_000;

fn large(path: &Path) {
    let mut file = CandidateFile::create(path).unwrap();
    let text = |which: u64| format!("{:016x}{:016x}", mix(which), mix(!which));
    for which in (0..STRINGS).chain((0..STRINGS).step_by(10)) {
        file.push(&text(which), 1).unwrap();
    }
    file.finish().unwrap();
}

/// Applies a bijection of 64 bits without a pattern (the finalizer of SplitMix64).
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

fn check(counts: &BTreeMap<String, u64>) {
    assert_eq!(counts.len() as u64, STRINGS / 10);
    assert!(counts.values().all(|count| *count == 2));
    assert!((0..STRINGS).step_by(10).all(|which| counts.contains_key(&format!(
        "{:016x}{:016x}",
        mix(which),
        mix(!which)
    ))));
}

#[test]
fn killed_executor_does_not_change_counts() {
    let shared = TempDir::new().unwrap();
    let path = shared.path().join("rows.parquet");
    large(&path);
    let mut fleet = TestCluster::start();
    let cluster = ClusterEngine::new(&config(&fleet, shared.path())).unwrap();
    let counting = std::thread::spawn(move || count_with(&cluster, &path, 2));
    wait_until("both executors have written a part", || fleet.executors.iter().all(|one| one.files() > 0));
    // Kills its process and deletes its files, as if the machine were lost.
    fleet.executors.pop().unwrap().destroy();
    assert!(!counting.is_finished(), "nothing was left to do: make it more rows");
    check(&counting.join().expect("the other executor goes on"));
}
