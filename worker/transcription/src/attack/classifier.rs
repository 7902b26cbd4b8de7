//! The adversary's classifier: one layer of hidden units, or none (multinomial logistic regression), trained by gradient descent with
//! momentum and weight decay on features that are standardized by the training examples.
//!
//! Only the initial weights are random, and they depend on the seed: the same examples and seed give the same classifier.

use burn::tensor::{Device, Int, Tensor, TensorData, activation};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

/// Steps over all examples.
const STEPS: usize = 400;
/// Learning rate.
const RATE: f32 = 0.2;
/// Momentum.
const MOMENTUM: f32 = 0.9;
/// Weight decay, for weights and not for biases.
const DECAY: f32 = 1e-3;

/// A trained classifier.
pub struct SoundClassifier {
    mean: Vec<f32>,
    deviation: Vec<f32>,
    /// Weights and bias of each layer.
    layers: Vec<(Tensor<2>, Tensor<2>)>,
    device: Device,
}

impl SoundClassifier {
    /// Trains on examples of equal length with labels of `classes` classes, from 0, with `hidden` units or none.
    pub fn train(examples: &[Vec<f32>], labels: &[usize], classes: usize, hidden: Option<usize>, seed: u64) -> Self {
        let device = Device::flex().autodiff();
        let width = examples.first().map_or(0, Vec::len);
        let count = examples.len().max(1) as f32;
        let column = |at: usize| examples.iter().map(move |example| example[at]);
        let mean: Vec<f32> = (0..width).map(|at| column(at).sum::<f32>() / count).collect();
        let deviation = (0..width).map(|at| {
            let variance = column(at).map(|value| (value - mean[at]).powi(2)).sum::<f32>() / count;
            variance.sqrt().max(1e-4)
        });
        let deviation: Vec<f32> = deviation.collect();
        let mut classifier = Self { mean, deviation, layers: Vec::new(), device: device.clone() };
        let inputs = classifier.tensor(examples);
        let labels: Vec<i64> = labels.iter().map(|label| *label as i64).collect();
        let labels = Tensor::<2, Int>::from_data(TensorData::new(labels, [examples.len(), 1]), &device);

        let widths: Vec<usize> = std::iter::once(width).chain(hidden).chain([classes]).collect();
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut random = |rows: usize, columns: usize, reach: f32| {
            let mut uniform = || reach * ((rng.next_u32() >> 8) as f32 / (1 << 23) as f32 - 1.0);
            let values: Vec<f32> = (0..rows * columns).map(|_| uniform()).collect();
            Tensor::<2>::from_data(TensorData::new(values, [rows, columns]), &device).require_grad()
        };
        let layer = |[rows, columns]: &[usize; 2]| {
            let reach = (1.0 / (*rows).max(1) as f32).sqrt();
            (random(*rows, *columns, reach), random(1, *columns, 1.0))
        };
        classifier.layers = widths.array_windows().map(layer).collect();
        let mut speeds: Vec<Option<[Tensor<2>; 2]>> = classifier.layers.iter().map(|_| None).collect();
        for _ in 0..STEPS {
            let loss = -activation::log_softmax(classifier.logits(inputs.clone()), 1).gather(1, labels.clone()).mean();
            let gradients = loss.backward();
            let step = |weight: &Tensor<2>, speed: Option<Tensor<2>>, decay: f32| {
                let gradient =
                    weight.grad(&gradients).map(|gradient| Tensor::<2>::from_data(gradient.into_data(), &device));
                let values = weight.clone().detach();
                let pull = match gradient {
                    Some(gradient) => gradient + values.clone() * decay,
                    None => values.clone() * decay,
                };
                let speed = match speed {
                    Some(speed) => speed * MOMENTUM + pull,
                    None => pull,
                };
                ((values - speed.clone() * RATE).detach().require_grad(), speed.detach())
            };
            for (layer, speed) in classifier.layers.iter_mut().zip(&mut speeds) {
                let [of_weights, of_bias] = speed.take().map_or([None, None], |speeds| speeds.map(Some));
                let (weights, weights_speed) = step(&layer.0, of_weights, DECAY);
                let (bias, bias_speed) = step(&layer.1, of_bias, 0.0);
                *layer = (weights, bias);
                *speed = Some([weights_speed, bias_speed]);
            }
        }
        classifier
    }

    /// Returns the log probability of each class, by example.
    pub fn logs(&self, examples: &[Vec<f32>]) -> Vec<Vec<f32>> {
        let log_probabilities = activation::log_softmax(self.logits(self.tensor(examples)), 1);
        let classes = log_probabilities.dims()[1].max(1);
        host(log_probabilities).chunks(classes).map(<[f32]>::to_vec).collect()
    }

    fn logits(&self, inputs: Tensor<2>) -> Tensor<2> {
        let last = self.layers.len().saturating_sub(1);
        self.layers.iter().enumerate().fold(inputs, |inputs, (at, (weights, bias))| {
            let sums = inputs.matmul(weights.clone()) + bias.clone();
            if at == last { sums } else { sums.tanh() }
        })
    }

    fn tensor(&self, examples: &[Vec<f32>]) -> Tensor<2> {
        let scaled = |(value, (mean, deviation)): (&f32, (&f32, &f32))| (value - mean) / deviation;
        let values: Vec<f32> = examples
            .iter()
            .flat_map(|example| example.iter().zip(self.mean.iter().zip(&self.deviation)).map(scaled))
            .collect();
        Tensor::from_data(TensorData::new(values, [examples.len(), self.mean.len()]), &self.device)
    }
}

fn host(rows: Tensor<2>) -> Vec<f32> {
    rows.into_data().try_into_vec::<f32>().expect("layers compute in f32")
}

#[cfg(test)]
mod tests {
    use super::SoundClassifier;

    /// Returns points on two circles, one circle for each class, which no line separates.
    fn ring() -> (Vec<Vec<f32>>, Vec<usize>) {
        let point = |at: usize| {
            let (angle, radius) = (at as f32 * 0.7, if at.is_multiple_of(2) { 0.5 } else { 2.0 });
            (vec![radius * angle.cos(), radius * angle.sin()], at % 2)
        };
        (0..80).map(point).unzip()
    }

    fn right(classifier: &SoundClassifier, examples: &[Vec<f32>], labels: &[usize]) -> usize {
        let logs = classifier.logs(examples);
        logs.iter().zip(labels).filter(|(logs, label)| logs[**label] > logs[1 - **label]).count()
    }

    #[test]
    fn hidden_units_separate_nonlinear_classes() {
        let (examples, labels) = ring();
        let bent = SoundClassifier::train(&examples, &labels, 2, Some(16), 1);
        let straight = SoundClassifier::train(&examples, &labels, 2, None, 1);
        assert!(right(&bent, &examples, &labels) >= 76);
        assert!(right(&straight, &examples, &labels) < 60);
    }

    #[test]
    fn class_probabilities_sum_to_one() {
        let (examples, _) = ring();
        let labels: Vec<usize> = (0..examples.len()).map(|at| at % 3).collect();
        let classifier = SoundClassifier::train(&examples, &labels, 3, None, 2);
        for logs in classifier.logs(&examples) {
            let sum: f32 = logs.iter().map(|log| log.exp()).sum();
            assert!(logs.len() == 3 && (sum - 1.0).abs() < 1e-4, "{sum}");
        }
    }

    #[test]
    fn same_seed_gives_same_classifier() {
        let (examples, labels) = ring();
        let logs = |seed| SoundClassifier::train(&examples, &labels, 2, Some(8), seed).logs(&examples);
        assert_eq!(logs(3), logs(3));
        assert_ne!(logs(3), logs(4));
    }
}
