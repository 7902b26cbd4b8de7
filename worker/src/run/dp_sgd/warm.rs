//! The warm start: conventional training of the lead's public data, the same for the same seed on the same machine.

use std::time::Instant;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use undertone_api::job::dp_sgd::{Arm, Optimizer as Rule, Spec, WarmStart};

use super::checkpoint::{Checkpoint, Plan};
use super::exam::Exam;
use super::site::{Site, example};
use super::{Trained, go_on, tell};
use crate::dp::layers::output::FrameScore;
use crate::dp::optimizer::{Optimizer, StepDirection};
use crate::run::{Exchange, RunError};
use crate::speech::dataset::Split;
use crate::speech::model::gradient::Engine;
use crate::speech::model::{Model, ModelShape, Normalizer};

/// The highest number of measurements of the public arm; with more epochs, they are spaced out.
const MEASUREMENTS: u32 = 50;

/// Trains, from the last finished epoch of an earlier process if there is one.
pub(super) fn train(
    spec: &Spec,
    site: &Site,
    engine: &mut Engine,
    exchange: &mut dyn Exchange,
    exam: &Exam,
) -> Result<Trained, RunError> {
    let WarmStart { epochs, learning_rate, seed, .. } = spec.warm_start;
    let rule = Rule::Adam { learning_rate };
    let mut model = fresh(spec, site, seed, exam)?;
    let plan = Plan { length: model.parameters().len(), rule, averaging: None };
    let mut standing = match Checkpoint::load(exchange.folder(), Arm::Public.series(), plan) {
        Some(standing) if standing.round <= epochs => {
            model.parameters_mut().copy_from_slice(&standing.parameters);
            standing
        }
        _ => {
            tell(Arm::Public, 0, &model, engine, exchange, exam)?;
            plan.begin(model.parameters().to_vec())
        }
    };
    let every = epochs.div_ceil(MEASUREMENTS).max(1);
    while standing.round < epochs {
        let began = Instant::now();
        let score = epoch(spec, site, standing.round, &mut model, &mut standing.optimizer, engine, exchange)?;
        standing.round += 1;
        standing.seconds += began.elapsed().as_secs_f64();
        standing.parameters.copy_from_slice(model.parameters());
        let done = standing.round;
        // Figures of public data.
        tracing::info!(
            epoch = done,
            loss = score.mean_loss(),
            accuracy = score.accuracy(),
            "an epoch of the warm start"
        );
        if done % every == 0 || done == epochs {
            tell(Arm::Public, done, &model, engine, exchange, exam)?;
        }
        standing.save(exchange.folder(), Arm::Public.series())?;
    }
    Ok(Trained { model, seconds: standing.seconds })
}

/// Makes a model before its first step, and checks that it fits all data.
fn fresh(spec: &Spec, site: &Site, seed: u64, exam: &Exam) -> Result<Model, RunError> {
    let meta = site.dataset().meta();
    // Only the signed number counts: one from the lead's own data might differ from another site's.
    let classes = spec.model.classes.ok_or_else(|| {
        RunError::Failed("the manifest does not say how many classes the model has: propose the job again".to_owned())
    })? as usize;
    let shape = ModelShape::from_spec(&spec.model, meta.inputs, classes);
    let moments = site.dataset().moments(Split::Train);
    let model = Model::initialize(shape, Normalizer::new(moments.mean, moments.deviation), seed);
    site.check_model(&model)?;
    exam.check(shape.inputs, shape.classes)?;
    Ok(model)
}

/// Runs one pass over the training utterances in a random order.
fn epoch(
    spec: &Spec,
    site: &Site,
    number: u32,
    model: &mut Model,
    optimizer: &mut Optimizer,
    engine: &mut Engine,
    exchange: &dyn Exchange,
) -> Result<FrameScore, RunError> {
    let mut order = site.training();
    let mut rng = ChaCha20Rng::seed_from_u64(spec.warm_start.seed);
    rng.set_stream(u64::from(number) + 1);
    // Fisher and Yates; a bias of 2⁻⁴⁰ in the order of public data is harmless.
    for last in (1..order.len()).rev() {
        order.swap(last, (rng.next_u64() % (last as u64 + 1)) as usize);
    }
    let mut gradient = vec![0.0; model.parameters().len()];
    let mut total = FrameScore::default();
    for batch in order.chunks(spec.warm_start.batch as usize) {
        go_on(exchange)?;
        let examples: Vec<_> = batch.iter().map(|i| example(site.dataset(), *i)).collect();
        let frames: usize = examples.iter().map(|example| example.labels.len()).sum();
        gradient.fill(0.0);
        total = total.plus(engine.add_gradient(model, &examples, 1.0 / frames as f32, &mut gradient));
        optimizer.step(model.parameters_mut(), StepDirection::exact(&gradient), 1.0);
    }
    Ok(total)
}
