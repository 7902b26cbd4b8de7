//! Whole runs with other models than the paper's, with parts of a model, and with other optimizers than Adam.

use undertone_api::job::dp_sgd::{
    AcousticModel, Arm, Clipping, Ema, ModelPart, Optimizer, RateSchedule, RecurrentCell, Spec, TrainingLoss,
};

use super::report;
use super::training::TestTraining;
use crate::run::fake::CrashPoint;

/// Sets a few private rounds after a warm start that is long enough to learn.
fn with_few_rounds(spec: &mut Spec) {
    spec.open = None;
    spec.warm_start.epochs = 4;
    spec.private.as_mut().unwrap().rounds = 8;
}

fn assert_trains(model: &AcousticModel) {
    let job = TestTraining::new(|spec| {
        with_few_rounds(spec);
        spec.model = AcousticModel { classes: Some(4), hidden: 7, ..model.clone() };
    });
    job.run_all();
    let losses = job.losses("public");
    assert!(losses.last().unwrap() < &(losses[0] - 0.1), "the warm start lowers the loss: {losses:?}");
    let end = job.parameters(0, "private");
    let start = job.model("warm_start.safetensors");
    assert_eq!(end.len(), start.parameters().len());
    assert!(end.iter().zip(start.parameters()).all(|(end, start)| end.is_finite() && end.to_bits() != start.to_bits()));
    assert!(job.parameters(1, "private") == end && job.parameters(2, "private") == end);
    assert!(job.model("model.safetensors").parameters() == end);
    let report = report(&job);
    assert_eq!(report.parameters, end.len() as u64);
    // Noise of this size on a dozen units must not undo the training.
    let accuracy: Vec<f64> = report.arms.iter().map(|arm| arm.tests[0].accuracy).collect();
    assert!(accuracy[1] > 0.4, "{accuracy:?}");
    assert_eq!((job.payments(1), job.payments(2)), (8, 8));
}

#[test]
fn two_layers_in_both_directions_train() {
    assert_trains(&AcousticModel { layers: 2, bidirectional: true, ..AcousticModel::lstm(7, None) });
}

#[test]
fn gated_recurrent_units_train() {
    assert_trains(&AcousticModel { cell: RecurrentCell::Gru, ..AcousticModel::lstm(7, None) });
}

#[test]
fn context_and_layer_norm_train() {
    assert_trains(&AcousticModel { context: Some(3), normalize: true, ..AcousticModel::lstm(7, None) });
}

#[test]
fn all_features_together_train() {
    let model = AcousticModel {
        cell: RecurrentCell::Gru,
        layers: 2,
        bidirectional: true,
        context: Some(5),
        normalize: true,
        ..AcousticModel::lstm(7, None)
    };
    assert_trains(&model);
}

#[test]
fn ctc_trains_for_the_same_payments() {
    let job = TestTraining::new(|spec| {
        with_few_rounds(spec);
        spec.model = AcousticModel { loss: TrainingLoss::Ctc, ..AcousticModel::lstm(7, Some(4)) };
    });
    job.set_characters(0, r#"{"characters":" ab"}"#);
    job.run_all();
    for arm in report(&job).arms {
        let words = arm.tests[0].words.expect("the test set has characters");
        assert_eq!(arm.tests[0].macro_f1, None, "labels of CTC have no times");
        assert!(words.words > 0 && words.rate().is_some(), "{words:?}");
        assert!(words.substitutions + words.deletions <= words.words, "{words:?}");
    }
    let losses = job.losses("public");
    assert!(losses.last().unwrap() < &(losses[0] - 0.1), "the warm start lowers the loss: {losses:?}");
    let end = job.parameters(0, "private");
    assert!(end.iter().all(|parameter| parameter.is_finite()));
    assert!(job.parameters(1, "private") == end && job.parameters(2, "private") == end);
    assert!(end != job.model("warm_start.safetensors").parameters());
    assert_eq!((job.payments(1), job.payments(2)), (8, 8));
}

#[test]
fn characters_of_tests_must_be_those_of_the_lead() {
    let start = |lead: &str, test: &str| {
        let job = TestTraining::new(|spec| {
            spec.model = AcousticModel { loss: TrainingLoss::Ctc, ..AcousticModel::lstm(7, Some(4)) };
            spec.tests[0].dataset = spec.participants[1].dataset;
        });
        job.set_characters(0, lead);
        job.set_characters(1, test);
        job.run_process(0).unwrap_err().to_string()
    };
    let abc = r#"{"characters":"abc"}"#;
    assert!(start(abc, r#"{"characters":" ab"}"#).contains("`held out` has other characters"));
    assert!(start(abc, r#"{"characters":"ab"}"#).contains("stands for 3 classes"));
    assert!(start(abc, "abc").contains("characters.json"));
}

/// Runs a job that trains some parts only: vectors contain only those, frozen parameters stay, the payment is the same.
fn assert_trains_only(parts: &[ModelPart]) {
    let trained = parts.iter().copied().collect();
    let model = AcousticModel { layers: 2, context: Some(3), normalize: true, ..AcousticModel::lstm(6, Some(4)) };
    let job = TestTraining::new(|spec| {
        with_few_rounds(spec);
        spec.model = model.clone();
        spec.private.as_mut().unwrap().train = Some(trained);
    });
    job.run_all();
    let start = job.model("warm_start.safetensors");
    let end = job.model("model.safetensors");
    let expected = model.parameters(trained, 3, 4) as usize;
    assert!(expected < start.parameters().len());
    assert_eq!(job.vector_lengths("private"), [expected; 3 * 8], "nothing else leaves");
    for (part, range) in start.shape().parts() {
        let pairs = start.parameters()[range.clone()].iter().zip(&end.parameters()[range]);
        let changes = pairs.filter(|(a, b)| a.to_bits() != b.to_bits()).count();
        let all = model.part_parameters(part, 3, 4) as usize;
        assert_eq!(changes, if trained.contains(part) { all } else { 0 }, "{}", part.name());
    }
    assert_eq!((job.payments(1), job.payments(2)), (8, 8));
    let lead = job.parameters(0, "private");
    assert!(job.parameters(1, "private") == lead && job.parameters(2, "private") == lead);
}

#[test]
fn output_layer_alone_is_trained_and_sent() {
    assert_trains_only(&[ModelPart::Output]);
}

#[test]
fn separate_parts_are_trained_and_sent() {
    assert_trains_only(&[ModelPart::Context, ModelPart::Layer2, ModelPart::Normalize]);
}

#[test]
fn parts_of_the_open_arm_are_sent_alone() {
    let job = TestTraining::new(|spec| {
        spec.private = None;
        spec.open.as_mut().unwrap().rounds = 3;
        spec.open.as_mut().unwrap().train = Some([ModelPart::Layer1].into_iter().collect());
    });
    job.run_all();
    let start = job.model("warm_start.safetensors");
    let end = job.model("model-open.safetensors");
    let split = start.shape().recurrent().end;
    assert!(start.parameters()[split..] == end.parameters()[split..]);
    assert!(start.parameters()[..split] != end.parameters()[..split]);
    assert_eq!(job.vector_lengths("open"), [split; 9]);
}

#[test]
fn gradients_clipped_by_layer_or_normalized_train() {
    for clipping in [Clipping::PerLayer, Clipping::Automatic] {
        let job = TestTraining::new(|spec| {
            with_few_rounds(spec);
            (spec.model.layers, spec.model.normalize) = (2, true);
            for noise in spec.participants.iter_mut().filter_map(|party| party.noise.as_mut()) {
                noise.clipping = clipping;
            }
        });
        job.run_all();
        let lead = job.parameters(0, "private");
        assert!(job.parameters(1, "private") == lead && job.parameters(2, "private") == lead);
        assert!(report(&job).arms[1].tests[0].accuracy > 0.4, "{clipping:?}");
        assert_eq!((job.payments(1), job.payments(2)), (8, 8), "the same price");
    }
}

/// Sets every rule, schedule and mean at once, in the private arm.
fn with_averaged_iterates(spec: &mut Spec) {
    spec.open = None;
    let rounds = spec.private.as_mut().unwrap();
    (rounds.rounds, rounds.evaluate_every) = (20, 4);
    rounds.optimizer = Optimizer::DpAdam { learning_rate: 0.02 };
    rounds.schedule = RateSchedule::Cosine { warmup: 3, r#final: 0.1 };
    rounds.averaging = Some(Ema { decay: 0.8 });
}

#[test]
fn mean_of_iterates_is_published_and_the_same_for_all() {
    let job = TestTraining::new(with_averaged_iterates);
    job.run_all();
    let lead = job.parameters(0, "private");
    assert!(job.parameters(1, "private") == lead && job.parameters(2, "private") == lead);
    assert!(job.model("model.safetensors").parameters() == lead);
    assert!(job.last_iterate(0, "private") != lead, "the steps went on from the parameters, not from their mean");
    assert_eq!(report(&job).arms.iter().map(|arm| arm.arm).collect::<Vec<_>>(), [Arm::Public, Arm::Private]);
    assert!(report(&job).arms[1].tests[0].accuracy > 0.5);
}

#[test]
fn killed_run_with_averaged_iterates_ends_like_the_others() {
    let job = TestTraining::new(with_averaged_iterates);
    // Checkpoints are written after rounds 6, 12 and 18.
    job.crash(0, CrashPoint::Accepted, "private", 9);
    job.crash(1, CrashPoint::Stored, "private", 13);
    job.crash(2, CrashPoint::Accepted, "private", 18);
    job.run_all();
    assert_eq!((job.processes(0), job.processes(1), job.processes(2)), (2, 2, 2));
    let lead = job.parameters(0, "private");
    assert!(job.parameters(1, "private") == lead && job.parameters(2, "private") == lead);
    assert!(job.model("model.safetensors").parameters() == lead);
    let last = job.last_iterate(0, "private");
    assert!(job.last_iterate(1, "private") == last && job.last_iterate(2, "private") == last);
}
