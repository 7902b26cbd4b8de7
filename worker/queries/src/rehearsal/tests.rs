//! Tests with the real gate: the figures are those of the sample, no text below k is shown, and all randomness has a
//! seed.
#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]
#![expect(clippy::float_cmp, reason = "the same computation, or numbers that binary fractions hold")]

use std::convert::Infallible;
use std::num::NonZeroU32;

use undertone_api::job::active_learning::{Acquisition, Aggregation, Encoder, Gate, Rehearsal};
use undertone_privacy::kanon::{self, Shown as Manner};
use undertone_privacy::{Epsilon, PrivacyUnit, SamplingRate};

use super::{
    GateSieve, GateTrial, LearnerSettings, LearningCurve, PublicLog, RehearsalError, RehearsalPlan, SieveError,
    TrialOutput, TrialSettings, rehearse,
};
use crate::classifier::tests::settings;
use crate::config::Queries;
use crate::dataset::Row;
use undertone_worker_site::clearance::PublicProof;

/// Returns rows of three subjects; text number n of a subject occurs n + 1 times.
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

fn public_log(published: &PublicProof) -> PublicLog<'_> {
    let labels = ["stop", "track", "greet"].map(str::to_owned).to_vec();
    let log = rows().into_iter().map(|row| Ok::<_, Infallible>((row.text, row.count, row.label)));
    let tests =
        [("cancel that", 0), ("track that", 1), ("hello you", 2), ("end this", 0), ("find this", 1), ("nice", 2)];
    let tests = tests.into_iter().map(|(text, label)| Ok((text.to_owned(), 1, label)));
    PublicLog::new(published, labels, log, tests).unwrap()
}

fn learner() -> LearnerSettings {
    LearnerSettings {
        settings: settings(Encoder::Bag),
        acquisition: Acquisition::Entropy,
        diversity: false,
        batch: 8,
        golden: 3,
        annotators: 1,
        aggregation: Aggregation::Majority,
        seed: 11,
    }
}

fn grid() -> Rehearsal {
    Rehearsal {
        rates: vec![0.25, 0.5],
        thresholds: vec![3, 9],
        questions: 20,
        repeats: 2,
        annotator_accuracy: 1.0,
        annotator_deviation: 0.0,
    }
}

fn sieve<'a>(
    published: &'a PublicProof,
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
fn rehearsal_tries_every_pair_and_the_comparison() {
    let published = PublicProof::in_test();
    let queries = Queries::default();
    let work = tempfile::tempdir().unwrap();
    let public_log = public_log(&published);
    let learner = learner();
    let grid = grid();
    let gate = gate();
    let plan = RehearsalPlan { rehearsal: &grid, gate: Some(&gate), learner: &learner };
    let run = || {
        let mut sieve = sieve(&published, &queries, work.path(), PrivacyUnit::Record);
        rehearse(&public_log, plan, &mut sieve, &|_, _| true).unwrap()
    };
    let figures = run();
    let pairs: Vec<_> = figures.iter().map(|pair| (pair.sampling_rate, pair.threshold, pair.baseline)).collect();
    assert_eq!(pairs, [(1.0, 1, true), (0.25, 3, false), (0.25, 9, false), (0.5, 3, false), (0.5, 9, false)]);
    assert_eq!(
        figures[0].pool,
        public_log.queries().count() as u64,
        "without sampling and with k = 1 everything is shown"
    );
    assert!(figures.iter().all(|pair| pair.violations == 0));
    assert!(
        figures[1].pool > figures[2].pool && figures[3].pool > figures[4].pool && figures[3].pool > figures[1].pool,
        "{figures:?}"
    );
    for pair in &figures {
        assert_eq!(pair.points[0].labelled, 0);
        assert_eq!(pair.points[0].accuracy, figures[0].points[0].accuracy, "all begin with the same golden sets");
        assert!(pair.points.windows(2).all(|two| two[0].labelled < two[1].labelled));
        assert!(pair.points.last().unwrap().labelled <= u64::from(grid.questions));
    }
    assert!(figures[0].points.last().unwrap().accuracy > figures[0].points[0].accuracy, "questions teach: {figures:?}");
    // δ at the job's ε, by the published bound; `None` where ε is below −ln(1 − β).
    assert_eq!(figures[0].delta, None);
    let expected = kanon::delta(Manner::Counts, 3, 0.25, 0.5).unwrap().get();
    let own = figures[1].delta.unwrap();
    assert!((own / expected - 1.0).abs() < 1e-9 && own >= expected, "{own} {expected}");
    assert_eq!((figures[3].delta, figures[4].delta), (None, None));
    assert_eq!(run(), figures, "the same seed rehearses the same");
}

#[test]
fn gate_output_matches_an_exact_count() {
    let published = PublicProof::in_test();
    let queries = Queries::default();
    let work = tempfile::tempdir().unwrap();
    let mut sieve = sieve(&published, &queries, work.path(), PrivacyUnit::Record);
    for (rate, threshold, seed) in [(0.5, 2, 1), (0.3, 5, 2), (0.9, 40, 3), (0.01, 1, 4)] {
        let rate = SamplingRate::new(rate).unwrap();
        let threshold = NonZeroU32::new(threshold).unwrap();
        let output = sieve.run(rate, threshold, seed).unwrap();
        assert_eq!((output.violations, output.missed), (0, 0), "{rate:?} {threshold}");
        let again = sieve.run(rate, threshold, seed).unwrap();
        assert_eq!(again.texts, output.texts, "a seed is a sample");
        // With a threshold that is higher by one, the check would have reported violations.
        let exact_counts = sieve.resample(rate, seed).unwrap();
        let more = u64::from(threshold.get()) + 1;
        let at_threshold = exact_counts.values().filter(|count| **count == more - 1).count() as u64;
        let counts: Vec<(String, u64)> = output.texts.iter().map(|text| (text.clone(), exact_counts[text])).collect();
        assert_eq!(super::sieve::compare_counts(&counts, &exact_counts, more).0, at_threshold);
    }
}

#[test]
fn counts_by_user_are_bounded_by_users() {
    let published = PublicProof::in_test();
    let queries = Queries::default();
    let work = tempfile::tempdir().unwrap();
    let mut sieve = sieve(&published, &queries, work.path(), PrivacyUnit::User);
    let output = sieve.run(SamplingRate::new(0.75).unwrap(), NonZeroU32::new(4).unwrap(), 1).unwrap();
    assert!(output.violations == 0 && !output.texts.is_empty());
}

#[test]
fn rehearsal_stops_on_cancel_and_names_missing_data() {
    struct LeakyGate;
    impl GateTrial for LeakyGate {
        fn run(&mut self, _: SamplingRate, _: NonZeroU32, _: u64) -> Result<TrialOutput, SieveError> {
            Ok(TrialOutput { texts: rows().into_iter().map(|row| row.text).collect(), violations: 2, missed: 0 })
        }
    }
    let published = PublicProof::in_test();
    let full = public_log(&published);
    let learner = learner();
    let grid = grid();
    let plan = RehearsalPlan { rehearsal: &grid, gate: None, learner: &learner };
    let stopped = rehearse(&full, plan, &mut LeakyGate, &|_, _| false).unwrap_err();
    assert!(matches!(stopped, RehearsalError::Stopped), "{stopped}");
    let figures = rehearse(&full, plan, &mut LeakyGate, &|done, total| done <= total && total == 10).unwrap();
    assert!(figures.iter().all(|pair| pair.violations == 4 && pair.delta.is_none()), "two in each repeat");
    let no_rows = std::iter::empty::<Result<(String, u64, Option<u16>), Infallible>>();
    let bare = PublicLog::new(&published, full.labels().to_vec(), no_rows, std::iter::empty()).unwrap();
    let error = rehearse(&bare, plan, &mut LeakyGate, &|_, _| true).unwrap_err().to_string();
    assert!(error.contains("no labelled query"), "{error}");
    let wrong = Rehearsal { rates: vec![1.5], ..grid.clone() };
    let error = rehearse(&full, RehearsalPlan { rehearsal: &wrong, ..plan }, &mut LeakyGate, &|_, _| true)
        .unwrap_err()
        .to_string();
    assert!(error.contains("rehearsal.rates"), "{error}");
}

#[test]
fn several_annotators_correct_each_other() {
    let published = PublicProof::in_test();
    let public_log = public_log(&published);
    let pool: Vec<String> = public_log.queries().map(|query| query.text.clone()).collect();
    let labels = |annotators, aggregation, deviation| -> Vec<(String, u16)> {
        let learner = LearnerSettings { annotators, aggregation, ..learner() };
        let trial = TrialSettings { questions: 1000, accuracy: 0.7, deviation, repeat: 0 };
        let mut curve = LearningCurve::begin(&public_log, &learner, trial).unwrap();
        curve.extend(&public_log, &learner, &pool).unwrap();
        curve.labelled_texts(3, aggregation)
    };
    let wrong = |texts: Vec<(String, u16)>| {
        texts.iter().filter(|(text, label)| public_log.query(text).unwrap().label != Some(*label)).count()
    };
    let single = wrong(labels(1, Aggregation::Majority, 0.0));
    let majority = wrong(labels(9, Aggregation::Majority, 0.0));
    assert!(majority < single, "{majority} {single}");
    let spread = wrong(labels(9, Aggregation::DawidSkene, 0.3));
    assert!(spread < single, "some annotators of a wide distribution are nearly always right: {spread} {single}");
}
