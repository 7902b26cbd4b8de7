//! The rounds of one arm.

use std::time::Instant;

use undertone_api::job::dp_sgd::{Arm, Rounds, Spec};

use super::audit::Audit;
use super::checkpoint::Checkpoint;
use super::exam::Exam;
use super::site::{Part, Site};
use super::{Trained, go_on, tell};
use crate::dp::clip::{Clip, ClippedSum};
use crate::dp::optimizer::Optimizer;
use crate::dp::randomness::{Purpose, Randomness};
use crate::dp::release::{Outgoing, ReleaseError};
use crate::run::{Exchange, Past, RunError};
use crate::speech::model::Model;
use crate::speech::model::gradient::{Engine, micro_batches};

/// Units of an exact gradient computed between two looks at whether to stop.
const UNITS: usize = 32;

impl From<ReleaseError> for RunError {
    fn from(error: ReleaseError) -> Self {
        Self::Refused(error.to_string())
    }
}

/// Runs an arm from `start` to its last round, from the last checkpoint of an earlier life if there is one. With an exam,
/// measures.
#[expect(clippy::too_many_arguments, reason = "one call, two callers")]
pub(super) fn run(
    spec: &Spec,
    arm: Arm,
    rounds: &Rounds,
    site: &Site,
    engine: &mut Engine,
    exchange: &mut dyn Exchange,
    start: Model,
    exam: Option<&Exam>,
) -> Result<Trained, RunError> {
    let series = arm.series();
    let mut audit = audit(spec, arm, site, &start, exchange)?;
    let mut model = start;
    let mut optimizer = Optimizer::new(rounds.optimizer, model.parameters().len());
    let (mut done, mut seconds) = (0, 0.0);
    if let Some(checkpoint) = Checkpoint::load(exchange.folder(), series, &model, rounds.optimizer) {
        (done, seconds) = (checkpoint.round.min(rounds.rounds), checkpoint.seconds);
        model.parameters_mut().copy_from_slice(&checkpoint.parameters);
        optimizer = checkpoint.optimizer;
    } else if let Some(exam) = exam {
        tell(arm, 0, &model, engine, exchange, exam)?;
    }
    while done < rounds.rounds {
        let began = Instant::now();
        let round = done + 1;
        go_on(exchange)?;
        contribute(site, arm, round, &model, audit.as_mut(), engine, exchange)?;
        let average = exchange.average(series, round)?;
        if average.mean.len() != model.parameters().len() || !average.mean.iter().all(|value| value.is_finite()) {
            return Err(RunError::Failed(format!(
                "the average of round {round} of `{series}` is not a finite vector of {} numbers",
                model.parameters().len()
            )));
        }
        optimizer.step(model.parameters_mut(), &average.mean);
        done = round;
        seconds += began.elapsed().as_secs_f64();
        if let Some(exam) = exam
            && (done.is_multiple_of(rounds.evaluate_every) || done == rounds.rounds)
        {
            tell(arm, done, &model, engine, exchange, exam)?;
        }
        if done.is_multiple_of(spec.checkpoint_every) || done == rounds.rounds {
            Checkpoint::save(exchange.folder(), series, done, seconds, &model, &optimizer)?;
        }
    }
    if let Some(audit) = audit {
        let finding = audit.conclude(&model, engine, exchange)?;
        exchange.audit(finding)?;
    }
    Ok(Trained { model, seconds })
}

/// This participant's audit of an arm, when the manifest promises one.
fn audit(
    spec: &Spec,
    arm: Arm,
    site: &Site,
    start: &Model,
    exchange: &dyn Exchange,
) -> Result<Option<Audit>, RunError> {
    let Some(audited) = exchange.audited().filter(|audited| audited.series == arm.series()) else { return Ok(None) };
    let Part::Noisy(clip) = site.part(arm) else {
        return Err(RunError::Failed("the manifest promises an audit of releases without noise".to_owned()));
    };
    Audit::open(&audited, spec, clip, site.rate(), start, exchange).map(Some)
}

/// Sends this participant's vector of a round, unless an earlier life did, or the round closed without it.
fn contribute(
    site: &Site,
    arm: Arm,
    round: u32,
    model: &Model,
    audit: Option<&mut Audit>,
    engine: &mut Engine,
    exchange: &mut dyn Exchange,
) -> Result<(), RunError> {
    let (series, part) = (arm.series(), site.part(arm));
    if part == Part::None {
        return Ok(());
    }
    match exchange.past(series, round)? {
        Past::Accepted => Ok(()),
        Past::Stored => exchange.resend(series, round),
        Past::Untouched if exchange.closed(series, round)? => Ok(()),
        Past::Untouched => {
            let vector = match part {
                Part::Noisy(clip) => noisy(site, clip, series, round, model, audit, engine, exchange)?,
                Part::Exact | Part::None => exact(site, series, round, model, engine, exchange)?,
            };
            exchange.send(series, round, vector)
        }
    }
}

/// A differentially private mean gradient. The site pays after the batch is summed and before noise is added: a crash
/// before the payment costs nothing, one after it has released nothing. The canaries of an audit are units like all others;
/// what is divided by stays what was signed.
#[expect(clippy::too_many_arguments, reason = "one call, one caller")]
fn noisy(
    site: &Site,
    clip: Clip,
    series: &str,
    round: u32,
    model: &Model,
    audit: Option<&mut Audit>,
    engine: &mut Engine,
    exchange: &mut dyn Exchange,
) -> Result<Outgoing, RunError> {
    let batch = site.sampler(audit.as_ref().map_or(0, |audit| audit.members())).draw_fresh();
    let (real, canaries) = site.split(batch.units());
    let drawn = audit.as_ref().map(|audit| audit.drawn(canaries));
    let mut units = site.units(real);
    if let Some(drawn) = &drawn {
        units.extend(drawn.recordings.iter().cloned());
    }
    let mut sum = ClippedSum::begin(&batch, clip, model.parameters().len());
    for micro in micro_batches(&units, model.shape()) {
        go_on(exchange)?;
        let spent = sum.add(engine.per_unit(model, &units[micro]));
        engine.recycle(spent);
    }
    if let (Some(audit), Some(drawn)) = (&audit, &drawn) {
        for gradients in audit.gradients(drawn) {
            go_on(exchange)?;
            sum.add(gradients);
        }
    }
    drop((units, drawn));
    let clearance = exchange.clear(series, round)?;
    let release = sum.release(site.expected_batch(), clearance, &Randomness::from_os(Purpose::Noise))?;
    if let Some(audit) = audit {
        audit.note(round, release.vector(), site.expected_batch())?;
    }
    Ok(release.into())
}

/// An exact mean gradient of a Poisson batch, for data that are public or opened by their owner.
fn exact(
    site: &Site,
    series: &str,
    round: u32,
    model: &Model,
    engine: &mut Engine,
    exchange: &mut dyn Exchange,
) -> Result<Outgoing, RunError> {
    let batch = site.sampler(0).draw_fresh();
    let weight = site.expected_batch().recip() as f32;
    let mut gradient = vec![0.0; model.parameters().len()];
    for some in site.units(batch.units()).chunks(UNITS) {
        go_on(exchange)?;
        engine.add_units(model, some, weight, &mut gradient);
    }
    let clearance = exchange.clear(series, round)?;
    Ok(Outgoing::exact(gradient, clearance)?)
}
