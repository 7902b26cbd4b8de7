//! Whole runs with other models than the paper's, with parts of a model, and with other optimizers than Adam.

use undertone_api::job::dp_sgd::{
    AcousticModel, Arm, Clipping, Ema, ModelPart, Optimizer, RateSchedule, RecurrentCell, Spec,
};

use super::hub::{Crash, Hub};
use super::report;

/// Sets a few private rounds after a warm start that is long enough to learn.
fn short(spec: &mut Spec) {
    spec.open = None;
    spec.warm_start.epochs = 4;
    spec.private.as_mut().unwrap().rounds = 8;
}

fn trains(model: &AcousticModel) {
    let hub = Hub::new(|spec| {
        short(spec);
        spec.model = AcousticModel { classes: Some(4), hidden: 7, ..model.clone() };
    });
    hub.run_all();
    let losses = hub.losses("public");
    assert!(losses.last().unwrap() < &(losses[0] - 0.1), "the warm start lowers the loss: {losses:?}");
    let end = hub.parameters(0, "private");
    let start = hub.model("warm_start.safetensors");
    assert_eq!(end.len(), start.parameters().len());
    assert!(end.iter().zip(start.parameters()).all(|(end, start)| end.is_finite() && end.to_bits() != start.to_bits()));
    assert!(hub.parameters(1, "private") == end && hub.parameters(2, "private") == end);
    assert!(hub.model("model.safetensors").parameters() == end);
    let report = report(&hub);
    assert_eq!(report.parameters, end.len() as u64);
    // Noise of this size on a dozen units must not undo the training.
    let accuracy: Vec<f64> = report.arms.iter().map(|arm| arm.tests[0].accuracy).collect();
    assert!(accuracy[1] > 0.4, "{accuracy:?}");
    assert_eq!((hub.paid(1), hub.paid(2)), (8, 8));
}

#[test]
fn two_layers_in_both_directions_train() {
    trains(&AcousticModel { layers: 2, bidirectional: true, ..AcousticModel::lstm(7, None) });
}

#[test]
fn gated_recurrent_units_train() {
    trains(&AcousticModel { cell: RecurrentCell::Gru, ..AcousticModel::lstm(7, None) });
}

#[test]
fn a_context_and_a_layer_norm_train() {
    trains(&AcousticModel { context: Some(3), normalize: true, ..AcousticModel::lstm(7, None) });
}

#[test]
fn everything_at_once_trains() {
    let model = AcousticModel {
        cell: RecurrentCell::Gru,
        layers: 2,
        bidirectional: true,
        context: Some(5),
        normalize: true,
        ..AcousticModel::lstm(7, None)
    };
    trains(&model);
}

/// Runs a job that trains some parts only: vectors contain only those, frozen parameters stay, the payment is the same.
fn trains_only(parts: &[ModelPart]) {
    let trained = parts.iter().copied().collect();
    let model = AcousticModel { layers: 2, context: Some(3), normalize: true, ..AcousticModel::lstm(6, Some(4)) };
    let hub = Hub::new(|spec| {
        short(spec);
        spec.model = model.clone();
        spec.private.as_mut().unwrap().train = Some(trained);
    });
    hub.run_all();
    let (start, end) = (hub.model("warm_start.safetensors"), hub.model("model.safetensors"));
    let expected = model.parameters(trained, 3, 4) as usize;
    assert!(expected < start.parameters().len());
    assert_eq!(hub.lengths("private"), [expected; 3 * 8], "nothing else leaves");
    for (part, range) in start.shape().parts() {
        let moved = start.parameters()[range.clone()]
            .iter()
            .zip(&end.parameters()[range])
            .filter(|(a, b)| a.to_bits() != b.to_bits());
        let (moved, all) = (moved.count(), model.part_parameters(part, 3, 4) as usize);
        assert_eq!(moved, if trained.contains(part) { all } else { 0 }, "{}", part.name());
    }
    assert_eq!((hub.paid(1), hub.paid(2)), (8, 8));
    let lead = hub.parameters(0, "private");
    assert!(hub.parameters(1, "private") == lead && hub.parameters(2, "private") == lead);
}

#[test]
fn the_output_layer_alone_is_trained_and_sent() {
    trains_only(&[ModelPart::Output]);
}

#[test]
fn parts_that_do_not_touch_are_trained_and_sent() {
    trains_only(&[ModelPart::Context, ModelPart::Layer2, ModelPart::Normalize]);
}

#[test]
fn parts_of_the_open_arm_leave_alone_too() {
    let hub = Hub::new(|spec| {
        spec.private = None;
        spec.open.as_mut().unwrap().rounds = 3;
        spec.open.as_mut().unwrap().train = Some([ModelPart::Layer1].into_iter().collect());
    });
    hub.run_all();
    let (start, end) = (hub.model("warm_start.safetensors"), hub.model("model-open.safetensors"));
    let split = start.shape().recurrent().end;
    assert!(start.parameters()[split..] == end.parameters()[split..]);
    assert!(start.parameters()[..split] != end.parameters()[..split]);
    assert_eq!(hub.lengths("open"), [split; 9]);
}

#[test]
fn gradients_clipped_by_layers_or_normalized_train_too() {
    for clipping in [Clipping::PerLayer, Clipping::Automatic] {
        let hub = Hub::new(|spec| {
            short(spec);
            (spec.model.layers, spec.model.normalize) = (2, true);
            for noise in spec.participants.iter_mut().filter_map(|party| party.noise.as_mut()) {
                noise.clipping = clipping;
            }
        });
        hub.run_all();
        let lead = hub.parameters(0, "private");
        assert!(hub.parameters(1, "private") == lead && hub.parameters(2, "private") == lead);
        assert!(report(&hub).arms[1].tests[0].accuracy > 0.4, "{clipping:?}");
        assert_eq!((hub.paid(1), hub.paid(2)), (8, 8), "the same price");
    }
}

/// Sets every rule, schedule and mean at once, in the private arm.
fn refined(spec: &mut Spec) {
    spec.open = None;
    let rounds = spec.private.as_mut().unwrap();
    (rounds.rounds, rounds.evaluate_every) = (20, 4);
    rounds.optimizer = Optimizer::DpAdam { learning_rate: 0.02 };
    rounds.schedule = RateSchedule::Cosine { warmup: 3, r#final: 0.1 };
    rounds.averaging = Some(Ema { decay: 0.8 });
}

#[test]
fn a_mean_of_iterates_is_what_is_published_and_all_hold_the_same() {
    let hub = Hub::new(refined);
    hub.run_all();
    let lead = hub.parameters(0, "private");
    assert!(hub.parameters(1, "private") == lead && hub.parameters(2, "private") == lead);
    assert!(hub.model("model.safetensors").parameters() == lead);
    assert!(hub.last_iterate(0, "private") != lead, "the steps went on from the parameters, not from their mean");
    assert_eq!(report(&hub).arms.iter().map(|arm| arm.arm).collect::<Vec<_>>(), [Arm::Public, Arm::Private]);
    assert!(report(&hub).arms[1].tests[0].accuracy > 0.5);
}

#[test]
fn a_killed_run_of_means_and_corrected_moments_ends_where_the_others_do() {
    let hub = Hub::new(refined);
    // Checkpoints are written after rounds 6, 12 and 18.
    hub.crash(0, Crash::Accepted, "private", 9);
    hub.crash(1, Crash::Stored, "private", 13);
    hub.crash(2, Crash::Accepted, "private", 18);
    hub.run_all();
    assert_eq!((hub.lives(0), hub.lives(1), hub.lives(2)), (2, 2, 2));
    let lead = hub.parameters(0, "private");
    assert!(hub.parameters(1, "private") == lead && hub.parameters(2, "private") == lead);
    assert!(hub.model("model.safetensors").parameters() == lead);
    let last = hub.last_iterate(0, "private");
    assert!(hub.last_iterate(1, "private") == last && hub.last_iterate(2, "private") == last);
}
