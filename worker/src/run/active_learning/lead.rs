//! The part of the first participant: rounds of training, choosing, answers and measurements. Its log is public, or
//! [`PrivateTrainer`] trains on it.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};

use undertone_api::job::Report as AnyReport;
use undertone_api::job::active_learning::{
    CLASSIFIER_FILE, Gate, LearningPoint, Party, RehearsalResult, Report, Spec, UncertaintyHistogram, best_round,
};
use undertone_api::signed::Manifest;

use super::journal::{LeadJournal, RoundRecord};
use super::learning::LearningState;
use super::output::{self, LABELS_FILE, POOL_FILE};
use super::private::PrivateTrainer;
use super::private_test::PrivateMeasurement;
use super::test_sets::{QueryTestSets, content_of, report_tests};
use super::{AnnotationError, log};
use crate::queries::classifier::{Classifier, Example, golden};
use crate::queries::dataset::{Reader, Subset};
use crate::queries::rehearsal::{GateSieve, LearnerSettings, PublicLog, PublicQuery, RehearsalPlan, rehearse};
use crate::queries::released::Released;
use crate::run::{Artifacts, Averaging, Questions, RunError, check_cancelled};
use crate::site::clearance::PublicProof;

/// The results of the rounds.
#[derive(Default)]
struct LearningHistory {
    learning: Vec<LearningPoint>,
    uncertainty: Vec<UncertaintyHistogram>,
    /// The classifier of the best round so far.
    best: Option<Classifier>,
}

impl LearningHistory {
    /// Adds the point of a round, and keeps the classifier if it is the best so far. A resumed lead trains it again from
    /// the same labels.
    fn add(&mut self, point: LearningPoint, learning: &mut LearningState<'_>) -> Result<(), RunError> {
        self.learning.push(point);
        if best_round(&self.learning) == self.learning.last().map(|point| point.round) {
            self.best = Some(learning.classifier()?.clone());
        }
        Ok(())
    }
}

/// Leads the job, from the point where an earlier process stopped.
///
/// # Errors
/// [`RunError`] when the site's data cannot be read, or are neither public nor charged, training is impossible, or the
/// exchange is stopped.
pub(super) fn lead(spec: &Spec, exchange: &mut (impl Questions + Artifacts + Averaging)) -> Result<(), RunError> {
    let dataset = exchange.participant().dataset;
    match spec.private_training(dataset) {
        Some(training) => lead_privately(spec, PrivateTrainer::begin(spec, training, exchange)?, exchange),
        None => lead_publicly(spec, exchange),
    }
}

/// Leads with a public log: a golden set, and a rehearsal if the job has one.
fn lead_publicly(spec: &Spec, exchange: &mut (impl Questions + Artifacts + Averaging)) -> Result<(), RunError> {
    let dataset = exchange.participant().dataset;
    let published = exchange.confirm_public(dataset)?;
    let reader = Reader::open(&exchange.dataset(dataset)?)?;
    let tests = QueryTestSets::open(spec, exchange)?;
    let names = spec.labels.iter().map(|label| label.name.clone()).collect();
    let rows = log::read_rows(&reader, Subset::Train, spec);
    let public_log = PublicLog::new(&published, names, rows, tests.first_rows().map(Ok))?;
    let golden = draw_golden_set(spec, &public_log)?;
    let questions = exchange.fetch_pools()?;
    let journal = LeadJournal::new(exchange.folder().to_owned());
    let mut learning = LearningState::new(spec, golden, &questions);
    let history = run_rounds(spec, &mut learning, None, &journal, &tests, exchange)?;
    let rehearsal = LogRehearsal { spec, public_log: &public_log, published: &published, reader: &reader };
    let report = Report {
        rehearsal: rehearsal.run(&journal, exchange)?,
        frequency: output::count_frequencies(&questions, public_log.queries().map(|query| query.count)),
        contents: tests.contents(Some(content_of(dataset, &reader))),
        ..Report::default()
    };
    finish(spec, history, &learning, &questions, report, exchange)
}

/// Leads with a private log. The log is read by the trainer alone. All else follows from its releases, from released
/// questions, answers and public test sets.
fn lead_privately(
    spec: &Spec,
    mut trainer: PrivateTrainer<'_>,
    exchange: &mut (impl Questions + Artifacts + Averaging),
) -> Result<(), RunError> {
    let tests = QueryTestSets::open(spec, exchange)?;
    let questions = exchange.fetch_pools()?;
    let journal = LeadJournal::new(exchange.folder().to_owned());
    let mut learning = LearningState::new(spec, Vec::new(), &questions);
    let history = run_rounds(spec, &mut learning, Some(&mut trainer), &journal, &tests, exchange)?;
    let report = Report {
        frequency: output::count_frequencies(&questions, std::iter::empty()),
        contents: tests.contents(None),
        ..Report::default()
    };
    finish(spec, history, &learning, &questions, report, exchange)
}

/// Hands in the files, and the report with the results of the rounds.
fn finish(
    spec: &Spec,
    history: LearningHistory,
    learning: &LearningState<'_>,
    questions: &[Released],
    report: Report,
    exchange: &mut (impl Questions + Artifacts),
) -> Result<(), RunError> {
    let best = history.best.ok_or(AnnotationError::NoClassifier)?;
    exchange.put_file(CLASSIFIER_FILE, best.to_safetensors().map_err(AnnotationError::ClassifierFile)?)?;
    exchange.put_file(LABELS_FILE, output::write_labels(learning)?)?;
    exchange.put_file(POOL_FILE, output::write_pool(questions)?)?;
    let pools = output::pool_results(spec, exchange.manifest(), questions)?;
    exchange.submit_report(AnyReport::ActiveLearning(Report {
        pools,
        best: best_round(&history.learning),
        learning: history.learning,
        uncertainty: history.uncertainty,
        annotators: learning.annotators(),
        agreement: learning.agreement(),
        ..report
    }))
}

/// Returns the lead's own labelled examples with which the classifier begins.
fn draw_golden_set<'a>(spec: &Spec, public_log: &'a PublicLog<'_>) -> Result<Vec<Example<'a>>, AnnotationError> {
    let labelled: Vec<(&PublicQuery, u16)> =
        public_log.queries().filter_map(|query| Some((query, query.label?))).collect();
    if labelled.is_empty() {
        return Err(AnnotationError::NoGoldenSet);
    }
    let labels: Vec<u16> = labelled.iter().map(|(_, label)| *label).collect();
    let indices = golden::draw(&labels, spec.golden as usize, spec.seed);
    let example = |index: usize| Example::new(public_log.visible(&labelled[index].0.text), labels[index]);
    Ok(indices.into_iter().map(example).collect())
}

/// Runs all rounds; fewer than requested when the pools have no more questions.
fn run_rounds(
    spec: &Spec,
    learning: &mut LearningState<'_>,
    mut trainer: Option<&mut PrivateTrainer<'_>>,
    journal: &LeadJournal,
    tests: &QueryTestSets,
    exchange: &mut (impl Questions + Artifacts + Averaging),
) -> Result<LearningHistory, RunError> {
    let mut history = LearningHistory::default();
    let private_test = PrivateMeasurement::begin(spec, learning.last_round(), exchange)?;
    for round in 0..=spec.rounds {
        check_cancelled(exchange)?;
        let mut record = journal.round(round);
        if round > 0 {
            if !run_round(round, &mut record, learning, journal, exchange)? {
                tracing::info!(round, "every question of the pools was asked; the rounds end here");
                break;
            }
            let (bins, confidence) = (record.bins.clone(), record.confidence.clone());
            history.uncertainty.push(UncertaintyHistogram { round, bins, confidence });
        }
        if let Some(trainer) = &mut trainer {
            learning.set_classifier(trainer.train(round, &learning.start()?, exchange)?);
        }
        let results = if let Some(results) = record.tests.take() {
            results
        } else {
            let results = tests.measure(learning.classifier()?, exchange)?;
            report_tests(round, &results, exchange)?;
            record.tests = Some(results.clone());
            journal.store_round(round, &record)?;
            results
        };
        let private_test = match &private_test {
            Some(test) => test.measure(round, learning.classifier()?, exchange)?,
            None => None,
        };
        let asked = learning.question_count();
        let labelled = learning.labelled_questions().count() as u64;
        history.add(LearningPoint { round, asked, labelled, tests: results, private_test }, learning)?;
    }
    Ok(history)
}

/// Runs one round of questions, up to its labels. Returns false when no question remains.
fn run_round(
    round: u32,
    record: &mut RoundRecord,
    learning: &mut LearningState<'_>,
    journal: &LeadJournal,
    exchange: &mut dyn Questions,
) -> Result<bool, RunError> {
    if record.chosen.is_empty() {
        let ranking = learning.rank_questions()?;
        record.chosen = ranking.chosen;
        record.bins = ranking.bins;
        record.confidence = ranking.confidence;
        if record.chosen.is_empty() {
            return Ok(false);
        }
        // The record is written before the annotators see the choice: another process chooses the same.
        journal.store_round(round, record)?;
    }
    learning.record_questions(&record.chosen)?;
    if record.answers.is_none() {
        exchange.choose_questions(round, &record.chosen)?;
        record.answers = Some(exchange.fetch_answers(round)?);
        journal.store_round(round, record)?;
    }
    learning.add_answers(record.answers.as_deref().unwrap_or_default());
    Ok(true)
}

/// The rehearsal of a job on the lead's public log, if the job has one.
struct LogRehearsal<'a> {
    spec: &'a Spec,
    public_log: &'a PublicLog<'a>,
    published: &'a PublicProof,
    reader: &'a Reader,
}

impl LogRehearsal<'_> {
    /// Returns its results; none without a rehearsal. It comes last: no annotator waits for it.
    fn run(&self, journal: &LeadJournal, exchange: &dyn Questions) -> Result<Vec<RehearsalResult>, RunError> {
        let Some(rehearsal) = &self.spec.rehearsal else { return Ok(Vec::new()) };
        if let Some(results) = journal.rehearsal() {
            return Ok(results);
        }
        let learner = LearnerSettings {
            settings: self.spec.classifier,
            acquisition: self.spec.acquisition,
            diversity: self.spec.diversity,
            batch: self.spec.batch,
            golden: self.spec.golden,
            annotators: self.spec.annotators,
            aggregation: self.spec.aggregation,
            seed: self.spec.seed,
        };
        let gate = model_gate(self.spec, exchange.manifest());
        let counting = exchange.query_settings();
        // Trials run on many threads, and only this one may use the exchange; it begins each sample.
        let is_stopped = AtomicBool::new(false);
        let mut sieve = GateSieve {
            rows: || {
                is_stopped.fetch_or(exchange.is_stopped(), Ordering::Relaxed);
                self.reader.rows(Subset::Train)
            },
            occurrences: self.reader.meta().train.occurrences,
            published: self.published,
            unit: self.spec.unit,
            rows_per_unit: gate.map_or(NonZeroU32::MIN, |gate| gate.rows_per_unit),
            queries: &counting,
            work: exchange.folder(),
        };
        let plan = RehearsalPlan { rehearsal, gate: gate.as_ref(), learner: &learner };
        let watch = |done: u64, all: u64| {
            tracing::debug!(done, all, "trials of the rehearsal finished");
            !is_stopped.load(Ordering::Relaxed)
        };
        let results = rehearse(self.public_log, plan, &mut sieve, &watch).map_err(AnnotationError::Rehearsal)?;
        journal.store_rehearsal(&results)?;
        Ok(results)
    }
}

/// Returns the first gate with a charge, as the rehearsal's model for ε and released counts; without one, the first
/// gate.
fn model_gate(spec: &Spec, manifest: &Manifest) -> Option<Gate> {
    let is_charged = |party: &&Party| {
        manifest.participants.iter().any(|entry| entry.dataset == party.dataset && entry.charge.is_some())
    };
    let parties = || spec.participants.iter().filter(|party| party.gate.is_some());
    parties().find(is_charged).or_else(|| parties().next()).and_then(|party| party.gate)
}
