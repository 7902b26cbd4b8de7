//! Limits of a series of rounds.

use super::{adaptation, augmentation, check_positive, check_range};
use crate::job::dp_sgd::{Arm, ModelPart, Optimizer, RateSchedule, Rounds, Spec};

/// The most local steps of a round.
const MAX_STEPS: f64 = 10_000.0;

/// Checks one arm's rounds.
pub(super) fn check(spec: &Spec, arm: Arm, rounds: &Rounds, say: &mut impl FnMut(&str, String)) {
    let at = |field: &str| format!("{}.{field}", arm.series());
    check_range(say, &at("rounds"), f64::from(rounds.rounds), 1.0, 100_000.0);
    check_range(say, &at("evaluate_every"), f64::from(rounds.evaluate_every), 1.0, 10_000.0);
    check_range(say, &at("deadline_seconds"), f64::from(rounds.deadline_seconds), 1.0, 86_400.0);
    check_range(say, &at("quorum"), f64::from(rounds.quorum), 1.0, spec.participants.len().max(1) as f64);
    check_range(say, &at("local_steps"), f64::from(rounds.local_steps), 1.0, MAX_STEPS);
    check_step(arm, rounds.optimizer, &at, say);
    if let RateSchedule::Linear { warmup, r#final } | RateSchedule::Cosine { warmup, r#final } = rounds.schedule {
        if warmup >= rounds.rounds.max(1) {
            let fewer =
                format!("fewer than the {} rounds, not {warmup}: the rate must come to its height", rounds.rounds);
            say(&at("schedule.warmup"), fewer);
        }
        check_range(say, &at("schedule.final"), r#final, 0.0, 1.0);
    }
    if let Some(average) = rounds.averaging.filter(|average| !(average.decay > 0.0 && average.decay < 1.0)) {
        let between = format!("greater than 0 and less than 1, not {}: leave `averaging` out for none", average.decay);
        say(&at("averaging.decay"), between);
    }
    check_parts(spec, rounds, &at, say);
    if let Some(own) = rounds.adaptation {
        adaptation::check(spec, rounds, own, &at, say);
    }
    if let Some(copies) = &rounds.augmentation {
        augmentation::check(spec, copies, &at, say);
    }
}

fn check_step(arm: Arm, optimizer: Optimizer, at: &impl Fn(&str) -> String, say: &mut impl FnMut(&str, String)) {
    check_positive(say, &at("learning_rate"), optimizer.learning_rate(), optimizer.most_learning_rate());
    if let Optimizer::Sgd { momentum, .. } = optimizer
        && !(0.0..1.0).contains(&momentum)
    {
        say(&at("momentum"), format!("at least 0 and less than 1, not {momentum}"));
    }
    if matches!(optimizer, Optimizer::DpAdam { .. }) && arm != Arm::Private {
        say(&at("optimizer"), "`dp_adam` corrects for noise, and this arm has none: use `adam`".to_owned());
    }
}

fn check_parts(spec: &Spec, rounds: &Rounds, at: &impl Fn(&str) -> String, say: &mut impl FnMut(&str, String)) {
    let Some(train) = rounds.train else { return };
    let parts = spec.model.parts();
    let names = || parts.iter().map(ModelPart::name).collect::<Vec<_>>().join(", ");
    if train.is_empty() {
        say(&at("train"), format!("name at least one part of the model ({}), or leave it out to train all", names()));
    }
    if let Some(stranger) = train.iter().find(|part| !parts.contains(*part)) {
        say(&at("train"), format!("this model has no `{}`: it has {}", stranger.name(), names()));
    }
}
