#![expect(clippy::unwrap_used, reason = "constants of a test are in range")]

use undertone_privacy::{Adjacency, Delta, Event, NoiseMultiplier, SamplingRate};

use super::{Assessment, Attack, Audited, Family, Finding, Guessed, Method, OperatingPoint, Trial, Verdict};

fn trial(canaries: u32, guesses: u32) -> Trial {
    Trial { family: Family::Direction, canaries, guesses }
}

fn assessed(noise: f64, correct: u32) -> Assessment {
    let event = Event::PoissonSampledGaussian {
        sampling_rate: SamplingRate::new(0.25).unwrap(),
        noise_multiplier: NoiseMultiplier::new(noise).unwrap(),
    };
    let guessed = [Guessed { trial: trial(500, 200), correct }];
    Assessment::of(&guessed, &event, Adjacency::AddRemove, 40, Delta::new(1e-6).unwrap()).unwrap()
}

#[test]
fn a_bound_above_the_claim_disproves_it() {
    let caught = assessed(4.0, 200);
    assert!(caught.tight <= caught.claim && caught.claim < caught.blocking, "{caught:?}");
    assert!(caught.blocking <= caught.ceiling && caught.blocking < caught.shown, "{caught:?}");
    assert_eq!(caught.verdict, Verdict::Disproved);
}

#[test]
fn a_bound_below_the_claim_agrees_with_it() {
    let quiet = assessed(4.0, 104);
    assert_eq!((quiet.blocking, quiet.verdict), (0.0, Verdict::Consistent));
}

#[test]
fn a_claim_that_no_guessing_could_disprove_is_said_to_be_one() {
    let large = assessed(0.5, 200);
    assert!(large.tight > large.ceiling, "{large:?}");
    assert_eq!(large.verdict, Verdict::Uninformative);
}

#[test]
fn a_finding_answers_only_the_audit_that_was_promised() {
    let recordings = Trial { family: Family::Recording, canaries: 100, guesses: 50 };
    let audited = Audited { series: "private".to_owned(), trials: vec![trial(500, 200), recordings] };
    let attack = Attack {
        method: Method::LossThreshold,
        members: 48,
        nonmembers: 52,
        auc: 0.5,
        points: vec![OperatingPoint { aimed: 0.01, true_positives: 1, false_positives: 0 }],
    };
    let guessed = |trial| Guessed { trial, correct: 1 };
    let good = Finding { trials: vec![guessed(trial(500, 200)), guessed(recordings)], attacks: vec![attack.clone()] };
    assert!(good.answers(&audited));
    for wrong in [
        Finding { trials: vec![guessed(trial(500, 200))], ..good.clone() },
        Finding { trials: vec![guessed(trial(500, 100)), guessed(recordings)], ..good.clone() },
        Finding { attacks: vec![Attack { members: 49, ..attack.clone() }], ..good.clone() },
        Finding { attacks: vec![Attack { auc: f64::NAN, ..attack.clone() }], ..good.clone() },
        Finding {
            attacks: vec![Attack {
                points: vec![OperatingPoint { aimed: 0.01, true_positives: 49, false_positives: 0 }],
                ..attack
            }],
            ..good.clone()
        },
    ] {
        assert!(!wrong.answers(&audited), "{wrong:?}");
    }
}
