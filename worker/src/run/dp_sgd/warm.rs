//! The warm start: conventional training of the lead's public data, the same for the same seed on the same machine.

use std::time::Instant;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use undertone_api::job::dp_sgd::{Arm, Optimizer as Rule, Spec, WarmStart};

use super::checkpoint::Checkpoint;
use super::exam::Exam;
use super::site::{Site, example};
use super::{Trained, go_on, tell};
use crate::dp::layers::linear::Score;
use crate::dp::optimizer::Optimizer;
use crate::run::{Exchange, RunError};
use crate::speech::dataset::Split;
use crate::speech::model::gradient::Engine;
use crate::speech::model::{Model, Normalizer, Shape};

/// Most measurements of the public arm; with more epochs, only every so many are measured.
const MEASUREMENTS: u32 = 50;

/// Trains, from the last finished epoch of an earlier life if there is one.
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
    let mut optimizer = Optimizer::new(rule, model.parameters().len());
    let (mut done, mut seconds) = (0, 0.0);
    if let Some(checkpoint) = Checkpoint::load(exchange.folder(), Arm::Public.series(), &model, rule) {
        (done, seconds) = (checkpoint.round.min(epochs), checkpoint.seconds);
        model.parameters_mut().copy_from_slice(&checkpoint.parameters);
        optimizer = checkpoint.optimizer;
    } else {
        tell(Arm::Public, 0, &model, engine, exchange, exam)?;
    }
    let every = epochs.div_ceil(MEASUREMENTS).max(1);
    while done < epochs {
        let began = Instant::now();
        let score = epoch(spec, site, done, &mut model, &mut optimizer, engine, exchange)?;
        done += 1;
        seconds += began.elapsed().as_secs_f64();
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
        Checkpoint::save(exchange.folder(), Arm::Public.series(), done, seconds, &model, &optimizer)?;
    }
    Ok(Trained { model, seconds })
}

/// A model before its first step, once everything is known to fit it.
fn fresh(spec: &Spec, site: &Site, seed: u64, exam: &Exam) -> Result<Model, RunError> {
    let meta = site.dataset().meta();
    // Only what was signed: a number of the lead's own data might differ from that of another site's.
    let classes = spec.model.classes.ok_or_else(|| {
        RunError::Failed("the manifest does not say how many classes the model has: propose the job again".to_owned())
    })? as usize;
    let shape = Shape { inputs: meta.inputs, hidden: spec.model.hidden as usize, classes };
    let moments = site.dataset().moments(Split::Train);
    let model = Model::initialize(shape, Normalizer::new(moments.mean, moments.deviation), seed);
    site.check_model(&model)?;
    exam.check(shape.inputs, shape.classes)?;
    Ok(model)
}

/// One pass over the training utterances in an order of its own.
fn epoch(
    spec: &Spec,
    site: &Site,
    number: u32,
    model: &mut Model,
    optimizer: &mut Optimizer,
    engine: &mut Engine,
    exchange: &dyn Exchange,
) -> Result<Score, RunError> {
    let mut order = site.dataset().split(Split::Train);
    let mut rng = ChaCha20Rng::seed_from_u64(spec.warm_start.seed);
    rng.set_stream(u64::from(number) + 1);
    // Fisher and Yates; a bias of 2⁻⁴⁰ in the order of public data harms nobody.
    for last in (1..order.len()).rev() {
        order.swap(last, (rng.next_u64() % (last as u64 + 1)) as usize);
    }
    let mut gradient = vec![0.0; model.parameters().len()];
    let mut total = Score::default();
    for batch in order.chunks(spec.warm_start.batch as usize) {
        go_on(exchange)?;
        let examples: Vec<_> = batch.iter().map(|i| example(site.dataset(), *i)).collect();
        let frames: usize = examples.iter().map(|example| example.labels.len()).sum();
        gradient.fill(0.0);
        total = total.plus(engine.add_gradient(model, &examples, 1.0 / frames as f32, &mut gradient));
        optimizer.step(model.parameters_mut(), &gradient);
    }
    Ok(total)
}
