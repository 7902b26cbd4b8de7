//! The audit against the real chain of sampler, clip and noise, seeded, without a model in between; and its components.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use undertone_api::job::audit::{Assessment, AuditTrial, AuditVerdict, CanaryFamily, TrialResult};
use undertone_privacy::{Adjacency, Delta, Event, NoiseMultiplier, SamplingRate};

use super::canary::{CanaryDirections, toss_coins};
use super::guess::{evidence, guess};
use super::journal::{EvidenceJournal, load_secret};
use crate::dp::clip::{Clip, ClippedSum};
use crate::dp::per_unit::PerUnit;
use crate::dp::randomness::{Purpose, Randomness};
use crate::dp::release::Outgoing;
use crate::dp::sabotage::{self, Sabotage};
use crate::dp::sampler::Sampler;
use crate::site::clearance::{Clearance, PublicProof};

const LENGTH: usize = 3000;
const UNITS: usize = 50;
const ROUNDS: u32 = 40;
const TRIAL: AuditTrial = AuditTrial { family: CanaryFamily::Direction, canaries: 400, guesses: 200 };

/// Runs forty rounds of fifty real units, each with its own gradient, and the canaries among them.
fn run_audit(q: f64, z: f64, seed: u8, sabotage: Option<Sabotage>) -> (TrialResult, Assessment) {
    sabotage::on_this_thread(sabotage);
    let rate = SamplingRate::new(q).unwrap();
    let noise = NoiseMultiplier::new(z).unwrap();
    let clip = Clip::new(0.7, noise).unwrap();
    let randomness = Randomness::in_test(Purpose::Canaries, seed);
    let fair = toss_coins(TRIAL.canaries as usize, &mut randomness.stream(0));
    let canaries = CanaryDirections::draw(fair, LENGTH, &mut randomness.stream(1));
    let mut scores = vec![0.0; TRIAL.canaries as usize];
    for round in 0..ROUNDS {
        let own = seed.wrapping_mul(41).wrapping_add(round as u8);
        let batch = Sampler::new(UNITS + canaries.members(), rate).draw(&Randomness::in_test(Purpose::Sampling, own));
        let mut sum = ClippedSum::begin(&batch, clip, LENGTH);
        let (real, numbers): (Vec<usize>, Vec<usize>) = batch.units().iter().partition(|unit| **unit < UNITS);
        for unit in real {
            let gradient: Vec<f32> =
                (0..LENGTH).map(|at: usize| ((unit * 7919 + at * 31) % 17) as f32 * 0.01 - 0.08).collect();
            sum.add(PerUnit::new(gradient, LENGTH));
        }
        let members: Vec<usize> = numbers.into_iter().map(|number| number - UNITS).collect();
        for gradients in canaries.gradients(&members, clip.bound()) {
            sum.add(gradients);
        }
        let expected = q * UNITS as f64;
        let clearance = Clearance::Public(PublicProof::in_test());
        let release = sum.release(expected, clearance, &Randomness::in_test(Purpose::Noise, own)).unwrap();
        let vector = Outgoing::from(release);
        let amounts = canaries.amounts(vector.vector(), expected / clip.bound());
        scores.iter_mut().zip(amounts).for_each(|(score, x)| *score += evidence(x, q, z));
    }
    sabotage::on_this_thread(None);
    let guesses = guess(TRIAL, &scores, canaries.coins());
    let event = Event::PoissonSampledGaussian { sampling_rate: rate, noise_multiplier: noise };
    let delta = Delta::new(1e-5).unwrap();
    (guesses, Assessment::assess(&[guesses], &event, Adjacency::ZeroOut, ROUNDS.into(), delta).unwrap())
}

#[test]
fn honest_run_never_disproves_its_claim() {
    let all: Vec<_> = (1..=20).map(|seed| run_audit(0.25, 1.0, seed, None)).collect();
    for (guesses, assessment) in &all {
        assert!(assessment.shown <= assessment.tight, "{guesses:?} {assessment:?}");
    }
    // An audit without power would be sound too. This one has power: in total far more correct guesses than by chance.
    let right: u32 = all.iter().map(|(guesses, _)| guesses.correct).sum();
    assert!(right > 20 * 115, "{right} of {}", 20 * TRIAL.guesses);
    assert!(all.iter().filter(|(_, assessment)| assessment.shown > 0.0).count() > 10);
}

#[test]
fn missing_noise_is_always_disproved() {
    for seed in 1..=10 {
        let (guesses, assessment) = run_audit(0.1, 2.0, seed, Some(Sabotage::NoNoise));
        assert_eq!(assessment.verdict, AuditVerdict::Disproved, "{guesses:?} {assessment:?}");
    }
}

#[test]
fn fifth_of_the_noise_is_disproved() {
    let (guesses, assessment) = run_audit(0.1, 2.0, 1, Some(Sabotage::LittleNoise(5)));
    assert_eq!(assessment.verdict, AuditVerdict::Disproved, "{guesses:?} {assessment:?}");
}

#[test]
fn missing_clip_is_disproved() {
    let (guesses, assessment) = run_audit(0.1, 2.0, 1, Some(Sabotage::NoClip));
    assert_eq!(assessment.verdict, AuditVerdict::Disproved, "{guesses:?} {assessment:?}");
}

#[test]
fn batch_of_every_unit_is_disproved() {
    let (guesses, assessment) = run_audit(0.1, 2.0, 1, Some(Sabotage::EveryUnit));
    assert_eq!(assessment.verdict, AuditVerdict::Disproved, "{guesses:?} {assessment:?}");
}

#[test]
fn evidence_is_the_logarithm_of_a_likelihood_ratio() {
    let exact = |x: f64, q: f64, z: f64| (1.0 - q + q * ((2.0 * x - 1.0) / (2.0 * z * z)).exp()).ln();
    for (x, q, z) in [(0.0, 0.1, 1.0), (1.0, 0.1, 1.0), (-3.0, 0.5, 0.7), (2.0, 0.9, 4.0)] {
        assert!((evidence(x, q, z) - exact(x, q, z)).abs() < 1e-12);
    }
    assert!((evidence(1.0, 1.0, 2.0) - 0.125).abs() < 1e-12, "at rate 1 nobody is ever left out of a round");
    assert!(evidence(100.0, 1e-9, 0.1).is_finite());
}

#[test]
fn guesses_are_the_extreme_scores() {
    let trial = AuditTrial { family: CanaryFamily::Direction, canaries: 6, guesses: 4 };
    let scores = [5.0, -1.0, 0.0, 0.1, 4.0, -2.0];
    let correct = |coins: [bool; 6]| guess(trial, &scores, &coins).correct;
    assert_eq!(correct([true, false, false, true, true, false]), 4);
    assert_eq!(correct([true, false, true, false, true, false]), 4, "nothing is guessed in the middle");
    assert_eq!(correct([false, true, false, true, true, false]), 2);
}

#[test]
fn directions_share_no_coordinate_and_coins_are_fair() {
    let randomness = Randomness::in_test(Purpose::Canaries, 9);
    let fair = toss_coins(4000, &mut randomness.stream(0));
    let up = fair.iter().filter(|coin| **coin).count();
    assert!((1850..=2150).contains(&up), "{up}");
    let canaries = CanaryDirections::draw(fair[..300].to_vec(), 1000, &mut randomness.stream(1));
    let members: Vec<usize> = (0..canaries.members()).collect();
    let mut uses = vec![0; 1000];
    let mut rows = 0;
    for gradients in canaries.gradients(&members, 1.0) {
        for row in gradients.in_test().chunks(1000) {
            rows += 1;
            row.iter().zip(&mut uses).filter(|(value, _)| **value != 0.0).for_each(|(_, uses)| *uses += 1);
            let norm = row.iter().map(|value| value * value).sum::<f32>().sqrt();
            assert!((norm - 256.0).abs() < 0.01, "longer than the clip: {norm}");
        }
    }
    assert_eq!(rows, canaries.members());
    assert!(uses.iter().all(|times| *times <= 1));
}

#[test]
fn secret_is_stored_and_never_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let first = load_secret(dir.path(), false, || Randomness::from_os(Purpose::Canaries)).unwrap();
    let again = load_secret(dir.path(), true, || unreachable!("it is on disk")).unwrap();
    assert_eq!(toss_coins(64, &mut first.stream(0)), toss_coins(64, &mut again.stream(0)));
    std::fs::write(dir.path().join("canaries.secret"), [1; 31]).unwrap();
    assert!(load_secret(dir.path(), false, || unreachable!("a damaged one is not replaced")).is_err());
    std::fs::remove_file(dir.path().join("canaries.secret")).unwrap();
    assert!(load_secret(dir.path(), true, || unreachable!("rounds were released with another")).is_err());
    assert!(load_secret(dir.path(), false, || Randomness::from_os(Purpose::Noise)).is_err(), "noise is never stored");
}

#[test]
fn repeated_round_replaces_its_evidence() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = EvidenceJournal::open(dir.path(), 2).unwrap();
    journal.record(1, vec![1.0, 10.0]).unwrap();
    journal.record(2, vec![100.0, 0.0]).unwrap();
    drop(journal);
    let mut journal = EvidenceJournal::open(dir.path(), 2).unwrap();
    journal.record(2, vec![0.0, 5.0]).unwrap();
    assert_eq!(journal.scores(), [1.0, 15.0]);
    journal.record(4, vec![1.0, 1.0]).unwrap();
    assert!(journal.record(3, vec![0.0, 0.0]).is_err());
    assert_eq!(EvidenceJournal::open(dir.path(), 2).unwrap().scores(), [2.0, 16.0]);
    assert!(EvidenceJournal::open(dir.path(), 3).is_err(), "of another audit");
    let path = dir.path().join("canaries.journal");
    let mut file = std::fs::read(&path).unwrap();
    file[40] ^= 1;
    std::fs::write(&path, file).unwrap();
    assert!(EvidenceJournal::open(dir.path(), 2).is_err(), "damaged");
}
