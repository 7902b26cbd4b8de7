//! The rounds of one arm.

use std::time::Instant;

use undertone_api::job::dp_sgd::{Arm, Rounds, Spec};

use super::audit::{CanaryRecordings, ReleaseAudit};
use super::contribution::RoundContribution;
use super::correlated::{CorrelatedRounds, banded_terms};
use super::error::TrainingError;
use super::learner::ArmLearner;
use super::pace::{RoundShape, slowest_round};
use super::site::{ContributionMode, TrainingSite};
use super::test_sets::{TestSets, report_tests};
use super::trained_model::TrainedModel;
use crate::dp::clip::Clip;
use crate::run::{Artifacts, Averaging, RoundKey, RunError, check_cancelled};
use crate::speech::model::Model;
use crate::speech::model::gradient::Engine;

/// One arm of a job, to be run from `start` to its last round.
pub(super) struct ArmRun<'a> {
    pub(super) spec: &'a Spec,
    pub(super) arm: Arm,
    pub(super) rounds: &'a Rounds,
    pub(super) site: &'a TrainingSite,
    pub(super) start: Model,
    /// The finished model of the open arm, if that ran before, for an audit's comparison.
    pub(super) open: Option<&'a Model>,
    /// The test sets that the lead measures on.
    pub(super) tests: Option<&'a TestSets>,
}

impl ArmRun<'_> {
    /// Runs the arm, from the last checkpoint of an earlier process if there is one.
    ///
    /// # Errors
    /// [`RunError`] when it ends without a model.
    pub(super) fn run(
        self,
        engine: &mut Engine,
        exchange: &mut (impl Averaging + Artifacts),
    ) -> Result<TrainedModel, RunError> {
        let canaries = self.open_canaries(exchange)?;
        let Self { spec, arm, rounds, site, start, open, tests } = self;
        let series = arm.series();
        let mut learner = ArmLearner::begin(spec, arm, rounds, exchange.manifest(), start)?;
        let mut audit = open_audit(spec, arm, site, &learner, exchange)?;
        let mut correlated = match site.mode(arm) {
            ContributionMode::Noisy(clip) => {
                let length = learner.coordinates().len();
                CorrelatedRounds::open(spec, site.party(), clip, length, site.data().digest(), exchange)?
            }
            ContributionMode::Exact | ContributionMode::None => None,
        };
        if let ContributionMode::Noisy(clip) = site.mode(arm)
            && let Some(longest) = site.longest()
        {
            // This precedes any access to the arm's private data.
            let shape = round_shape(spec, arm, site, clip, longest, exchange);
            exchange.fix_period(&mut || Ok(slowest_round(&shape, &learner, engine)))?;
        }
        if !learner.resume(exchange.folder())
            && let Some(tests) = tests
        {
            report_tests(arm, 0, &learner.result(), tests, engine, exchange)?;
        }
        while learner.finished_rounds() < rounds.rounds {
            let began = Instant::now();
            let key = RoundKey::new(series, learner.finished_rounds() + 1);
            check_cancelled(exchange)?;
            let mut contribution = RoundContribution {
                site,
                key,
                learner: &learner,
                canaries: canaries.as_ref(),
                correlated: correlated.as_mut(),
                engine: &mut *engine,
                exchange: &mut *exchange,
            };
            contribution.contribute(site.mode_in_round(arm, key.round), audit.as_mut())?;
            learner.apply(&exchange.fetch_average(key)?)?;
            // The round is closed. A participant may have fewer rounds than the arm.
            if key.round >= spec.rounds_of(site.party())
                && let Some(correlated) = correlated.take()
            {
                correlated.destroy()?;
            }
            learner.add_seconds(began.elapsed().as_secs_f64());
            let is_last = key.round == rounds.rounds;
            if let Some(tests) = tests
                && (key.round.is_multiple_of(rounds.evaluate_every) || is_last)
            {
                report_tests(arm, key.round, &learner.result(), tests, engine, exchange)?;
            }
            if key.round.is_multiple_of(spec.checkpoint_every) || is_last {
                learner.save(exchange.folder())?;
            }
        }
        if let Some(correlated) = correlated {
            correlated.destroy()?;
        }
        let model = learner.result();
        let seconds = learner.seconds();
        if let Some(audit) = audit {
            let finding = audit.conclude(&model, open, engine, exchange)?;
            exchange.submit_finding(finding)?;
        }
        Ok(TrainedModel { model, seconds })
    }

    /// Returns the canaries of this participant's audit that take part in an arm with exact gradients of data that
    /// their owner opened.
    fn open_canaries(&self, exchange: &dyn Averaging) -> Result<Option<CanaryRecordings>, RunError> {
        let Self { spec, arm, site, start, .. } = self;
        let is_opened = *arm == Arm::Open && site.mode(*arm) == ContributionMode::Exact;
        let Some(promise) = exchange.promised_audit().filter(|_| is_opened) else { return Ok(None) };
        CanaryRecordings::open(&promise, arm.series(), spec, start, exchange)
    }
}

/// Returns this participant's audit of an arm, if the manifest promises one.
fn open_audit(
    spec: &Spec,
    arm: Arm,
    site: &TrainingSite,
    learner: &ArmLearner<'_>,
    exchange: &dyn Averaging,
) -> Result<Option<ReleaseAudit>, RunError> {
    let Some(promise) = exchange.promised_audit().filter(|promise| promise.series == arm.series()) else {
        return Ok(None);
    };
    let ContributionMode::Noisy(clip) = site.mode(arm) else { return Err(TrainingError::AuditWithoutNoise.into()) };
    ReleaseAudit::open(&promise, spec, clip, site.rate(), learner, exchange).map(Some)
}

/// Returns the public facts of a participant's private rounds.
fn round_shape<'a>(
    spec: &Spec,
    arm: Arm,
    site: &'a TrainingSite,
    clip: Clip,
    longest: usize,
    exchange: &dyn Averaging,
) -> RoundShape<'a> {
    let promise = exchange.promised_audit().filter(|promise| promise.series == arm.series());
    RoundShape {
        units: site.size(),
        canaries: promise.iter().flat_map(|promise| &promise.trials).map(|trial| u64::from(trial.canaries)).sum(),
        rate: site.rate(),
        longest,
        clip,
        correlated: banded_terms(spec, site.party()),
        selection: site.selection(),
        runs: spec.selection.as_ref().map_or(1, |selection| u64::from(selection.most_runs.get())),
    }
}
