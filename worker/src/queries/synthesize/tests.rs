#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, HashSet};

use super::*;
use crate::queries::dataset::{Reader, Subset};
use crate::queries::log::{Columns, Reading};
use crate::queries::prepare::{Options, prepare};
use crate::speech::progress::Silent;

#[test]
fn no_two_ranks_have_the_same_text_and_all_intents_are_among_the_first() {
    let texts: HashSet<String> = (1..=60_000).map(|rank| text(rank).0).collect();
    assert_eq!(texts.len(), 60_000);
    let intents: HashSet<&str> = (1..=12).map(|rank| text(rank).1).collect();
    assert_eq!(intents.len(), INTENTS.len());
    assert!(INTENTS.is_sorted());
    assert_eq!(text(1), ("please call the nurse today".to_owned(), "call_staff"));
    assert!(text(1 << 48).0.contains(", bed "));
}

#[test]
fn the_same_seed_draws_the_same_queries_by_zipfs_law() {
    let config = Config { queries: 500, exponent: 1.0, test: 0.25, ..Config::new(200_000, 5) };
    let mut one = Generator::new(&config).unwrap();
    let mut two = one.clone();
    let (mut counts, mut tests) = (BTreeMap::<u64, u64>::new(), 0);
    for _ in 0..config.rows {
        let query = one.draw();
        assert_eq!(query, two.draw());
        *counts.entry(query.rank).or_default() += 1;
        tests += u64::from(query.test);
    }
    // Of 500 texts with weights 1/r, the sum of which is 6.79.
    for (rank, share) in [(1, 0.1472), (2, 0.0736), (10, 0.01472)] {
        let found = counts[&rank] as f64 / config.rows as f64;
        assert!((found / share - 1.0).abs() < 0.1, "{rank}: {found}");
    }
    assert!(counts.len() <= 500 && counts.len() > 450);
    let (sessions, share) = (one.session as f64, tests as f64 / config.rows as f64);
    assert!((config.rows as f64 / sessions - 4.0).abs() < 0.1 && (share - 0.25).abs() < 0.02);
    let other = Generator::new(&Config { seed: 6, ..config }).unwrap().draw().rank;
    let first = |seed| Generator::new(&Config::new(10, seed)).unwrap().draw().rank;
    assert!((0..20).map(first).collect::<HashSet<_>>().len() > 3, "seeds decide; the first of seed 6 is {other}");
}

#[test]
fn what_is_written_is_read_and_broken_rows_are_as_many_as_were_broken() {
    let dir = tempfile::tempdir().unwrap();
    let mut seen = Vec::new();
    for (name, malformed) in [("a.csv", 0.0), ("b.tsv", 0.2), ("c.jsonl", 0.2), ("d.parquet", 0.0)] {
        let config = Config { test: 0.3, malformed, ..Config::new(3000, 9) };
        let log = dir.path().join(name);
        let made = super::log(&config, &log, &Silent).unwrap();
        assert_eq!(made.malformed > 400, malformed > 0.0);
        let about = std::fs::read_to_string(dir.path().join(format!("{name}.about.json"))).unwrap();
        assert!(about.contains("\"synthetic\": true"), "{about}");
        let column = |name: &str| Some(name.to_owned());
        let (user, label, subset) = (column("session"), column("intent"), column("split"));
        let columns = Columns { user, label, subset, ..Columns::text("text") };
        let mut options =
            Options::new(vec![log], Reading::new(columns), &dir.path().join(format!("{name}.data")), "demo", [1; 32]);
        options.test = vec!["test".to_owned()];
        let report = prepare(&options, &Silent).unwrap();
        assert_eq!((report.rows, report.malformed_rows()), (3000, made.malformed), "{name}");
        let reader = Reader::open(&options.output).unwrap();
        let rows: Vec<_> = reader.rows(Subset::Train).map(Result::unwrap).collect();
        assert!(rows.len() > 1000 && reader.meta().test.rows > 500 && reader.meta().labels.len() == 12);
        seen.push((malformed > 0.0, rows));
    }
    assert_eq!(seen[0], seen[3], "CSV and Parquet of one seed hold the same");
}

#[test]
fn what_cannot_be_made_is_refused_by_the_name_of_the_option() {
    let dir = tempfile::tempdir().unwrap();
    let base = Config::new(10, 1);
    let refused =
        |config: Config, name: &str| super::log(&config, &dir.path().join(name), &Silent).unwrap_err().to_string();
    for (config, name, what) in [
        (Config { rows: 0, ..base.clone() }, "a.csv", "--rows"),
        (Config { queries: 0, ..base.clone() }, "a.csv", "--distinct"),
        (Config { exponent: f64::NAN, ..base.clone() }, "a.csv", "--exponent"),
        (Config { session: 0.5, ..base.clone() }, "a.csv", "--session-rows"),
        (Config { test: 1.5, ..base.clone() }, "a.csv", "--test-share"),
        (Config { malformed: -0.5, ..base.clone() }, "a.csv", "--malformed-share"),
        (Config { malformed: 0.5, ..base.clone() }, "a.parquet", "--malformed-share"),
        (base.clone(), "a.log", "--output"),
    ] {
        assert!(refused(config, name).contains(what), "{what}");
    }
    super::log(&base, &dir.path().join("a.csv"), &Silent).unwrap();
    assert!(refused(base, "a.csv").contains("exists already"));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "nothing half-made is left");
}
