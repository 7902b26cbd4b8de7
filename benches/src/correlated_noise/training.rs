//! The final model: logistic regression on simulated units, trained with each mechanism's noise and batches.
//!
//! The units of a class are normal around the class's own mean, a record each. A step is the product's: gradients of units
//! clipped to norm 1, summed, noise, divided by the expected batch. A fresh sample of the same population measures the
//! loss. Rates of learning are chosen for each mechanism by that loss, so that none has the advantage of a rate that
//! suits it.

use std::panic::resume_unwind;
use std::thread;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use undertone_privacy::special::normal_quantile;

use super::mechanism::NoiseMechanism;
use super::price::TrainingTerms;

const CLASSES: usize = 4;
/// Features, with the constant one.
const FEATURES: usize = 33;
const PARAMETERS: usize = CLASSES * FEATURES;
/// Units that are trained on.
const UNITS: usize = 500;
/// Units that the loss is measured on.
const TESTS: usize = 2000;
/// The distance of the means of two classes, in deviations within a class.
const DISTANCE: f64 = 4.0;

/// The rule of a step, with its rate.
#[derive(Debug, Clone, Copy)]
pub(super) enum StepRule {
    /// Gradient descent.
    Sgd(f64),
    /// Adam with β₁ = 0.9, β₂ = 0.999, as in the product.
    Adam(f64),
}

impl StepRule {
    /// The tried rules by optimizer.
    pub(super) const TRIED: [(&str, [Self; 6]); 2] = [
        ("sgd", [Self::Sgd(0.06), Self::Sgd(0.12), Self::Sgd(0.25), Self::Sgd(0.5), Self::Sgd(1.0), Self::Sgd(2.0)]),
        (
            "adam",
            [
                Self::Adam(0.003),
                Self::Adam(0.006),
                Self::Adam(0.012),
                Self::Adam(0.025),
                Self::Adam(0.05),
                Self::Adam(0.1),
            ],
        ),
    ];

    /// Returns the rate.
    pub(super) const fn rate(self) -> f64 {
        match self {
            Self::Sgd(rate) | Self::Adam(rate) => rate,
        }
    }
}

/// The quality of models over some seeds.
#[derive(Debug, Clone)]
pub(super) struct ModelQuality {
    /// The rate of learning.
    pub(super) rate: f64,
    /// The cross-entropy by seed, nats.
    losses: Vec<f64>,
    /// The mean accuracy, 0 to 1.
    pub(super) accuracy: f64,
}

impl ModelQuality {
    /// Returns the mean cross-entropy.
    pub(super) fn loss(&self) -> f64 {
        self.losses.iter().sum::<f64>() / self.losses.len() as f64
    }

    /// Returns the mean loss beyond that of other models of the same seeds, and its standard error.
    pub(super) fn loss_beyond(&self, other: &Self) -> (f64, f64) {
        let mean = self.loss() - other.loss();
        let deviations = self.losses.iter().zip(&other.losses).map(|(one, other)| (one - other - mean).powi(2));
        let count = self.losses.len() as f64;
        (mean, (deviations.sum::<f64>() / (count - 1.0).max(1.0) / count).sqrt())
    }
}

/// Trains models with each rule, one for each seed, and returns the quality of the best rule. Without a mechanism there
/// is no noise, and the batches are those of Poisson sampling.
pub(super) fn find_best_quality(
    terms: &TrainingTerms,
    mechanism: Option<&NoiseMechanism>,
    rules: &[StepRule],
    seeds: u64,
) -> Option<ModelQuality> {
    let qualities = rules.iter().map(|rule| measure_quality(terms, mechanism, *rule, seeds));
    qualities.min_by(|one, other| one.loss().total_cmp(&other.loss()))
}

fn measure_quality(
    terms: &TrainingTerms,
    mechanism: Option<&NoiseMechanism>,
    rule: StepRule,
    seeds: u64,
) -> ModelQuality {
    let models: Vec<(f64, f64)> = thread::scope(|scope| {
        let run = |seed| scope.spawn(move || ModelSimulation::new(seed).train(terms, mechanism, rule));
        let threads: Vec<_> = (0..seeds).map(run).collect();
        // A panic of a thread is a panic here.
        let join = |thread: thread::ScopedJoinHandle<'_, _>| thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        threads.into_iter().map(join).collect()
    });
    let accuracy = models.iter().map(|(_, accuracy)| accuracy).sum::<f64>() / models.len() as f64;
    ModelQuality { rate: rule.rate(), losses: models.into_iter().map(|(loss, _)| loss).collect(), accuracy }
}

/// A unit: its features and its class.
struct SimulatedUnit {
    features: [f64; FEATURES],
    class: usize,
}

/// The population of a seed, and the batches and noises that follow from the seed.
struct ModelSimulation {
    units: Vec<SimulatedUnit>,
    tests: Vec<SimulatedUnit>,
    rng: ChaCha20Rng,
}

impl ModelSimulation {
    fn new(seed: u64) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let scale = DISTANCE / (2.0 * (FEATURES - 1) as f64).sqrt();
        let mut means = [[0.0; FEATURES]; CLASSES];
        means.iter_mut().flatten().for_each(|mean| *mean = scale * draw_normal(&mut rng));
        let mut draw = |count: usize| -> Vec<SimulatedUnit> {
            (0..count)
                .map(|number| {
                    let class = number % CLASSES;
                    let mut features = means[class].map(|mean| mean + draw_normal(&mut rng));
                    features[FEATURES - 1] = 1.0;
                    SimulatedUnit { features, class }
                })
                .collect()
        };
        let units = draw(UNITS);
        let tests = draw(TESTS);
        Self { units, tests, rng }
    }

    /// Trains a model; returns its loss and its accuracy on fresh units.
    fn train(mut self, terms: &TrainingTerms, mechanism: Option<&NoiseMechanism>, rule: StepRule) -> (f64, f64) {
        let groups = mechanism.map_or(1, |mechanism| mechanism.groups);
        let inclusion = terms.inclusion(groups);
        let weights = mechanism.map_or(&[][..], |mechanism| mechanism.encoder.inverse());
        // The weights of old noises vanish.
        let reach = weights.iter().rposition(|weight| weight.abs() > 1e-12).map_or(0, |last| last + 1);
        let mut model = [0.0; PARAMETERS];
        let mut moments = ([0.0; PARAMETERS], [0.0; PARAMETERS]);
        let mut noises: Vec<[f64; PARAMETERS]> = Vec::new();
        for step in 0..terms.steps {
            let mut sum = [0.0; PARAMETERS];
            for number in 0..self.units.len() {
                // Units have their class by number modulo CLASSES; a group has all classes.
                let is_drawn = (number / CLASSES) % groups == step % groups && draw_uniform(&mut self.rng) < inclusion;
                if is_drawn {
                    add_clipped(&model, &self.units[number], &mut sum);
                }
            }
            if let Some(mechanism) = mechanism {
                let mut noise = [0.0; PARAMETERS];
                for noise in &mut noise {
                    *noise = mechanism.deviation * draw_normal(&mut self.rng);
                }
                noises.push(noise);
                // C⁻¹z at this step.
                for (weight, noise) in weights[..reach].iter().zip(noises.iter().rev()) {
                    sum.iter_mut().zip(noise).for_each(|(sum, noise)| *sum += weight * noise);
                }
            }
            let batch = terms.rate * self.units.len() as f64;
            for sum in &mut sum {
                *sum /= batch;
            }
            take_step(&mut model, &sum, &mut moments, rule, step as i32 + 1);
        }
        let mut loss = 0.0;
        let mut hits = 0_u32;
        for unit in &self.tests {
            let chances = compute_probabilities(&model, unit);
            loss -= chances[unit.class].max(f64::MIN_POSITIVE).ln();
            hits += u32::from(chances.iter().all(|chance| *chance <= chances[unit.class]));
        }
        (loss / self.tests.len() as f64, f64::from(hits) / self.tests.len() as f64)
    }
}

fn take_step(
    model: &mut [f64; PARAMETERS],
    gradient: &[f64; PARAMETERS],
    moments: &mut ([f64; PARAMETERS], [f64; PARAMETERS]),
    rule: StepRule,
    step: i32,
) {
    match rule {
        StepRule::Sgd(rate) => model.iter_mut().zip(gradient).for_each(|(value, gradient)| *value -= rate * gradient),
        StepRule::Adam(rate) => {
            let (first, second) = moments;
            let corrections = (1.0 - 0.9_f64.powi(step), 1.0 - 0.999_f64.powi(step));
            for index in 0..PARAMETERS {
                first[index] = 0.9 * first[index] + 0.1 * gradient[index];
                second[index] = 0.999 * second[index] + 0.001 * gradient[index] * gradient[index];
                let root = (second[index] / corrections.1).sqrt();
                model[index] -= rate * first[index] / corrections.0 / (root + 1e-8);
            }
        }
    }
}

/// Adds a unit's gradient of the cross-entropy, clipped to norm 1.
fn add_clipped(model: &[f64; PARAMETERS], unit: &SimulatedUnit, sum: &mut [f64; PARAMETERS]) {
    let mut errors = compute_probabilities(model, unit);
    errors[unit.class] -= 1.0;
    let square = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>();
    // The gradient is the outer product of both.
    let norm = (square(&errors) * square(&unit.features)).sqrt();
    let factor = 1.0 / norm.max(1.0);
    for (row, error) in sum.chunks_exact_mut(FEATURES).zip(errors) {
        row.iter_mut().zip(&unit.features).for_each(|(sum, feature)| *sum += factor * error * feature);
    }
}

/// Returns the probabilities of the classes.
fn compute_probabilities(model: &[f64; PARAMETERS], unit: &SimulatedUnit) -> [f64; CLASSES] {
    let mut scores = [0.0; CLASSES];
    for (score, row) in scores.iter_mut().zip(model.chunks_exact(FEATURES)) {
        *score = row.iter().zip(&unit.features).map(|(weight, feature)| weight * feature).sum();
    }
    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers = scores.map(|score| (score - most).exp());
    let sum: f64 = powers.iter().sum();
    powers.map(|power| power / sum)
}

/// Returns a uniform number in [0, 1).
fn draw_uniform(rng: &mut ChaCha20Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / 2.0_f64.powi(53)
}

/// Returns a normal number.
pub(crate) fn draw_normal(rng: &mut ChaCha20Rng) -> f64 {
    normal_quantile(draw_uniform(rng) + 2.0_f64.powi(-54))
}
