use std::f32::consts::TAU;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

use super::{FOLDS, Knowledge, Learner, Received, Scores, feature, true_or_dummy};
use crate::speech::mfcc::Mfcc;

/// A fifth of a second of noise, and of a tone in it as loud as is asked.
fn sound(tone: f32, rng: &mut ChaCha20Rng) -> Vec<f32> {
    let mut noise = || 0.1 * (rng.next_u32() as f32 / u32::MAX as f32 - 0.5);
    (0..3_200).map(|at| noise() + tone * (TAU * 200.0 * at as f32 / 16_000.0).sin()).collect()
}

/// True pieces and dummies alternately, with so loud a tone and these words in them.
fn received(count: usize, tones: [f32; 2], words: [[f32; 5]; 2]) -> Vec<Received> {
    let (mut mfcc, mut rng) = (Mfcc::new(), ChaCha20Rng::seed_from_u64(7));
    let one = |number: usize| {
        let label = number % 2;
        let sound = feature::sound(&mut mfcc, &sound(tones[label], &mut rng));
        Received { fold: number / 2 % FOLDS, dummy: label == 1, sound, words: words[label] }
    };
    (0..count).map(one).collect()
}

fn told(received: &[Received], learner: Learner, knowledge: Knowledge) -> Scores {
    true_or_dummy(received, learner, knowledge, 1, &|| false).expect("nobody stops it")
}

const SAME: [[f32; 5]; 2] = [[2.0, 1.0, 4.0, 0.5, 0.6]; 2];

#[test]
fn sounds_that_are_plainly_different_are_told_apart() {
    let received = received(80, [0.2, 0.0], SAME);
    for learner in Learner::ALL {
        let scores = told(&received, learner, Knowledge::Sound);
        assert_eq!((scores.pieces(), scores.dummies()), (40, 40), "he is asked about each once");
        assert!(scores.accuracy() > 0.95, "{}: {}", learner.label(), scores.accuracy());
        assert!(scores.interval(0.95).0 > 0.85 && scores.area().is_some_and(|area| area.value() > 0.95));
    }
}

/// At 99.9%: the test is of four answers, and of one draw.
#[test]
fn sounds_that_are_drawn_alike_are_not() {
    let received = received(200, [0.0, 0.0], SAME);
    for (learner, knowledge) in Learner::ALL.into_iter().flat_map(|one| Knowledge::ALL.map(|known| (one, known))) {
        let scores = told(&received, learner, knowledge);
        let (low, high) = scores.interval(0.999);
        assert!((low..high).contains(&scores.chance()), "{}: {low} to {high}", learner.label());
        assert!((scores.chance() - 0.5).abs() < 1e-12);
    }
}

#[test]
fn words_tell_what_sounds_do_not() {
    let received = received(160, [0.0, 0.0], [SAME[0], [4.0, 3.0, 6.0, 0.1, 0.9]]);
    for learner in Learner::ALL {
        let (deaf, hearing) =
            (told(&received, learner, Knowledge::Sound), told(&received, learner, Knowledge::SoundAndWords));
        assert!(deaf.interval(0.999).0 < 0.5 && hearing.accuracy() > 0.95, "{}", hearing.accuracy());
    }
}

#[test]
fn guessing_is_saying_what_there_is_more_of() {
    let scores = Scores { pieces: vec![-1.0, 1.0, -0.5], dummies: vec![0.5] };
    assert_eq!((scores.accuracy(), scores.chance()), (0.75, 0.75));
    let (low, high) = scores.interval(0.95);
    // Clopper and Pearson, three of four.
    assert!((low - 0.194_1).abs() < 1e-4 && (high - 0.993_7).abs() < 1e-4, "{low} {high}");
    let none = Scores::default();
    assert_eq!((none.accuracy(), none.chance(), none.interval(0.95), none.area()), (0.0, 0.0, (0.0, 1.0), None));
}

#[test]
fn a_seed_is_an_answer() {
    let received = received(40, [0.0, 0.0], SAME);
    let asked = |seed| true_or_dummy(&received, Learner::HiddenLayer, Knowledge::Sound, seed, &|| false);
    assert_eq!(asked(5), asked(5));
    assert_ne!(asked(5), asked(6));
}

#[test]
fn it_is_over_when_it_is_stopped() {
    let received = received(20, [0.2, 0.0], SAME);
    let looks = std::cell::Cell::new(0);
    let stopped = || looks.replace(looks.get() + 1) == 2;
    assert_eq!(true_or_dummy(&received, Learner::LogisticRegression, Knowledge::Sound, 1, &stopped), None);
    assert_eq!(looks.get(), 3);
}
