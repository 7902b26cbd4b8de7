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
use undertone_api::job::dp_sgd::Spec;
use undertone_privacy::{PrivacyUnit, SamplingRate};

use self::canary::{Directions, Recordings, coins};
use self::journal::Journal;
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
    /// The audit that the job promises, from where an earlier life left it.
    ///
    /// # Errors
    /// [`RunError::Failed`] when the disk refuses, or when rounds were released and the secret of their canaries is gone.
    pub(super) fn open(
        audited: &Audited,
        spec: &Spec,
        clip: Clip,
        rate: SamplingRate,
        start: &Model,
        exchange: &dyn Exchange,
    ) -> Result<Self, RunError> {
        let begun = exchange.past(&audited.series, 1)? != Past::Untouched;
        let secret = journal::secret(exchange.folder(), begun, || Randomness::from_os(Purpose::Canaries))?;
        let count = |family| audited.trials.iter().find(|t| t.family == family).map_or(0, |t| t.canaries as usize);
        let (directions, recordings) = (count(Family::Direction), count(Family::Recording));
        let utterances = if spec.unit == PrivacyUnit::Record { 1 } else { canary::UTTERANCES };
        let shape = *start.shape();
        if directions > shape.parameters() {
            let parameters = shape.parameters();
            return Err(RunError::Failed(format!("{directions} canaries do not fit into {parameters} parameters")));
        }
        Ok(Self {
            trials: audited.trials.clone(),
            clip,
            rate,
            directions: Directions::draw(
                coins(directions, &mut secret.stream(stream::DIRECTION_COINS)),
                shape.parameters(),
                &mut secret.stream(stream::DIRECTIONS),
            ),
            recordings: Recordings::make(
                coins(recordings, &mut secret.stream(stream::RECORDING_COINS)),
                utterances,
                start,
                &secret,
            ),
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

    /// Keeps what a released vector says about the canaries; on disk when this returns. Said before the vector leaves, so that
    /// no release can be missing from the evidence; a round that is made anew because the first vector never left takes the
    /// first one's place.
    ///
    /// # Errors
    /// [`RunError::Failed`] when the disk refuses.
    pub(super) fn note(&mut self, round: u32, released: &[f32], expected_batch: f64) -> Result<(), RunError> {
        let (q, z) = (self.rate.get(), self.clip.noise_multiplier().get());
        let in_clips = expected_batch / self.clip.bound();
        let seen = self.directions.seen(released, in_clips).map(|x| guess::evidence(x, q, z)).collect();
        self.journal.note(round, seen)
    }

    /// Guesses, and attacks the finished model.
    ///
    /// # Errors
    /// [`RunError::Stopped`] when the exchange says so.
    pub(super) fn conclude(
        &self,
        end: &Model,
        engine: &mut Engine,
        exchange: &dyn Exchange,
    ) -> Result<Finding, RunError> {
        let models = attack::Models { start: &self.start, end };
        let seen = attack::look(&self.recordings, &models, engine, exchange)?;
        let trials = self.trials.iter().map(|trial| match trial.family {
            Family::Direction => guess::guess(*trial, &self.journal.scores(), self.directions.coins()),
            Family::Recording => guess::guess(*trial, &seen.likelihood_ratios, self.recordings.coins()),
        });
        Ok(Finding { trials: trials.collect(), attacks: seen.attacks(self.recordings.coins()) })
    }
}

#[cfg(test)]
mod tests;
