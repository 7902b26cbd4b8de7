use std::f32::consts::TAU;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

use super::{AttackKnowledge, AttackLearner, AttackScores, FOLDS, ReceivedSound, feature, true_or_dummy};
use undertone_worker_speech::mfcc::Mfcc;

/// A fifth of a second of noise, with a tone of this amplitude in it.
fn sound(tone: f32, rng: &mut ChaCha20Rng) -> Vec<f32> {
    let mut noise = || 0.1 * (rng.next_u32() as f32 / u32::MAX as f32 - 0.5);
    (0..3_200).map(|at| noise() + tone * (TAU * 200.0 * at as f32 / 16_000.0).sin()).collect()
}

/// True pieces and dummies alternately, with tones of these amplitudes and these word features.
fn received(count: usize, tones: [f32; 2], words: [[f32; 5]; 2]) -> Vec<ReceivedSound> {
    let (mut mfcc, mut rng) = (Mfcc::new(), ChaCha20Rng::seed_from_u64(7));
    let one = |number: usize| {
        let label = number % 2;
        let sound = feature::sound(&mut mfcc, &sound(tones[label], &mut rng));
        ReceivedSound { fold: number / 2 % FOLDS, dummy: label == 1, sound, words: words[label] }
    };
    (0..count).map(one).collect()
}

fn attack(received: &[ReceivedSound], learner: AttackLearner, knowledge: AttackKnowledge) -> AttackScores {
    true_or_dummy(received, learner, knowledge, 1, &|| false).expect("it is not stopped")
}

const SAME: [[f32; 5]; 2] = [[2.0, 1.0, 4.0, 0.5, 0.6]; 2];

#[test]
fn clearly_different_sounds_are_classified() {
    let received = received(80, [0.2, 0.0], SAME);
    for learner in AttackLearner::ALL {
        let scores = attack(&received, learner, AttackKnowledge::Sound);
        assert_eq!((scores.pieces(), scores.dummies()), (40, 40), "each sound is tested once");
        assert!(scores.accuracy() > 0.95, "{}: {}", learner.label(), scores.accuracy());
        assert!(scores.interval(0.95).0 > 0.85 && scores.area().is_some_and(|area| area.value() > 0.95));
    }
}

/// At 99.9%: the test compares four results of one draw.
#[test]
fn equally_distributed_sounds_are_not_classified() {
    let received = received(200, [0.0, 0.0], SAME);
    for (learner, knowledge) in
        AttackLearner::ALL.into_iter().flat_map(|one| AttackKnowledge::ALL.map(|known| (one, known)))
    {
        let scores = attack(&received, learner, knowledge);
        let (low, high) = scores.interval(0.999);
        assert!((low..high).contains(&scores.chance()), "{}: {low} to {high}", learner.label());
        assert!((scores.chance() - 0.5).abs() < 1e-12);
    }
}

#[test]
fn word_features_classify_where_sounds_do_not() {
    let received = received(160, [0.0, 0.0], [SAME[0], [4.0, 3.0, 6.0, 0.1, 0.9]]);
    for learner in AttackLearner::ALL {
        let (deaf, hearing) = (
            attack(&received, learner, AttackKnowledge::Sound),
            attack(&received, learner, AttackKnowledge::SoundAndWords),
        );
        assert!(deaf.interval(0.999).0 < 0.5 && hearing.accuracy() > 0.95, "{}", hearing.accuracy());
    }
}

#[test]
fn chance_is_the_share_of_the_larger_class() {
    let scores = AttackScores { pieces: vec![-1.0, 1.0, -0.5], dummies: vec![0.5] };
    assert_eq!((scores.accuracy(), scores.chance()), (0.75, 0.75));
    let (low, high) = scores.interval(0.95);
    // Clopper and Pearson, three of four.
    assert!((low - 0.194_1).abs() < 1e-4 && (high - 0.993_7).abs() < 1e-4, "{low} {high}");
    let none = AttackScores::default();
    assert_eq!((none.accuracy(), none.chance(), none.interval(0.95), none.area()), (0.0, 0.0, (0.0, 1.0), None));
}

#[test]
fn same_seed_gives_same_scores() {
    let received = received(40, [0.0, 0.0], SAME);
    let scores = |seed| true_or_dummy(&received, AttackLearner::HiddenLayer, AttackKnowledge::Sound, seed, &|| false);
    assert_eq!(scores(5), scores(5));
    assert_ne!(scores(5), scores(6));
}

#[test]
fn stopped_attack_returns_nothing() {
    let received = received(20, [0.2, 0.0], SAME);
    let looks = std::cell::Cell::new(0);
    let stopped = || looks.replace(looks.get() + 1) == 2;
    assert_eq!(true_or_dummy(&received, AttackLearner::LogisticRegression, AttackKnowledge::Sound, 1, &stopped), None);
    assert_eq!(looks.get(), 3);
}
