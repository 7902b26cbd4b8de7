//! Shadow models for the likelihood-ratio attack (Carlini et al. 2022, offline, with one variance for all recordings).
//!
//! Each shadow model continues the warm start as open pooling does, on the public data and on half of the attacked
//! recordings of every site. Two models share a split: what is in one is out of the other. So every recording, member or
//! not, was left out by half of the shadow models, and their mean confidence says how hard it is.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use undertone_api::job::dp_sgd::Optimizer as Rule;
use undertone_worker::dp::optimizer::{Optimizer, StepDirection};
use undertone_worker::speech::model::Model;
use undertone_worker::speech::model::gradient::{Engine, Example, Unit};

/// How shadow models are trained: as open pooling.
#[derive(Debug, Clone, Copy)]
pub(super) struct ShadowTraining {
    /// The number of models, even.
    pub(super) models: u32,
    pub(super) rounds: u32,
    pub(super) learning_rate: f64,
    /// q of every recording in every round.
    pub(super) rate: f64,
}

/// Returns for each recording of `attacked` the mean confidence of the shadow models that were trained without it.
pub(super) fn reference_confidences(
    engine: &mut Engine,
    start: &Model,
    training: ShadowTraining,
    public: &[Example<'_>],
    attacked: &[Example<'_>],
) -> Vec<f64> {
    let mut sums = vec![0.0; attacked.len()];
    let mut counts = vec![0_u32; attacked.len()];
    for pair in 0..u64::from(training.models / 2) {
        let mut coins = ChaCha20Rng::seed_from_u64(pair);
        let side: Vec<bool> = attacked.iter().map(|_| coins.next_u64() & 1 == 1).collect();
        for inside in [true, false] {
            let own = attacked.iter().zip(&side).filter(|(_, side)| **side == inside).map(|(example, _)| example);
            let units: Vec<Unit<'_>> = public.iter().chain(own).map(|example| vec![*example]).collect();
            let model = train(engine, start.clone(), training, &units, &mut coins);
            for index in (0..attacked.len()).filter(|index| side[*index] != inside) {
                sums[index] += confidence(engine.score(&model, &attacked[index..=index]).mean_loss());
                counts[index] += 1;
            }
        }
    }
    sums.iter().zip(&counts).map(|(sum, count)| sum / f64::from((*count).max(1))).collect()
}

/// Trains by rounds of Poisson batches and Adam, as open pooling does.
fn train(
    engine: &mut Engine,
    mut model: Model,
    training: ShadowTraining,
    units: &[Unit<'_>],
    rng: &mut ChaCha20Rng,
) -> Model {
    let all = model.shape().all();
    let rule = Rule::Adam { learning_rate: training.learning_rate };
    let mut optimizer = Optimizer::new(rule, model.parameters().len());
    let mut gradient = vec![0.0; model.parameters().len()];
    let weight = (1.0 / (training.rate * units.len() as f64)) as f32;
    for _ in 0..training.rounds {
        let mut drawn = || (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let batch: Vec<Unit<'_>> = units.iter().filter(|_| drawn() < training.rate).cloned().collect();
        gradient.fill(0.0);
        engine.add_units(&model, all, &batch, weight, &mut gradient);
        optimizer.step(model.parameters_mut(), StepDirection::exact(&gradient), 1.0);
    }
    model
}

/// Returns ln(p / (1 − p)) of the geometric mean p of the probabilities of a recording's labels, from its mean loss.
pub(super) fn confidence(loss: f64) -> f64 {
    let loss = loss.max(1e-9);
    -loss - (-(-loss).exp_m1()).ln()
}

#[cfg(test)]
mod tests {
    use super::confidence;

    #[test]
    fn confidence_is_the_logit_of_the_probability() {
        for p in [0.01_f64, 0.3, 0.5, 0.99] {
            assert!((confidence(-p.ln()) - (p / (1.0 - p)).ln()).abs() < 1e-9, "{p}");
        }
        assert!(confidence(0.0).is_finite());
    }
}
