//! The same model written in burn's tensors and differentiated by burn, on the same processors.

use std::time::Instant;

use burn::tensor::{Device, Distribution, Int, Tensor, activation};
use undertone_worker::speech::model::ModelShape;

/// The version in the workspace's manifest.
pub(super) const VERSION: &str = "0.22.1";
const RATE: f32 = 1e-4;

/// Returns the time of each of some steps of plain gradient descent, seconds.
pub(super) fn steps(shape: &ModelShape, utterances: usize, frames: usize, count: usize) -> Vec<f64> {
    let device = Device::flex().autodiff();
    let (hidden, classes) = (shape.hidden, shape.classes);
    let random = |rows: usize, columns: usize| {
        Tensor::<2>::random([rows, columns], Distribution::Uniform(-0.07, 0.07), &device).require_grad()
    };
    let mut weights = [
        random(shape.inputs, 4 * hidden),
        random(hidden, 4 * hidden),
        random(1, 4 * hidden),
        random(hidden, classes),
        random(1, classes),
    ];
    let inputs = Tensor::<2>::random([frames * utterances, shape.inputs], Distribution::Default, &device);
    let highest = Distribution::Uniform(0.0, classes as f64 - 1.0);
    let labels = Tensor::<2, Int>::random([frames * utterances, 1], highest, &device);
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let began = Instant::now();
        let [by_input, by_before, bias, out, out_bias] = weights.clone();
        let sums = inputs.clone().matmul(by_input) + bias;
        let (mut before, mut cell) =
            (Tensor::<2>::zeros([utterances, hidden], &device), Tensor::<2>::zeros([utterances, hidden], &device));
        let mut outputs = Vec::with_capacity(frames);
        for t in 0..frames {
            let gates = sums.clone().narrow(0, t * utterances, utterances) + before.matmul(by_before.clone());
            let gate = |n: usize| gates.clone().slice([0..utterances, n * hidden..(n + 1) * hidden]);
            let (input, forget) = (activation::sigmoid(gate(0)), activation::sigmoid(gate(1)));
            cell = forget * cell + input * gate(2).tanh();
            before = activation::sigmoid(gate(3)) * cell.clone().tanh();
            outputs.push(before.clone());
        }
        let logits = Tensor::cat(outputs, 0).matmul(out) + out_bias;
        let loss = -activation::log_softmax(logits, 1).gather(1, labels.clone()).mean();
        let gradients = loss.backward();
        weights = weights.map(|weight| {
            let gradient = weight.grad(&gradients).map(|gradient| Tensor::from_data(gradient.into_data(), &device));
            let stepped = match gradient {
                Some(gradient) => weight.detach() - gradient * RATE,
                None => weight.detach(),
            };
            stepped.detach().require_grad()
        });
        times.push(began.elapsed().as_secs_f64());
    }
    times
}
