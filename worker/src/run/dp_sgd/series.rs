//! The rounds of one arm.

use std::time::Instant;

use undertone_api::job::dp_sgd::{Arm, Rounds, Spec};

use super::audit::{Audit, Guests};
use super::contribution::Contribution;
use super::exam::Exam;
use super::learner::Learner;
use super::pace::{RoundShape, slowest_round};
use super::site::{Part, Site};
use super::{Trained, go_on, tell};
use crate::run::{Exchange, Past, RunError};
use crate::speech::model::Model;
use crate::speech::model::gradient::Engine;

/// Runs an arm from `start` to its last round, from the last checkpoint of an earlier process if there is one. With an
/// exam, it measures. `open` is the finished model of the open arm, if that ran before, for an audit's comparison.
#[expect(clippy::too_many_arguments, reason = "one call, two callers")]
pub(super) fn run(
    spec: &Spec,
    arm: Arm,
    rounds: &Rounds,
    site: &Site,
    engine: &mut Engine,
    exchange: &mut dyn Exchange,
    start: Model,
    open: Option<&Model>,
    exam: Option<&Exam>,
) -> Result<Trained, RunError> {
    let series = arm.series();
    let guests = guests(spec, arm, site, &start, exchange)?;
    let mut learner = Learner::begin(spec, arm, rounds, exchange.manifest(), start)?;
    let mut audit = audit(spec, arm, site, &learner, exchange)?;
    if let Part::Noisy(clip) = site.part(arm)
        && let Some(longest) = site.longest()
    {
        // This precedes any access to the arm's private data.
        let canaries = exchange.audited().filter(|audited| audited.series == series);
        let shape = RoundShape {
            units: site.size(),
            canaries: canaries.iter().flat_map(|audited| &audited.trials).map(|trial| u64::from(trial.canaries)).sum(),
            rate: site.rate(),
            longest,
            clip,
            choice: site.choice(),
            runs: spec.selection.as_ref().map_or(1, |selection| u64::from(selection.most_runs.get())),
        };
        exchange.fix_period(&mut || Ok(slowest_round(&shape, &learner, engine)))?;
    }
    if !learner.resume(exchange.folder())
        && let Some(exam) = exam
    {
        tell(arm, 0, &learner.result(), engine, exchange, exam)?;
    }
    while learner.done() < rounds.rounds {
        let began = Instant::now();
        let round = learner.done() + 1;
        go_on(exchange)?;
        contribute(site, arm, round, &learner, audit.as_mut(), guests.as_ref(), engine, exchange)?;
        learner.apply(&exchange.average(series, round)?)?;
        learner.spend(began.elapsed().as_secs_f64());
        let last = round == rounds.rounds;
        if let Some(exam) = exam
            && (round.is_multiple_of(rounds.evaluate_every) || last)
        {
            tell(arm, round, &learner.result(), engine, exchange, exam)?;
        }
        if round.is_multiple_of(spec.checkpoint_every) || last {
            learner.save(exchange.folder())?;
        }
    }
    let (model, seconds) = (learner.result(), learner.seconds());
    if let Some(audit) = audit {
        let finding = audit.conclude(&model, open, engine, exchange)?;
        exchange.audit(finding)?;
    }
    Ok(Trained { model, seconds })
}

/// Returns this participant's audit of an arm, if the manifest promises one.
fn audit(
    spec: &Spec,
    arm: Arm,
    site: &Site,
    learner: &Learner<'_>,
    exchange: &dyn Exchange,
) -> Result<Option<Audit>, RunError> {
    let Some(audited) = exchange.audited().filter(|audited| audited.series == arm.series()) else { return Ok(None) };
    let Part::Noisy(clip) = site.part(arm) else {
        return Err(RunError::Failed("the manifest promises an audit of releases without noise".to_owned()));
    };
    Audit::open(&audited, spec, clip, site.rate(), learner, exchange).map(Some)
}

/// Returns the canaries of this participant's audit that take part in an arm with exact gradients of data that their
/// owner opened.
fn guests(
    spec: &Spec,
    arm: Arm,
    site: &Site,
    start: &Model,
    exchange: &dyn Exchange,
) -> Result<Option<Guests>, RunError> {
    let Some(audited) = exchange.audited().filter(|_| arm == Arm::Open && site.part(arm) == Part::Exact) else {
        return Ok(None);
    };
    Guests::open(&audited, arm.series(), spec, start, exchange)
}

/// Sends this participant's vector of a round, unless an earlier process did, or the round closed without it.
#[expect(clippy::too_many_arguments, reason = "one call, one caller")]
fn contribute(
    site: &Site,
    arm: Arm,
    round: u32,
    learner: &Learner<'_>,
    audit: Option<&mut Audit>,
    guests: Option<&Guests>,
    engine: &mut Engine,
    exchange: &mut dyn Exchange,
) -> Result<(), RunError> {
    let (series, part) = (arm.series(), site.part(arm));
    if part == Part::None {
        return Ok(());
    }
    match exchange.past(series, round)? {
        // A paid vector that is lost is not made a second time: the round continues without it.
        Past::Accepted | Past::Lost => Ok(()),
        Past::Stored => exchange.resend(series, round),
        Past::Untouched if exchange.closed(series, round)? => Ok(()),
        Past::Untouched => {
            let mut own = Contribution { site, series, round, learner, guests, engine, exchange: &mut *exchange };
            let vector = match part {
                Part::Noisy(clip) => match site.choice() {
                    // The contract allows no audit here; the grant of a selection could not pay for one.
                    Some(choice) => own.selected(clip, choice)?,
                    None => own.noisy(clip, audit)?,
                },
                Part::Exact | Part::None => own.exact()?,
            };
            exchange.send(series, round, vector)
        }
    }
}
