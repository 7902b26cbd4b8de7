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

use super::pieces::PieceCatalog;
use crate::dp::noise::below;
use crate::run::{RunContext, RunError, StopReason, check_cancelled};
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
pub(super) struct AttackResults {
    /// By provider, learner and knowledge.
    pub(super) attacks: Vec<TranscriptionAttack>,
    /// The attacks that could not run.
    pub(super) untried: Vec<UntriedAttack>,
}

/// The reason for a missing attack.
#[derive(Debug, thiserror::Error)]
enum AttackProblem {
    #[error("fewer than {LEAST} true pieces or fewer than {LEAST} dummies were answered: too few to learn from")]
    Few,
    #[error("a sound cannot be read")]
    Sound(#[from] OutboundError),
    #[error("the worker was asked to stop")]
    Stopped,
}

/// The target of an attack.
pub(super) struct AttackTarget<'a> {
    pub(super) catalog: &'a PieceCatalog,
    pub(super) plan: &'a Plan,
    pub(super) sealed: &'a SealedSounds,
}

/// Simulates every provider's adversary. The same job uses the same sounds and produces the same numbers.
///
/// # Errors
/// [`RunError::Stopped`] when the exchange is stopped, and no other error.
pub(super) fn simulate_all(
    spec: &Spec,
    target: &AttackTarget<'_>,
    job: JobId,
    exchange: &dyn RunContext,
) -> Result<AttackResults, RunError> {
    let mut answers: Vec<Vec<(u32, Recognition)>> = vec![Vec::new(); spec.providers.len()];
    for (provider, place, recognition) in target.sealed.answers() {
        if let Some(answers) = answers.get_mut(provider as usize) {
            answers.push((place, recognition));
        }
    }
    let (high, low) = job.0.as_u64_pair();
    let mut results = AttackResults::default();
    for ((number, provider), answers) in (0_u32..).zip(&spec.providers).zip(answers) {
        check_cancelled(exchange)?;
        match target.simulate(number, &provider.name, answers, high ^ low, exchange) {
            Ok(attacks) => results.attacks.extend(attacks),
            Err(AttackProblem::Stopped) => return Err(RunError::Stopped(StopReason::Requested)),
            Err(problem) => {
                if let AttackProblem::Sound(error) = &problem {
                    tracing::warn!(%error, provider = number, "cannot simulate an attack; transcripts do not need it");
                }
                results.untried.push(UntriedAttack { provider: provider.name.clone(), why: problem.to_string() });
            }
        }
    }
    Ok(results)
}

impl AttackTarget<'_> {
    /// Simulates the adversary of one provider.
    fn simulate(
        &self,
        provider: u32,
        name: &str,
        answers: Vec<(u32, Recognition)>,
        seed: u64,
        exchange: &dyn RunContext,
    ) -> Result<Vec<TranscriptionAttack>, AttackProblem> {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        rng.set_stream(u64::from(provider));
        let batch = self.plan.batch(provider);
        let labelled = answers.into_iter().filter_map(|(place, recognition)| {
            batch.get(place as usize).map(|item| (place, matches!(item, BatchItem::Dummy(_)), recognition))
        });
        let sample = draw_sample(labelled.collect(), MOST, &mut rng);
        let folds = assign_folds(sample.iter().map(|(_, dummy, _)| *dummy)).ok_or(AttackProblem::Few)?;
        let mut mfcc = Mfcc::new();
        let mut received = Vec::with_capacity(sample.len());
        for ((place, dummy, recognition), fold) in sample.into_iter().zip(folds) {
            if exchange.is_stopped() {
                return Err(AttackProblem::Stopped);
            }
            // One sound in memory at a time; some fifty numbers of it remain.
            let samples = self.sealed.samples(provider, place)?;
            let words = feature::words(&self.catalog.vocabulary, &recognition, seconds(samples.len() as u64));
            received.push(ReceivedSound { fold, dummy, sound: feature::sound(&mut mfcc, &samples), words });
        }
        let mut attacks = Vec::new();
        for knowledge in AttackKnowledge::ALL {
            for learner in AttackLearner::ALL {
                let scores = true_or_dummy(&received, learner, knowledge, seed, &|| exchange.is_stopped());
                let scores = scores.ok_or(AttackProblem::Stopped)?;
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
fn draw_sample<T>(mut all: Vec<T>, most: usize, rng: &mut impl Rng) -> Vec<T> {
    let count = all.len().min(most);
    for place in 0..count {
        let remaining = (all.len() - place) as u32;
        all.swap(place, place + below(remaining, rng) as usize);
    }
    all.truncate(count);
    all
}

/// Returns the fold of each, so that each fold has its share of both; `None` if there are too few of one.
fn assign_folds(dummies: impl Iterator<Item = bool>) -> Option<Vec<usize>> {
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

    use super::{FOLDS, LEAST, MOST, assign_folds, draw_sample};

    #[test]
    fn sample_has_at_most_two_thousand_different_sounds() {
        let sample = |count: u32, seed| draw_sample((0..count).collect(), MOST, &mut ChaCha20Rng::seed_from_u64(seed));
        let sounds = sample(5_000, 1);
        assert_eq!((sounds.len(), sounds.iter().collect::<BTreeSet<_>>().len()), (2_000, 2_000));
        assert!((sounds.iter().map(|one| f64::from(*one)).sum::<f64>() / 2_000.0 - 2_499.5).abs() < 150.0);
        assert_eq!(sample(5_000, 1), sounds);
        assert_ne!(sample(5_000, 2), sounds);
        assert_eq!(sample(30, 1).into_iter().collect::<BTreeSet<_>>(), (0..30).collect());
        assert!(sample(0, 1).is_empty());
    }

    #[test]
    fn every_fold_has_its_share_of_both() {
        let dummies: Vec<bool> = (0..90).map(|at| at % 3 == 0).collect();
        let folds = assign_folds(dummies.iter().copied()).expect("enough of both");
        for fold in 0..FOLDS {
            let count = |is_dummy| {
                let pairs = folds.iter().zip(&dummies);
                pairs.filter(|(other, dummy)| **other == fold && **dummy == is_dummy).count()
            };
            assert_eq!((count(true), count(false)), (6, 12));
        }
    }

    #[test]
    fn fewer_than_ten_of_either_give_no_folds() {
        let has_folds = |pieces, dummies| {
            assign_folds(std::iter::repeat_n(false, pieces).chain(std::iter::repeat_n(true, dummies))).is_some()
        };
        assert!(has_folds(LEAST, LEAST));
        assert!(!has_folds(LEAST - 1, 1_000) && !has_folds(1_000, LEAST - 1) && !has_folds(0, 0));
    }
}
