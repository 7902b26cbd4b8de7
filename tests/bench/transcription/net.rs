//! The adversary's classifier: a layer of hidden units, or none (multinomial logistic regression), trained by gradient descent
//! with momentum and weight decay on features that are brought to mean 0 and deviation 1 by those that it was trained on.

use burn::tensor::{Device, Distribution, Int, Tensor, TensorData, activation};

/// Steps over all examples.
const STEPS: usize = 400;
const RATE: f32 = 0.2;
const MOMENTUM: f32 = 0.9;
const DECAY: f32 = 1e-3;

/// A trained classifier.
pub(super) struct Net {
    mean: Vec<f32>,
    deviation: Vec<f32>,
    /// Weights and bias of each layer.
    layers: Vec<(Tensor<2>, Tensor<2>)>,
    device: Device,
}

impl Net {
    /// Learns examples of `classes` classes with `hidden` units, or none.
    pub(super) fn train(examples: &[Vec<f32>], labels: &[usize], classes: usize, hidden: Option<usize>) -> Self {
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
        let mut net = Self { mean, deviation, layers: Vec::new(), device: device.clone() };
        let inputs = net.tensor(examples);
        let labels: Vec<i64> = labels.iter().map(|label| *label as i64).collect();
        let labels = Tensor::<2, Int>::from_data(TensorData::new(labels, [examples.len(), 1]), &device);

        let widths: Vec<usize> = std::iter::once(width).chain(hidden).chain([classes]).collect();
        let reach = |rows: usize| (1.0 / rows.max(1) as f64).sqrt();
        let random = |rows: usize, columns: usize| {
            let weights = Distribution::Uniform(-reach(rows), reach(rows));
            Tensor::<2>::random([rows, columns], weights, &device).require_grad()
        };
        net.layers =
            widths.array_windows().map(|[rows, columns]| (random(*rows, *columns), random(1, *columns))).collect();
        let mut speeds: Vec<Option<[Tensor<2>; 2]>> = net.layers.iter().map(|_| None).collect();
        for _ in 0..STEPS {
            let loss = -activation::log_softmax(net.logits(inputs.clone()), 1).gather(1, labels.clone()).mean();
            let gradients = loss.backward();
            let step = |weight: &Tensor<2>, speed: Option<Tensor<2>>, decay: f32| {
                let gradient =
                    weight.grad(&gradients).map(|gradient| Tensor::<2>::from_data(gradient.into_data(), &device));
                let held = weight.clone().detach();
                let pull = match gradient {
                    Some(gradient) => gradient + held.clone() * decay,
                    None => held.clone() * decay,
                };
                let speed = match speed {
                    Some(speed) => speed * MOMENTUM + pull,
                    None => pull,
                };
                ((held - speed.clone() * RATE).detach().require_grad(), speed.detach())
            };
            for (layer, speed) in net.layers.iter_mut().zip(&mut speeds) {
                let [of_weights, of_bias] = speed.take().map_or([None, None], |speeds| speeds.map(Some));
                let (weights, weights_speed) = step(&layer.0, of_weights, DECAY);
                let (bias, bias_speed) = step(&layer.1, of_bias, 0.0);
                *layer = (weights, bias);
                *speed = Some([weights_speed, bias_speed]);
            }
        }
        net
    }

    /// The logarithm of the probability of each class, by example.
    ///
    /// # Errors
    /// When a tensor holds something else than numbers of 32 bits.
    pub(super) fn logs(&self, examples: &[Vec<f32>]) -> support::stage::Staged<Vec<Vec<f32>>> {
        let told = activation::log_softmax(self.logits(self.tensor(examples)), 1);
        let classes = told.dims()[1].max(1);
        let values = told.into_data().try_to_vec::<f32>().map_err(|error| format!("{error:?}"))?;
        Ok(values.chunks(classes).map(<[f32]>::to_vec).collect())
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
