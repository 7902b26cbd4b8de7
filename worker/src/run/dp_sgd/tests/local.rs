//! Rounds of several local steps, and vectors with few bits.

use undertone_api::job::audit::AuditVerdict;
use undertone_api::job::dp_sgd::{Ema, Optimizer, Precision, RateSchedule, Spec};
use undertone_privacy::Event;

use super::audit::{assessed, audited};
use super::hub::{Crash, Hub};
use super::report;
use crate::dp::sabotage::Sabotage;

const STEPS: u32 = 5;
const ROUNDS: u32 = 8;

/// Sets as many steps as the plain job has rounds, in a fifth of the rounds.
fn local(spec: &mut Spec) {
    for rounds in [&mut spec.open, &mut spec.private].into_iter().flatten() {
        rounds.local_steps = STEPS;
        rounds.rounds = ROUNDS;
    }
}

#[test]
fn parties_that_walk_alone_meet_after_every_round_and_learn() {
    let hub = Hub::new(|spec| {
        local(spec);
        spec.warm_start.epochs = 0;
    });
    hub.run_all();
    let arms = report(&hub).arms;
    let accuracy = |arm: usize| arms[arm].tests[0].accuracy;
    assert!(accuracy(0) < 0.6, "untrained: {}", accuracy(0));
    assert!(accuracy(1) > 0.8 && accuracy(2) > 0.7, "open {}, private {}", accuracy(1), accuracy(2));
    for series in ["open", "private"] {
        let lead = hub.parameters(0, series);
        assert!(hub.parameters(1, series) == lead && hub.parameters(2, series) == lead, "{series}");
    }
    assert_eq!((hub.paid(1), hub.paid(2)), (2 * ROUNDS, 2 * ROUNDS), "one payment a round");
    let Event::Repeated { count, .. } = hub.event(1) else { panic!("a round is paid as its steps") };
    assert_eq!(count, u64::from(STEPS));
}

#[test]
fn round_of_steps_is_made_anew_whole_or_sent_again() {
    let hub = Hub::new(|spec| {
        local(spec);
        spec.open = None;
        let private = spec.private.as_mut().unwrap();
        private.schedule = RateSchedule::Cosine { warmup: 2, r#final: 0.1 };
        private.averaging = Some(Ema { decay: 0.8 });
        private.optimizer = Optimizer::Sgd { learning_rate: 1.0, momentum: 0.5 };
    });
    hub.crash(1, Crash::Granted, "private", 3);
    hub.crash(1, Crash::Stored, "private", 5);
    hub.crash(2, Crash::Accepted, "private", 6);
    hub.crash(0, Crash::Stored, "private", 2);
    hub.run_all();
    assert_eq!((hub.paid(1), hub.paid(2)), (ROUNDS, ROUNDS));
    assert_eq!((hub.lives(0), hub.lives(1), hub.lives(2)), (2, 3, 2));
    let lead = hub.parameters(0, "private");
    assert!(hub.parameters(1, "private") == lead && hub.parameters(2, "private") == lead);
}

#[test]
fn vectors_of_few_bits_teach_as_much_and_all_still_agree() {
    for (precision, steps) in [(Precision::Bf16, 1), (Precision::Int8, 1), (Precision::Int8, STEPS)] {
        let hub = Hub::new(|spec| {
            spec.open = None;
            spec.warm_start.epochs = 0;
            let private = spec.private.as_mut().unwrap();
            private.exchange.precision = precision;
            private.local_steps = steps;
            private.rounds /= steps;
        });
        hub.run_all();
        let accuracy = report(&hub).arms[1].tests[0].accuracy;
        assert!(accuracy > 0.7, "{precision:?}, {steps}: {accuracy}");
        let lead = hub.parameters(0, "private");
        assert!(hub.parameters(1, "private") == lead && hub.parameters(2, "private") == lead, "{precision:?}");
    }
}

#[test]
fn an_audit_sees_every_step_of_a_round() {
    let hub = Hub::new(|spec| {
        audited(spec);
        local(spec);
    });
    hub.sabotage(1, Sabotage::NoNoise);
    hub.crash(1, Crash::Granted, "private", 4);
    hub.run_all();
    let (broken, honest) = (assessed(&hub, 1), assessed(&hub, 2));
    assert_eq!(broken.verdict, AuditVerdict::Disproved, "{broken:?}");
    assert!(honest.claim > 1.0, "a claim of all steps: {honest:?}");
    assert_eq!(honest.verdict, AuditVerdict::Consistent, "{honest:?}");
}
