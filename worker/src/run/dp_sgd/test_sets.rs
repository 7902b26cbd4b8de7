//! Measurements on public test sets only, at the lead.

use std::path::Path;

use undertone_api::id::DatasetId;
use undertone_api::job::Measurement;
use undertone_api::job::dp_sgd::{Arm, PublicContent, Spec, TestResult, TestSet, TrainingLoss};
use undertone_api::job::transcription::WordErrors;

use super::data::TrainingData;
use super::error::TrainingError;
use super::site::{TrainingSite, check_model};
use crate::dp::layers::output::FrameScore;
use crate::run::{Artifacts, RunContext, RunError, check_cancelled};
use crate::speech::decode::CharacterSet;
use crate::speech::model::gradient::Engine;
use crate::speech::model::{FrameTally, Model};
use crate::speech::prepare::spell::CHARACTERS_FILE;
use crate::speech::transcribe::transcript::wer::WordErrors as WordCounts;

/// The number of utterances between two checks for a stop.
const UTTERANCES: usize = 32;

/// A test set.
struct OpenTestSet {
    name: String,
    data: TrainingData,
    /// The utterances, or units of rows, to measure on.
    utterances: Vec<usize>,
    /// The characters of a job with CTC, if the dataset names them.
    characters: Option<CharacterSet>,
}

/// The test sets of a job.
pub(super) struct TestSets {
    sets: Vec<OpenTestSet>,
    /// Their contents, in the same order.
    contents: Vec<PublicContent>,
    /// Whether each label is the class of its own frame, as with cross-entropy alone.
    has_classes: bool,
}

impl TestSets {
    /// Opens all test sets.
    ///
    /// # Errors
    /// [`RunError::Failed`] when one is not at this site or not whole, or has other characters than the lead's training
    /// data.
    pub(super) fn open(spec: &Spec, exchange: &dyn RunContext) -> Result<Self, RunError> {
        let trained = spec.participants.first().map(|lead| exchange.dataset(lead.dataset)).transpose()?;
        let trained = trained.map(|folder| read_characters(spec, &folder)).transpose()?.flatten();
        let open = |test: &TestSet| {
            let folder = exchange.dataset(test.dataset)?;
            let data = TrainingData::open(spec, &folder, usize::MAX)?;
            let utterances = data.tests();
            if utterances.is_empty() {
                return Err(TrainingError::NoTargets(test.name.clone()).into());
            }
            let characters = read_characters(spec, &folder)?;
            if trained.is_some() && characters.is_some() && characters != trained {
                return Err(TrainingError::OtherCharacters(test.name.clone()).into());
            }
            Ok(OpenTestSet { name: test.name.clone(), data, utterances, characters })
        };
        let sets: Vec<OpenTestSet> = spec.tests.iter().map(open).collect::<Result<_, RunError>>()?;
        let content = |(test, set): (&TestSet, &OpenTestSet)| content_of(test.dataset, &set.data);
        let contents = spec.tests.iter().zip(&sets).map(content).collect();
        Ok(Self { sets, contents, has_classes: spec.model.loss == TrainingLoss::CrossEntropy })
    }

    /// Returns the contents of the lead's training and test data, each once: all of it is public.
    pub(super) fn contents(&self, spec: &Spec, lead: &TrainingSite) -> Vec<PublicContent> {
        let own = spec.participants.first().map(|party| content_of(party.dataset, lead.data()));
        let mut contents: Vec<PublicContent> = own.into_iter().collect();
        for content in &self.contents {
            if !contents.contains(content) {
                contents.push(content.clone());
            }
        }
        contents
    }

    /// Checks that a model fits all of them.
    ///
    /// # Errors
    /// [`RunError::Failed`] naming the one that does not fit.
    pub(super) fn check(&self, inputs: usize, classes: usize) -> Result<(), RunError> {
        self.sets.iter().try_for_each(|set| check_model(&set.data, inputs, classes))
    }

    /// Returns frames, accuracy and mean loss of a model on each test set, in the spec's order.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the exchange is stopped.
    pub(super) fn measure(
        &self,
        model: &Model,
        engine: &mut Engine,
        exchange: &dyn RunContext,
    ) -> Result<Vec<TestResult>, RunError> {
        let mut results = Vec::with_capacity(self.sets.len());
        for OpenTestSet { name, data, utterances, .. } in &self.sets {
            let mut score = FrameScore::default();
            for chunk in utterances.chunks(UTTERANCES) {
                check_cancelled(exchange)?;
                let examples: Vec<_> = chunk.iter().map(|i| data.example(*i)).collect();
                score = score.plus(engine.score(model, &examples));
            }
            results.push(TestResult {
                test: name.clone(),
                frames: score.frames,
                accuracy: score.accuracy(),
                loss: score.mean_loss(),
                macro_f1: None,
                words: None,
            });
        }
        Ok(results)
    }

    /// Returns the macro-F1 of a model on each test set, in the spec's order; `None` for models with CTC, whose labels
    /// have no times, and for models of numbers.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the exchange is stopped.
    pub(super) fn measure_macro_f1(
        &self,
        model: &Model,
        engine: &mut Engine,
        exchange: &dyn RunContext,
    ) -> Result<Vec<Option<f64>>, RunError> {
        let measure = |set: &OpenTestSet| {
            if !self.has_classes {
                return Ok(None);
            }
            let mut tally = FrameTally::new(model.shape().classes);
            for chunk in set.utterances.chunks(UTTERANCES) {
                check_cancelled(exchange)?;
                let examples: Vec<_> = chunk.iter().map(|i| set.data.example(*i)).collect();
                engine.classify(model, &examples, &mut |number, logits| tally.add(examples[number].labels, logits));
            }
            Ok(Some(tally.macro_f1()))
        };
        self.sets.iter().map(measure).collect()
    }

    /// Returns the word errors of a model with CTC on each test set that names its characters, in the spec's order. The
    /// words are those of the best path, without a lexicon or a language model.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the exchange is stopped.
    pub(super) fn count_word_errors(
        &self,
        model: &Model,
        engine: &mut Engine,
        exchange: &dyn RunContext,
    ) -> Result<Vec<Option<WordErrors>>, RunError> {
        let count = |set: &OpenTestSet| {
            let Some(characters) = &set.characters else { return Ok(None) };
            let mut sum = WordErrors::default();
            for chunk in set.utterances.chunks(UTTERANCES) {
                check_cancelled(exchange)?;
                let examples: Vec<_> = chunk.iter().map(|i| set.data.example(*i)).collect();
                engine.classify(model, &examples, &mut |number, logits| {
                    let reference = characters.read_path(examples[number].labels.iter().copied().map(usize::from));
                    let frames = logits.chunks_exact(characters.classes());
                    let best = characters.read_path(frames.map(most_probable));
                    add(&mut sum, WordCounts::count(&reference, &best));
                });
            }
            Ok(Some(sum))
        };
        self.sets.iter().map(count).collect()
    }
}

/// Returns the characters of a dataset for a job with CTC, if its preparation recorded them.
///
/// # Errors
/// [`RunError::Failed`] when the file is damaged, or stands for another number of classes than the job's.
fn read_characters(spec: &Spec, folder: &Path) -> Result<Option<CharacterSet>, RunError> {
    let path = folder.join(CHARACTERS_FILE);
    if spec.model.loss != TrainingLoss::Ctc || !path.is_file() {
        return Ok(None);
    }
    let characters = CharacterSet::read(&path).map_err(TrainingError::Characters)?;
    if spec.model.classes.is_some_and(|classes| classes as usize != characters.classes()) {
        return Err(TrainingError::CharacterCount { path, classes: characters.classes() }.into());
    }
    Ok(Some(characters))
}

/// Returns the class of the largest logit, of equal ones the first.
fn most_probable(logits: &[f32]) -> usize {
    let classes = 1..logits.len();
    classes.fold(0, |best, class| if logits[class] > logits[best] { class } else { best })
}

fn add(sum: &mut WordErrors, counts: WordCounts) {
    sum.words += counts.words;
    sum.substitutions += counts.substitutions;
    sum.insertions += counts.insertions;
    sum.deletions += counts.deletions;
}

/// Measures a model and reports to the server.
pub(super) fn report_tests(
    arm: Arm,
    round: u32,
    model: &Model,
    tests: &TestSets,
    engine: &mut Engine,
    exchange: &mut dyn Artifacts,
) -> Result<(), RunError> {
    for result in tests.measure(model, engine, exchange)? {
        exchange.report_measurement(Measurement {
            series: arm.series().to_owned(),
            round,
            test: result.test,
            frames: result.frames,
            accuracy: result.accuracy,
            loss: result.loss,
        })?;
    }
    Ok(())
}

/// Returns the content of a public dataset.
fn content_of(dataset: DatasetId, data: &TrainingData) -> PublicContent {
    PublicContent { dataset, digest: data.digest().to_owned() }
}
