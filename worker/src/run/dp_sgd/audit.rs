//! The audit of a participant's private releases, in one training run (Steinke, Nasr and Jagielski 2023).
//!
//! Before its first round a participant makes canaries, units that are no one's, and tosses a fair coin for each. Those that
//! come up are members of its data: they are drawn, clipped, summed and hidden like every other unit, by the same code. When
//! the last round is over it guesses, from what it released and nothing else, how each coin fell. A claim of (ε, δ) says how
//! often such guesses can be right.
//!
//! The secret is 32 bytes of the operating system's entropy, on the site's disk before the first draw; everything about the
//! canaries follows from it, so a run that is killed goes on with the same ones. What is computed here from the releases and
//! the coins is post-processing and costs nothing. Nothing of people's units may enter it: no loss, norm or count of theirs.
//!
//! `canary` makes them, `journal` keeps the evidence over restarts, `attack` and `guess` draw the conclusions.

mod attack;
mod canary;
mod guess;
mod journal;

use undertone_api::job::audit::{Audited, Family, Finding, Trial};
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
    /// Which of the family `Direction` are in.
    pub(super) const DIRECTION_COINS: u32 = 0;
    /// Which of the family `Recording` are in.
    pub(super) const RECORDING_COINS: u32 = 1;
    /// Where the directions point.
    pub(super) const DIRECTIONS: u32 = 2;
    /// The first made-up recording; one stream each.
    pub(super) const RECORDINGS: u32 = 1 << 16;
    /// The first that is never in.
    pub(super) const SHADOWS: u32 = 1 << 20;
}

/// The audit of one participant's part in a series.
pub(super) struct Audit {
    trials: Vec<Trial>,
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
    /// The audit that the job promises of an arm at its start, from where an earlier life left it.
    ///
    /// # Errors
    /// [`RunError::Failed`] when the disk refuses, or when rounds were released and the secret of their canaries is gone.
    pub(super) fn open(
        audited: &Audited,
        spec: &Spec,
        clip: Clip,
        rate: SamplingRate,
        learner: &Learner<'_>,
        exchange: &dyn Exchange,
    ) -> Result<Self, RunError> {
        let (start, length) = (learner.model(), learner.trained().len());
        let secret = secret(audited, exchange)?;
        let directions = count(audited, Family::Direction);
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

    /// How many canaries are members of the data.
    pub(super) fn members(&self) -> usize {
        self.recordings.members() + self.directions.members()
    }

    /// The canaries among the members with these numbers, each below [`Audit::members`].
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

    /// The gradients of the drawn members of the family `Direction`, in micro-batches.
    pub(super) fn gradients<'a>(&'a self, drawn: &'a Drawn<'_>) -> impl Iterator<Item = PerUnit> + 'a {
        self.directions.gradients(&drawn.directions, self.clip.bound())
    }

    /// What a released mean gradient says about each canary. Of a round of several releases the sum counts: their noises are
    /// independent, and so are the draws of their batches.
    pub(super) fn evidence<'a>(&'a self, released: &'a [f32], expected_batch: f64) -> impl Iterator<Item = f64> + 'a {
        let (q, z) = (self.rate.get(), self.clip.noise_multiplier().get());
        let in_clips = expected_batch / self.clip.bound();
        self.directions.seen(released, in_clips).map(move |x| guess::evidence(x, q, z))
    }

    /// What is known of each canary before the first release.
    pub(super) fn nothing_seen(&self) -> Vec<f64> {
        vec![0.0; self.directions.coins().len()]
    }

    /// Keeps what the releases of a round say about the canaries; on disk when this returns. Said before the vector leaves, so
    /// that no release can be missing from the evidence; a round that is made anew because the first vector never left takes
    /// the first one's place.
    ///
    /// # Errors
    /// [`RunError::Failed`] when the disk refuses.
    pub(super) fn note(&mut self, round: u32, seen: Vec<f64>) -> Result<(), RunError> {
        self.journal.note(round, seen)
    }

    /// Guesses, and attacks the finished model, beside those of other arms that the audit names: the public one, which is
    /// the start, and the open one, if it is there.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the exchange says so.
    pub(super) fn conclude(
        &self,
        end: &Model,
        open: Option<&Model>,
        engine: &mut Engine,
        exchange: &dyn Exchange,
    ) -> Result<Finding, RunError> {
        let mut look = |model: &Model| attack::look(&self.recordings, model, engine, exchange);
        let (start, end) = (look(&self.start)?, look(end)?);
        let scores = end.beyond(&start);
        let coins = self.recordings.coins();
        let trials = self.trials.iter().map(|trial| match trial.family {
            Family::Direction => guess::guess(*trial, &self.journal.scores(), self.directions.coins()),
            Family::Recording => guess::guess(*trial, scores.of_canaries(), coins),
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
                    // What the start makes of a recording beyond what the start makes of it is nothing.
                    None if *series == Arm::Public.series() => attacks.push(start.attack(Some(series), coins)),
                    None => {}
                }
            }
        }
        Ok(Finding { trials, attacks })
    }
}

/// The made-up recordings among the units of an arm that sends exact gradients: the ones of the audited arm, drawn or not like
/// every other unit, so that one attack can be held against the other.
pub(super) struct Guests(Recordings);

impl Guests {
    /// The guests of `series`, when the audit names it beside its own.
    ///
    /// # Errors
    /// As [`Audit::open`].
    pub(super) fn open(
        audited: &Audited,
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

    /// How many there are.
    pub(super) const fn members(&self) -> usize {
        self.0.members()
    }

    /// Those with these numbers, each below [`Guests::members`].
    pub(super) fn drawn(&self, numbers: impl Iterator<Item = usize>) -> Vec<Unit<'_>> {
        numbers.map(|number| self.0.member(number)).collect()
    }
}

fn count(audited: &Audited, family: Family) -> usize {
    audited.trials.iter().find(|trial| trial.family == family).map_or(0, |trial| trial.canaries as usize)
}

/// The secret of the canaries, which must be there once a round of any series with canaries was released.
fn secret(audited: &Audited, exchange: &dyn Exchange) -> Result<Randomness, RunError> {
    let mut begun = false;
    for series in std::iter::once(&audited.series).chain(&audited.beside) {
        begun |= exchange.past(series, 1)? != Past::Untouched;
    }
    journal::secret(exchange.folder(), begun, || Randomness::from_os(Purpose::Canaries))
}

/// The made-up recordings: the same for the same secret and start, whatever the arm.
fn recordings(audited: &Audited, spec: &Spec, start: &Model, secret: &Randomness) -> Recordings {
    let utterances = if spec.unit == PrivacyUnit::Record { 1 } else { canary::UTTERANCES };
    let coins = coins(count(audited, Family::Recording), &mut secret.stream(stream::RECORDING_COINS));
    Recordings::make(coins, utterances, start, secret)
}

#[cfg(test)]
mod tests;
