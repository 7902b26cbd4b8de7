//! `evaluation` at a site: a model, a test set, one vector of noisy histograms.
//!
//! The lead finds the model by its digest, sends zeros as its vector (only contributors receive the average), and then
//! provides the model. Each other participant checks the model's digest and its fit, scores its test set (speech, or the
//! rows of a table with at most the model's rows of each unit), and releases
//! one vector. The lead computes the report from the average. Scores, counts and metrics of private data leave in no
//! other way, and are in no log.

mod columns;
mod error;
mod evaluated;
pub mod local;
mod model_file;
pub mod queries;
pub mod rows;

use std::path::Path;
use std::time::{Duration, Instant};

use undertone_api::dataset::SizeClass;
use undertone_api::job::Report as AnyReport;
use undertone_api::job::dp_sgd::{RowColumns, TrainingLoss};
use undertone_api::job::evaluation::{HISTOGRAMS, Spec};

use crate::dp::class_logits::ClassLogits;
use crate::dp::histograms::HistogramSum;
use crate::dp::randomness::Purpose;
use crate::dp::release::Outgoing;
use crate::run::{Artifacts, Averaging, RoundKey, RoundProgress, RunError, check_cancelled};
use crate::speech::dataset::{Dataset, Split};
use crate::speech::model::gradient::{Engine, Example, Unit};
use crate::tables::dataset::TableReader;
use crate::tables::rows::LabelledRows;

pub use columns::read_columns;
pub use error::EvaluationError;
use evaluated::EvaluatedModel;
pub(super) use model_file::find_model;
pub use model_file::{check_dataset, digest_file, locate_model, read_any_model, read_model, read_site_model};

/// The artifact with the evaluated model.
const MODEL: &str = "model.safetensors";
/// The one round of the job.
const ROUND: RoundKey<'static> = RoundKey::new(HISTOGRAMS, 1);
/// The number of frames of the timed example.
const TIMED_FRAMES: usize = 1_000;
/// The factor between the measured time and the period of the release clock.
const MARGIN: f64 = 2.0;

/// Runs a job to its end, from the point where an earlier process stopped.
///
/// # Errors
/// [`RunError`] when it ends without a result.
pub fn run(spec: &Spec, exchange: &mut (impl Averaging + Artifacts)) -> Result<(), RunError> {
    let own = exchange.participant();
    if !spec.is_participant(own.dataset) {
        return Err(EvaluationError::NotParticipant(own.dataset_name.clone()).into());
    }
    if spec.is_lead(own.dataset) { lead(spec, exchange) } else { follow(spec, exchange) }
}

/// Runs the part of the first participant, which has no private data.
fn lead(spec: &Spec, exchange: &mut (impl Averaging + Artifacts)) -> Result<(), RunError> {
    let folder = exchange.models().ok_or(EvaluationError::NoModels)?;
    let file = model_file::find_model(&folder, &spec.model)?;
    read_evaluated(spec, &file)?;
    // The sites begin when they have the model, so the zeros are in every average.
    if exchange.round_progress(ROUND)? == RoundProgress::Untouched {
        let clearance = exchange.clear(ROUND)?;
        let zeros = vec![0.0; spec.histograms().layout().length()];
        let vector = Outgoing::exact(zeros, clearance).map_err(EvaluationError::Release)?;
        exchange.send_vector(ROUND, vector)?;
    } else if exchange.round_progress(ROUND)? == RoundProgress::Stored {
        exchange.resend_vector(ROUND)?;
    }
    exchange.put_file(MODEL, file)?;
    let average = exchange.fetch_average(ROUND)?;
    let sites = average.contributors.saturating_sub(1);
    if sites == 0 {
        return Err(EvaluationError::NoSites.into());
    }
    let sums: Vec<f64> = average.mean.iter().map(|mean| f64::from(*mean) * f64::from(average.contributors)).collect();
    let report = spec.report(&sums, sites).map_err(EvaluationError::Average)?;
    exchange.submit_report(AnyReport::Evaluation(report))
}

/// Runs the part of a site whose test set is evaluated.
fn follow(spec: &Spec, exchange: &mut (impl Averaging + Artifacts)) -> Result<(), RunError> {
    let file = exchange.fetch_file(MODEL)?;
    let digest = model_file::digest_file(&file);
    if digest != spec.model {
        return Err(EvaluationError::OtherModel { digest, expected: spec.model.clone() }.into());
    }
    let model = read_evaluated(spec, &file)?;
    let own = exchange.participant();
    let id = own.dataset;
    let name = own.dataset_name.clone();
    let size = own.units;
    // Public limits both, so that the time is one of public facts.
    let longest = match model.columns() {
        Some(columns) => columns.rows_per_unit as usize,
        None => exchange.longest_unit(spec.unit).unwrap_or(usize::MAX),
    };
    let mut engine = Engine::new();
    // This precedes any access to the private data.
    exchange.fix_period(&mut || Ok(slowest_release(size, longest, &model, &mut engine)))?;
    match exchange.round_progress(ROUND)? {
        RoundProgress::Accepted | RoundProgress::Lost => {}
        RoundProgress::Stored => exchange.resend_vector(ROUND)?,
        RoundProgress::Untouched if exchange.is_closed(ROUND)? => {}
        RoundProgress::Untouched => {
            let folder = exchange.dataset(id)?;
            let sum = if let Some(columns) = model.columns() {
                let test = RowTest { model: &model, columns, folder: &folder, name: &name, most: longest };
                sum_rows(spec, &test, &mut engine, exchange)?
            } else {
                let dataset = model.open_dataset(&folder, &name)?;
                sum_speech(spec, &model, (&dataset, longest), &mut engine, exchange)?
            };
            let clearance = exchange.clear(ROUND)?;
            let release = sum.into_sum().release(1.0, clearance, &exchange.draw_randomness(Purpose::Noise));
            exchange.send_vector(ROUND, release.map_err(EvaluationError::Release)?.into())?;
        }
    }
    exchange.fetch_average(ROUND)?;
    Ok(())
}

/// Reads the evaluated model, and checks that it has classes, and each evaluated one.
fn read_evaluated(spec: &Spec, content: &[u8]) -> Result<EvaluatedModel, EvaluationError> {
    let model = EvaluatedModel::read(content, spec.columns.as_deref(), read_any_model)?;
    if let Some(columns) = model.columns().filter(|columns| columns.loss() == TrainingLoss::SquaredError) {
        return Err(EvaluationError::NumberTarget(columns.target.name.clone()));
    }
    check_classes(spec, &model)?;
    Ok(model)
}

/// Sums the contributions of the units of a speech dataset; `test` is the dataset with the most frames of a unit.
fn sum_speech(
    spec: &Spec,
    model: &EvaluatedModel,
    test: (&Dataset, usize),
    engine: &mut Engine,
    exchange: &mut impl Averaging,
) -> Result<HistogramSum, RunError> {
    let (dataset, longest) = test;
    let units = dataset.units(spec.unit, choose_split(dataset))?;
    if units.is_empty() {
        return Err(EvaluationError::NoUtterances(dataset.meta().name.clone()).into());
    }
    let randomness = exchange.draw_randomness(Purpose::Sampling);
    let mut sum = HistogramSum::begin(&spec.histograms(), units.len(), &randomness).map_err(EvaluationError::from)?;
    for unit in &units {
        check_cancelled(exchange)?;
        add_unit(&mut sum, model, &read_unit(dataset, unit, longest), engine);
    }
    Ok(sum)
}

/// A table on which a model of rows is evaluated.
struct RowTest<'a> {
    model: &'a EvaluatedModel,
    columns: &'a RowColumns,
    folder: &'a Path,
    name: &'a str,
    /// The most rows of a unit.
    most: usize,
}

/// Sums the contributions of the units of a table.
fn sum_rows(
    spec: &Spec,
    test: &RowTest<'_>,
    engine: &mut Engine,
    exchange: &mut impl Averaging,
) -> Result<HistogramSum, RunError> {
    let dataset = || test.name.to_owned();
    let table =
        TableReader::open(test.folder).map_err(|source| EvaluationError::NoTable { dataset: dataset(), source })?;
    let rows = LabelledRows::read(&table, test.columns, test.most).map_err(EvaluationError::Table)?;
    if rows.units() == 0 {
        return Err(EvaluationError::NoTargets(dataset()).into());
    }
    let randomness = exchange.draw_randomness(Purpose::Sampling);
    let mut sum = HistogramSum::begin(&spec.histograms(), rows.units(), &randomness).map_err(EvaluationError::from)?;
    for number in 0..rows.units() {
        check_cancelled(exchange)?;
        let (features, labels) = rows.unit(number);
        add_unit(&mut sum, test.model, &vec![Example { features, labels }], engine);
    }
    Ok(sum)
}

/// Checks that the model has each evaluated class.
fn check_classes(spec: &Spec, model: &EvaluatedModel) -> Result<(), EvaluationError> {
    let classes = model.classes();
    match spec.classes.iter().find(|class| **class as usize >= classes) {
        Some(class) => Err(EvaluationError::NoClass { class: *class, most: classes.saturating_sub(1) }),
        None => Ok(()),
    }
}

/// Returns the test split, or the training split of a dataset without one.
fn choose_split(dataset: &Dataset) -> Split {
    if dataset.split(Split::Test).is_empty() { Split::Train } else { Split::Test }
}

/// Returns a unit's utterances up to `frames` frames.
fn read_unit<'a>(dataset: &'a Dataset, utterances: &[usize], mut frames: usize) -> Unit<'a> {
    let inputs = dataset.meta().inputs;
    let mut unit = Unit::new();
    for utterance in utterances.iter().map(|number| dataset.utterance(*number)) {
        let length = utterance.labels.len().min(frames);
        if length == 0 {
            break;
        }
        frames -= length;
        unit.push(Example { features: &utterance.features[..length * inputs], labels: &utterance.labels[..length] });
    }
    unit
}

/// Adds the contribution of a unit: the mean of its frames or rows.
fn add_unit(sum: &mut HistogramSum, model: &EvaluatedModel, unit: &Unit<'_>, engine: &mut Engine) {
    let frames: usize = unit.iter().map(|example| example.labels.len()).sum();
    let weight = 1.0 / frames.max(1) as f64;
    let mut contribution = sum.begin_unit();
    model.classify(engine, unit, &mut |number, scores| {
        for (outputs, label) in scores.chunks_exact(model.classes()).zip(unit[number].labels) {
            contribution.add_example(outputs, u32::from(*label), weight);
        }
    });
    let contribution = contribution.into_sums();
    sum.add(&contribution);
}

/// Returns the time that covers the scores of a whole test set: of made-up units of the longest public length, as many
/// as its size class can have.
fn slowest_release(size: u64, longest: usize, model: &EvaluatedModel, engine: &mut Engine) -> Duration {
    let frames = longest.clamp(1, TIMED_FRAMES);
    let value = |i: usize| if model.columns().is_some() { 0.0 } else { (i % 17) as f32 / 17.0 - 0.5 };
    let features: Vec<f32> = (0..frames * model.inputs()).map(value).collect();
    let labels = vec![0; frames];
    let example = [Example { features: &features, labels: &labels }];
    let mut slowest = Duration::ZERO;
    for _ in 0..3 {
        let began = Instant::now();
        model.classify(engine, &example, &mut |_, scores| {
            std::hint::black_box(
                scores.chunks_exact(model.classes()).map(|row| ClassLogits::new(row).best()).sum::<usize>(),
            );
        });
        slowest = slowest.max(began.elapsed());
    }
    let units = SizeClass::from_count(size).most() as f64;
    let per_unit = slowest.as_secs_f64() * (longest as f64 / frames as f64);
    Duration::try_from_secs_f64(units * per_unit * MARGIN).unwrap_or(Duration::MAX)
}

#[cfg(test)]
pub(crate) mod tests;
