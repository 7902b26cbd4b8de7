//! A model fine-tuned on a dataset of the site, for use at this site alone: without noise, without a charge.
//!
//! The result depends on the site's data without any protection, so it never leaves. Its file is marked
//! ([`PERSONAL_FORMAT`](undertone_api::model::PERSONAL_FORMAT)): jobs refuse to read it, the worker refuses to send it,
//! and the server refuses to accept it. The gains are measured on the test split, as private as the data.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::Serialize;
use undertone_api::job::dp_sgd::{Optimizer as Rule, TrainingLoss};

use crate::dp::layers::output::FrameScore;
use crate::dp::optimizer::{Optimizer, StepDirection};
use crate::run::evaluation::{EvaluationError, check_dataset, digest_file, read_site_model};
use crate::speech::dataset::{Dataset, Split};
use crate::speech::model::gradient::{Engine, Example};
use crate::speech::model::{Model, ModelError};

/// The warning that goes with every result.
pub const PERSONAL: &str =
    "fine-tuned on the site's own data without noise: keep the model and these figures at the site";

/// The terms of the fine-tuning.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PersonalTraining {
    /// Passes over the training split: 1 to 1,000.
    pub epochs: u32,
    /// Utterances in a batch: 1 to 1,024.
    pub batch: u32,
    /// Adam's learning rate: above 0, at most 1.
    pub learning_rate: f64,
    /// The seed of the order of utterances.
    pub seed: u64,
}

impl PersonalTraining {
    /// Returns the terms, if each is in its range.
    ///
    /// # Errors
    /// [`PersonalError::Option`] with the option, its range and the value.
    fn check(self) -> Result<Self, PersonalError> {
        let whole = |option, value: u32, most: u32| {
            let value = f64::from(value);
            if (1.0..=f64::from(most)).contains(&value) {
                Ok(())
            } else {
                Err(PersonalError::Option { option, range: format!("from 1 to {most}"), value })
            }
        };
        whole("--epochs", self.epochs, 1000)?;
        whole("--batch", self.batch, 1024)?;
        if !(self.learning_rate > 0.0 && self.learning_rate <= 1.0) {
            let range = "above 0, at most 1".to_owned();
            return Err(PersonalError::Option { option: "--learning-rate", range, value: self.learning_rate });
        }
        Ok(self)
    }
}

/// The reason why a model cannot be personalized. No message states anything of the data.
#[derive(Debug, thiserror::Error)]
pub enum PersonalError {
    /// A number is out of range.
    #[error("{option}: {range}, not {value}")]
    Option {
        /// The option.
        option: &'static str,
        /// The range.
        range: String,
        /// The value.
        value: f64,
    },
    /// The model's file cannot be read.
    #[error("cannot read {path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The model or the dataset cannot be used.
    #[error(transparent)]
    Unusable(#[from] EvaluationError),
    /// One of the splits is empty.
    #[error(
        "`{dataset}` has no utterance in its {split} split: prepare it with a share above 0 and below 1 to hold out \
         (`--hold-out`)"
    )]
    EmptySplit {
        /// The dataset.
        dataset: String,
        /// The split in words.
        split: &'static str,
    },
    /// The model learned characters.
    #[error(
        "the model was trained with the loss `ctc`, and this command trains with the labels of frames: use a model of \
         aligned labels"
    )]
    Ctc,
    /// The training diverged.
    #[error("the parameters are no longer finite: choose a smaller --learning-rate than {0}")]
    Diverged(f64),
    /// The result has no file form.
    #[error(transparent)]
    Model(#[from] ModelError),
}

/// The accuracy before and after, over some frames of the test split.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PersonalGain {
    /// The speaker's name in the dataset; `None` for all speakers together.
    pub speaker: Option<String>,
    /// The frames.
    pub frames: u64,
    /// The share of correct frames of the given model.
    pub before: f64,
    /// The share of correct frames of the personal model.
    pub after: f64,
}

/// A personal model with its gains.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PersonalModel {
    /// [`PERSONAL`].
    pub personal: &'static str,
    /// SHA-256 of the given model's file, hex.
    pub model: String,
    /// SHA-256 of the personal model's file, hex.
    pub digest: String,
    /// The dataset.
    pub dataset: String,
    /// The utterances of the training split.
    pub trained: usize,
    /// The gain of the whole site.
    pub site: PersonalGain,
    /// The gain of each speaker of the test split, in the order of the dataset.
    pub speakers: Vec<PersonalGain>,
    /// The file.
    #[serde(skip)]
    pub content: Vec<u8>,
}

/// Fine-tunes the model in a file on the training split of a dataset in a folder, and measures the gain on its test
/// split.
///
/// # Errors
/// [`PersonalError`] with the option, the file, the tensor or the split that cannot be used.
pub fn personalize(
    path: &Path,
    folder: &Path,
    name: &str,
    terms: PersonalTraining,
) -> Result<PersonalModel, PersonalError> {
    let terms = terms.check()?;
    let file = std::fs::read(path).map_err(|source| PersonalError::File { path: path.to_owned(), source })?;
    let before = read_site_model(&file)?;
    if before.usage().loss == Some(TrainingLoss::Ctc) {
        return Err(PersonalError::Ctc);
    }
    let dataset =
        Dataset::open(folder).map_err(|source| EvaluationError::NoLabels { dataset: name.to_owned(), source })?;
    check_dataset(&before, &dataset)?;
    let split = |split, words| {
        let utterances = dataset.split(split);
        let empty = || PersonalError::EmptySplit { dataset: name.to_owned(), split: words };
        if utterances.is_empty() { Err(empty()) } else { Ok(utterances) }
    };
    let train = split(Split::Train, "training")?;
    let test = split(Split::Test, "test")?;
    let mut engine = Engine::new();
    let after = fine_tune(&before, &dataset, &train, terms, &mut engine)?;
    let (site, speakers) = measure_gains(&before, &after, &dataset, &test, &mut engine);
    let content = after.to_personal_file()?;
    let (model, digest) = (digest_file(&file), digest_file(&content));
    let dataset = name.to_owned();
    Ok(PersonalModel { personal: PERSONAL, model, digest, dataset, trained: train.len(), site, speakers, content })
}

fn as_example(dataset: &Dataset, number: usize) -> Example<'_> {
    let utterance = dataset.utterance(number);
    Example { features: utterance.features, labels: utterance.labels }
}

/// Trains by Adam, in a random order of the utterances in each epoch.
fn fine_tune(
    start: &Model,
    dataset: &Dataset,
    utterances: &[usize],
    terms: PersonalTraining,
    engine: &mut Engine,
) -> Result<Model, PersonalError> {
    let mut model = start.clone();
    let length = model.parameters().len();
    let mut optimizer = Optimizer::new(Rule::Adam { learning_rate: terms.learning_rate }, length);
    let mut rng = ChaCha20Rng::seed_from_u64(terms.seed);
    let mut order = utterances.to_vec();
    let mut gradient = vec![0.0; length];
    for _ in 0..terms.epochs {
        // Fisher and Yates; a bias of 2⁻⁴⁰ in the order is harmless.
        for last in (1..order.len()).rev() {
            order.swap(last, (rng.next_u64() % (last as u64 + 1)) as usize);
        }
        for batch in order.chunks(terms.batch as usize) {
            let examples: Vec<_> = batch.iter().map(|number| as_example(dataset, *number)).collect();
            let frames: usize = examples.iter().map(|example| example.labels.len()).sum();
            gradient.fill(0.0);
            engine.add_gradient(&model, &examples, 1.0 / frames.max(1) as f32, &mut gradient);
            optimizer.step(model.parameters_mut(), StepDirection::exact(&gradient), 1.0);
        }
    }
    let is_finite = model.parameters().iter().all(|parameter| parameter.is_finite());
    if is_finite { Ok(model) } else { Err(PersonalError::Diverged(terms.learning_rate)) }
}

/// Returns the gain over all utterances, and that of each speaker.
fn measure_gains(
    before: &Model,
    after: &Model,
    dataset: &Dataset,
    utterances: &[usize],
    engine: &mut Engine,
) -> (PersonalGain, Vec<PersonalGain>) {
    let mut speakers: BTreeMap<u32, Vec<Example<'_>>> = BTreeMap::new();
    for number in utterances {
        let speaker = dataset.utterance(*number).speaker;
        speakers.entry(speaker).or_default().push(as_example(dataset, *number));
    }
    let mut all = [FrameScore::default(); 2];
    let mut gains = Vec::with_capacity(speakers.len());
    for (speaker, examples) in speakers {
        let scores = [engine.score(before, &examples), engine.score(after, &examples)];
        let name = dataset.speaker_name(speaker).map_or_else(|| speaker.to_string(), str::to_owned);
        gains.push(compare(Some(name), scores));
        all = [all[0].plus(scores[0]), all[1].plus(scores[1])];
    }
    (compare(None, all), gains)
}

fn compare(speaker: Option<String>, [before, after]: [FrameScore; 2]) -> PersonalGain {
    PersonalGain { speaker, frames: before.frames, before: before.accuracy(), after: after.accuracy() }
}
