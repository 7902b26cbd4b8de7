#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, HashSet};

use super::*;
use crate::dataset::{Reader, Subset};
use crate::log::{ColumnMap, ReadOptions};
use crate::prepare::{PrepareOptions, prepare};
use undertone_worker_site::progress::SilentProgress;

#[test]
fn ranks_have_distinct_texts_and_cover_all_intents() {
    let texts: HashSet<String> = (1..=60_000).map(|rank| text(rank).0).collect();
    assert_eq!(texts.len(), 60_000);
    let intents: HashSet<&str> = (1..=12).map(|rank| text(rank).1).collect();
    assert_eq!(intents.len(), INTENTS.len());
    assert!(INTENTS.is_sorted());
    assert_eq!(text(1), ("please call the nurse today".to_owned(), "call_staff"));
    assert!(text(1 << 48).0.contains(", bed "));
}

#[test]
fn same_seed_draws_same_queries_by_zipfs_law() {
    let config = SyntheticConfig { queries: 500, exponent: 1.0, test: 0.25, ..SyntheticConfig::new(200_000, 5) };
    let mut one = QueryGenerator::new(&config).unwrap();
    let mut two = one.clone();
    let (mut counts, mut tests) = (BTreeMap::<u64, u64>::new(), 0);
    for _ in 0..config.rows {
        let query = one.draw();
        assert_eq!(query, two.draw());
        *counts.entry(query.rank).or_default() += 1;
        tests += u64::from(query.test);
    }
    // Of 500 texts with weights 1/r, whose sum is 6.79.
    for (rank, share) in [(1, 0.1472), (2, 0.0736), (10, 0.01472)] {
        let frequency = counts[&rank] as f64 / config.rows as f64;
        assert!((frequency / share - 1.0).abs() < 0.1, "{rank}: {frequency}");
    }
    assert!(counts.len() <= 500 && counts.len() > 450);
    let (sessions, share) = (one.session as f64, tests as f64 / config.rows as f64);
    assert!((config.rows as f64 / sessions - 4.0).abs() < 0.1 && (share - 0.25).abs() < 0.02);
    let other = QueryGenerator::new(&SyntheticConfig { seed: 6, ..config }).unwrap().draw().rank;
    let first = |seed| QueryGenerator::new(&SyntheticConfig::new(10, seed)).unwrap().draw().rank;
    assert!((0..20).map(first).collect::<HashSet<_>>().len() > 3, "seeds decide; the first of seed 6 is {other}");
}

#[test]
fn written_logs_read_back_with_their_malformed_rows() {
    let dir = tempfile::tempdir().unwrap();
    let mut logs = Vec::new();
    for (name, malformed) in [("a.csv", 0.0), ("b.tsv", 0.2), ("c.jsonl", 0.2), ("d.parquet", 0.0)] {
        let config = SyntheticConfig { test: 0.3, malformed, ..SyntheticConfig::new(3000, 9) };
        let log = dir.path().join(name);
        let log_report = super::log(&config, &log, &SilentProgress).unwrap();
        assert_eq!(log_report.malformed > 400, malformed > 0.0);
        let about = std::fs::read_to_string(dir.path().join(format!("{name}.about.json"))).unwrap();
        assert!(about.contains("\"synthetic\": true"), "{about}");
        let column = |name: &str| Some(name.to_owned());
        let user = column("session");
        let label = column("intent");
        let subset = column("split");
        let columns = ColumnMap { user, label, subset, ..ColumnMap::text("text") };
        let mut options = PrepareOptions::new(
            vec![log],
            ReadOptions::new(columns),
            &dir.path().join(format!("{name}.data")),
            "demo",
            [1; 32],
        );
        options.test = vec!["test".to_owned()];
        let report = prepare(&options, &SilentProgress).unwrap();
        assert_eq!((report.rows, report.malformed_rows()), (3000, log_report.malformed), "{name}");
        let reader = Reader::open(&options.output).unwrap();
        let rows: Vec<_> = reader.rows(Subset::Train).map(Result::unwrap).collect();
        assert!(rows.len() > 1000 && reader.meta().test.rows > 500 && reader.meta().labels.len() == 12);
        logs.push((malformed > 0.0, rows));
    }
    assert_eq!(logs[0], logs[3], "CSV and Parquet of one seed hold the same");
}

#[test]
fn invalid_synthesis_option_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let base = SyntheticConfig::new(10, 1);
    let refused = |config: SyntheticConfig, name: &str| {
        super::log(&config, &dir.path().join(name), &SilentProgress).unwrap_err().to_string()
    };
    for (config, name, what) in [
        (SyntheticConfig { rows: 0, ..base.clone() }, "a.csv", "--rows"),
        (SyntheticConfig { queries: 0, ..base.clone() }, "a.csv", "--distinct"),
        (SyntheticConfig { exponent: f64::NAN, ..base.clone() }, "a.csv", "--exponent"),
        (SyntheticConfig { session: 0.5, ..base.clone() }, "a.csv", "--session-rows"),
        (SyntheticConfig { test: 1.5, ..base.clone() }, "a.csv", "--test-share"),
        (SyntheticConfig { malformed: -0.5, ..base.clone() }, "a.csv", "--malformed-share"),
        (SyntheticConfig { malformed: 0.5, ..base.clone() }, "a.parquet", "--malformed-share"),
        (base.clone(), "a.log", "--output"),
    ] {
        assert!(refused(config, name).contains(what), "{what}");
    }
    super::log(&base, &dir.path().join("a.csv"), &SilentProgress).unwrap();
    assert!(refused(base, "a.csv").contains("exists already"));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "nothing half-made is left");
}
