//! Correlated noise over the steps of DP-SGD: the error of the running sums of gradients, and the final model, with
//! independent noise, DP-λCGD, BISR and banded matrix factorization at the same ε, expected batch and number of steps.
//!
//! Each family is represented by its member with the least error. `rms_over_independent` and `last_over_independent` are
//! ratios of the error of all sums (root mean square) and of the last sum. The error of a sum is relative to the clip; all
//! mechanisms divide by the same expected batch. ε is the tight number of all steps.
//!
//! `UNDERTONE_CORRELATED_NOISE_SEEDS` sets the number of trained models for each mechanism and rate of learning.
//!
//! The explanation of the results is `docs/src/explanation/correlated-noise.md`.

mod mechanism;
mod price;
#[cfg(test)]
mod tests;
mod training;

pub(crate) use training::draw_normal;

use serde_json::{Value, json};
use undertone_privacy::correlated::RunningSumError;

use crate::report::{Outcome, Report};
use mechanism::NoiseMechanism;
use price::TrainingTerms;
use training::{ModelQuality, StepRule, find_best_quality};

/// q, T, ε and δ: the recipe of `arms`; the closed plans of `ledger_rounds`; the example of the spec (30 rounds of 20
/// local steps).
const TERMS: [TrainingTerms; 7] = [
    TrainingTerms { rate: 1.0, steps: 24, epsilon: 10.0, delta: 1e-5 },
    TrainingTerms { rate: 0.1, steps: 100, epsilon: 4.0, delta: 1e-6 },
    TrainingTerms { rate: 0.1, steps: 100, epsilon: 10.0, delta: 1e-6 },
    TrainingTerms { rate: 0.05, steps: 100, epsilon: 4.0, delta: 1e-6 },
    TrainingTerms { rate: 0.05, steps: 400, epsilon: 8.0, delta: 1e-6 },
    TrainingTerms { rate: 0.05, steps: 600, epsilon: 4.0, delta: 1e-6 },
    TrainingTerms { rate: 0.05, steps: 600, epsilon: 10.0, delta: 1e-6 },
];

pub(crate) fn run(report: &mut Report) -> Outcome {
    let seeds = match std::env::var("UNDERTONE_CORRELATED_NOISE_SEEDS") {
        Ok(text) => text.parse()?,
        Err(_) => 16,
    };
    for terms in TERMS {
        let mut place = json!({
            "sampling_rate": terms.rate, "steps": terms.steps, "epsilon": terms.epsilon, "delta": terms.delta,
        });
        if terms.rate >= 1.0 {
            place["least_possible"] = describe_full_participation(terms.steps);
        }
        let exact = StepRule::TRIED.map(|(_, rules)| find_best_quality(&terms, None, &rules, seeds));
        place["models_without_noise"] = describe_models(&exact, &[]);
        report.line(place)?;
        let mut independent: Option<(RunningSumError, ModelQualities)> = None;
        for mechanism in NoiseMechanism::best_of_each(&terms)? {
            let qualities =
                StepRule::TRIED.map(|(_, rules)| find_best_quality(&terms, Some(&mechanism), &rules, seeds));
            let error = mechanism.error;
            let (base, base_qualities) = independent.get_or_insert_with(|| (error, qualities.clone()));
            report.line(json!({
                "sampling_rate": terms.rate, "steps": terms.steps, "epsilon": terms.epsilon,
                "mechanism": mechanism.family.name(), "parameter": mechanism.family.parameter(),
                "groups": mechanism.groups, "probability_in_turn": terms.inclusion(mechanism.groups),
                "noise_deviation": mechanism.deviation,
                "rms_error": error.root_mean_square, "last_error": error.last,
                "rms_over_independent": error.root_mean_square / base.root_mean_square,
                "last_over_independent": error.last / base.last,
                "models": describe_models(&qualities, &[("exact", &exact), ("independent", base_qualities)]),
            }))?;
        }
    }
    Ok(())
}

/// Returns the least ratios to the errors of independent noise that any linear mechanism can have when each unit may be
/// in every batch.
///
/// Row b of A C⁻¹ that makes the sum of the first t steps has b C = (1, …, 1, 0, …) with t ones. For the unit that
/// contributes the same vector of norm 1 to each step, C 1 has a norm of at most the sensitivity S, so
/// t = b C 1 ≤ ‖b‖ S. The error of this sum is ‖b‖ S / μ, at least t/μ, and T/μ for the last. Independent noise
/// has √(T t)/μ, which is T/μ for the last.
fn describe_full_participation(steps: usize) -> Value {
    let steps = steps as f64;
    json!({ "rms_over_independent": ((2.0 * steps + 1.0) / (3.0 * steps)).sqrt(), "last_over_independent": 1.0 })
}

/// The qualities of models by optimizer, in the order of [`StepRule::TRIED`].
type ModelQualities = [Option<ModelQuality>; StepRule::TRIED.len()];

/// Returns the figures of models by optimizer, with the loss beyond that of other models of the same seeds and its
/// standard error.
fn describe_models(qualities: &ModelQualities, others: &[(&str, &ModelQualities)]) -> Value {
    let names = StepRule::TRIED.map(|(name, _)| name);
    let figures = names.iter().enumerate().filter_map(|(index, name)| {
        let quality = qualities[index].as_ref()?;
        let beyond = others.iter().filter_map(|(other, models)| {
            let (mean, error) = quality.loss_beyond(models[index].as_ref()?);
            Some(((*other).to_owned(), json!([mean, error])))
        });
        let figures = json!({
            "learning_rate": quality.rate, "loss": quality.loss(), "accuracy_percent": quality.accuracy * 100.0,
            "loss_beyond": beyond.collect::<Value>(),
        });
        Some(((*name).to_owned(), figures))
    });
    figures.collect()
}
