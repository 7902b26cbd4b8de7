//! The cost of privacy for a classifier of real queries: accuracy against (β, k), labels against (β, k), accuracy
//! against labels; and the gain of uncertainty over random selection at equal labels.
//!
//! The log consists of the training sessions of `data/intents/sgd_turns.csv` (text, intent, session), treated as
//! private. The test set consists of the turns of its test sessions. Every pool comes from the product's own gate.
//! Simulated annotators are right with a stated probability, with several seeds. For each pair of β and k, the report
//! contains δ at ε = 1 for the set of texts, and the pool.
//!
//! Environment variables set the sizes, so that a smoke run is small: `UNDERTONE_LEARNING_RATES` (0.1,0.25,0.5,0.75),
//! `UNDERTONE_LEARNING_THRESHOLDS` (5,10,20,50), `UNDERTONE_LEARNING_QUESTIONS` (400), `UNDERTONE_LEARNING_BATCH` (50),
//! `UNDERTONE_LEARNING_GOLDEN` (130), `UNDERTONE_LEARNING_REPEATS` (3), `UNDERTONE_LEARNING_ACCURACY` (0.95, of the
//! annotator), `UNDERTONE_LEARNING_DEVIATION` (0, of that accuracy between the repeats), `UNDERTONE_LEARNING_ROWS` (all
//! rows of the log, or so many of the first).

mod log;
mod speed;

use std::collections::BTreeMap;
use std::error::Error;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Instant;

use serde_json::{Value, json};
use undertone_api::job::active_learning::{
    Acquisition, Aggregation, Classifier as Settings, Gate, Rehearsal, RehearsalResult,
};
use undertone_privacy::kanon::Shown as Manner;
use undertone_privacy::{Epsilon, PrivacyUnit, SamplingRate};
use undertone_worker::config::queries::Queries;
use undertone_worker::queries::rehearsal::{
    GateSieve, GateTrial, LearnerSettings, LearningCurve, PublicLog, RehearsalError, RehearsalPlan, TrialOutput,
    TrialSettings, frequencies, rehearse,
};

use crate::report::{Outcome, Report};
use log::SessionLog;

/// The ε at which δ is computed.
const EPSILON: f64 = 1.0;
/// The seed of everything that is not repeated with seeds of its own.
const SEED: u64 = 20_261_121;
/// The pair (β, k) on whose pools acquisition functions are compared, in addition to the whole log.
const COMPARED: (f64, u32) = (0.5, 5);

/// The requested sizes.
struct RequestedSizes {
    rehearsal: Rehearsal,
    batch: u32,
    golden: u32,
    rows: Option<usize>,
}

impl RequestedSizes {
    fn from_environment() -> Result<Self, Box<dyn Error>> {
        Ok(Self {
            rehearsal: Rehearsal {
                rates: list("UNDERTONE_LEARNING_RATES", "0.1,0.25,0.5,0.75")?,
                thresholds: list("UNDERTONE_LEARNING_THRESHOLDS", "5,10,20,50")?,
                questions: one("UNDERTONE_LEARNING_QUESTIONS", "400")?,
                repeats: one("UNDERTONE_LEARNING_REPEATS", "3")?,
                annotator_accuracy: one("UNDERTONE_LEARNING_ACCURACY", "0.95")?,
                annotator_deviation: one("UNDERTONE_LEARNING_DEVIATION", "0")?,
            },
            batch: one("UNDERTONE_LEARNING_BATCH", "50")?,
            golden: one("UNDERTONE_LEARNING_GOLDEN", "130")?,
            rows: std::env::var("UNDERTONE_LEARNING_ROWS").ok().map(|rows| rows.parse()).transpose()?,
        })
    }

    fn learner(&self, acquisition: Acquisition, diversity: bool) -> LearnerSettings {
        let (batch, golden) = (self.batch, self.golden);
        LearnerSettings {
            settings: Settings::default(),
            acquisition,
            diversity,
            batch,
            golden,
            annotators: 1,
            aggregation: Aggregation::Majority,
            seed: SEED,
        }
    }
}

fn list<T: FromStr<Err: Error + 'static>>(name: &str, otherwise: &str) -> Result<Vec<T>, Box<dyn Error>> {
    let text = std::env::var(name).unwrap_or_else(|_| otherwise.to_owned());
    Ok(text.split(',').map(|part| part.trim().parse()).collect::<Result<_, _>>()?)
}

fn one<T: FromStr<Err: Error + 'static>>(name: &str, otherwise: &str) -> Result<T, Box<dyn Error>> {
    list(name, otherwise)?.pop().ok_or_else(|| format!("{name} is empty").into())
}

pub(crate) fn run(report: &mut Report) -> Outcome {
    undertone_worker::memory::keep_large_blocks();
    let sizes = RequestedSizes::from_environment()?;
    let began = Instant::now();
    let log = SessionLog::read(sizes.rows)?;
    let work = tempfile::tempdir()?;
    let published = log::published(work.path())?;
    let ground = log.ground(&published);
    report.line(json!({
        "data": "sgd_turns.csv", "rows": log.rows.len(), "queries": ground.queries().count(), "labels": log.labels.len(),
        "test_rows": log.tests.len(), "test_queries": ground.tests().len(),
        "queries_by_occurrences": frequencies(ground.queries().map(|query| query.count)),
        "classifier": sizes.learner(Acquisition::Entropy, true).settings, "golden": sizes.golden, "batch": sizes.batch,
        "rehearsal": sizes.rehearsal, "delta_at_epsilon": EPSILON, "shown": "set", "seconds": seconds(began),
    }))?;
    speed::run(report, &ground, &sizes.learner(Acquisition::Entropy, true))?;

    let queries = Queries::default();
    let mut sieve = GateSieve {
        rows: || log.rows.iter().cloned().map(Ok::<_, std::convert::Infallible>),
        occurrences: log.rows.len() as u64,
        published: &published,
        unit: PrivacyUnit::Record,
        rows_per_unit: NonZeroU32::MIN,
        queries: &queries,
        work: work.path(),
    };
    pairs(report, &sizes, &ground, &mut sieve)?;
    acquisitions(report, &sizes, &ground, &mut sieve)?;
    report.line(json!({ "finished": true, "seconds": seconds(began) }))
}

/// Reports the three figures for all pairs.
fn pairs(report: &mut Report, sizes: &RequestedSizes, ground: &PublicLog<'_>, sieve: &mut dyn GateTrial) -> Outcome {
    let began = Instant::now();
    let gate = Gate {
        sampling_rate: SamplingRate::ONE,
        threshold: NonZeroU32::MIN,
        epsilon: Epsilon::new(EPSILON)?,
        shown: Manner::Set,
        rows_per_unit: NonZeroU32::MIN,
    };
    let learner = sizes.learner(Acquisition::Entropy, true);
    let plan = RehearsalPlan { rehearsal: &sizes.rehearsal, gate: Some(&gate), learner: &learner };
    let rehearsal = rehearse(ground, plan, sieve, &|_, _| true)?;
    let comparison = rehearsal.iter().find(|pair| pair.baseline).and_then(last);
    for pair in &rehearsal {
        report.line(line(pair, comparison))?;
    }
    let violations: u64 = rehearsal.iter().map(|pair| pair.violations).sum();
    report.line(json!({ "pairs": rehearsal.len(), "violations": violations, "seconds": seconds(began) }))?;
    if violations > 0 {
        return Err(format!("{violations} queries were shown that have fewer than k kept rows").into());
    }
    Ok(())
}

fn last(pair: &RehearsalResult) -> Option<f64> {
    pair.points.last().map(|point| point.accuracy)
}

fn line(pair: &RehearsalResult, comparison: Option<f64>) -> Value {
    let first = pair.points.first().map(|point| point.accuracy);
    // Half of the gain of all questions of the unprotected log over the golden set: the labels that a pool needs for
    // it.
    let goal = first.zip(comparison).map(|(first, comparison)| f64::midpoint(first, comparison));
    let reached = pair.points.iter().find(|point| goal.is_some_and(|goal| point.accuracy >= goal));
    json!({
        "figure": "pair", "sampling_rate": pair.sampling_rate, "threshold": pair.threshold, "comparison": pair.baseline,
        "pool": pair.pool, "violations": pair.violations, "epsilon": EPSILON, "delta": pair.delta,
        "labels": pair.points.last().map(|point| point.labelled), "accuracy": last(pair),
        "deviation": pair.points.last().map(|point| point.deviation),
        "below_comparison": comparison.zip(last(pair)).map(|(comparison, own)| comparison - own),
        "labels_for_half_the_gain": reached.map(|point| point.labelled),
        "curve": pair.points.iter().map(|point| json!([point.labelled, point.accuracy, point.deviation])).collect::<Vec<_>>(),
    })
}

/// Compares uncertainty, disagreement and random selection at equal labels, on the whole log and on one pool.
fn acquisitions(
    report: &mut Report,
    sizes: &RequestedSizes,
    ground: &PublicLog<'_>,
    sieve: &mut dyn GateTrial,
) -> Outcome {
    let Rehearsal { questions, repeats, annotator_accuracy: accuracy, annotator_deviation: deviation, .. } =
        sizes.rehearsal;
    for (rate, threshold) in [(1.0, 1), COMPARED] {
        let (rate, least) = (SamplingRate::new(rate)?, NonZeroU32::new(threshold).ok_or("a threshold of 0")?);
        let pools = (0..repeats)
            .map(|repeat| sieve.run(rate, least, SEED ^ u64::from(repeat)))
            .collect::<Result<Vec<_>, _>>()?;
        let mut ends = BTreeMap::new();
        for (name, acquisition, diversity) in [
            ("random", Acquisition::Random, false),
            ("entropy", Acquisition::Entropy, false),
            ("entropy, diverse", Acquisition::Entropy, true),
            ("least confidence", Acquisition::LeastConfidence, false),
            ("margin", Acquisition::Margin, false),
            ("bald", Acquisition::Bald, false),
            ("bald, diverse", Acquisition::Bald, true),
        ] {
            let (began, learner) = (Instant::now(), sizes.learner(acquisition, diversity));
            let one = |repeat: u32, pool: &TrialOutput| {
                let trial = TrialSettings { questions, accuracy, deviation, repeat };
                let mut curve = LearningCurve::begin(ground, &learner, trial)?;
                curve.extend(ground, &learner, &pool.texts)?;
                Ok::<_, RehearsalError>(curve.points().to_vec())
            };
            let one = &one;
            let curves = std::thread::scope(|scope| {
                let trials: Vec<_> =
                    (0..repeats).zip(&pools).map(|(repeat, pool)| scope.spawn(move || one(repeat, pool))).collect();
                trials
                    .into_iter()
                    .map(|trial| trial.join().map_err(|_| "a trial panicked"))
                    .collect::<Result<Vec<_>, _>>()
            })?;
            let curves = curves.into_iter().collect::<Result<Vec<_>, _>>()?;
            let curve = mean(&curves);
            ends.insert(name, curve.last().map(|(_, accuracy, _)| *accuracy));
            report.line(json!({
                "figure": "acquisition", "acquisition": name, "sampling_rate": rate.get(), "threshold": threshold,
                "pool": pools.iter().map(|pool| pool.texts.len()).sum::<usize>() / pools.len().max(1), "curve": curve,
                "seconds": seconds(began),
            }))?;
        }
        report.line(json!({
            "figure": "acquisitions", "sampling_rate": rate.get(), "threshold": threshold, "questions": questions,
            "accuracy": ends,
        }))?;
    }
    Ok(())
}

/// Returns (labels, mean accuracy, standard deviation), up to the length of the shortest curve.
fn mean(curves: &[Vec<(u64, f64)>]) -> Vec<(u64, f64, f64)> {
    let count = curves.len() as f64;
    let length = curves.iter().map(Vec::len).min().unwrap_or(0);
    let at = |index: usize| {
        let labels = curves.iter().map(|curve| curve[index].0 as f64).sum::<f64>() / count;
        let mean = curves.iter().map(|curve| curve[index].1).sum::<f64>() / count;
        let squares = curves.iter().map(|curve| (curve[index].1 - mean).powi(2)).sum::<f64>();
        (labels.round() as u64, mean, if count > 1.0 { (squares / (count - 1.0)).sqrt() } else { 0.0 })
    };
    (0..length).map(at).collect()
}

fn seconds(since: Instant) -> f64 {
    (since.elapsed().as_secs_f64() * 1000.0).round() / 1000.0
}
