//! The conditions of `privacy.md`, 6.6, by their numbers; and the guarantee, by enumerating every sample of small logs.
//!
//! Condition 3 (no sample of a fixed size) and half of condition 1 are also in `sample/tests.rs`; condition 5 is in
//! `users.rs`. Types guarantee that one sample makes one pool (6) and that nothing private can be ranked (7); doctests
//! that must not compile test them.

use std::collections::BTreeMap;
use std::convert::Infallible;

use undertone_privacy::kanon::{self, Shown};
use undertone_privacy::{Adjacency, Event, PrivacyUnit, mechanism};

use super::{
    CountingContext, Gate, GateError, KeepAll, KeepBits, ROOMY, Settings, TINY, TestSite, Texts, of_records, posed,
    row, settings,
};
use crate::config::Queries;
use crate::dataset::Row;
use crate::sample::SampleError;
use crate::scratch::ScratchFolder;
use crate::sketch::SketchKey;
use undertone_worker_site::clearance::{Clearance, PublicProof, ReleaseGrant};
use undertone_worker_training::randomness::{Purpose, Randomness};

fn rows(texts: &[u8]) -> Vec<Row> {
    texts.iter().map(|text| row(&format!("query {text}"), 1)).collect()
}

/// Returns the gate's output for every sample of a log, with the number of rows in each sample.
fn outputs(site: &TestSite, texts: &[u8], threshold: u32) -> Vec<(i32, Texts)> {
    let rows = rows(texts);
    (0..1_u64 << rows.len())
        .map(|sample| (sample.count_ones() as i32, site.pass(of_records(threshold), &rows, &mut KeepBits(sample))))
        .collect()
}

/// Outputs with their probabilities.
type Likely<'a> = BTreeMap<Vec<(&'a str, u64)>, f64>;

/// Computes the probability of each output when each of `rows` rows is kept with probability `rate`.
fn likely(outputs: &[(i32, Texts)], rows: usize, rate: f64, shown: Shown) -> Likely<'_> {
    let mut all = BTreeMap::new();
    for (kept, texts) in outputs {
        let count = |count: u64| if shown == Shown::Set { 1 } else { count };
        let output: Vec<_> = texts.iter().map(|(text, kept)| (&**text, count(*kept))).collect();
        *all.entry(output).or_default() += rate.powi(*kept) * (1.0 - rate).powi(rows as i32 - kept);
    }
    all
}

/// Returns Σ max(P − e^ε Q, 0), the greater of both directions.
fn lost(p: &Likely<'_>, q: &Likely<'_>, epsilon: f64) -> f64 {
    let one = |p: &Likely<'_>, q: &Likely<'_>| -> f64 {
        p.iter().map(|(output, mass)| (mass - epsilon.exp() * q.get(output).unwrap_or(&0.0)).max(0.0)).sum()
    };
    one(p, q).max(one(q, p))
}

#[test]
fn six_row_logs_lose_at_most_the_charge() {
    // The worst first pass: every text collides with others.
    let site = TestSite::new(TINY, 3);
    let mut greatest = 0.0_f64;
    for texts in [&[1_u8, 1, 1, 1, 1, 1][..], &[1, 1, 2, 2, 3], &[1, 1, 1, 1, 2, 2]] {
        for threshold in 1..=3 {
            let with = outputs(&site, texts, threshold);
            let mut removed = texts.to_vec();
            removed.dedup();
            for text in removed {
                let mut others = texts.to_vec();
                others.remove(others.iter().position(|other| *other == text).unwrap());
                let without = outputs(&site, &others, threshold);
                for (rate, epsilon) in [(0.1, 0.25), (0.3, 1.0), (0.5, 0.7), (0.9, 2.5), (0.5, 0.1), (0.8, 0.0)] {
                    for shown in [Shown::Counts, Shown::CountsTight, Shown::Set] {
                        let Ok(charged) = kanon::delta(shown, threshold.into(), rate, epsilon) else { continue };
                        let p = likely(&with, texts.len(), rate, shown);
                        let q = likely(&without, others.len(), rate, shown);
                        let lost = lost(&p, &q, epsilon);
                        let most = charged.get() * (1.0 + 1e-12);
                        assert!(lost <= most, "{texts:?} {threshold} {rate} {epsilon} {shown:?}: {lost}");
                        greatest = greatest.max(lost / charged.get());
                    }
                }
            }
        }
    }
    // Some of these are the worst case: their loss equals the charge to the last digits.
    assert!(greatest > 1.0 - 1e-9, "{greatest}");
}

#[test]
fn condition_1_text_is_shown_by_its_kept_rows() {
    // Sampling distinct texts would show the text with probability β, whatever k is; and with k − 1 rows never.
    let site = TestSite::new(ROOMY, 1);
    let rate = 0.3_f64;
    // Numbers of subsets of 3, 4 or 5 of the copies.
    for (copies, ways) in
        [(1, [0.0; 3]), (2, [0.0; 3]), (3, [1.0, 0.0, 0.0]), (4, [4.0, 1.0, 0.0]), (5, [10.0, 5.0, 1.0])]
    {
        let outputs = outputs(&site, &vec![1; copies], 3);
        let probability = likely(&outputs, copies, rate, Shown::Set).get(&vec![("query 1", 1)]).copied().unwrap_or(0.0);
        let of = |kept: i32| ways[kept as usize - 3] * rate.powi(kept) * (1.0 - rate).powi(copies as i32 - kept);
        assert!((probability - (3..=5).map(of).sum::<f64>()).abs() < 1e-12, "{copies}: {probability}");
    }
}

#[test]
fn condition_2_threshold_applies_to_kept_rows() {
    let site = TestSite::new(ROOMY, 1);
    let rows = rows(&[1; 20]);
    assert!(site.pass(of_records(5), &rows, &mut KeepBits(0b1111)).is_empty());
    assert_eq!(site.pass(of_records(5), &rows, &mut KeepBits(0b1_1111)), Texts::from([("query 1".to_owned(), 5)]));
}

#[test]
fn condition_3_estimates_do_not_change_survivors() {
    // The number of occurrences, and the memory that follows from it, may be wrong by any amount.
    for memory in [TINY, 100, ROOMY] {
        let site = TestSite::new(memory, 9);
        for occurrences in [0, 6, u64::MAX] {
            let scratch = ScratchFolder::new(site.work.path()).unwrap();
            let counting = CountingContext { engine: &site.engine, scratch: &scratch, memory };
            let rows = rows(&[1, 1, 1, 2, 2, 3]).into_iter().map(Ok::<_, Infallible>);
            let survivors =
                of_records(2).pass(rows, occurrences, &counting, SketchKey::in_test(9), &mut KeepAll).unwrap().exact();
            assert_eq!(survivors, Texts::from([("query 1".to_owned(), 3), ("query 2".to_owned(), 2)]));
        }
    }
}

#[test]
fn condition_4_removed_row_changes_its_own_text_only() {
    // `exact.rs` tests the property over all hashes.
    let site = TestSite::new(TINY, 4);
    let with = site.pass(of_records(2), &rows(&[1, 1, 1, 2, 2, 3, 3, 3]), &mut KeepAll);
    let without = site.pass(of_records(2), &rows(&[1, 1, 1, 2, 3, 3, 3]), &mut KeepAll);
    assert_eq!(with.len(), 3);
    assert_eq!(without, with.into_iter().filter(|(text, _)| text != "query 2").collect());
}

#[test]
fn condition_6_release_needs_its_own_row_randomness() {
    let gate = Gate::new(settings(0.5, 1, Shown::Counts), PrivacyUnit::Record).unwrap();
    let work = tempfile::tempdir().unwrap();
    let draw = |randomness| {
        let rows = (0..60).map(|text| Ok::<_, Infallible>(row(&format!("query {text}"), 1)));
        gate.survivors(rows, 60, &Queries::default(), work.path(), randomness)
    };
    let fresh = || draw(Randomness::from_os(Purpose::Rows)).unwrap().exact();
    assert_ne!(fresh(), fresh());
    let error = draw(Randomness::from_os(Purpose::Sampling)).err().unwrap();
    assert!(matches!(error, GateError::Sample(SampleError::Purpose(Purpose::Sampling))), "{error}");
    assert_eq!(std::fs::read_dir(work.path()).unwrap().count(), 0);
}

#[test]
fn condition_7_texts_are_counted_unchanged() {
    // The gate corrects no spelling: a map of texts that depended on the log would be a release of its own.
    let texts =
        ["Where is my card", "where is my card", "where is my card?", " where is my card", "wo ist méine Karte"];
    let rows: Vec<Row> = texts.iter().map(|text| row(text, 3)).chain([row("rare", 2)]).collect();
    let survivors = TestSite::new(ROOMY, 5).pass(of_records(3), &rows, &mut KeepAll);
    assert_eq!(survivors, texts.iter().map(|text| ((*text).to_owned(), 3)).collect());
    // A text that cannot be a question is left out by its own text alone.
    let odd = [row("a\tb", 9), row("", 9), row("  ", 9), row(&"ä".repeat(2001), 9), row(&"ä".repeat(2000), 9)];
    let survivors = TestSite::new(ROOMY, 5).pass(of_records(3), &odd, &mut KeepAll);
    assert_eq!(survivors.into_keys().collect::<Vec<_>>(), ["ä".repeat(2000)]);
}

#[test]
fn condition_8_private_release_without_sampling_is_refused() {
    let every = Gate::new(settings(1.0, 5, Shown::Counts), PrivacyUnit::Record).unwrap();
    assert!(mechanism::guarantee(&every.event(), Adjacency::ZeroOut).is_err());
    let site = TestSite::new(ROOMY, 6);
    let survivors = || site.try_pass(every, &rows(&[1; 9]), &mut KeepAll).unwrap();
    let granted = Clearance::Granted(ReleaseGrant::in_test(every.event()));
    assert!(matches!(survivors().release(granted), Err(GateError::Unsampled)));
    let pool = survivors().release(Clearance::Public(PublicProof::in_test())).unwrap();
    assert_eq!((pool.questions(), pool.grant().is_none()), (1, true));
}

#[test]
fn pool_needs_a_grant_for_its_exact_event() {
    let site = TestSite::new(ROOMY, 7);
    let gate = of_records(2);
    let survivors = || site.try_pass(gate, &rows(&[2, 1, 1, 2, 2, 3]), &mut KeepAll).unwrap();
    let others = [
        of_records(3).event(),
        settings(0.5, 2, Shown::Counts).event(),
        settings(0.25, 2, Shown::Set).event(),
        settings(0.25, 2, Shown::CountsTight).event(),
        Settings { rows_per_unit: 2.try_into().unwrap(), ..settings(0.25, 2, Shown::Counts) }.event(),
        Event::NonPrivate,
        Event::Repeated { count: 1, of: Box::new(gate.event()) },
    ];
    for wrong in others {
        let error = survivors().release(Clearance::Granted(ReleaseGrant::in_test(wrong))).err().unwrap();
        assert!(matches!(error, GateError::WrongEvent { .. }), "{error}");
    }
    let pool = survivors().release(Clearance::Granted(ReleaseGrant::in_test(gate.event()))).unwrap();
    assert!(pool.grant().is_some());
    let questions: Vec<_> = posed(&pool).into_iter().map(|question| (question.text, question.count)).collect();
    assert_eq!(questions, [("query 1".to_owned(), Some(2)), ("query 2".to_owned(), Some(3))]);
}

#[test]
fn set_release_omits_counts() {
    let gate = Gate::new(settings(0.25, 2, Shown::Set), PrivacyUnit::Record).unwrap();
    let pool = |texts: &[u8]| {
        let survivors = TestSite::new(ROOMY, 8).try_pass(gate, &rows(texts), &mut KeepAll).unwrap();
        survivors.release(Clearance::Granted(ReleaseGrant::in_test(gate.event()))).unwrap()
    };
    let one = pool(&[1, 1, 2, 2, 2, 3]);
    assert!(posed(&one).iter().all(|question| question.count.is_none()));
    // Logs with the same set make the same bytes, so the bytes reveal neither counts, nor order, nor texts below the
    // threshold.
    assert_eq!(one.bytes(), pool(&[4, 2, 5, 2, 1, 1, 1, 1, 1]).bytes());
}

#[test]
fn failed_pass_leaves_no_files() {
    let work = tempfile::tempdir().unwrap();
    let broken = (0..50_000).map(|text| Ok(row(&format!("query {text}"), 1))).chain([Err("the disk is gone")]);
    let randomness = Randomness::from_os(Purpose::Rows);
    let error = of_records(2).survivors(broken, 50_000, &Queries::default(), work.path(), randomness).err().unwrap();
    assert!(matches!(error, GateError::Sample(SampleError::Rows(_))), "{error}");
    assert_eq!(std::fs::read_dir(work.path()).unwrap().count(), 0);
}
