//! A real scheduler and two real executors on this machine, each a process of its own: this test's program, started again.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::super::tests::{counted, random_rows, random_users, reference, texts, write, write_users};
use super::super::{Candidates, Cluster, Embedded, open};
use crate::config::queries::{self, Queries};
use fleet::Fleet;

mod fleet;

fn config(fleet: &Fleet, shared: &Path) -> Queries {
    Queries {
        engine: queries::Engine::Cluster,
        scheduler: Some(fleet.scheduler()),
        shared: Some(shared.to_owned()),
        tasks: 8,
        ..Queries::default()
    }
}

fn embedded(folder: &Path) -> Embedded {
    Embedded::new(&Queries::default(), folder).unwrap()
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(2);
    while !holds() {
        assert!(Instant::now() < deadline, "not within two minutes: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_cluster_and_the_worker_count_the_same_and_leave_nothing_behind() {
    let (shared, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let fleet = Fleet::start();
    let cluster = open(&config(&fleet, shared.path()), elsewhere.path()).unwrap();
    let embedded = embedded(elsewhere.path());
    for (seed, rows) in [(1, 0), (2, 1), (3, 30_000)] {
        let rows = random_rows(seed, rows);
        // Once in the shared folder, once elsewhere.
        for folder in [&shared, &elsewhere] {
            let path = folder.path().join(format!("{seed}.parquet"));
            write(&path, &rows);
            for k in [1, 20] {
                let counts = counted(cluster.as_ref(), &path, k);
                assert_eq!(counts, reference(&rows, k), "seed {seed}, k {k}");
                assert_eq!(counts, counted(&embedded, &path, k));
            }
        }
        let users = random_users(seed, rows.len());
        let path = elsewhere.path().join(format!("users {seed}.parquet"));
        write_users(&path, 7, &users);
        assert_eq!(texts(cluster.as_ref(), &path, 3), texts(&embedded, &path, 3));
    }
    // What was put into the shared folder for a count is gone, and so is what the executors wrote.
    let left: Vec<_> = fs::read_dir(shared.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "{left:?}");
    wait_until("the executors have deleted what they wrote", || fleet.executors.iter().all(|one| one.files() == 0));
}

/// `STRINGS` texts that no compression makes small, each once, every tenth twice.
const STRINGS: u64 = 2_000_000;

fn large(path: &Path) {
    let mut file = Candidates::create(path).unwrap();
    let text = |which: u64| format!("{:016x}{:016x}", mix(which), mix(!which));
    for which in (0..STRINGS).chain((0..STRINGS).step_by(10)) {
        file.push(&text(which), 1).unwrap();
    }
    file.finish().unwrap();
}

/// A bijection of 64 bits that leaves no pattern (the finalizer of SplitMix64).
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
fn both_executors_work_and_one_that_is_killed_meanwhile_changes_no_count() {
    let shared = TempDir::new().unwrap();
    let path = shared.path().join("rows.parquet");
    large(&path);
    let mut fleet = Fleet::start();
    let cluster = Cluster::new(&config(&fleet, shared.path())).unwrap();
    let counting = std::thread::spawn(move || counted(&cluster, &path, 2));
    wait_until("both executors have written a part", || fleet.executors.iter().all(|one| one.files() > 0));
    // Its process and all that it wrote: the machine is gone.
    fleet.executors.pop().unwrap().destroy();
    assert!(!counting.is_finished(), "nothing was left to do: make it more rows");
    check(&counting.join().expect("the other executor goes on"));
}
