//! Rounds of several local steps, and vectors with few bits.

use undertone_api::job::audit::AuditVerdict;
use undertone_api::job::dp_sgd::{Ema, Optimizer, Precision, RateSchedule, Spec};
use undertone_privacy::Event;

use super::audit::{assess, with_audit};
use super::report;
use super::training::TestTraining;
use crate::dp::sabotage::Sabotage;
use crate::run::fake::CrashPoint;

const STEPS: u32 = 5;
const ROUNDS: u32 = 8;

/// Sets as many steps as the plain job has rounds, in a fifth of the rounds.
fn with_local_steps(spec: &mut Spec) {
    for rounds in [&mut spec.open, &mut spec.private].into_iter().flatten() {
        rounds.local_steps = STEPS;
        rounds.rounds = ROUNDS;
    }
}

#[test]
fn local_steps_end_with_the_same_bits_and_learn() {
    let job = TestTraining::new(|spec| {
        with_local_steps(spec);
        spec.warm_start.epochs = 0;
    });
    job.run_all();
    let arms = report(&job).arms;
    let accuracy = |arm: usize| arms[arm].tests[0].accuracy;
    assert!(accuracy(0) < 0.6, "untrained: {}", accuracy(0));
    assert!(accuracy(1) > 0.8 && accuracy(2) > 0.7, "open {}, private {}", accuracy(1), accuracy(2));
    let macro_f1 = |arm: usize| arms[arm].tests[0].macro_f1.expect("labels of frames have times");
    assert!(macro_f1(1) > macro_f1(0) && (0.5..=1.0).contains(&macro_f1(1)), "{} and {}", macro_f1(0), macro_f1(1));
    for series in ["open", "private"] {
        let lead = job.parameters(0, series);
        assert!(job.parameters(1, series) == lead && job.parameters(2, series) == lead, "{series}");
    }
    assert_eq!((job.payments(1), job.payments(2)), (2 * ROUNDS, 2 * ROUNDS), "one payment a round");
    let Event::Repeated { count, .. } = job.event(1) else { panic!("a round is paid as its steps") };
    assert_eq!(count, u64::from(STEPS));
}

#[test]
fn crashed_round_of_steps_is_repeated_whole_or_resent() {
    let job = TestTraining::new(|spec| {
        with_local_steps(spec);
        spec.open = None;
        let private = spec.private.as_mut().unwrap();
        private.schedule = RateSchedule::Cosine { warmup: 2, r#final: 0.1 };
        private.averaging = Some(Ema { decay: 0.8 });
        private.optimizer = Optimizer::Sgd { learning_rate: 1.0, momentum: 0.5 };
    });
    job.crash(1, CrashPoint::Cleared, "private", 3);
    job.crash(1, CrashPoint::Stored, "private", 5);
    job.crash(2, CrashPoint::Accepted, "private", 6);
    job.crash(0, CrashPoint::Stored, "private", 2);
    job.run_all();
    assert_eq!((job.payments(1), job.payments(2)), (ROUNDS, ROUNDS));
    assert_eq!((job.processes(0), job.processes(1), job.processes(2)), (2, 3, 2));
    let lead = job.parameters(0, "private");
    assert!(job.parameters(1, "private") == lead && job.parameters(2, "private") == lead);
}

#[test]
fn vectors_of_few_bits_learn_and_participants_agree() {
    for (precision, steps) in [(Precision::Bf16, 1), (Precision::Int8, 1), (Precision::Int8, STEPS)] {
        let job = TestTraining::new(|spec| {
            spec.open = None;
            spec.warm_start.epochs = 0;
            let private = spec.private.as_mut().unwrap();
            private.exchange.precision = precision;
            private.local_steps = steps;
            private.rounds /= steps;
        });
        job.run_all();
        let accuracy = report(&job).arms[1].tests[0].accuracy;
        assert!(accuracy > 0.7, "{precision:?}, {steps}: {accuracy}");
        let lead = job.parameters(0, "private");
        assert!(job.parameters(1, "private") == lead && job.parameters(2, "private") == lead, "{precision:?}");
    }
}

#[test]
fn audit_covers_every_step_of_a_round() {
    let mut job = TestTraining::new(|spec| {
        with_audit(spec);
        with_local_steps(spec);
    });
    job.sabotage(1, Sabotage::NoNoise);
    job.crash(1, CrashPoint::Cleared, "private", 4);
    job.run_all();
    let broken = assess(&job, 1);
    let honest = assess(&job, 2);
    assert_eq!(broken.verdict, AuditVerdict::Disproved, "{broken:?}");
    assert!(honest.claim > 1.0, "a claim of all steps: {honest:?}");
    assert_eq!(honest.verdict, AuditVerdict::Consistent, "{honest:?}");
}
