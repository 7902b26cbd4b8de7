//! Recognition of speech with a trained model, for the site's own use: words with times and confidence.
//!
//! The features are those of a prepared dataset. The labels of the model decide how words are found: states of phones
//! with a lexicon, characters with or without one, or no names at all, which gives the best path of class numbers.
//! Nothing is stored or sent.

mod error;
pub mod site;

use std::path::{Path, PathBuf};

use serde::Serialize;
use undertone_api::job::dp_sgd::TrainingLoss;

pub use error::RecognitionError;

use crate::run::evaluation::{check_dataset, digest_file, read_site_model};
use crate::speech::audio::{self, RATE};
use crate::speech::dataset::{Dataset, Split};
use crate::speech::decode::{
    CharacterSet, ClassLabels, FrameScores, FrameWord, Lexicon, NgramModel, PhoneStates, SearchOptions, WordDecoder,
    best_characters, best_classes, best_phones,
};
use crate::speech::features::{Deltas, Normalization, Treatment, subtract_mean};
use crate::speech::mfcc::{COEFFICIENTS, Mfcc, SHIFT};
use crate::speech::model::Model;
use crate::speech::model::gradient::{Engine, Example};
use crate::speech::prepare::{ClassMap, read_transcript};
use crate::speech::transcribe::transcript::wer::WordErrors;

/// The files that a preparation writes into the folder of a dataset.
const PHONES: &str = "phones.json";
const CLASSES: &str = "classes.json";
const CHARACTERS: &str = "characters.json";
/// The usual factor of a language model against the states of phones.
const PHONE_WEIGHT: f64 = 10.0;
/// The usual factor of a language model against characters, of which a path has few.
const CHARACTER_WEIGHT: f64 = 2.0;
/// Seconds per frame.
const FRAME: f64 = SHIFT as f64 / RATE as f64;

/// The files of a recognizer.
#[derive(Debug, Clone, Default)]
pub struct RecognizerFiles {
    /// The model, a safetensors file of a job.
    pub model: PathBuf,
    /// The folder and the name of a dataset with the labels of the model.
    pub dataset: Option<(PathBuf, String)>,
    /// The phone map of the labels.
    pub phone_map: Option<PathBuf>,
    /// The classes of the labels.
    pub class_map: Option<PathBuf>,
    /// The characters of a CTC model.
    pub characters: Option<PathBuf>,
    /// The pronouncing dictionary.
    pub lexicon: Option<PathBuf>,
    /// The language model.
    pub language_model: Option<PathBuf>,
}

/// The treatment of recordings, and the weight of the language model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecognizerOptions {
    /// The factor of the language model; `None` for the usual one of the labels: 10 for phones, 2 for characters.
    pub language_weight: Option<f64>,
    /// Whether the mean of the recording is subtracted from its features; `None` for the choice of the
    /// dataset, or else of the model's file, or else yes.
    pub subtracts_mean: Option<bool>,
    /// The limit of a recording's length, seconds.
    pub longest: f64,
    /// Whether recordings below the model's rate are accepted.
    pub upsamples: bool,
}

/// A recognized word, phone or class.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RecognizedWord {
    /// The text.
    pub word: String,
    /// Start time, seconds.
    pub start: f64,
    /// End time, seconds.
    pub end: f64,
    /// The mean probability of the word's phones or characters over its frames.
    pub confidence: f64,
}

/// The result for a recording.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RecordingResult {
    /// The file.
    pub audio: PathBuf,
    /// Its length, seconds.
    pub seconds: f64,
    /// The words, in order of time.
    pub words: Vec<RecognizedWord>,
    /// False if the recording ends within a word, which is then missing.
    pub complete: bool,
    /// The errors against the transcript beside the recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors: Option<WordErrors>,
}

impl RecordingResult {
    /// Returns the words alone, separated by spaces.
    pub fn text(&self) -> String {
        self.words.iter().map(|word| word.word.as_str()).collect::<Vec<_>>().join(" ")
    }
}

/// The search for words.
enum WordSearch {
    Lexicon(Box<WordDecoder>),
    BestPath,
}

/// A recognizer of one model.
pub struct ModelRecognizer {
    digest: String,
    system: String,
    model: Model,
    labels: Option<ClassLabels>,
    search: WordSearch,
    priors: Option<Vec<f64>>,
    treatment: Treatment,
    options: RecognizerOptions,
    engine: Engine,
    mfcc: Mfcc,
}

impl ModelRecognizer {
    /// Reads all files and checks that they fit.
    ///
    /// # Errors
    /// [`RecognitionError`] with the file, the word or the numbers that do not fit.
    pub fn open(
        files: &RecognizerFiles,
        search: SearchOptions,
        options: RecognizerOptions,
    ) -> Result<Self, RecognitionError> {
        let content = std::fs::read(&files.model)
            .map_err(|source| RecognitionError::Model { path: files.model.clone(), source })?;
        let model = read_site_model(&content)?;
        let dataset = files.dataset.as_ref().map(|(folder, name)| open_dataset(&model, folder, name)).transpose()?;
        let mut treatment = choose_treatment(model.shape().inputs)?;
        let of_dataset = dataset.as_ref().and_then(|dataset| dataset.meta().treatment);
        let of_file = model.usage().features.as_ref().and_then(|features| features.subtracts_mean);
        let subtracts = of_dataset.map(|treatment| treatment.normalization != Normalization::None).or(of_file);
        let subtracts = subtracts.unwrap_or(true);
        if !options.subtracts_mean.unwrap_or(subtracts) {
            treatment.normalization = Normalization::None;
        }
        let labels = read_labels(files)?;
        let classes = model.shape().classes;
        if let Some(labels) = &labels
            && labels.classes() != classes
        {
            return Err(RecognitionError::Labels { labels: labels.classes(), classes });
        }
        check_loss(&model, labels.as_ref())?;
        let usual = if matches!(labels, Some(ClassLabels::Characters(_))) { CHARACTER_WEIGHT } else { PHONE_WEIGHT };
        let search = SearchOptions { language_weight: options.language_weight.unwrap_or(usual), ..search };
        let search = read_search(files, labels.as_ref(), search)?;
        let priors = dataset.as_ref().map(|dataset| class_frequencies(dataset, classes));
        let system = describe_system(files, labels.as_ref());
        let (engine, mfcc) = (Engine::new(), Mfcc::new());
        let digest = digest_file(&content);
        Ok(Self { digest, system, model, labels, search, priors, treatment, options, engine, mfcc })
    }

    /// Returns the SHA-256 of the model's file, hex.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns the parts of the recognizer as text, such as `phones, lexicon, language model`.
    pub fn system(&self) -> &str {
        &self.system
    }

    /// Recognizes a recording. With `compare`, counts the errors against the transcript beside it.
    ///
    /// # Errors
    /// [`RecognitionError`] with the recording and the reason.
    pub fn recognize(&mut self, path: &Path, compare: bool) -> Result<RecordingResult, RecognitionError> {
        let recording = audio::read(path, self.options.longest)?;
        if recording.source_rate < RATE && !self.options.upsamples {
            return Err(RecognitionError::NarrowBand { path: path.to_owned(), rate: recording.source_rate });
        }
        let seconds = recording.seconds();
        let recognized = self.recognize_samples(&recording.samples);
        let (words, complete) =
            recognized.ok_or_else(|| RecognitionError::TooShort { path: path.to_owned(), seconds })?;
        let mut result =
            RecordingResult { audio: path.to_owned(), seconds: milliseconds(seconds), words, complete, errors: None };
        if compare {
            let transcript = read_transcript(path)
                .map_err(|source| RecognitionError::References { path: path.to_owned(), source })?
                .ok_or_else(|| RecognitionError::NoReference { path: path.to_owned() })?;
            result.errors = Some(WordErrors::count(&transcript, &result.text()));
        }
        Ok(result)
    }

    /// Returns the words in `samples` (mono, 16 kHz, full scale = 1), and whether the last one is complete; `None` for samples
    /// shorter than a frame.
    pub fn recognize_samples(&mut self, samples: &[f32]) -> Option<(Vec<RecognizedWord>, bool)> {
        let seconds = samples.len() as f64 / f64::from(RATE);
        let mut coefficients = self.mfcc.compute(samples);
        let frames = coefficients.len() / COEFFICIENTS;
        if frames == 0 {
            return None;
        }
        if self.treatment.normalization != Normalization::None {
            subtract_mean(&mut coefficients);
        }
        let features = self.treatment.with_deltas(&coefficients);
        let mut logits = Vec::new();
        let example = [Example { features: &features, labels: &vec![0; frames] }];
        self.engine.classify(&self.model, &example, &mut |_, own| logits = own.to_vec());
        let (words, complete) = self.find_words(&logits);
        let word = |word: FrameWord| RecognizedWord {
            start: milliseconds(word.start as f64 * FRAME),
            end: milliseconds((word.end as f64 * FRAME).min(seconds)),
            confidence: milliseconds(word.confidence),
            word: word.text,
        };
        Some((words.into_iter().map(word).collect(), complete))
    }

    /// Returns the words of the logits, and whether the last one is complete.
    fn find_words(&self, logits: &[f32]) -> (Vec<FrameWord>, bool) {
        let scores = match &self.labels {
            None => return (best_classes(logits, self.model.shape().classes), true),
            Some(ClassLabels::Phones(map)) => FrameScores::from_phone_logits(map, logits, self.priors.as_deref()),
            Some(ClassLabels::Characters(set)) => FrameScores::from_character_logits(set, logits),
        };
        match (&self.search, &self.labels) {
            (WordSearch::Lexicon(decoder), _) => {
                let decoding = decoder.decode(&scores);
                (decoding.words, decoding.is_complete)
            }
            (WordSearch::BestPath, Some(ClassLabels::Phones(map))) => (best_phones(map, &scores), true),
            (WordSearch::BestPath, Some(ClassLabels::Characters(set))) => (best_characters(set, &scores), true),
            (WordSearch::BestPath, None) => (Vec::new(), true),
        }
    }
}

fn milliseconds(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

/// Checks that the labels are those of the model's loss: the last class of a CTC model is the blank, so equal numbers of
/// classes have other meanings. A file that records no loss passes.
fn check_loss(model: &Model, labels: Option<&ClassLabels>) -> Result<(), RecognitionError> {
    match (model.usage().loss, labels) {
        (Some(TrainingLoss::CrossEntropy), Some(ClassLabels::Characters(_))) => Err(RecognitionError::NoCharacters),
        (Some(TrainingLoss::Ctc), Some(ClassLabels::Phones(_))) => Err(RecognitionError::NoPhones),
        _ => Ok(()),
    }
}

fn open_dataset(model: &Model, folder: &Path, name: &str) -> Result<Dataset, RecognitionError> {
    let dataset =
        Dataset::open(folder).map_err(|source| RecognitionError::Dataset { name: name.to_owned(), source })?;
    check_dataset(model, &dataset)?;
    Ok(dataset)
}

/// Returns the treatment that gives a number of coefficients a frame.
fn choose_treatment(inputs: usize) -> Result<Treatment, RecognitionError> {
    let treatments =
        [Deltas::None, Deltas::First, Deltas::Second].map(|deltas| Treatment { deltas, ..Treatment::default() });
    treatments.into_iter().find(|treatment| treatment.inputs() == inputs).ok_or(RecognitionError::Features(inputs))
}

/// Returns the labels: those of the named files, or else those in the folder of the dataset.
fn read_labels(files: &RecognizerFiles) -> Result<Option<ClassLabels>, RecognitionError> {
    let beside = |name: &str| {
        let path = files.dataset.as_ref().map(|(folder, _)| folder.join(name))?;
        path.is_file().then_some(path)
    };
    let named = files.phone_map.is_some() || files.class_map.is_some();
    if let Some(path) = files.characters.clone().or_else(|| beside(CHARACTERS).filter(|_| !named)) {
        return Ok(Some(ClassLabels::Characters(CharacterSet::read(&path)?)));
    }
    let Some(phones) = files.phone_map.clone().or_else(|| beside(PHONES)) else { return Ok(None) };
    let classes = files.class_map.clone().or_else(|| beside(CLASSES));
    let classes = classes.map(|path| ClassMap::read(&path)).transpose()?;
    Ok(Some(ClassLabels::Phones(PhoneStates::read(&phones, classes.as_ref())?)))
}

fn read_search(
    files: &RecognizerFiles,
    labels: Option<&ClassLabels>,
    options: SearchOptions,
) -> Result<WordSearch, RecognitionError> {
    let Some(lexicon) = &files.lexicon else {
        return if files.language_model.is_some() {
            Err(RecognitionError::NoLexicon)
        } else {
            Ok(WordSearch::BestPath)
        };
    };
    let labels = labels.ok_or(RecognitionError::NoLabels)?;
    let lexicon = Lexicon::read(lexicon)?;
    let language = files.language_model.as_ref().map(|path| NgramModel::read(path)).transpose()?;
    Ok(WordSearch::Lexicon(Box::new(WordDecoder::new(labels, &lexicon, language, options)?)))
}

/// Returns the frequency of each class in the training split (or all) of a dataset, with one more frame for each class.
fn class_frequencies(dataset: &Dataset, classes: usize) -> Vec<f64> {
    let split = if dataset.split(Split::Train).is_empty() { Split::Test } else { Split::Train };
    let mut counts = vec![1.0; classes];
    for utterance in dataset.split(split) {
        for label in dataset.utterance(utterance).labels {
            counts[usize::from(*label)] += 1.0;
        }
    }
    let all: f64 = counts.iter().sum();
    counts.into_iter().map(|count| count / all).collect()
}

fn describe_system(files: &RecognizerFiles, labels: Option<&ClassLabels>) -> String {
    let labels = match labels {
        None => "classes",
        Some(ClassLabels::Phones(_)) => "phones",
        Some(ClassLabels::Characters(_)) => "characters",
    };
    let lexicon = files.lexicon.is_some().then_some("lexicon");
    let language = files.language_model.is_some().then_some("language model");
    [Some(labels), lexicon, language].into_iter().flatten().collect::<Vec<_>>().join(", ")
}
