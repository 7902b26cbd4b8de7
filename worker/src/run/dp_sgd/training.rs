//! The procedure of all participants of a training job.

use undertone_api::job::Report as AnyReport;
use undertone_api::job::dp_sgd::{Arm, Report, Spec, TrainingLoss};

use super::development::{self, DevelopmentData};
use super::error::TrainingError;
use super::series::ArmRun;
use super::site::TrainingSite;
use super::test_sets::TestSets;
use super::trained_model::submit_arm;
use super::{initial, warm};
use crate::run::{Artifacts, Averaging, RunError};
use crate::speech::model::Model;
use crate::speech::model::gradient::{Criterion, Engine};

/// The artifact with which all arms begin.
const WARM_START: &str = "warm_start.safetensors";
/// The artifact of the best protected arm that ran.
const MODEL: &str = "model.safetensors";

/// Trains to the end of the job, from the point where an earlier process stopped.
///
/// # Errors
/// [`RunError`] when it ends without a result.
pub(super) fn train(spec: &Spec, exchange: &mut (impl Averaging + Artifacts)) -> Result<(), RunError> {
    let mut site = TrainingSite::open(spec, exchange)?;
    let mut engine = Engine::with_criterion(criterion(spec)?);
    if site.leads(spec) {
        lead(spec, &site, &mut engine, exchange)
    } else {
        follow(spec, &mut site, &mut engine, exchange)
    }
}

/// Returns the loss of the spec; the blank of CTC is the last class.
fn criterion(spec: &Spec) -> Result<Criterion, TrainingError> {
    match spec.model.loss {
        TrainingLoss::CrossEntropy => Ok(Criterion::CrossEntropy),
        TrainingLoss::Ctc => {
            let classes = spec.model.classes.ok_or(TrainingError::NoClasses)?;
            let blank = classes.checked_sub(1).and_then(|blank| u16::try_from(blank).ok());
            Ok(Criterion::Ctc { blank: blank.ok_or(TrainingError::NoClasses)? })
        }
        TrainingLoss::SquaredError => Ok(Criterion::SquaredError),
    }
}

/// Fetches the development data of the lead.
fn read_development(spec: &Spec, start: &Model, exchange: &mut dyn Artifacts) -> Result<DevelopmentData, RunError> {
    DevelopmentData::from_file(&exchange.fetch_file(development::NAME)?, start.shape(), spec.model.loss)
}

/// Runs the part of every participant but the first.
fn follow(
    spec: &Spec,
    site: &mut TrainingSite,
    engine: &mut Engine,
    exchange: &mut (impl Averaging + Artifacts),
) -> Result<(), RunError> {
    let start = Model::from_safetensors(&exchange.fetch_file(WARM_START)?)?;
    site.check_model(&start)?;
    initial::check_start(spec, &start, exchange)?;
    if site.selects(spec) {
        site.set_selection(spec, read_development(spec, &start, exchange)?);
    }
    let mut open = None;
    for arm in [Arm::Open, Arm::Private] {
        if let Some(rounds) = spec.rounds(arm) {
            let arm_run = ArmRun { spec, arm, rounds, site, start: start.clone(), open: open.as_ref(), tests: None };
            let trained = arm_run.run(engine, exchange)?;
            open = Some(trained.model).filter(|_| arm == Arm::Open);
        }
    }
    Ok(())
}

/// Runs the part of the first participant, with public data.
fn lead(
    spec: &Spec,
    site: &TrainingSite,
    engine: &mut Engine,
    exchange: &mut (impl Averaging + Artifacts),
) -> Result<(), RunError> {
    let tests = TestSets::open(spec, exchange)?;
    let warm = warm::train(spec, site, &tests, engine, exchange)?;
    let file = warm.model.to_safetensors()?;
    exchange.put_file(WARM_START, file.clone())?;
    if let Some(development) = site.development(spec) {
        exchange.put_file(development::NAME, development.to_file()?)?;
    }
    let mut arms = vec![submit_arm(Arm::Public, spec.warm_start.epochs, &warm, &tests, engine, exchange)?];
    let mut best = file;
    let mut open = None;
    for arm in [Arm::Open, Arm::Private] {
        if let Some(rounds) = spec.rounds(arm) {
            let start = warm.model.clone();
            let arm_run = ArmRun { spec, arm, rounds, site, start, open: open.as_ref(), tests: Some(&tests) };
            let trained = arm_run.run(engine, exchange)?;
            arms.push(submit_arm(arm, rounds.rounds, &trained, &tests, engine, exchange)?);
            best = trained.model.to_safetensors()?;
            open = Some(trained.model).filter(|_| arm == Arm::Open);
        }
    }
    exchange.put_file(MODEL, best)?;
    let parameters = warm.model.parameters().len() as u64;
    let contents = tests.contents(spec, site);
    exchange.submit_report(AnyReport::DpSgd(Report { arms, parameters, contents, rehearsal: None }))
}
