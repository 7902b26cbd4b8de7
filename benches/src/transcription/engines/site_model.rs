//! The site's own recognizer: a CTC model of characters with a public warm start, whose output layer is adapted by private
//! steps, as a `dp_sgd` job with a frozen body does.
//!
//! The first speakers of `an4-train` are the lead's public data, the others the private data; each utterance is a unit.
//! A private step has a Poisson batch, gradients of the product's engine clipped to norm 1, Gaussian noise, and the
//! expected batch as the divisor (`privacy.md`, 1.4). Rates and noise were chosen once, and not on the test.

use std::path::{Path, PathBuf};
use std::time::Instant;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use serde_json::json;
use support::stage::TestResult;
use undertone_api::dataset::Visibility;
use undertone_api::job::dp_sgd::{AcousticModel, ModelPart, ModelParts, Optimizer as Rule};
use undertone_privacy::pld::Plan;
use undertone_privacy::{Adjacency, Delta, Epsilon, Event, NoiseMultiplier, SamplingRate};
use undertone_worker::dp::optimizer::{Optimizer, StepDirection};
use undertone_worker::dp::sampler::Sampler;
use undertone_worker::recognition::site::TrainedRecognizer;
use undertone_worker::recognition::{ModelRecognizer, RecognizerFiles, RecognizerOptions};
use undertone_worker::speech::audio::LONGEST;
use undertone_worker::speech::dataset::{Dataset, Split};
use undertone_worker::speech::decode::{CharacterSet, SearchOptions};
use undertone_worker::speech::features::{Deltas, Treatment};
use undertone_worker::speech::model::gradient::{Criterion, Engine, Example};
use undertone_worker::speech::model::{Model, ModelShape, Normalizer};
use undertone_worker::speech::prepare::spell::{CHARACTERS_FILE, LABELS_FILE, SpellOptions, spell};
use undertone_worker::speech::prepare::{ClassOption, PrepareOptions, SpeakerChoice, prepare};
use undertone_worker::speech::progress::SilentProgress;

use super::super::sizes::TranscriptionSizes;
use super::super::{SEED, rounded, say};
use crate::correlated_noise::draw_normal;
use crate::recognize::text::WordFiles;
use crate::report::Report;

/// The speakers of `an4-train`, and the number of those that are public.
const SPEAKERS: usize = 74;
const PUBLIC: usize = 37;
/// Utterances in a batch of the warm start, and its rate of learning.
const BATCH: usize = 16;
const WARM_RATE: f64 = 0.005;
/// The clip, q, z and the rate of learning of the private steps.
const CLIP: f64 = 1.0;
const SAMPLING_RATE: f64 = 0.1;
const NOISE: f64 = 1.0;
const PRIVATE_RATE: f64 = 0.2;
/// The δ at which ε is printed.
const DELTA: f64 = 1e-5;

/// Trains the model and opens it with the lexicon and the bigrams of the public transcripts.
///
/// # Errors
/// When the data or a file fails.
pub(super) fn train(
    report: &mut Report,
    sizes: &TranscriptionSizes,
    data: &Path,
    words: &WordFiles,
    work: &Path,
) -> TestResult<TrainedRecognizer> {
    let speech = data.join("speech");
    let spelled = work.join("spelled");
    spell(&SpellOptions { input: speech.clone(), output: spelled.clone(), characters: None, longest: LONGEST })?;
    let characters = spelled.join(CHARACTERS_FILE);
    let set = CharacterSet::read(&characters)?;
    let labels = spelled.join(LABELS_FILE);
    let open = |name: &str, speakers: std::ops::Range<usize>| -> TestResult<Dataset> {
        let folder = work.join(name);
        let options = PrepareOptions {
            visibility: Visibility::Public,
            subsets: vec!["an4-train".to_owned()],
            speakers: SpeakerChoice::Range(speakers),
            classes: ClassOption::Count(set.classes()),
            treatment: Treatment { deltas: Deltas::Second, ..Treatment::default() },
            created: "2026-01-01T00:00:00Z".to_owned(),
            threads: super::super::site::cores(),
            ..PrepareOptions::new(&speech, &labels, &folder, name)
        };
        prepare(&options, &SilentProgress)?;
        Ok(Dataset::open(&folder)?)
    };
    let criterion = Criterion::Ctc { blank: set.blank() as u16 };
    let began = Instant::now();
    let mut model = warm_start(&open("public", 0..PUBLIC)?, criterion, sizes.epochs);
    let private = open("private", PUBLIC..SPEAKERS)?;
    let epsilon = take_private_steps(&mut model, &private, criterion, sizes.steps)?;
    say(
        report,
        json!({
            "engine": "site", "public_speakers": PUBLIC, "private_speakers": SPEAKERS - PUBLIC, "epochs": sizes.epochs,
            "private_steps": sizes.steps, "private_epsilon": rounded(epsilon), "private_delta": DELTA,
            "machine_seconds": rounded(began.elapsed().as_secs_f64()),
        }),
    )?;
    let file = work.join("site.safetensors");
    std::fs::write(&file, model.to_safetensors()?)?;
    let files = RecognizerFiles {
        model: file,
        characters: Some(characters),
        lexicon: Some(words.lexicon.clone()),
        language_model: Some(words.language_model.clone()),
        ..RecognizerFiles::default()
    };
    let options = RecognizerOptions { language_weight: None, subtracts_mean: None, longest: LONGEST, upsamples: false };
    Ok(TrainedRecognizer::new(ModelRecognizer::open(&files, SearchOptions::default(), options)?))
}

fn warm_start(dataset: &Dataset, criterion: Criterion, epochs: u32) -> Model {
    let meta = dataset.meta();
    let spec = AcousticModel { bidirectional: true, context: Some(5), ..AcousticModel::lstm(64, None) };
    let moments = dataset.moments(Split::Train);
    let shape = ModelShape::from_spec(&spec, meta.inputs, meta.classes);
    let mut model = Model::initialize(shape, Normalizer::new(moments.mean, moments.deviation), SEED);
    let mut optimizer = Optimizer::new(Rule::Adam { learning_rate: WARM_RATE }, model.parameters().len());
    let mut engine = Engine::with_criterion(criterion);
    let mut gradient = vec![0.0; model.parameters().len()];
    let mut order = dataset.split(Split::Train);
    let mut rng = ChaCha20Rng::seed_from_u64(SEED);
    for epoch in 0..epochs {
        for last in (1..order.len()).rev() {
            order.swap(last, (rng.next_u64() % (last as u64 + 1)) as usize);
        }
        // The rate falls linearly to a tenth.
        let pace = 1.0 - 0.9 * f64::from(epoch) / f64::from(epochs);
        for batch in order.chunks(BATCH) {
            let utterances = batch.iter().map(|number| dataset.utterance(*number));
            let examples: Vec<Example<'_>> =
                utterances.map(|one| Example { features: one.features, labels: one.labels }).collect();
            let frames: usize = examples.iter().map(|example| example.labels.len()).sum();
            gradient.fill(0.0);
            engine.add_gradient(&model, &examples, 1.0 / frames as f32, &mut gradient);
            optimizer.step(model.parameters_mut(), StepDirection::exact(&gradient), pace);
        }
    }
    model
}

/// Adapts the output layer; returns ε of all steps at [`DELTA`].
fn take_private_steps(model: &mut Model, dataset: &Dataset, criterion: Criterion, steps: u32) -> TestResult<f64> {
    let rate = SamplingRate::new(SAMPLING_RATE)?;
    let trained: ModelParts = [ModelPart::Output].into_iter().collect();
    let subset = model.shape().coordinates(trained);
    let units = dataset.split(Split::Train);
    let sampler = Sampler::new(units.len(), rate);
    let mut engine = Engine::with_criterion(criterion);
    let rule = Rule::Sgd { learning_rate: PRIVATE_RATE, momentum: 0.0 };
    let mut optimizer = Optimizer::new(rule, subset.len());
    let mut coordinates = subset.gather(model.parameters());
    let mut rng = ChaCha20Rng::seed_from_u64(SEED);
    let expected = SAMPLING_RATE * units.len() as f64;
    for _ in 0..steps {
        let mut sum: Vec<f64> = (0..subset.len()).map(|_| NOISE * CLIP * draw_normal(&mut rng)).collect();
        for number in sampler.draw_fresh().units() {
            let utterance = dataset.utterance(units[*number]);
            let unit = vec![Example { features: utterance.features, labels: utterance.labels }];
            let mut gradient = vec![0.0; subset.len()];
            engine.add_units(model, trained, &[unit], 1.0, &mut gradient);
            let norm = gradient.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
            let scale = (CLIP / norm.max(f64::MIN_POSITIVE)).min(1.0);
            sum.iter_mut().zip(&gradient).for_each(|(sum, value)| *sum += scale * f64::from(*value));
        }
        let mean: Vec<f32> = sum.iter().map(|value| (value / expected) as f32).collect();
        let direction = StepDirection::averaged(&mean, (NOISE * CLIP / expected).powi(2));
        optimizer.step(&mut coordinates, direction, 1.0);
        subset.scatter(&coordinates, model.parameters_mut());
    }
    let release = Event::PoissonSampledGaussian { sampling_rate: rate, noise_multiplier: NoiseMultiplier::new(NOISE)? };
    let epsilon = Plan::of(&release.times(u64::from(steps)), Adjacency::AddRemove).epsilon(Delta::new(DELTA)?)?;
    Ok(epsilon.map_or(f64::INFINITY, Epsilon::get))
}

/// Writes the dictionary of PocketSphinx for the words of a lexicon: the same phones without stress.
///
/// # Errors
/// When a file fails.
pub(super) fn write_dictionary(lexicon: &Path, folder: &Path) -> TestResult<PathBuf> {
    let text = std::fs::read_to_string(lexicon)?;
    let line = |line: &str| {
        let line = line.split('#').next().unwrap_or_default();
        let mut parts = line.split_whitespace();
        let word = parts.next().unwrap_or_default().to_owned();
        let phones = parts.map(|phone| phone.trim_end_matches(|digit: char| digit.is_ascii_digit()));
        std::iter::once(word).chain(phones.map(str::to_owned)).collect::<Vec<_>>().join(" ")
    };
    let path = folder.join("plain.dict");
    std::fs::write(&path, text.lines().map(line).collect::<Vec<_>>().join("\n") + "\n")?;
    Ok(path)
}
