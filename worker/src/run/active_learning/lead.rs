//! The part of the first participant, with public data: rounds of training, choosing, answers and measurements.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};

use undertone_api::job::Report as AnyReport;
use undertone_api::job::active_learning::{
    Gate, LearningPoint, Party, RehearsalResult, Report, Spec, UncertaintyHistogram,
};
use undertone_api::signed::Manifest;

use super::exam::{Exam, content, tell};
use super::journal::{Journal, Page};
use super::learning::{Learning, Ranked};
use super::telling::{self, CLASSIFIER_FILE, LABELS_FILE, POOL_FILE};
use super::{failed, go_on, log};
use crate::queries::classifier::{Example, golden};
use crate::queries::dataset::{Reader, Subset};
use crate::queries::rehearsal::{
    GateSieve, LearnerSettings, PublicLog, PublicQuery, RehearsalError, RehearsalPlan, rehearse,
};
use crate::run::{Exchange, RunError};
use crate::site::clearance::PublicProof;

/// The results of the rounds.
#[derive(Default)]
struct Rounds {
    learning: Vec<LearningPoint>,
    uncertainty: Vec<UncertaintyHistogram>,
}

/// Leads the job, from the point where an earlier process stopped.
///
/// # Errors
/// [`RunError`] when the site's data cannot be read or are not public, training is impossible, or the exchange is
/// stopped.
pub(super) fn lead(spec: &Spec, exchange: &mut dyn Exchange) -> Result<(), RunError> {
    let dataset = exchange.own().dataset;
    let published = exchange.published(dataset)?;
    let reader = Reader::open(&exchange.dataset(dataset)?)?;
    let exam = Exam::open(spec, exchange)?;
    let names = spec.labels.iter().map(|label| label.name.clone()).collect();
    let rows = log::rows(&reader, Subset::Train, spec);
    let ground = PublicLog::new(&published, names, rows, exam.first().map(Ok))?;
    let golden = golden(spec, &ground)?;
    let released = exchange.asked()?;
    let journal = Journal::new(exchange.folder().to_owned());
    let mut learning = Learning::new(spec, golden, &released);
    let rounds = rounds(spec, &mut learning, &journal, &exam, exchange)?;
    let rehearsal = rehearsed(spec, &ground, &published, &reader, &journal, exchange)?;

    exchange.put(CLASSIFIER_FILE, learning.classifier()?.to_safetensors().map_err(failed)?)?;
    exchange.put(LABELS_FILE, telling::labels(&learning)?)?;
    exchange.put(POOL_FILE, telling::pool(&released)?)?;
    let pools = telling::pools(spec, exchange.manifest(), &released)?;
    exchange.report(AnyReport::ActiveLearning(Report {
        pools,
        learning: rounds.learning,
        uncertainty: rounds.uncertainty,
        frequency: telling::frequency(&released, ground.queries().map(|query| query.count)),
        rehearsal,
        annotators: learning.annotators(),
        agreement: learning.agreement(),
        contents: exam.contents(content(dataset, &reader)),
    }))
}

/// Returns the lead's own labelled examples with which the classifier begins.
fn golden<'a>(spec: &Spec, ground: &'a PublicLog<'_>) -> Result<Vec<Example<'a>>, RunError> {
    let labelled: Vec<(&PublicQuery, u16)> = ground.queries().filter_map(|query| Some((query, query.label?))).collect();
    if labelled.is_empty() {
        return Err(failed("the lead's log has no row with a label of the job: name its labels in `labels`"));
    }
    let labels: Vec<u16> = labelled.iter().map(|(_, label)| *label).collect();
    let chosen = golden::draw(&labels, spec.golden as usize, spec.seed);
    Ok(chosen.into_iter().map(|index| Example::new(ground.visible(&labelled[index].0.text), labels[index])).collect())
}

/// Runs all rounds; fewer than requested when the pools have no more questions.
fn rounds(
    spec: &Spec,
    learning: &mut Learning<'_>,
    journal: &Journal,
    exam: &Exam,
    exchange: &mut dyn Exchange,
) -> Result<Rounds, RunError> {
    let mut told = Rounds::default();
    for round in 0..=spec.rounds {
        go_on(exchange)?;
        let mut page = journal.page(round);
        if round > 0 {
            if !teach(round, &mut page, learning, journal, exchange)? {
                tracing::info!(round, "every question of the pools was asked; the rounds end here");
                break;
            }
            told.uncertainty.push(UncertaintyHistogram { round, bins: page.bins.clone() });
        }
        let tests = if let Some(tests) = page.tests.take() {
            tests
        } else {
            let tests = exam.measure(learning.classifier()?, exchange)?;
            tell(round, &tests, exchange)?;
            page.tests = Some(tests.clone());
            journal.keep(round, &page)?;
            tests
        };
        let (asked, labelled) = (learning.asked(), learning.labelled().count() as u64);
        told.learning.push(LearningPoint { round, asked, labelled, tests });
    }
    Ok(told)
}

/// Runs one round of questions, up to its labels. Returns false when no question remains.
fn teach(
    round: u32,
    page: &mut Page,
    learning: &mut Learning<'_>,
    journal: &Journal,
    exchange: &mut dyn Exchange,
) -> Result<bool, RunError> {
    if page.chosen.is_empty() {
        let Ranked { chosen, bins } = learning.choose()?;
        (page.chosen, page.bins) = (chosen, bins);
        if page.chosen.is_empty() {
            return Ok(false);
        }
        // The page is written before the annotators see the choice: another process chooses the same.
        journal.keep(round, page)?;
    }
    learning.ask(&page.chosen)?;
    if page.answers.is_none() {
        exchange.choose(round, &page.chosen)?;
        page.answers = Some(exchange.answers(round)?);
        journal.keep(round, page)?;
    }
    learning.hear(page.answers.as_deref().unwrap_or_default());
    Ok(true)
}

/// Returns the results of the rehearsal, if the job has one. It comes last: no annotator waits for it.
fn rehearsed(
    spec: &Spec,
    ground: &PublicLog<'_>,
    published: &PublicProof,
    reader: &Reader,
    journal: &Journal,
    exchange: &dyn Exchange,
) -> Result<Vec<RehearsalResult>, RunError> {
    let Some(rehearsal) = &spec.rehearsal else { return Ok(Vec::new()) };
    if let Some(found) = journal.rehearsed() {
        return Ok(found);
    }
    let learner = LearnerSettings {
        settings: spec.classifier,
        acquisition: spec.acquisition,
        diversity: spec.diversity,
        batch: spec.batch,
        golden: spec.golden,
        seed: spec.seed,
    };
    let gate = charged(spec, exchange.manifest());
    let counting = exchange.counting();
    // Trials run on many threads, and only this one may use the exchange; it begins each sample.
    let stopped = AtomicBool::new(false);
    let mut sieve = GateSieve {
        rows: || {
            stopped.fetch_or(exchange.stopped(), Ordering::Relaxed);
            reader.rows(Subset::Train)
        },
        occurrences: reader.meta().train.occurrences,
        published,
        unit: spec.unit,
        rows_per_unit: gate.map_or(NonZeroU32::MIN, |gate| gate.rows_per_unit),
        queries: &counting,
        work: exchange.folder(),
    };
    let plan = RehearsalPlan { rehearsal, gate: gate.as_ref(), learner: &learner };
    let watch = |done: u64, all: u64| {
        tracing::debug!(done, all, "rehearsed");
        !stopped.load(Ordering::Relaxed)
    };
    let found = rehearse(ground, plan, &mut sieve, &watch).map_err(|error| match error {
        RehearsalError::Stopped => RunError::Stopped("the worker was asked to stop".to_owned()),
        other => RunError::from_failure(other),
    })?;
    journal.keep_rehearsed(&found)?;
    Ok(found)
}

/// Returns the first gate with a charge, as the rehearsal's model for ε and released counts; without one, the first
/// gate.
fn charged(spec: &Spec, manifest: &Manifest) -> Option<Gate> {
    let pays = |party: &&Party| {
        manifest.participants.iter().any(|named| named.dataset == party.dataset && named.charge.is_some())
    };
    let all = || spec.participants.iter().filter(|party| party.gate.is_some());
    all().find(pays).or_else(|| all().next()).and_then(|party| party.gate)
}
