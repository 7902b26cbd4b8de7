//! Through the real gate: that figures are those of the sample, that nothing below k is shown, and that chance has a seed.
#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]
#![expect(clippy::float_cmp, reason = "the same computation, or numbers that binary fractions hold")]

use std::convert::Infallible;
use std::num::NonZeroU32;

use undertone_api::job::active_learning::{Acquisition, Encoder, Gate, Rehearsal};
use undertone_privacy::kanon::{self, Shown as Manner};
use undertone_privacy::{Epsilon, PrivacyUnit, SamplingRate};

use super::{GateSieve, Ground, Learner, Plan, RehearsalError, Shown, Sieve, SieveError, rehearse};
use crate::config::queries::Queries;
use crate::queries::classifier::tests::settings;
use crate::queries::dataset::Row;
use crate::site::clearance::Published;

/// Three subjects; text number n of a subject is asked n + 1 times.
fn rows() -> Vec<Row> {
    let subjects = [["cancel", "stop", "end"], ["where", "track", "find"], ["hello", "good", "nice"]];
    let mut rows = Vec::new();
    for (label, words) in (0_u16..).zip(subjects) {
        for number in 0..30_u64 {
            let text = format!(
                "{} it {}",
                words[number as usize % 3],
                ["now", "please", "again", "today", "then"][number as usize % 5]
            );
            let text = format!("{text} {}", ["a", "b"][number as usize % 2]);
            for copy in 0..=number {
                rows.push(Row { text: text.clone(), user: Some(u128::from(copy)), count: 1, label: Some(label) });
            }
        }
    }
    rows
}

fn ground(published: &Published) -> Ground<'_> {
    let labels = ["stop", "track", "greet"].map(str::to_owned).to_vec();
    let log = rows().into_iter().map(|row| Ok::<_, Infallible>((row.text, row.count, row.label)));
    let tests =
        [("cancel that", 0), ("track that", 1), ("hello you", 2), ("end this", 0), ("find this", 1), ("nice", 2)];
    let tests = tests.into_iter().map(|(text, label)| Ok((text.to_owned(), 1, label)));
    Ground::new(published, labels, log, tests).unwrap()
}

fn learner() -> Learner {
    Learner {
        settings: settings(Encoder::Bag),
        acquisition: Acquisition::Entropy,
        diversity: false,
        batch: 8,
        golden: 3,
        seed: 11,
    }
}

fn grid() -> Rehearsal {
    Rehearsal { rates: vec![0.25, 0.5], thresholds: vec![3, 9], questions: 20, repeats: 2, annotator_accuracy: 1.0 }
}

fn sieve<'a>(
    published: &'a Published,
    queries: &'a Queries,
    work: &'a std::path::Path,
    unit: PrivacyUnit,
) -> GateSieve<'a, impl Fn() -> std::vec::IntoIter<Result<Row, Infallible>> + use<>> {
    let rows = || rows().into_iter().map(Ok).collect::<Vec<_>>().into_iter();
    let rows_per_unit = NonZeroU32::new(if unit == PrivacyUnit::User { 1000 } else { 1 }).unwrap();
    GateSieve { rows, occurrences: 1395, published, unit, rows_per_unit, queries, work }
}

fn gate() -> Gate {
    Gate {
        sampling_rate: SamplingRate::new(0.125).unwrap(),
        threshold: NonZeroU32::new(7).unwrap(),
        epsilon: Epsilon::new(0.5).unwrap(),
        shown: Manner::Counts,
        rows_per_unit: NonZeroU32::MIN,
    }
}

#[test]
fn every_pair_is_tried_through_the_gate_beside_the_comparison() {
    let (published, queries, work) = (Published::in_test(), Queries::default(), tempfile::tempdir().unwrap());
    let (ground, learner, grid, gate) = (ground(&published), learner(), grid(), gate());
    let plan = Plan { rehearsal: &grid, gate: Some(&gate), learner: &learner };
    let run = || {
        let mut sieve = sieve(&published, &queries, work.path(), PrivacyUnit::Record);
        rehearse(&ground, plan, &mut sieve, &|_, _| true).unwrap()
    };
    let told = run();
    let pairs: Vec<_> = told.iter().map(|pair| (pair.sampling_rate, pair.threshold, pair.baseline)).collect();
    assert_eq!(pairs, [(1.0, 1, true), (0.25, 3, false), (0.25, 9, false), (0.5, 3, false), (0.5, 9, false)]);
    assert_eq!(told[0].pool, ground.queries().count() as u64, "without sampling and with k = 1 everything is shown");
    assert!(told.iter().all(|pair| pair.violations == 0));
    assert!(told[1].pool > told[2].pool && told[3].pool > told[4].pool && told[3].pool > told[1].pool, "{told:?}");
    for pair in &told {
        assert_eq!(pair.points[0].labelled, 0);
        assert_eq!(pair.points[0].accuracy, told[0].points[0].accuracy, "all begin with the same golden sets");
        assert!(pair.points.windows(2).all(|two| two[0].labelled < two[1].labelled));
        assert!(pair.points.last().unwrap().labelled <= u64::from(grid.questions));
    }
    assert!(told[0].points.last().unwrap().accuracy > told[0].points[0].accuracy, "questions teach: {told:?}");
    // δ at the job's ε, by the published bound; nothing where ε is below −ln(1 − β).
    assert_eq!(told[0].delta, None);
    let expected = kanon::delta(Manner::Counts, 3, 0.25, 0.5).unwrap().get();
    let own = told[1].delta.unwrap();
    assert!((own / expected - 1.0).abs() < 1e-9 && own >= expected, "{own} {expected}");
    assert_eq!((told[3].delta, told[4].delta), (None, None));
    assert_eq!(run(), told, "the same seed rehearses the same");
}

#[test]
fn what_the_gate_shows_of_a_sample_is_what_an_exact_count_says() {
    let (published, queries, work) = (Published::in_test(), Queries::default(), tempfile::tempdir().unwrap());
    let mut sieve = sieve(&published, &queries, work.path(), PrivacyUnit::Record);
    for (rate, threshold, seed) in [(0.5, 2, 1), (0.3, 5, 2), (0.9, 40, 3), (0.01, 1, 4)] {
        let (rate, threshold) = (SamplingRate::new(rate).unwrap(), NonZeroU32::new(threshold).unwrap());
        let shown = sieve.shown(rate, threshold, seed).unwrap();
        assert_eq!((shown.violations, shown.missed), (0, 0), "{rate:?} {threshold}");
        let again = sieve.shown(rate, threshold, seed).unwrap();
        assert_eq!(again.texts, shown.texts, "a seed is a sample");
        // Had the threshold been one more than was asked for, the check would have seen it.
        let kept = sieve.kept(rate, seed).unwrap();
        let more = u64::from(threshold.get()) + 1;
        let at_threshold = kept.values().filter(|count| **count == more - 1).count() as u64;
        let counts: Vec<(String, u64)> = shown.texts.iter().map(|text| (text.clone(), kept[text])).collect();
        assert_eq!(super::sieve::differences(&counts, &kept, more).0, at_threshold);
    }
}

#[test]
fn by_user_no_text_has_more_than_its_users() {
    let (published, queries, work) = (Published::in_test(), Queries::default(), tempfile::tempdir().unwrap());
    let mut sieve = sieve(&published, &queries, work.path(), PrivacyUnit::User);
    let shown = sieve.shown(SamplingRate::new(0.75).unwrap(), NonZeroU32::new(4).unwrap(), 1).unwrap();
    assert!(shown.violations == 0 && !shown.texts.is_empty());
}

#[test]
fn a_rehearsal_ends_when_it_is_asked_to_and_says_what_it_lacks() {
    struct All;
    impl Sieve for All {
        fn shown(&mut self, _: SamplingRate, _: NonZeroU32, _: u64) -> Result<Shown, SieveError> {
            Ok(Shown { texts: rows().into_iter().map(|row| row.text).collect(), violations: 2, missed: 0 })
        }
    }
    let published = Published::in_test();
    let (full, learner, grid) = (ground(&published), learner(), grid());
    let plan = Plan { rehearsal: &grid, gate: None, learner: &learner };
    let stopped = rehearse(&full, plan, &mut All, &|_, _| false).unwrap_err();
    assert!(matches!(stopped, RehearsalError::Stopped), "{stopped}");
    let told = rehearse(&full, plan, &mut All, &|done, total| done <= total && total == 10).unwrap();
    assert!(told.iter().all(|pair| pair.violations == 4 && pair.delta.is_none()), "two in each repeat");
    let no_rows = std::iter::empty::<Result<(String, u64, Option<u16>), Infallible>>();
    let bare = Ground::new(&published, full.labels().to_vec(), no_rows, std::iter::empty()).unwrap();
    let error = rehearse(&bare, plan, &mut All, &|_, _| true).unwrap_err().to_string();
    assert!(error.contains("no labelled query"), "{error}");
    let wrong = Rehearsal { rates: vec![1.5], ..grid.clone() };
    let error = rehearse(&full, Plan { rehearsal: &wrong, ..plan }, &mut All, &|_, _| true).unwrap_err().to_string();
    assert!(error.contains("rehearsal.rates"), "{error}");
}
