//! The audit of a participant's private releases, in one training run (Steinke, Nasr and Jagielski 2023).
//!
//! Before its first round a participant makes canaries, artificial units, and tosses a fair coin for each. The selected
//! ones are members of its data: the same code draws, clips, sums and hides them like every other unit. After the last
//! round it guesses each coin from its releases alone. A claim of (ε, δ) bounds the number of correct guesses.
//!
//! The secret is 32 bytes of the operating system's entropy, on the site's disk before the first draw. Everything about
//! the canaries follows from it, so a killed run resumes with the same ones. Results from the releases and the coins
//! are post-processing and cost nothing. No loss, norm or count of people's units may enter.
//!
//! `canary` makes them, `journal` keeps the evidence over restarts, `attack` and `guess` draw the conclusions.

mod attack;
mod canary;
mod guess;
mod journal;
mod stream;

use undertone_api::job::audit::{AuditFinding, AuditPlan, AuditTrial, CanaryFamily};
use undertone_api::job::dp_sgd::{Arm, Spec};
use undertone_privacy::{PrivacyUnit, SamplingRate};

use self::canary::{CanaryDirections, SyntheticRecordings, toss_coins};
use self::journal::EvidenceJournal;
use super::error::TrainingError;
use super::learner::ArmLearner;
use crate::dp::clip::Clip;
use crate::dp::per_unit::PerUnit;
use crate::dp::randomness::{Purpose, Randomness};
use crate::run::{RoundKey, RoundProgress, RunContext, RunError};
use crate::speech::model::Model;
use crate::speech::model::gradient::{Engine, Unit};

/// The audit of one participant's part in a series.
pub(super) struct ReleaseAudit {
    trials: Vec<AuditTrial>,
    /// The other series that the audit compares.
    compared: Vec<String>,
    clip: Clip,
    rate: SamplingRate,
    directions: CanaryDirections,
    recordings: SyntheticRecordings,
    journal: EvidenceJournal,
    start: Model,
}

/// The canaries in a batch.
pub(super) struct BatchCanaries<'a> {
    /// Members of the family `Recording`.
    pub(super) recordings: Vec<Unit<'a>>,
    /// Numbers of members of the family `Direction`.
    directions: Vec<usize>,
}

impl ReleaseAudit {
    /// Opens the audit that the job promises of an arm at its start, from its state in an earlier process.
    ///
    /// # Errors
    /// [`RunError::Failed`] when the disk refuses, or when rounds were released and the secret of their canaries is
    /// gone.
    pub(super) fn open(
        promise: &AuditPlan,
        spec: &Spec,
        clip: Clip,
        rate: SamplingRate,
        learner: &ArmLearner<'_>,
        exchange: &dyn RunContext,
    ) -> Result<Self, RunError> {
        let start = learner.model();
        let parameters = learner.coordinates().len();
        let secret = load_secret(promise, exchange)?;
        let canaries = count_canaries(promise, CanaryFamily::Direction);
        if canaries > parameters {
            return Err(TrainingError::TooManyCanaries { canaries, parameters }.into());
        }
        Ok(Self {
            trials: promise.trials.clone(),
            compared: promise.beside.clone(),
            clip,
            rate,
            directions: CanaryDirections::draw(
                toss_coins(canaries, &mut secret.stream(stream::DIRECTION_COINS)),
                parameters,
                &mut secret.stream(stream::DIRECTIONS),
            ),
            recordings: make_recordings(promise, spec, start, &secret),
            journal: EvidenceJournal::open(exchange.folder(), canaries)?,
            start: start.clone(),
        })
    }

    /// Returns the number of canaries that are members of the data.
    pub(super) fn members(&self) -> usize {
        self.recordings.members() + self.directions.members()
    }

    /// Returns the canaries among the members with these numbers, each below [`ReleaseAudit::members`].
    pub(super) fn batch_canaries(&self, numbers: impl Iterator<Item = usize>) -> BatchCanaries<'_> {
        let mut canaries = BatchCanaries { recordings: Vec::new(), directions: Vec::new() };
        for number in numbers {
            match number.checked_sub(self.recordings.members()) {
                None => canaries.recordings.push(self.recordings.member(number)),
                Some(number) => canaries.directions.push(number),
            }
        }
        canaries
    }

    /// Returns the gradients of the drawn members of the family `Direction`, in micro-batches.
    pub(super) fn gradients<'a>(&'a self, canaries: &'a BatchCanaries<'_>) -> impl Iterator<Item = PerUnit> + 'a {
        self.directions.gradients(&canaries.directions, self.clip.bound())
    }

    /// Returns the evidence of a released mean gradient about each canary. For a round of several releases the sum
    /// counts: their noises are independent, and so are the draws of their batches.
    pub(super) fn evidence<'a>(&'a self, released: &'a [f32], expected_batch: f64) -> impl Iterator<Item = f64> + 'a {
        let q = self.rate.get();
        let z = self.clip.noise_multiplier().get();
        let in_clips = expected_batch / self.clip.bound();
        self.directions.amounts(released, in_clips).map(move |x| guess::evidence(x, q, z))
    }

    /// Returns the evidence before the first release.
    pub(super) fn no_evidence(&self) -> Vec<f64> {
        vec![0.0; self.directions.coins().len()]
    }

    /// Stores the evidence of a round's releases about the canaries; on disk when this returns. It precedes the
    /// vector's submission, so that no release can be missing from the evidence. If a round is made anew because the
    /// first vector never left, its evidence replaces the first.
    ///
    /// # Errors
    /// [`RunError::Failed`] when the disk refuses.
    pub(super) fn record(&mut self, round: u32, evidence: Vec<f64>) -> Result<(), RunError> {
        self.journal.record(round, evidence)
    }

    /// Guesses, and attacks the finished model and those of the other arms that the audit names: the public one, which
    /// is the start, and the open one, if there is one.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the exchange is stopped.
    pub(super) fn conclude(
        &self,
        end: &Model,
        open: Option<&Model>,
        engine: &mut Engine,
        exchange: &dyn RunContext,
    ) -> Result<AuditFinding, RunError> {
        let mut losses = |model: &Model| attack::compute_losses(&self.recordings, model, engine, exchange);
        let start = losses(&self.start)?;
        let end = losses(end)?;
        let scores = end.excess_over(&start);
        let coins = self.recordings.coins();
        let trials = self.trials.iter().map(|trial| match trial.family {
            CanaryFamily::Direction => guess::guess(*trial, &self.journal.scores(), self.directions.coins()),
            CanaryFamily::Recording => guess::guess(*trial, scores.canaries(), coins),
        });
        let trials = trials.collect();
        let mut attacks = Vec::new();
        if !coins.is_empty() {
            attacks.extend([end.attack(None, coins), scores.attack(None, coins)]);
            for series in &self.compared {
                match open.filter(|_| *series == Arm::Open.series()) {
                    Some(open) => {
                        let open = losses(open)?;
                        attacks.extend([
                            open.attack(Some(series), coins),
                            open.excess_over(&start).attack(Some(series), coins),
                        ]);
                    }
                    // The start has no score beyond itself.
                    None if *series == Arm::Public.series() => attacks.push(start.attack(Some(series), coins)),
                    None => {}
                }
            }
        }
        Ok(AuditFinding { trials, attacks })
    }
}

/// The canaries among the units of an arm that sends exact gradients: the synthetic recordings of the audited arm,
/// drawn like every other unit, so that the two attacks can be compared.
pub(super) struct CanaryRecordings(SyntheticRecordings);

impl CanaryRecordings {
    /// Opens the canaries of `series`, if the audit compares it with its own.
    ///
    /// # Errors
    /// As [`ReleaseAudit::open`].
    pub(super) fn open(
        promise: &AuditPlan,
        series: &str,
        spec: &Spec,
        start: &Model,
        exchange: &dyn RunContext,
    ) -> Result<Option<Self>, RunError> {
        if !promise.beside.iter().any(|compared| compared == series) {
            return Ok(None);
        }
        Ok(Some(Self(make_recordings(promise, spec, start, &load_secret(promise, exchange)?))))
    }

    /// Returns their number.
    pub(super) const fn members(&self) -> usize {
        self.0.members()
    }

    /// Returns those with these numbers, each below [`CanaryRecordings::members`].
    pub(super) fn select(&self, numbers: impl Iterator<Item = usize>) -> Vec<Unit<'_>> {
        numbers.map(|number| self.0.member(number)).collect()
    }
}

/// Returns the number of canaries of a family.
fn count_canaries(promise: &AuditPlan, family: CanaryFamily) -> usize {
    promise.trials.iter().find(|trial| trial.family == family).map_or(0, |trial| trial.canaries as usize)
}

/// Returns the secret of the canaries, which must exist once a round of any series with canaries was released.
fn load_secret(promise: &AuditPlan, exchange: &dyn RunContext) -> Result<Randomness, RunError> {
    let mut has_begun = false;
    for series in std::iter::once(&promise.series).chain(&promise.beside) {
        has_begun |= exchange.round_progress(RoundKey::new(series, 1))? != RoundProgress::Untouched;
    }
    journal::load_secret(exchange.folder(), has_begun, || Randomness::from_os(Purpose::Canaries))
}

/// Makes the synthetic recordings: the same for the same secret and start, for every arm.
fn make_recordings(promise: &AuditPlan, spec: &Spec, start: &Model, secret: &Randomness) -> SyntheticRecordings {
    let utterances = if spec.unit == PrivacyUnit::Record { 1 } else { canary::UTTERANCES };
    let coins =
        toss_coins(count_canaries(promise, CanaryFamily::Recording), &mut secret.stream(stream::RECORDING_COINS));
    SyntheticRecordings::make(coins, utterances, start, secret)
}

#[cfg(test)]
mod tests;
