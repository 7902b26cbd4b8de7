//! The private test set: at its site, noisy score histograms of the classifiers that the lead hands it; at the lead, the
//! results.
//!
//! The lead states the measured rounds in a file of the job, and stores the classifier of each in another. For each of
//! them the site of the test set makes one vector of histograms, as in an `evaluation`, pays for it and sends it. Scores,
//! counts and metrics of its rows leave in no other way, and are in no log. The server's average of the one vector is
//! that vector; the lead computes the result from it.

use std::time::{Duration, Instant};

use undertone_api::dataset::SizeClass;
use undertone_api::job::active_learning::{PRIVATE_TEST, PrivateTest, PrivateTestResult, Spec};

use super::{AnnotationError, log};
use crate::dp::clip::ClippedSum;
use crate::dp::randomness::{Purpose, Randomness};
use crate::queries::classifier::{Classifier, PrivateUnits};
use crate::queries::dataset::Reader;
use crate::run::{Artifacts, Averaging, RoundKey, RoundProgress, RunError, StopReason, check_cancelled};

/// The file with the measured rounds, ascending, as JSON.
pub(super) const ROUNDS_FILE: &str = "measured-rounds.json";
/// The factor between the measured time and the period: another disk cache, another texts' mix, other programs.
const MARGIN: u32 = 4;
/// The number of made-up units that are timed together.
const TIMED_UNITS: usize = 16;

/// Returns the name of the file with the classifier of a measured round.
pub(super) fn classifier_file(round: u32) -> String {
    format!("classifier-round-{round}.safetensors")
}

/// The lead's side: the measured rounds.
pub(super) struct PrivateMeasurement<'a> {
    spec: &'a Spec,
    test: PrivateTest,
    rounds: Vec<u32>,
}

impl<'a> PrivateMeasurement<'a> {
    /// Announces the measured rounds, if the job has a private test set; `last` is the last round.
    ///
    /// # Errors
    /// [`RunError`] when the exchange is stopped.
    pub(super) fn begin(spec: &'a Spec, last: u32, exchange: &mut dyn Artifacts) -> Result<Option<Self>, RunError> {
        let Some(test) = spec.private_test else { return Ok(None) };
        let rounds = test.measured_rounds(last);
        exchange.put_file(ROUNDS_FILE, serde_json::to_vec(&rounds)?)?;
        Ok(Some(Self { spec, test, rounds }))
    }

    /// Returns the result of a round's classifier on the private test set; `None` if the round is not measured.
    ///
    /// # Errors
    /// [`RunError`] when the exchange is stopped, or the released vector has another length.
    pub(super) fn measure(
        &self,
        round: u32,
        classifier: &Classifier,
        exchange: &mut (impl Artifacts + Averaging),
    ) -> Result<Option<PrivateTestResult>, RunError> {
        let Some((number, _)) = (1..).zip(&self.rounds).find(|(_, measured)| **measured == round) else {
            return Ok(None);
        };
        let file = classifier.to_safetensors().map_err(AnnotationError::ClassifierFile)?;
        exchange.put_file(&classifier_file(round), file)?;
        let average = exchange.fetch_average(RoundKey::new(PRIVATE_TEST, number))?;
        let sums: Vec<f64> = average.mean.iter().map(|value| f64::from(*value)).collect();
        Ok(Some(self.test.measure(&self.spec.labels, &sums).map_err(AnnotationError::Histograms)?))
    }
}

/// Runs the part of the private test set, from the point where an earlier process stopped.
///
/// # Errors
/// [`RunError`] when the log cannot be read, the lead sends another classifier, the site does not pay, or the exchange
/// is stopped.
pub(super) fn follow(
    spec: &Spec,
    test: PrivateTest,
    exchange: &mut (impl Artifacts + Averaging),
) -> Result<(), RunError> {
    let size = exchange.participant().units;
    // This precedes any access to the private data.
    exchange.fix_period(&mut || slowest_measurement(spec, test, size))?;
    let rounds: Vec<u32> = serde_json::from_slice(&exchange.fetch_file(ROUNDS_FILE)?)?;
    if rounds.len() > test.measurements as usize {
        return Err(AnnotationError::OtherRounds { rounds: rounds.len(), planned: test.measurements }.into());
    }
    let mut units = None;
    for (number, round) in (1..).zip(rounds) {
        let key = RoundKey::new(PRIVATE_TEST, number);
        match exchange.round_progress(key)? {
            RoundProgress::Accepted => {}
            RoundProgress::Stored => exchange.resend_vector(key)?,
            RoundProgress::Lost => return Err(AnnotationError::LostMeasurement.into()),
            RoundProgress::Untouched => {
                let name = classifier_file(round);
                let classifier = read_classifier(spec, &name, &exchange.fetch_file(&name)?)?;
                // The check opens the window in which the vector leaves at a tick; everything private follows it.
                if exchange.is_closed(key)? {
                    continue;
                }
                let units = match units.take() {
                    Some(known) => units.insert(known),
                    None => units.insert(read_units(spec, exchange)?),
                };
                let sum = sum_units(spec, test, &classifier, units, exchange)?;
                let clearance = exchange.clear(key)?;
                let release = sum.release(1.0, clearance, &exchange.draw_randomness(Purpose::Noise));
                exchange.send_vector(key, release.map_err(AnnotationError::Release)?.into())?;
            }
        }
    }
    Ok(())
}

/// Reads a classifier of the lead, and checks that it is one of this job.
fn read_classifier(spec: &Spec, name: &str, file: &[u8]) -> Result<Classifier, RunError> {
    let classifier = Classifier::from_safetensors(file).map_err(AnnotationError::ClassifierFile)?;
    let labels = spec.labels.iter().map(|label| &label.name);
    if classifier.settings() != &spec.classifier || !classifier.labels().iter().eq(labels) {
        return Err(AnnotationError::OtherClassifier(name.to_owned()).into());
    }
    Ok(classifier)
}

/// Reads the units of the test set.
fn read_units(spec: &Spec, exchange: &dyn Averaging) -> Result<PrivateUnits, RunError> {
    let reader = Reader::open(&exchange.dataset(exchange.participant().dataset)?)?;
    let numbers = log::label_numbers(spec, reader.meta());
    let label = |label: u16| numbers.get(usize::from(label)).copied().flatten();
    let rows = reader.rows(log::measurement_subset(reader.meta()));
    Ok(PrivateUnits::read(rows, label, spec.unit, &spec.classifier)?)
}

/// Returns the clipped sum of the histograms of all units.
fn sum_units(
    spec: &Spec,
    test: PrivateTest,
    classifier: &Classifier,
    units: &PrivateUnits,
    exchange: &mut dyn Averaging,
) -> Result<ClippedSum, RunError> {
    check_cancelled(exchange)?;
    let randomness = exchange.draw_randomness(Purpose::Sampling);
    let watch = || !exchange.is_stopped();
    let sum = classifier.sum_histograms(units, &test.histograms(&spec.labels), &randomness, &watch);
    if let Some(sum) = sum.map_err(AnnotationError::Clip)? {
        return Ok(sum);
    }
    Err(RunError::Stopped(StopReason::Requested))
}

/// Returns the time that covers reading the test set and one measurement, from made-up units of the greatest length: as
/// many as its size class can have.
fn slowest_measurement(spec: &Spec, test: PrivateTest, units: u64) -> Result<Duration, RunError> {
    let labels: Vec<String> = spec.labels.iter().map(|label| label.name.clone()).collect();
    let classifier = Classifier::begin(&spec.classifier, &labels, spec.seed)?;
    let most = SizeClass::from_count(units).most().max(1) as f64;
    let began = Instant::now();
    drop(PrivateUnits::synthetic(1, spec.unit, &spec.classifier));
    let hashing = began.elapsed().as_secs_f64() * most;
    let made_up = PrivateUnits::synthetic(TIMED_UNITS, spec.unit, &spec.classifier);
    let release = test.histograms(&spec.labels);
    let mut passing = 0.0;
    // The first pass allocates.
    for _ in 0..2 {
        let began = Instant::now();
        let sum = classifier.sum_histograms(&made_up, &release, &Randomness::from_os(Purpose::Sampling), &|| true);
        if let Some(sum) = sum.map_err(AnnotationError::Clip)? {
            sum.discard_noise(&Randomness::from_os(Purpose::Noise));
        }
        passing = began.elapsed().as_secs_f64();
    }
    let all = hashing + passing * (most / TIMED_UNITS as f64).max(1.0);
    Ok(Duration::try_from_secs_f64(all * f64::from(MARGIN)).unwrap_or(Duration::MAX))
}
