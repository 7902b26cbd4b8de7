//! The warm start: conventional training of the lead's public data, the same for the same seed on the same machine.

use std::time::Instant;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use undertone_api::job::dp_sgd::{Arm, Optimizer as Rule, Spec, WarmStart};

use super::checkpoint::{ArmCheckpoint, CheckpointPlan};
use super::error::TrainingError;
use super::initial;
use super::site::TrainingSite;
use super::test_sets::{TestSets, report_tests};
use super::trained_model::TrainedModel;
use crate::dp::layers::output::FrameScore;
use crate::dp::optimizer::StepDirection;
use crate::run::{Artifacts, RunContext, RunError, check_cancelled};
use crate::speech::model::gradient::Engine;
use crate::speech::model::{Model, ModelShape};

/// The highest number of measurements of the public arm; with more epochs, they are spaced out.
const MEASUREMENTS: u32 = 50;

/// Trains, from the last finished epoch of an earlier process if there is one.
pub(super) fn train(
    spec: &Spec,
    site: &TrainingSite,
    tests: &TestSets,
    engine: &mut Engine,
    exchange: &mut dyn Artifacts,
) -> Result<TrainedModel, RunError> {
    let WarmStart { epochs, learning_rate, seed, .. } = spec.warm_start;
    let rule = Rule::Adam { learning_rate };
    let mut model = match &spec.initial_model {
        Some(digest) => initial::fetch_model(spec, digest, site.data().inputs(), exchange)?,
        None => initialize_model(spec, site, seed)?,
    };
    let usage = model.usage().clone().or(site.data().describe_usage(spec));
    model.set_usage(usage);
    site.check_model(&model)?;
    tests.check(model.shape().inputs, model.shape().classes)?;
    let plan = CheckpointPlan { length: model.parameters().len(), rule, averaging: None };
    let mut checkpoint = match ArmCheckpoint::load(exchange.folder(), Arm::Public.series(), plan) {
        Some(checkpoint) if checkpoint.round <= epochs => {
            model.parameters_mut().copy_from_slice(&checkpoint.parameters);
            checkpoint
        }
        _ => {
            report_tests(Arm::Public, 0, &model, tests, engine, exchange)?;
            plan.begin(model.parameters().to_vec())
        }
    };
    let every = epochs.div_ceil(MEASUREMENTS).max(1);
    while checkpoint.round < epochs {
        let began = Instant::now();
        let score = train_epoch(spec, site, &mut checkpoint, &mut model, engine, exchange)?;
        checkpoint.round += 1;
        checkpoint.seconds += began.elapsed().as_secs_f64();
        checkpoint.parameters.copy_from_slice(model.parameters());
        let epoch = checkpoint.round;
        // Figures of public data.
        tracing::info!(
            epoch,
            loss = score.mean_loss(),
            accuracy = score.accuracy(),
            "finished an epoch of the warm start"
        );
        if epoch % every == 0 || epoch == epochs {
            report_tests(Arm::Public, epoch, &model, tests, engine, exchange)?;
        }
        checkpoint.save(exchange.folder(), Arm::Public.series())?;
    }
    Ok(TrainedModel { model, seconds: checkpoint.seconds })
}

/// Makes a model with random parameters, before its first step.
fn initialize_model(spec: &Spec, site: &TrainingSite, seed: u64) -> Result<Model, RunError> {
    // Only the signed number counts: one from the lead's own data might differ from another site's.
    let classes = spec.model.classes.ok_or(TrainingError::NoClasses)? as usize;
    let shape = ModelShape::from_spec(&spec.model, site.data().inputs(), classes);
    Ok(Model::initialize(shape, site.data().normalizer(), seed))
}

/// Runs one pass over the training utterances in a random order; `checkpoint` is the state of the finished epochs.
fn train_epoch(
    spec: &Spec,
    site: &TrainingSite,
    checkpoint: &mut ArmCheckpoint,
    model: &mut Model,
    engine: &mut Engine,
    exchange: &dyn RunContext,
) -> Result<FrameScore, RunError> {
    let mut order = site.training_utterances();
    let mut rng = ChaCha20Rng::seed_from_u64(spec.warm_start.seed);
    rng.set_stream(u64::from(checkpoint.round) + 1);
    // Fisher and Yates; a bias of 2⁻⁴⁰ in the order of public data is harmless.
    for last in (1..order.len()).rev() {
        order.swap(last, (rng.next_u64() % (last as u64 + 1)) as usize);
    }
    let mut gradient = vec![0.0; model.parameters().len()];
    let mut total = FrameScore::default();
    for batch in order.chunks(spec.warm_start.batch as usize) {
        check_cancelled(exchange)?;
        let examples: Vec<_> = batch.iter().map(|i| site.data().example(*i)).collect();
        let frames: usize = examples.iter().map(|example| example.labels.len()).sum();
        gradient.fill(0.0);
        total = total.plus(engine.add_gradient(model, &examples, 1.0 / frames as f32, &mut gradient));
        checkpoint.optimizer.step(model.parameters_mut(), StepDirection::exact(&gradient), 1.0);
    }
    Ok(total)
}
