//! Rounds with altered copies of each unit: they learn, cost the same, and equal copies change no vector.

use undertone_api::job::audit::AuditVerdict;
use undertone_api::job::dp_sgd::{AuditOptions, AverageWeights, MaskedRuns, SecureAggregation, Spec, UnitAugmentation};

use super::audit::{assess, with_audit};
use super::report;
use super::training::TestTraining;
use crate::dp::randomness::Purpose;
use crate::dp::sabotage::Sabotage;

/// Returns three copies for utterances of few frames and three coefficients.
const fn altered() -> UnitAugmentation {
    let frame_masks = Some(MaskedRuns { count: 1, longest: 2 });
    UnitAugmentation { copies: 3, frame_masks, coefficient_masks: None, noise: 0.1 }
}

fn with_copies(augmentation: UnitAugmentation) -> impl FnOnce(&mut Spec) {
    move |spec| {
        for rounds in [&mut spec.open, &mut spec.private].into_iter().flatten() {
            rounds.augmentation = Some(augmentation);
        }
    }
}

#[test]
fn copies_learn_in_both_arms_for_the_same_payments() {
    let job = TestTraining::new(|spec| {
        with_copies(altered())(spec);
        spec.warm_start.epochs = 0;
    });
    job.run_all();
    let arms = report(&job).arms;
    let accuracy = |arm: usize| arms[arm].tests[0].accuracy;
    assert!(accuracy(0) < 0.6, "untrained: {}", accuracy(0));
    assert!(accuracy(1) > 0.8 && accuracy(2) > 0.6, "open {}, private {}", accuracy(1), accuracy(2));
    for series in ["open", "private"] {
        let lead = job.parameters(0, series);
        assert!(job.parameters(1, series) == lead && job.parameters(2, series) == lead, "{series}");
    }
    assert_eq!((job.payments(1), job.payments(2)), (80, 80), "one payment a round");
    assert_eq!((job.draws(0, Purpose::Augmentation), job.draws(1, Purpose::Augmentation)), (80, 80), "one a batch");
}

#[test]
fn equal_copies_change_no_vector() {
    let equal = UnitAugmentation { copies: 4, frame_masks: None, coefficient_masks: None, noise: 0.0 };
    let run = |augmentation: Option<UnitAugmentation>| {
        let job = TestTraining::new(|spec| {
            spec.open = None;
            let private = spec.private.as_mut().unwrap();
            private.rounds = 1;
            private.augmentation = augmentation;
        });
        job.repeat_draws();
        job.run_all();
        job
    };
    let (plain, copied) = (run(None), run(Some(equal)));
    assert_eq!((plain.draws(1, Purpose::Augmentation), copied.draws(1, Purpose::Augmentation)), (0, 1));
    for index in 0..3 {
        // The batches and the noise are the same, so the vectors differ by rounding.
        let (one, other) = (plain.vector(index, 1), copied.vector(index, 1));
        let farthest = one.iter().zip(&other).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(farthest < 1e-5 && one.iter().any(|value| value.abs() > 1e-3), "site {index}: {farthest}");
    }
}

#[test]
fn each_local_step_has_copies_with_fresh_coins() {
    let job = TestTraining::new(|spec| {
        spec.open = None;
        with_copies(altered())(spec);
        let private = spec.private.as_mut().unwrap();
        (private.rounds, private.local_steps) = (3, 5);
    });
    job.run_all();
    assert_eq!((job.draws(1, Purpose::Augmentation), job.payments(1)), (15, 3));
    let lead = job.parameters(0, "private");
    assert!(job.parameters(1, "private") == lead && job.parameters(2, "private") == lead);
}

#[test]
fn masked_sums_have_copies() {
    let job = TestTraining::new(|spec| {
        spec.open = None;
        spec.weights = AverageWeights::ExpectedBatch;
        spec.secure_aggregation = Some(SecureAggregation::new(2, 0));
        spec.private.as_mut().unwrap().rounds = 4;
        with_copies(altered())(spec);
    });
    job.run_all();
    assert_eq!((job.draws(1, Purpose::Augmentation), job.sums(1), job.payments(1)), (4, 4, 4));
    let lead = job.parameters(0, "private");
    assert!(job.parameters(1, "private") == lead && job.parameters(2, "private") == lead);
}

#[test]
fn audit_of_copies_disproves_missing_noise_alone() {
    let mut job = TestTraining::new(|spec| {
        with_audit(spec);
        spec.audit = spec.audit.map(|audit| AuditOptions { recordings: 20, ..audit });
        with_copies(altered())(spec);
    });
    job.sabotage(1, Sabotage::NoNoise);
    job.run_all();
    let broken = assess(&job, 1);
    let honest = assess(&job, 2);
    assert_eq!(broken.verdict, AuditVerdict::Disproved, "{broken:?}");
    assert_eq!(honest.verdict, AuditVerdict::Consistent, "{honest:?}");
}
