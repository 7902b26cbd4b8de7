//! Each provider's ability to distinguish dummies from true pieces: the site simulates its adversary, on that
//! provider's sounds and answers, and with the truth, which only the site knows.
//!
//! The result is computed from the recordings, as a part of [`TranscriptionOutcome`](undertone_api::job::transcription::TranscriptionOutcome).
//! Like that, it goes to the site's own report, and to the server for public recordings only. The attack reads sounds
//! that have left already and sends nothing. It must never prevent a transcript: an attack that cannot run is reported
//! and left out.
//!
//! Speaker identification is not attempted here: a site does not know its speakers. The benchmark attempts it on
//! recordings with known speakers.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng as _};
use undertone_api::id::JobId;
use undertone_api::job::transcription::{Spec, TranscriptionAttack, UntriedAttack};

use super::go_on;
use super::pieces::Ground;
use crate::dp::noise::below;
use crate::run::{Exchange, RunError};
use crate::speech::mfcc::Mfcc;
use crate::speech::transcribe::attack::{AttackKnowledge, AttackLearner, FOLDS, ReceivedSound, feature, true_or_dummy};
use crate::speech::transcribe::outbound::{OutboundError, SealedSounds};
use crate::speech::transcribe::piece::{Recognition, seconds};
use crate::speech::transcribe::plan::{BatchItem, Plan};

/// The highest number of a provider's sounds that are used, drawn from all answered ones.
const MOST: usize = 2_000;
/// The lowest number of true pieces, and of dummies, for training.
const LEAST: usize = 10;
/// The confidence of the intervals.
const CONFIDENCE: f64 = 0.95;

/// The attempted attacks.
#[derive(Debug, Clone, Default)]
pub(super) struct Tried {
    /// By provider, learner and knowledge.
    pub(super) attacks: Vec<TranscriptionAttack>,
    /// The attacks that could not run.
    pub(super) untried: Vec<UntriedAttack>,
}

/// The reason for a missing attack.
#[derive(Debug, thiserror::Error)]
enum Problem {
    #[error("fewer than {LEAST} true pieces or fewer than {LEAST} dummies were answered: too few to learn from")]
    Few,
    #[error("a sound cannot be read")]
    Sound(#[from] OutboundError),
    #[error("the worker was asked to stop")]
    Stopped,
}

/// The target of an attack.
pub(super) struct Target<'a> {
    pub(super) ground: &'a Ground,
    pub(super) plan: &'a Plan,
    pub(super) sealed: &'a SealedSounds,
}

/// Simulates every provider's adversary. The same job uses the same sounds and produces the same numbers.
///
/// # Errors
/// [`RunError::Stopped`] when the exchange is stopped, and no other error.
pub(super) fn all(spec: &Spec, target: &Target<'_>, job: JobId, exchange: &dyn Exchange) -> Result<Tried, RunError> {
    let mut answered: Vec<Vec<(u32, Recognition)>> = vec![Vec::new(); spec.providers.len()];
    for (provider, place, heard) in target.sealed.answers() {
        if let Some(answered) = answered.get_mut(provider as usize) {
            answered.push((place, heard));
        }
    }
    let (high, low) = job.0.as_u64_pair();
    let mut tried = Tried::default();
    for ((provider, asked), answered) in (0_u32..).zip(&spec.providers).zip(answered) {
        go_on(exchange)?;
        match target.play(provider, &asked.name, answered, high ^ low, exchange) {
            Ok(attacks) => tried.attacks.extend(attacks),
            Err(stopped @ Problem::Stopped) => return Err(RunError::Stopped(stopped.to_string())),
            Err(problem) => {
                if let Problem::Sound(error) = &problem {
                    tracing::warn!(%error, provider, "an attack could not be tried; the transcripts do not need it");
                }
                tried.untried.push(UntriedAttack { provider: asked.name.clone(), why: problem.to_string() });
            }
        }
    }
    Ok(tried)
}

impl Target<'_> {
    fn play(
        &self,
        provider: u32,
        name: &str,
        answered: Vec<(u32, Recognition)>,
        seed: u64,
        exchange: &dyn Exchange,
    ) -> Result<Vec<TranscriptionAttack>, Problem> {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        rng.set_stream(u64::from(provider));
        let batch = self.plan.batch(provider);
        let labelled = answered.into_iter().filter_map(|(place, heard)| {
            batch.get(place as usize).map(|item| (place, matches!(item, BatchItem::Dummy(_)), heard))
        });
        let drawn = draw(labelled.collect(), MOST, &mut rng);
        let folds = folds(drawn.iter().map(|(_, dummy, _)| *dummy)).ok_or(Problem::Few)?;
        let (mut mfcc, mut received) = (Mfcc::new(), Vec::with_capacity(drawn.len()));
        for ((place, dummy, heard), fold) in drawn.into_iter().zip(folds) {
            if exchange.stopped() {
                return Err(Problem::Stopped);
            }
            // One sound in memory at a time; some fifty numbers of it remain.
            let samples = self.sealed.samples(provider, place)?;
            let words = feature::words(&self.ground.vocabulary, &heard, seconds(samples.len() as u64));
            received.push(ReceivedSound { fold, dummy, sound: feature::sound(&mut mfcc, &samples), words });
        }
        let mut attacks = Vec::new();
        for knowledge in AttackKnowledge::ALL {
            for learner in AttackLearner::ALL {
                let told = true_or_dummy(&received, learner, knowledge, seed, &|| exchange.stopped());
                let scores = told.ok_or(Problem::Stopped)?;
                attacks.push(TranscriptionAttack {
                    name: format!("true or dummy at {name}: {}, by {}", learner.label(), knowledge.label()),
                    accuracy: scores.accuracy(),
                    interval: scores.interval(CONFIDENCE).into(),
                    chance: scores.chance(),
                });
            }
        }
        Ok(attacks)
    }
}

/// Draws at most `most` of them, each with the same probability, in a random order.
fn draw<T>(mut all: Vec<T>, most: usize, rng: &mut impl Rng) -> Vec<T> {
    let count = all.len().min(most);
    for place in 0..count {
        let left = (all.len() - place) as u32;
        all.swap(place, place + below(left, rng) as usize);
    }
    all.truncate(count);
    all
}

/// Returns the fold of each, so that each fold has its share of both; `None` if there are too few of one.
fn folds(dummies: impl Iterator<Item = bool>) -> Option<Vec<usize>> {
    let mut counts = [0_usize; 2];
    let fold = |dummy: bool| {
        let count = &mut counts[usize::from(dummy)];
        *count += 1;
        (*count - 1) % FOLDS
    };
    let folds = dummies.map(fold).collect();
    counts.iter().all(|count| *count >= LEAST).then_some(folds)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand_chacha::ChaCha20Rng;
    use rand_chacha::rand_core::SeedableRng as _;

    use super::{FOLDS, LEAST, MOST, draw, folds};

    #[test]
    fn at_most_two_thousand_sounds_are_looked_at_none_twice() {
        let of = |count: u32, seed| draw((0..count).collect(), MOST, &mut ChaCha20Rng::seed_from_u64(seed));
        let drawn = of(5_000, 1);
        assert_eq!((drawn.len(), drawn.iter().collect::<BTreeSet<_>>().len()), (2_000, 2_000));
        assert!((drawn.iter().map(|one| f64::from(*one)).sum::<f64>() / 2_000.0 - 2_499.5).abs() < 150.0);
        assert_eq!(of(5_000, 1), drawn);
        assert_ne!(of(5_000, 2), drawn);
        assert_eq!(of(30, 1).into_iter().collect::<BTreeSet<_>>(), (0..30).collect());
        assert!(of(0, 1).is_empty());
    }

    #[test]
    fn every_part_has_its_share_of_both() {
        let dummies: Vec<bool> = (0..90).map(|at| at % 3 == 0).collect();
        let parts = folds(dummies.iter().copied()).expect("enough of both");
        for part in 0..FOLDS {
            let of =
                |wanted| parts.iter().zip(&dummies).filter(|(at, dummy)| **at == part && **dummy == wanted).count();
            assert_eq!((of(true), of(false)), (6, 12));
        }
    }

    #[test]
    fn of_nine_nothing_is_learned() {
        let folds = |pieces, dummies| {
            folds(std::iter::repeat_n(false, pieces).chain(std::iter::repeat_n(true, dummies))).is_some()
        };
        assert!(folds(LEAST, LEAST));
        assert!(!folds(LEAST - 1, 1_000) && !folds(1_000, LEAST - 1) && !folds(0, 0));
    }
}
