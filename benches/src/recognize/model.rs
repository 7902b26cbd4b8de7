//! Models for recognition, trained on public data as a warm start is.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde_json::json;
use undertone_api::dataset::Visibility;
use undertone_api::job::dp_sgd::{AcousticModel, Optimizer as Rule};
use undertone_worker::dp::layers::output::FrameScore;
use undertone_worker::dp::optimizer::{Optimizer, StepDirection};
use undertone_worker::speech::dataset::{Dataset, Split};
use undertone_worker::speech::decode::CharacterSet;
use undertone_worker::speech::features::{Deltas, Treatment};
use undertone_worker::speech::model::gradient::{Criterion, Engine, Example};
use undertone_worker::speech::model::{Model, ModelShape, Normalizer};
use undertone_worker::speech::prepare::{ClassOption, PrepareOptions, prepare};
use undertone_worker::speech::progress::SilentProgress;

use crate::report::Report;

/// The subset of training.
const TRAINING: &str = "an4-train";
/// The frames of a senone with a class of its own.
const LEAST_FRAMES: u64 = 20;
/// Utterances in a batch.
const BATCH: usize = 16;
const LEARNING_RATE: f64 = 0.005;
const SEED: u64 = 5;

type Fallible<T> = Result<T, Box<dyn Error>>;

/// A prepared dataset and what is trained on it.
pub(super) struct TrainingData {
    pub(super) folder: PathBuf,
    criterion: Criterion,
    epochs: u32,
}

impl TrainingData {
    /// Prepares senones as labels.
    ///
    /// # Errors
    /// When the preparation fails.
    pub(super) fn senones(data: &Path, labels: &Path, folder: &Path) -> Fallible<Self> {
        let options = options(data, labels, folder);
        prepare(&PrepareOptions { classes: ClassOption::Frequent(LEAST_FRAMES), ..options }, &SilentProgress)?;
        Ok(Self { folder: folder.to_path_buf(), criterion: Criterion::CrossEntropy, epochs: epochs(10)? })
    }

    /// Prepares characters as labels.
    ///
    /// # Errors
    /// When the preparation fails.
    pub(super) fn characters(data: &Path, labels: &Path, characters: &Path, folder: &Path) -> Fallible<Self> {
        let set = CharacterSet::read(characters)?;
        let options = options(data, labels, folder);
        prepare(&PrepareOptions { classes: ClassOption::Count(set.classes()), ..options }, &SilentProgress)?;
        let criterion = Criterion::Ctc { blank: set.blank() as u16 };
        Ok(Self { folder: folder.to_path_buf(), criterion, epochs: epochs(40)? })
    }
}

fn options(data: &Path, labels: &Path, folder: &Path) -> PrepareOptions {
    PrepareOptions {
        visibility: Visibility::Public,
        subsets: vec![TRAINING.to_owned()],
        treatment: Treatment { deltas: Deltas::Second, ..Treatment::default() },
        created: "2026-01-01T00:00:00Z".to_owned(),
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        ..PrepareOptions::new(&data.join("speech"), labels, folder, "an4")
    }
}

fn epochs(usual: u32) -> Fallible<u32> {
    Ok(match std::env::var("UNDERTONE_RECOGNIZE_EPOCHS") {
        Ok(text) => text.parse()?,
        Err(_) => usual,
    })
}

/// Trains a model, prints its last loss, and returns its file.
///
/// # Errors
/// When the dataset or the file fails.
pub(super) fn train(report: &mut Report, data: &TrainingData, file: &Path) -> Fallible<PathBuf> {
    let dataset = Dataset::open(&data.folder)?;
    let meta = dataset.meta();
    let spec = AcousticModel { bidirectional: true, context: Some(5), ..AcousticModel::lstm(64, None) };
    let moments = dataset.moments(Split::Train);
    let shape = ModelShape::from_spec(&spec, meta.inputs, meta.classes);
    let mut model = Model::initialize(shape, Normalizer::new(moments.mean, moments.deviation), SEED);
    let mut optimizer = Optimizer::new(Rule::Adam { learning_rate: LEARNING_RATE }, model.parameters().len());
    let mut engine = Engine::with_criterion(data.criterion);
    let mut gradient = vec![0.0; model.parameters().len()];
    let mut order = dataset.split(Split::Train);
    let mut rng = ChaCha20Rng::seed_from_u64(SEED);
    let started = Instant::now();
    let mut score = FrameScore::default();
    for epoch in 0..data.epochs {
        for last in (1..order.len()).rev() {
            order.swap(last, (rng.next_u64() % (last as u64 + 1)) as usize);
        }
        score = FrameScore::default();
        // The rate falls linearly to a tenth.
        let pace = 1.0 - 0.9 * f64::from(epoch) / f64::from(data.epochs);
        for batch in order.chunks(BATCH) {
            let utterances = batch.iter().map(|number| dataset.utterance(*number));
            let examples: Vec<Example<'_>> =
                utterances.map(|one| Example { features: one.features, labels: one.labels }).collect();
            let frames: usize = examples.iter().map(|example| example.labels.len()).sum();
            gradient.fill(0.0);
            score = score.plus(engine.add_gradient(&model, &examples, 1.0 / frames as f32, &mut gradient));
            optimizer.step(model.parameters_mut(), StepDirection::exact(&gradient), pace);
        }
    }
    report.line(json!({
        "trained": file.file_stem().map(|stem| stem.to_string_lossy()), "criterion": format!("{:?}", data.criterion),
        "classes": meta.classes, "epochs": data.epochs, "loss": score.mean_loss(), "accuracy": score.accuracy(),
        "seconds": started.elapsed().as_secs_f64(),
    }))?;
    std::fs::write(file, model.to_safetensors()?)?;
    Ok(file.to_path_buf())
}
