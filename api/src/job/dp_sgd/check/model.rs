//! Limits of the model.

use super::{adaptation, check_range};
use crate::job::dp_sgd::{AcousticModel, Arm, Spec, TrainingLoss};

/// The most classes: labels are 16 bits wide.
const MAX_CLASSES: u32 = 65_536;
/// The most hidden units of a layer.
const MAX_HIDDEN: u32 = 2048;
/// The most hidden layers.
const MAX_LAYERS: u32 = 4;
/// The range of a convolution's context, frames.
const CONTEXT: (u32, u32) = (3, 31);
/// The most parameters of a model: the longest vector that the server averages.
const MAX_PARAMETERS: u64 = 64 << 20;

/// Checks the model alone.
pub(super) fn check(model: &AcousticModel, say: &mut impl FnMut(&str, String)) {
    let is_linear = model.rows.is_some() && model.layers == 0;
    if !is_linear {
        check_range(say, "model.hidden", f64::from(model.hidden), 1.0, f64::from(MAX_HIDDEN));
        check_range(say, "model.layers", f64::from(model.layers), 1.0, f64::from(MAX_LAYERS));
    }
    if model.rows.is_none() && model.loss == TrainingLoss::SquaredError {
        say("model.loss", "`squared_error` is for models of rows with a numeric target: use another".to_owned());
    }
    if let Some(context) = model.context.filter(|frames| frames % 2 == 0 || !(CONTEXT.0..=CONTEXT.1).contains(frames)) {
        let (least, most) = CONTEXT;
        say(
            "model.context",
            format!("an odd number of frames from {least} to {most}, not {context}: the present one is in the middle"),
        );
    }
}

/// Checks the model against the data: `inputs` coefficients in a frame, and `most` classes in any dataset.
pub(super) fn check_size(spec: &Spec, inputs: u32, most: u32, say: &mut impl FnMut(&str, String)) {
    match spec.model.classes {
        Some(classes) if classes < most && spec.model.rows.is_none() => {
            say("model.classes", format!("the datasets have {most} classes; give at least that, or leave it out"));
        }
        Some(classes) if classes > MAX_CLASSES => say("model.classes", format!("at most 65,536, not {classes}")),
        _ => {}
    }
    let classes = spec.model.classes.unwrap_or(most).min(MAX_CLASSES);
    // Clamp the sizes: each size out of range has already been reported.
    let model = AcousticModel {
        hidden: spec.model.hidden.min(MAX_HIDDEN),
        layers: spec.model.layers.clamp(u32::from(spec.model.rows.is_none()), MAX_LAYERS),
        context: spec.model.context.map(|frames| frames.min(CONTEXT.1)),
        ..spec.model.clone()
    };
    let parameters = model.parameters(model.parts(), inputs, classes);
    let trained = spec.rounds(Arm::Private).map_or(parameters, |rounds| {
        if rounds.trained(&model).is_empty() { parameters } else { rounds.coordinates(&model, inputs, classes) }
    });
    if let Some(audit) = spec.audit.filter(|audit| u64::from(audit.canaries) > trained) {
        say(
            "audit.canaries",
            format!("each needs a trained parameter of its own: at most {trained} here, not {}", audit.canaries),
        );
    }
    adaptation::check_ranks(spec, &model, inputs, classes, say);
    if parameters > MAX_PARAMETERS {
        say(
            "model.hidden",
            format!(
                "the model would have {parameters} parameters; at most {MAX_PARAMETERS}: use fewer hidden units, layers or \
                 classes"
            ),
        );
    }
}
