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

use undertone_api::job::audit::{AuditFinding, AuditPlan, AuditTrial, CanaryFamily};
use undertone_api::job::dp_sgd::{Arm, Spec};
use undertone_privacy::{PrivacyUnit, SamplingRate};

use self::canary::{Directions, Recordings, coins};
use self::journal::Journal;
use super::learner::Learner;
use crate::dp::clip::Clip;
use crate::dp::per_unit::PerUnit;
use crate::dp::randomness::{Purpose, Randomness};
use crate::run::{Exchange, Past, RunError};
use crate::speech::model::Model;
use crate::speech::model::gradient::{Engine, Unit};

/// Streams of the secret.
mod stream {
    /// The coins of the family `Direction`.
    pub(super) const DIRECTION_COINS: u32 = 0;
    /// The coins of the family `Recording`.
    pub(super) const RECORDING_COINS: u32 = 1;
    /// The coordinates and signs of the directions.
    pub(super) const DIRECTIONS: u32 = 2;
    /// The first made-up recording; one stream each.
    pub(super) const RECORDINGS: u32 = 1 << 16;
    /// The first shadow, which is never a member.
    pub(super) const SHADOWS: u32 = 1 << 20;
}

/// The audit of one participant's part in a series.
pub(super) struct Audit {
    trials: Vec<AuditTrial>,
    beside: Vec<String>,
    clip: Clip,
    rate: SamplingRate,
    directions: Directions,
    recordings: Recordings,
    journal: Journal,
    start: Model,
}

/// The canaries in a batch.
pub(super) struct Drawn<'a> {
    /// Members of the family `Recording`.
    pub(super) recordings: Vec<Unit<'a>>,
    /// Numbers of members of the family `Direction`.
    directions: Vec<usize>,
}

impl Audit {
    /// Opens the audit that the job promises of an arm at its start, from its state in an earlier process.
    ///
    /// # Errors
    /// [`RunError::Failed`] when the disk refuses, or when rounds were released and the secret of their canaries is
    /// gone.
    pub(super) fn open(
        audited: &AuditPlan,
        spec: &Spec,
        clip: Clip,
        rate: SamplingRate,
        learner: &Learner<'_>,
        exchange: &dyn Exchange,
    ) -> Result<Self, RunError> {
        let (start, length) = (learner.model(), learner.trained().len());
        let secret = secret(audited, exchange)?;
        let directions = count(audited, CanaryFamily::Direction);
        if directions > length {
            return Err(RunError::Failed(format!("{directions} canaries do not fit into {length} trained parameters")));
        }
        Ok(Self {
            trials: audited.trials.clone(),
            beside: audited.beside.clone(),
            clip,
            rate,
            directions: Directions::draw(
                coins(directions, &mut secret.stream(stream::DIRECTION_COINS)),
                length,
                &mut secret.stream(stream::DIRECTIONS),
            ),
            recordings: recordings(audited, spec, start, &secret),
            journal: Journal::open(exchange.folder(), directions)?,
            start: start.clone(),
        })
    }

    /// Returns the number of canaries that are members of the data.
    pub(super) fn members(&self) -> usize {
        self.recordings.members() + self.directions.members()
    }

    /// Returns the canaries among the members with these numbers, each below [`Audit::members`].
    pub(super) fn drawn(&self, numbers: impl Iterator<Item = usize>) -> Drawn<'_> {
        let mut drawn = Drawn { recordings: Vec::new(), directions: Vec::new() };
        for number in numbers {
            match number.checked_sub(self.recordings.members()) {
                None => drawn.recordings.push(self.recordings.member(number)),
                Some(number) => drawn.directions.push(number),
            }
        }
        drawn
    }

    /// Returns the gradients of the drawn members of the family `Direction`, in micro-batches.
    pub(super) fn gradients<'a>(&'a self, drawn: &'a Drawn<'_>) -> impl Iterator<Item = PerUnit> + 'a {
        self.directions.gradients(&drawn.directions, self.clip.bound())
    }

    /// Returns the evidence of a released mean gradient about each canary. For a round of several releases the sum
    /// counts: their noises are independent, and so are the draws of their batches.
    pub(super) fn evidence<'a>(&'a self, released: &'a [f32], expected_batch: f64) -> impl Iterator<Item = f64> + 'a {
        let (q, z) = (self.rate.get(), self.clip.noise_multiplier().get());
        let in_clips = expected_batch / self.clip.bound();
        self.directions.seen(released, in_clips).map(move |x| guess::evidence(x, q, z))
    }

    /// Returns the evidence before the first release.
    pub(super) fn nothing_seen(&self) -> Vec<f64> {
        vec![0.0; self.directions.coins().len()]
    }

    /// Stores the evidence of a round's releases about the canaries; on disk when this returns. It precedes the
    /// vector's submission, so that no release can be missing from the evidence. If a round is made anew because the
    /// first vector never left, its evidence replaces the first.
    ///
    /// # Errors
    /// [`RunError::Failed`] when the disk refuses.
    pub(super) fn note(&mut self, round: u32, seen: Vec<f64>) -> Result<(), RunError> {
        self.journal.note(round, seen)
    }

    /// Guesses, and attacks the finished model, beside those of other arms that the audit names: the public one, which
    /// is the start, and the open one, if there is one.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the exchange is stopped.
    pub(super) fn conclude(
        &self,
        end: &Model,
        open: Option<&Model>,
        engine: &mut Engine,
        exchange: &dyn Exchange,
    ) -> Result<AuditFinding, RunError> {
        let mut look = |model: &Model| attack::look(&self.recordings, model, engine, exchange);
        let (start, end) = (look(&self.start)?, look(end)?);
        let scores = end.beyond(&start);
        let coins = self.recordings.coins();
        let trials = self.trials.iter().map(|trial| match trial.family {
            CanaryFamily::Direction => guess::guess(*trial, &self.journal.scores(), self.directions.coins()),
            CanaryFamily::Recording => guess::guess(*trial, scores.of_canaries(), coins),
        });
        let trials = trials.collect();
        let mut attacks = Vec::new();
        if !coins.is_empty() {
            attacks.extend([end.attack(None, coins), scores.attack(None, coins)]);
            for series in &self.beside {
                match open.filter(|_| *series == Arm::Open.series()) {
                    Some(open) => {
                        let open = look(open)?;
                        attacks.extend([
                            open.attack(Some(series), coins),
                            open.beyond(&start).attack(Some(series), coins),
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

/// The made-up recordings among the units of an arm that sends exact gradients: those of the audited arm, drawn like
/// every other unit, so that the two attacks can be compared.
pub(super) struct Guests(Recordings);

impl Guests {
    /// Opens the guests of `series`, if the audit names it beside its own.
    ///
    /// # Errors
    /// As [`Audit::open`].
    pub(super) fn open(
        audited: &AuditPlan,
        series: &str,
        spec: &Spec,
        start: &Model,
        exchange: &dyn Exchange,
    ) -> Result<Option<Self>, RunError> {
        if !audited.beside.iter().any(|beside| beside == series) {
            return Ok(None);
        }
        Ok(Some(Self(recordings(audited, spec, start, &secret(audited, exchange)?))))
    }

    /// Returns their number.
    pub(super) const fn members(&self) -> usize {
        self.0.members()
    }

    /// Returns those with these numbers, each below [`Guests::members`].
    pub(super) fn drawn(&self, numbers: impl Iterator<Item = usize>) -> Vec<Unit<'_>> {
        numbers.map(|number| self.0.member(number)).collect()
    }
}

fn count(audited: &AuditPlan, family: CanaryFamily) -> usize {
    audited.trials.iter().find(|trial| trial.family == family).map_or(0, |trial| trial.canaries as usize)
}

/// Returns the secret of the canaries, which must exist once a round of any series with canaries was released.
fn secret(audited: &AuditPlan, exchange: &dyn Exchange) -> Result<Randomness, RunError> {
    let mut begun = false;
    for series in std::iter::once(&audited.series).chain(&audited.beside) {
        begun |= exchange.past(series, 1)? != Past::Untouched;
    }
    journal::secret(exchange.folder(), begun, || Randomness::from_os(Purpose::Canaries))
}

/// Makes the made-up recordings: the same for the same secret and start, for every arm.
fn recordings(audited: &AuditPlan, spec: &Spec, start: &Model, secret: &Randomness) -> Recordings {
    let utterances = if spec.unit == PrivacyUnit::Record { 1 } else { canary::UTTERANCES };
    let coins = coins(count(audited, CanaryFamily::Recording), &mut secret.stream(stream::RECORDING_COINS));
    Recordings::make(coins, utterances, start, secret)
}

#[cfg(test)]
mod tests;
