#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use tempfile::TempDir;

use super::{CandidateFile, CountError, CountingEngine, EmbeddedEngine, UserRows, open};
use crate::config::{self, Queries};

/// Texts that a careless reader of files would change, join or lose.
pub(super) const AWKWARD: [&str; 14] = [
    "",
    " ",
    "\0",
    "null",
    "NULL",
    "a",
    "a ",
    "A",
    "\"a\"",
    "a,b\r\n",
    "é",
    "e\u{301}",
    "\u{202e}أ",
    "a text that is longer than the twelve bytes which Arrow keeps in place",
];

pub(super) fn reference(rows: &[(String, u64)], k: u64) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for (text, n) in rows {
        *counts.entry(text.clone()).or_insert(0) += n;
    }
    counts.retain(|_, count| *count >= k);
    counts
}

pub(super) fn random_rows(seed: u64, rows: usize) -> Vec<(String, u64)> {
    let mut random = ChaCha20Rng::seed_from_u64(seed);
    let row = |_| {
        let text = match random.random_range(0..4) {
            0 => AWKWARD[random.random_range(0..AWKWARD.len())].to_owned(),
            1 => format!("query {}", random.random_range(0..10)),
            _ => format!("{:x}", random.random_range(0..rows as u64)),
        };
        (text, if random.random_bool(0.9) { 1 } else { random.random_range(1..1000) })
    };
    (0..rows).map(row).collect()
}

pub(super) fn write(path: &Path, rows: &[(String, u64)]) {
    let mut file = CandidateFile::create(path).unwrap();
    for (text, n) in rows {
        file.push(text, *n).unwrap();
    }
    assert_eq!(file.finish().unwrap(), rows.len() as u64);
}

/// Counts with an engine, as a map. A text that occurs twice in the answer is a failure of the engine.
pub(super) fn count_with(engine: &dyn CountingEngine, path: &Path, k: u64) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for answer in engine.count(path, k).unwrap() {
        let (text, count) = answer.unwrap();
        assert_eq!(counts.insert(text.clone(), count), None, "{text:?} is answered twice");
    }
    counts
}

/// Returns users' texts in a random order, some of them many times.
pub(super) fn random_users(seed: u64, rows: usize) -> Vec<(u128, String)> {
    let mut random = ChaCha20Rng::seed_from_u64(seed);
    // Users whose numbers differ in one half only.
    let user = |which: u128| if which.is_multiple_of(2) { which << 64 } else { which };
    random_rows(seed, rows).into_iter().map(|(text, _)| (user(random.random_range(0..40)), text)).collect()
}

pub(super) fn write_users(path: &Path, key: u64, rows: &[(u128, String)]) {
    let mut file = UserRows::create(path, key).unwrap();
    for (user, text) in rows {
        file.push(*user, text).unwrap();
    }
    assert_eq!(file.finish().unwrap(), rows.len() as u64);
}

pub(super) fn texts(engine: &dyn CountingEngine, path: &Path, per_user: u32) -> Vec<String> {
    let mut texts: Vec<String> = engine.distinct_users(path, per_user).unwrap().map(Result::unwrap).collect();
    texts.sort();
    texts
}

fn engine(memory_mib: u32, spill_mib: u32, folder: &Path) -> EmbeddedEngine {
    EmbeddedEngine::new(&Queries { memory_mib, spill_mib, ..Queries::default() }, folder).unwrap()
}

fn folder() -> TempDir {
    // A path with characters that a pattern or a URL would interpret differently.
    tempfile::Builder::new().prefix("a [b]*?%20é ").tempdir().unwrap()
}

#[test]
fn counts_equal_a_plain_count() {
    let folder = folder();
    for (seed, rows) in [(1, 0), (2, 1), (3, 1000), (4, 50_000)] {
        let rows = random_rows(seed, rows);
        let path = folder.path().join(format!("{seed}.parquet"));
        write(&path, &rows);
        for k in [1, 2, 20, 1 << 40] {
            assert_eq!(count_with(&engine(64, 64, folder.path()), &path, k), reference(&rows, k), "seed {seed}, k {k}");
        }
    }
}

#[test]
fn engine_answers_again_after_an_unread_answer() {
    let folder = folder();
    let path = folder.path().join("rows.parquet");
    let rows = random_rows(5, 20_000);
    write(&path, &rows);
    let engine = engine(64, 64, folder.path());
    drop(engine.count(&path, 1).unwrap().next());
    assert_eq!(count_with(&engine, &path, 3), reference(&rows, 3));
}

/// Writes 300,000 strings of 400 bytes: 115 MiB, of which the engine may hold 32 in memory.
fn large(path: &Path) -> u64 {
    const STRINGS: u64 = 300_000;
    let mut file = CandidateFile::create(path).unwrap();
    // Every string once, then every second one, then every third, so that no two equal ones are neighbours.
    for step in 1..=3 {
        for which in (0..STRINGS).step_by(step) {
            file.push(&format!("{which:0>400}"), 1).unwrap();
        }
    }
    file.finish().unwrap();
    // The strings with a number divisible by 2 and by 3 occur three times.
    STRINGS.div_ceil(6)
}

#[test]
fn counts_beyond_memory_spill_and_are_deleted() {
    let folder = folder();
    let path = folder.path().join("rows.parquet");
    let spill = folder.path().join("spill");
    fs::create_dir(&spill).unwrap();
    let thrice = large(&path);
    let engine = engine(32, 4096, &spill);
    let mut answer = engine.count(&path, 3).unwrap();
    let counts: Vec<(String, u64)> = answer.by_ref().map(Result::unwrap).collect();
    assert!(counts.iter().all(|(text, count)| *count == 3 && text.parse::<u64>().unwrap().is_multiple_of(6)));
    assert_eq!(counts.iter().map(|(text, _)| text).collect::<BTreeSet<_>>().len() as u64, thrice);
    assert_eq!(counts.len() as u64, thrice);
    assert!(answer.spilled() > 16 << 20, "only {} bytes went through the disk", answer.spilled());
    // At most the engine's own empty folder remains.
    let written = |folder: &Path| -> usize {
        fs::read_dir(folder).unwrap().map(|entry| fs::read_dir(entry.unwrap().path()).unwrap().count()).sum()
    };
    drop(answer);
    assert_eq!(written(&spill), 0);
    drop(engine);
    assert_eq!(fs::read_dir(&spill).unwrap().count(), 0);
}

#[test]
fn exhausted_memory_and_disk_name_the_remedy() {
    let folder = folder();
    let path = folder.path().join("rows.parquet");
    large(&path);
    let answer = engine(32, 1, folder.path()).count(&path, 3).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let error = answer.expect_err("it cannot fit");
    assert!(matches!(error, CountError::Exhausted(_)), "{error:?}");
    assert!(error.to_string().contains("queries.memory_mib"));
}

#[test]
fn texts_of_a_user_do_not_depend_on_other_users() {
    let folder = folder();
    let engine = engine(64, 64, folder.path());
    let rows = random_users(6, 20_000);
    for per_user in [1, 3, 1000] {
        let select_texts = |name: &str, rows: &[(u128, String)]| {
            let path = folder.path().join(format!("{name} {per_user}.parquet"));
            write_users(&path, 7, rows);
            texts(&engine, &path, per_user)
        };
        // All users together keep the texts that each of them keeps alone.
        let mut users: BTreeMap<u128, Vec<(u128, String)>> = BTreeMap::new();
        for row in &rows {
            users.entry(row.0).or_default().push(row.clone());
        }
        let mut alone = Vec::new();
        for (user, own) in &users {
            let selection = select_texts(&user.to_string(), own);
            let distinct: BTreeSet<&String> = own.iter().map(|(_, text)| text).collect();
            assert_eq!(selection.len(), distinct.len().min(per_user as usize), "of user {user}");
            assert!(selection.iter().all(|text| distinct.contains(text)));
            assert_eq!(
                selection.iter().collect::<BTreeSet<_>>().len(),
                selection.len(),
                "a text of a user counts once"
            );
            alone.extend(selection);
        }
        alone.sort();
        assert_eq!(select_texts("all", &rows), alone);
        // Neither the order of the rows nor repetitions by a user have an effect.
        let mut repeated = [rows.clone(), rows.clone()].concat();
        repeated.reverse();
        assert_eq!(select_texts("repeated", &repeated), alone);
    }
}

#[test]
fn texts_of_a_user_change_with_the_key() {
    let folder = folder();
    let engine = engine(64, 64, folder.path());
    let rows: Vec<(u128, String)> = (0..50_u8).map(|which| (1, which.to_string())).collect();
    let select_texts = |key: u64| {
        let path = folder.path().join(format!("{key}.parquet"));
        write_users(&path, key, &rows);
        texts(&engine, &path, 10)
    };
    assert_ne!(select_texts(1), select_texts(2));
}

#[test]
fn overflowing_counts_are_refused_at_writing() {
    let folder = folder();
    let mut file = CandidateFile::create(&folder.path().join("rows.parquet")).unwrap();
    file.push("a", u64::MAX - 1).unwrap();
    file.push("b", 1).unwrap();
    assert!(matches!(file.push("c", 1), Err(CountError::Overflow)));
    assert!(matches!(file.push("c", 0), Err(CountError::Zero)));
}

#[test]
fn row_files_are_private_and_never_overwritten() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder();
    let path = folder.path().join("rows.parquet");
    write(&path, &[]);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(matches!(CandidateFile::create(&path), Err(CountError::Io { .. })));
}

#[test]
fn foreign_file_is_an_error() {
    let folder = folder();
    let engine = engine(64, 64, folder.path());
    let path = folder.path().join("rows.parquet");
    assert!(engine.count(&path, 1).is_err(), "there is none");
    fs::write(&path, "no Parquet").unwrap();
    assert!(engine.count(&path, 1).is_err());
    fs::remove_file(&path).unwrap();
    write(&path, &[("a".to_owned(), 1)]);
    assert!(engine.distinct_users(&path, 1).is_err(), "it has no users");
}

#[test]
fn configuration_selects_the_engine() {
    let folder = folder();
    assert!(open(&Queries::default(), folder.path()).is_ok());
    assert!(matches!(
        open(&Queries { memory_mib: 1, ..Queries::default() }, folder.path()),
        Err(CountError::Config(_))
    ));
    let cluster = Queries {
        engine: config::EngineKind::Cluster,
        scheduler: Some("df://127.0.0.1:50050".to_owned()),
        shared: Some(folder.path().to_owned()),
        ..Queries::default()
    };
    let opened = open(&cluster, folder.path());
    #[cfg(feature = "cluster")]
    assert!(opened.is_ok());
    #[cfg(not(feature = "cluster"))]
    assert!(matches!(opened, Err(CountError::NotBuilt)));
}
