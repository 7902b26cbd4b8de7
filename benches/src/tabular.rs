//! Models of rows trained by DP-SGD, beside Opacus: accuracy and duration at the same ε, on a table of numbers, vectors
//! of features and short texts.
//!
//! Both train the same model from random parameters of the same distribution, on the same inputs, with the same sampling
//! rate, steps, noise, clip and optimizer. Each learning rate of a small grid is tried, for the product and for both ways
//! in which Opacus clips, and the best mean accuracy of each counts. So the choice among learning rates is not private, for
//! either. z is the least with which the tight ε of all steps is [`EPSILON`]. A row is a unit.

mod data;
mod peer;

use std::error::Error;

use serde_json::json;
use undertone_api::job::dp_sgd::{AcousticModel, Optimizer, TextEmbedding};
use undertone_privacy::pld::Plan;
use undertone_privacy::{Adjacency, Delta, Event, NoiseMultiplier, SamplingRate};
use undertone_worker::dp::bench::RowTraining;
use undertone_worker::speech::model::gradient::Engine;
use undertone_worker::speech::model::{Model, ModelShape, Normalizer};

use crate::report::{Outcome, Report};
use data::{RowTask, read_intents, read_numbers};
use peer::{RunResult, TabularPeer};

const EPSILON: f64 = 3.0;
const DELTA: f64 = 1e-5;
/// The relative width at which the search for the least noise ends.
const PRECISION: f64 = 1.001;
/// The ways in which Opacus clips.
const MODES: [&str; 2] = ["hooks", "ghost"];

/// A task with the settings of its training.
struct TaskSettings {
    name: &'static str,
    /// The data set of scikit-learn; `None` for the texts.
    numbers: Option<&'static str>,
    /// Hidden units; 0 for a linear model.
    hidden: u32,
    sampling_rate: f64,
    steps: u32,
    clip: f64,
    learning_rates: [f64; 2],
    /// Runs of each learning rate, with other random numbers, and for numbers with other rows to measure on.
    repeats: u64,
}

const TASKS: [TaskSettings; 3] = [
    TaskSettings {
        name: "table of numbers",
        numbers: Some("breast_cancer"),
        hidden: 0,
        sampling_rate: 0.5,
        steps: 100,
        clip: 0.5,
        learning_rates: [0.02, 0.1],
        repeats: 10,
    },
    TaskSettings {
        name: "feature vectors",
        numbers: Some("digits"),
        hidden: 0,
        sampling_rate: 0.25,
        steps: 100,
        clip: 1.0,
        learning_rates: [0.02, 0.05],
        repeats: 5,
    },
    TaskSettings {
        name: "texts",
        numbers: None,
        hidden: 0,
        sampling_rate: 0.05,
        steps: 200,
        clip: 1.0,
        learning_rates: [0.02, 0.05],
        repeats: 2,
    },
];

/// The embedding of the texts.
const EMBEDDING: TextEmbedding = TextEmbedding { buckets: 1024, width: 16 };

pub(crate) fn run(report: &mut Report) -> Outcome {
    let mut peer = TabularPeer::start()?;
    let load =
        std::fs::read_to_string("/proc/loadavg").ok().and_then(|load| load.split(' ').next()?.parse::<f64>().ok());
    report.line(json!({ "versions": peer.versions, "load": load }))?;
    for settings in &TASKS {
        measure_task(report, &mut peer, settings)?;
    }
    peer.finish()
}

/// Measures one task: the product and both ways of Opacus, alternately.
fn measure_task(report: &mut Report, peer: &mut TabularPeer, settings: &TaskSettings) -> Outcome {
    let noise_multiplier = least_noise(settings)?;
    let mut ways =
        ["undertone", MODES[0], MODES[1]].map(|name| (name, vec![Vec::new(); settings.learning_rates.len()]));
    let mut task = read_task(peer, settings, 0)?;
    for repeat in 0..settings.repeats {
        if repeat > 0 && settings.numbers.is_some() {
            task = read_task(peer, settings, repeat)?;
        }
        peer.load(&task)?;
        for (rate, learning_rate) in settings.learning_rates.into_iter().enumerate() {
            for (name, results) in &mut ways {
                results[rate].push(if *name == "undertone" {
                    train(&task, settings, noise_multiplier, learning_rate, repeat)?
                } else {
                    peer.train(&json!({
                        "mode": name, "hidden": settings.hidden, "sampling_rate": settings.sampling_rate,
                        "steps": settings.steps, "clip": settings.clip, "learning_rate": learning_rate, "seed": repeat,
                        "noise_multiplier": noise_multiplier.get(),
                        "text": task.columns.text.map(|text| json!({
                            "buckets": text.buckets, "width": text.width, "grams": task.columns.grams_per_text(),
                        })),
                    }))?
                });
            }
        }
    }
    let [own, hooks, ghost] = ways.each_ref().map(|(_, results)| RunSummary::new(results));
    report.line(json!({
        "task": settings.name, "epsilon": EPSILON, "delta": DELTA,
        "accuracy": own.accuracy, "opacus_accuracy": hooks.accuracy.max(ghost.accuracy),
        "seconds_over_opacus": own.seconds / hooks.seconds.min(ghost.seconds),
        "seconds": { "undertone": own.seconds, "opacus hooks": hooks.seconds, "opacus ghost": ghost.seconds },
        "rows": task.train.labels.len(), "measured_rows": task.tests.labels.len(), "inputs": task.columns.inputs(),
        "sampling_rate": settings.sampling_rate, "steps": settings.steps, "clip": settings.clip,
        "repeats": settings.repeats, "noise_multiplier": noise_multiplier.get(),
    }))
}

/// The runs of one way.
struct RunSummary {
    /// The mean accuracy of the best learning rate.
    accuracy: f64,
    /// The median duration.
    seconds: f64,
}

impl RunSummary {
    /// Summarizes the runs of each learning rate.
    fn new(results: &[Vec<RunResult>]) -> Self {
        let mean = |runs: &Vec<RunResult>| runs.iter().map(|run| run.accuracy).sum::<f64>() / runs.len() as f64;
        let mut seconds: Vec<f64> = results.iter().flatten().map(|run| run.seconds).collect();
        seconds.sort_by(f64::total_cmp);
        Self {
            accuracy: results.iter().map(mean).fold(0.0, f64::max),
            seconds: seconds.get(seconds.len() / 2).copied().unwrap_or(f64::NAN),
        }
    }
}

fn read_task(peer: &mut TabularPeer, settings: &TaskSettings, seed: u64) -> Result<RowTask, Box<dyn Error>> {
    match settings.numbers {
        Some(name) => read_numbers(peer, name, seed),
        None => read_intents(EMBEDDING),
    }
}

/// Trains the product's model, and measures it.
fn train(
    task: &RowTask,
    settings: &TaskSettings,
    noise_multiplier: NoiseMultiplier,
    learning_rate: f64,
    seed: u64,
) -> Result<RunResult, Box<dyn Error>> {
    let spec = AcousticModel::from_rows(task.columns.clone(), u32::from(settings.hidden > 0), settings.hidden);
    let inputs = task.columns.inputs() as usize;
    let plain = Normalizer::new(vec![0.0; inputs], vec![1.0; inputs]);
    let shape = ModelShape::from_spec(&spec, inputs, task.columns.outputs() as usize);
    let mut model = Model::initialize(shape, plain, seed);
    let training = RowTraining {
        rule: Optimizer::Adam { learning_rate },
        steps: settings.steps,
        sampling_rate: SamplingRate::new(settings.sampling_rate)?,
        noise_multiplier,
        clip: settings.clip,
    };
    let seconds = training.train(&mut model, &task.train.examples())?;
    let accuracy = Engine::new().score(&model, &task.tests.examples()).accuracy();
    Ok(RunResult { accuracy, seconds })
}

/// Returns the least noise multiplier with which all steps together have the ε of the comparison.
fn least_noise(settings: &TaskSettings) -> Result<NoiseMultiplier, Box<dyn Error>> {
    let (sampling_rate, delta) = (SamplingRate::new(settings.sampling_rate)?, Delta::new(DELTA)?);
    let is_enough = |z: f64| -> Result<bool, Box<dyn Error>> {
        let release = Event::PoissonSampledGaussian { sampling_rate, noise_multiplier: NoiseMultiplier::new(z)? };
        let plan = Plan::of(&release.times(settings.steps.into()), Adjacency::ZeroOut);
        Ok(plan.epsilon(delta)?.is_some_and(|epsilon| epsilon.get() <= EPSILON))
    };
    let (mut low, mut high) = (0.25, 0.5);
    while !is_enough(high)? {
        (low, high) = (high, high * 2.0);
    }
    while high / low > PRECISION {
        let middle = (low * high).sqrt();
        if is_enough(middle)? { high = middle } else { low = middle }
    }
    Ok(NoiseMultiplier::new(high)?)
}
