//! `dp_sgd` at a site, from the warm start to the report.
//!
//! All participants follow the same procedure: the lead trains on its public data and shares the result. Then, arm by
//! arm, each starts again from that model and sends one vector a round. All apply the server's average with the same
//! optimizer, so that they hold the same parameters bit for bit. Only the lead measures, on public test sets, and
//! reports.
//!
//! A killed site resumes from its last checkpoint: closed rounds are replayed from the server's averages, and a paid
//! vector is sent again, never drawn again. Nothing here may log the members of a batch, a norm, or a loss except of
//! public data.

mod audit;
mod checkpoint;
mod contribution;
mod development;
mod exam;
mod learner;
mod local;
mod pace;
mod series;
mod site;
pub mod tune;
mod warm;

use undertone_api::job::dp_sgd::{Arm, ArmResult, Report, Spec};
use undertone_api::job::{Measurement, Report as AnyReport};

use self::development::Development;
use self::exam::Exam;
use self::site::Site;
use super::{Exchange, Run, RunError};
use crate::speech::model::gradient::Engine;
use crate::speech::model::{Model, ModelError};

/// The artifact with which all arms begin.
const WARM_START: &str = "warm_start.safetensors";
/// The artifact of the best protected arm that ran.
const MODEL: &str = "model.safetensors";

impl From<ModelError> for RunError {
    fn from(error: ModelError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl Run for Spec {
    fn run(&self, exchange: &mut dyn Exchange) -> Result<(), RunError> {
        let mut site = Site::open(self, exchange)?;
        let mut engine = Engine::new();
        if site.leads(self) {
            lead(self, &site, &mut engine, exchange)
        } else {
            follow(self, &mut site, &mut engine, exchange)
        }
    }
}

/// Runs the part of every participant but the first.
fn follow(spec: &Spec, site: &mut Site, engine: &mut Engine, exchange: &mut dyn Exchange) -> Result<(), RunError> {
    let start = Model::from_safetensors(&exchange.get(WARM_START)?)?;
    site.check_model(&start)?;
    if site.selects(spec) {
        site.choose_by(spec, Development::from_file(&exchange.get(development::NAME)?, start.shape())?);
    }
    let mut open = None;
    for arm in [Arm::Open, Arm::Private] {
        if let Some(rounds) = spec.rounds(arm) {
            let before = open.as_ref();
            let trained = series::run(spec, arm, rounds, site, engine, exchange, start.clone(), before, None)?;
            open = Some(trained.model).filter(|_| arm == Arm::Open);
        }
    }
    Ok(())
}

/// Runs the part of the first participant, with public data.
fn lead(spec: &Spec, site: &Site, engine: &mut Engine, exchange: &mut dyn Exchange) -> Result<(), RunError> {
    let exam = Exam::open(spec, exchange)?;
    let warm = warm::train(spec, site, engine, exchange, &exam)?;
    let file = warm.model.to_safetensors()?;
    exchange.put(WARM_START, file.clone())?;
    if let Some(development) = site.development(spec) {
        exchange.put(development::NAME, development.to_file()?)?;
    }
    let mut arms = vec![finish(Arm::Public, spec.warm_start.epochs, &warm, engine, exchange, &exam)?];
    let (mut best, mut open) = (file, None);
    for arm in [Arm::Open, Arm::Private] {
        if let Some(rounds) = spec.rounds(arm) {
            let start = warm.model.clone();
            let trained = series::run(spec, arm, rounds, site, engine, exchange, start, open.as_ref(), Some(&exam))?;
            arms.push(finish(arm, rounds.rounds, &trained, engine, exchange, &exam)?);
            best = trained.model.to_safetensors()?;
            open = Some(trained.model).filter(|_| arm == Arm::Open);
        }
    }
    exchange.put(MODEL, best)?;
    let parameters = warm.model.parameters().len() as u64;
    exchange.report(AnyReport::DpSgd(Report { arms, parameters, contents: exam.contents(spec, site) }))
}

/// A model and the time it took.
struct Trained {
    model: Model,
    seconds: f64,
}

/// Submits an arm's model and measures it for the report.
fn finish(
    arm: Arm,
    rounds: u32,
    trained: &Trained,
    engine: &mut Engine,
    exchange: &mut dyn Exchange,
    exam: &Exam,
) -> Result<ArmResult, RunError> {
    exchange.put(&format!("model-{}.safetensors", arm.series()), trained.model.to_safetensors()?)?;
    let tests = exam.measure(&trained.model, engine, exchange)?;
    Ok(ArmResult { arm, rounds, seconds: trained.seconds, tests })
}

/// Measures a model and reports to the server.
fn tell(
    arm: Arm,
    round: u32,
    model: &Model,
    engine: &mut Engine,
    exchange: &mut dyn Exchange,
    exam: &Exam,
) -> Result<(), RunError> {
    for result in exam.measure(model, engine, exchange)? {
        exchange.measure(Measurement {
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

/// Ends the run when the exchange is stopped.
fn go_on(exchange: &dyn Exchange) -> Result<(), RunError> {
    if exchange.stopped() { Err(RunError::Stopped("the worker was asked to stop".to_owned())) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
