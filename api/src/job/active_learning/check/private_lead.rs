//! Limits of a private lead and of its training.

use super::lead;
use crate::dataset::{Dataset, Visibility};
use crate::job::active_learning::{PrivateTraining, Spec};
use crate::job::check::{check_positive, check_range};

/// The most steps of a training.
const MAX_STEPS: f64 = 10_000.0;
/// The noise multipliers for which a site can draw noise exactly.
const NOISE: (f64, f64) = (1.0 / 1024.0, 1024.0);
/// The greatest norm to which a gradient can be clipped.
const MAX_CLIP: f64 = 1e6;
/// The most numbers in the released vector: 2²².
const MAX_LENGTH: u64 = 1 << 22;

/// Checks the training of a private lead, and what a job with one leaves out.
pub(super) fn check(spec: &Spec, datasets: &[Dataset], say: &mut impl FnMut(&str, String)) {
    let Some(training) = &spec.private_lead else { return };
    check_training(training, say);
    let length = spec.classifier.dense_length(spec.labels.len());
    if length > MAX_LENGTH && spec.classifier.hidden <= 2048 && spec.classifier.embedding <= 1024 {
        let fewer =
            format!("with the embedding {length} noisy numbers, more than {MAX_LENGTH}: make one of them smaller");
        say("classifier.hidden", fewer);
    }
    if spec.participants.first().is_some_and(|party| party.gate.is_some()) {
        let apart = "each row of a private lead would pay for the trainings and for the pool, and its labels are known \
                     already: let questions come from another dataset, prepared from the rows without a label";
        say("participants.0.gate", apart.to_owned());
    }
    if spec.rehearsal.is_some() {
        say(
            "rehearsal",
            "a rehearsal reads the lead's log in the clear: leave it out, or let public data lead".to_owned(),
        );
    }
    let Some(lead) = lead(spec, datasets) else { return };
    if lead.visibility == Visibility::Public {
        say("private_lead", format!("`{}` is public, so its training needs no noise: leave this out", lead.name));
        return;
    }
    let units = lead.count(spec.unit).0;
    if u64::from(spec.golden) != units && spec.golden <= 1_000_000 {
        let all = format!("a private lead trains on every labelled row: give the public number of its units, {units}");
        say("golden", all);
    }
}

fn check_training(training: &PrivateTraining, say: &mut impl FnMut(&str, String)) {
    check_range(say, "private_lead.noise_multiplier", training.noise_multiplier.get(), NOISE.0, NOISE.1);
    check_positive(say, "private_lead.clip", training.clip, MAX_CLIP);
    check_range(say, "private_lead.steps", f64::from(training.steps), 1.0, MAX_STEPS);
    check_positive(say, "private_lead.learning_rate", training.learning_rate, 1.0);
}
