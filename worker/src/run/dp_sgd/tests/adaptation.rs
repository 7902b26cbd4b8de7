//! Rounds that train few coordinates: they learn, send and pay no more, survive crashes, and leave an ordinary model.

use undertone_api::job::audit::AuditVerdict;
use undertone_api::job::dp_sgd::{
    AverageWeights, Ema, ModelPart, Noise, ParameterAdaptation, SecureAggregation, Spec, TextEmbedding,
};
use undertone_privacy::NoiseMultiplier;

use super::audit::{assess, with_audit};
use super::report;
use super::training::{TestTraining, columns};
use crate::dp::sabotage::Sabotage;
use crate::run::RunError;
use crate::run::fake::CrashPoint;
use crate::speech::model::coordinates::TrainedCoordinates;

const LOW_RANK: ParameterAdaptation = ParameterAdaptation::LowRank { rank: 2 };

/// Trains few coordinates in both arms after a warm start that is long enough to learn, with little noise.
fn with_adaptation(adaptation: ParameterAdaptation) -> impl FnOnce(&mut Spec) {
    move |spec| {
        spec.warm_start.epochs = 4;
        for rounds in [&mut spec.open, &mut spec.private].into_iter().flatten() {
            rounds.adaptation = Some(adaptation);
        }
        for noise in spec.participants.iter_mut().filter_map(|party| party.noise.as_mut()) {
            *noise = Noise::flat(NoiseMultiplier::new(0.1).unwrap(), 0.5);
        }
    }
}

/// Checks that all participants end an arm with the same coordinates, and that its model is the warm start moved by them.
fn assert_merged(job: &TestTraining, series: &str, adaptation: ParameterAdaptation) {
    let lead = job.parameters(0, series);
    assert!(job.parameters(1, series) == lead && job.parameters(2, series) == lead, "{series}");
    let start = job.model("warm_start.safetensors");
    let coordinates = TrainedCoordinates::new(&start, start.shape().all(), Some(adaptation)).unwrap();
    let mut merged = start.clone();
    coordinates.scatter(&lead, merged.parameters_mut());
    let end = job.model(&format!("model-{series}.safetensors"));
    assert!(end.parameters() == merged.parameters() && end.parameters() != start.parameters(), "{series}");
}

#[test]
fn few_coordinates_learn_and_are_sent_alone() {
    // Of 3 inputs, 10 hidden units and 4 classes: directions and biases of 40 gates, and those of the classes.
    for (adaptation, length) in [(LOW_RANK, 5_usize * 40 + 3 * 4), (ParameterAdaptation::Biases, 40 + 4)] {
        let job = TestTraining::new(with_adaptation(adaptation));
        job.run_all();
        for series in ["open", "private"] {
            assert_eq!(job.vector_lengths(series), [length; 3 * 40], "{series}");
            let losses = job.losses(series);
            assert!(losses.last().unwrap() < &losses[0], "{series} with {adaptation:?}: {losses:?}");
            assert_merged(&job, series, adaptation);
        }
        let report = report(&job);
        assert_eq!(report.parameters, 14 * 40 + 11 * 4, "the model has all of its parameters");
        assert!(report.arms[2].tests[0].loss < report.arms[0].tests[0].loss);
        assert_eq!((job.payments(1), job.payments(2)), (80, 80), "one payment a round");
    }
}

#[test]
fn frozen_parts_stay_and_biases_move_alone() {
    let job = TestTraining::new(|spec| {
        with_adaptation(ParameterAdaptation::Biases)(spec);
        spec.open = None;
        let private = spec.private.as_mut().unwrap();
        (private.rounds, private.train) = (4, Some([ModelPart::Layer1].into_iter().collect()));
    });
    job.run_all();
    let (start, end) = (job.model("warm_start.safetensors"), job.model("model.safetensors"));
    let pairs = start.parameters().iter().zip(end.parameters()).enumerate();
    let changed: Vec<usize> = pairs.filter(|(_, (a, b))| a.to_bits() != b.to_bits()).map(|(place, _)| place).collect();
    // The row after those of the 3 inputs.
    assert_eq!(changed, (3 * 40..4 * 40).collect::<Vec<_>>());
}

/// Runs with local steps and averaged iterates, in which each participant moves the matrices many times a round.
fn with_local_steps(spec: &mut Spec) {
    with_adaptation(LOW_RANK)(spec);
    spec.open = None;
    let private = spec.private.as_mut().unwrap();
    (private.rounds, private.local_steps) = (10, 3);
    private.averaging = Some(Ema { decay: 0.8 });
}

#[test]
fn crashed_run_ends_with_the_bits_of_a_straight_one() {
    let changes: [fn(&mut Spec); 2] = [with_local_steps, |spec| {
        with_adaptation(LOW_RANK)(spec);
        spec.open = None;
        spec.private.as_mut().unwrap().rounds = 10;
    }];
    for change in changes {
        let run = |crashes: bool| {
            let job = TestTraining::new(change);
            job.repeat_draws();
            if crashes {
                // A checkpoint is written after round 6: each resumed process begins with directions of its own.
                job.crash(0, CrashPoint::Accepted, "private", 8);
                job.crash(1, CrashPoint::Cleared, "private", 3);
                job.crash(1, CrashPoint::Stored, "private", 9);
                job.crash(2, CrashPoint::Accepted, "private", 7);
            }
            job.run_all();
            job
        };
        let (straight, crashed) = (run(false), run(true));
        assert_eq!((crashed.processes(0), crashed.processes(1), crashed.processes(2)), (2, 3, 2));
        assert_eq!((crashed.payments(1), crashed.payments(2)), (10, 10));
        for round in 1..=10 {
            for index in 0..3 {
                assert!(crashed.vector(index, round) == straight.vector(index, round), "site {index}, round {round}");
            }
        }
        assert!(crashed.file("model.safetensors") == straight.file("model.safetensors"));
        assert_merged(&crashed, "private", LOW_RANK);
    }
}

#[test]
fn masked_sums_have_the_coordinates() {
    let job = TestTraining::new(|spec| {
        with_adaptation(LOW_RANK)(spec);
        spec.open = None;
        spec.weights = AverageWeights::ExpectedBatch;
        spec.secure_aggregation = Some(SecureAggregation::new(2, 0));
    });
    job.crash(1, CrashPoint::Stored, "private", 7);
    job.run_all();
    assert_eq!((job.sums(1), job.sums(2), job.payments(1), job.payments(2)), (40, 40, 40, 40));
    assert_eq!(job.sum_lengths(), [5 * 40 + 3 * 4; 2 * 40]);
    let losses = job.losses("private");
    assert!(losses.last().unwrap() < &losses[0], "{losses:?}");
    assert_merged(&job, "private", LOW_RANK);
}

/// With as many directions as hidden units, the audit has about as many coordinates as without an adaptation.
#[test]
fn audit_of_few_coordinates_disproves_missing_noise_alone() {
    let mut job = TestTraining::new(|spec| {
        with_audit(spec);
        spec.private.as_mut().unwrap().adaptation = Some(ParameterAdaptation::LowRank { rank: 32 });
    });
    job.sabotage(1, Sabotage::NoNoise);
    job.run_all();
    let broken = assess(&job, 1);
    let honest = assess(&job, 2);
    assert_eq!(broken.verdict, AuditVerdict::Disproved, "{broken:?}");
    assert_eq!(honest.verdict, AuditVerdict::Consistent, "{honest:?}");
}

#[test]
fn output_of_texts_is_adapted_and_their_embedding_is_refused() {
    let rows = |train: Option<ModelPart>| {
        TestTraining::with_tables(move |spec| {
            let rows = spec.model.rows.as_mut().unwrap();
            rows.features = vec![columns()[5].clone()];
            rows.text = Some(TextEmbedding { buckets: 32, width: 4 });
            let private = spec.private.as_mut().unwrap();
            private.train = train.map(|part| [part].into_iter().collect());
            private.adaptation = Some(LOW_RANK);
        })
    };
    let job = rows(Some(ModelPart::Output));
    job.run_all();
    // The output has 4 inputs and 2 classes: two directions.
    assert_eq!(job.vector_lengths("private"), [3 * 2; 3 * 40]);
    let lead = job.parameters(0, "private");
    assert!(job.parameters(1, "private") == lead && job.parameters(2, "private") == lead);
    let end = rows(None).run_process(0).unwrap_err();
    let text = end.to_string();
    assert!(matches!(end, RunError::Failed(_)) && text.contains("`embedding` has neither biases"), "{text}");
}
