#![expect(
    clippy::single_range_in_vec_init,
    clippy::needless_pass_by_value,
    reason = "tensors are sliced by ranges and cheap to hand over"
)]

use burn::tensor::{Int, Tensor, TensorData, activation::sigmoid};

use super::{LayerTest, matrix, ragged};
use crate::layers::affine::Linear;
use crate::layers::combine::{ConcatenatedLayers, ReversedLayer};
use crate::layers::conv1d::Conv1d;
use crate::layers::dense::Dense;
use crate::layers::embedding::Embedding;
use crate::layers::embedding_bag::EmbeddingBag;
use crate::layers::layer_norm::LayerNorm;
use crate::layers::recurrent::gru::Gru;
use crate::layers::recurrent::layers;
use crate::layers::recurrent::lstm::Lstm;
use crate::layers::{Layer, Layout};

pub(super) fn linear(parameters: &Tensor<1>, input: Tensor<2>, outputs: usize) -> Tensor<2> {
    let inputs = input.dims()[1];
    input.matmul(matrix(parameters, 0, inputs, outputs)) + matrix(parameters, inputs * outputs, 1, outputs)
}

pub(super) fn lstm(parameters: &Tensor<1>, input: Tensor<2>, hidden: usize) -> Tensor<2> {
    let [frames, inputs] = input.dims();
    let weights = matrix(parameters, 0, inputs, 4 * hidden);
    let bias = matrix(parameters, inputs * 4 * hidden, 1, 4 * hidden);
    let recurrent = matrix(parameters, (inputs + 1) * 4 * hidden, hidden, 4 * hidden);
    let mut h = Tensor::<2>::zeros([1, hidden], &input.device());
    let (mut c, mut outputs) = (h.clone(), Vec::new());
    for t in 0..frames {
        let z = input.clone().slice([t..t + 1]).matmul(weights.clone()) + bias.clone() + h.matmul(recurrent.clone());
        let gate = |n: usize| z.clone().slice([0..1, n * hidden..(n + 1) * hidden]);
        c = sigmoid(gate(1)) * c + sigmoid(gate(0)) * gate(2).tanh();
        h = sigmoid(gate(3)) * c.clone().tanh();
        outputs.push(h.clone());
    }
    Tensor::cat(outputs, 0)
}

pub(super) fn gru(parameters: &Tensor<1>, input: Tensor<2>, hidden: usize) -> Tensor<2> {
    let [frames, inputs] = input.dims();
    let weights = matrix(parameters, 0, inputs, 3 * hidden);
    let bias = matrix(parameters, inputs * 3 * hidden, 1, 3 * hidden);
    let recurrent = matrix(parameters, (inputs + 1) * 3 * hidden, hidden, 3 * hidden);
    let mut h = Tensor::<2>::zeros([1, hidden], &input.device());
    let mut outputs = Vec::new();
    for t in 0..frames {
        let x = input.clone().slice([t..t + 1]).matmul(weights.clone()) + bias.clone();
        let u = h.clone().matmul(recurrent.clone());
        let part = |z: &Tensor<2>, n: usize| z.clone().slice([0..1, n * hidden..(n + 1) * hidden]);
        let reset = sigmoid(part(&x, 0) + part(&u, 0));
        let update = sigmoid(part(&x, 1) + part(&u, 1));
        let candidate = (part(&x, 2) + reset * part(&u, 2)).tanh();
        h = (-update.clone() + 1.0) * candidate + update * h;
        outputs.push(h.clone());
    }
    Tensor::cat(outputs, 0)
}

pub(super) fn layer_norm(parameters: &Tensor<1>, input: Tensor<2>) -> Tensor<2> {
    let features = input.dims()[1];
    let centred = input.clone() - input.mean_dim(1);
    let variance = centred.clone().powi_scalar(2).mean_dim(1);
    centred / (variance + 1e-5).sqrt() * matrix(parameters, 0, 1, features) + matrix(parameters, features, 1, features)
}

pub(super) fn conv(parameters: &Tensor<1>, input: Tensor<2>, outputs: usize, width: usize) -> Tensor<2> {
    let ([frames, inputs], device) = (input.dims(), input.device());
    let edge = Tensor::<2>::zeros([width / 2, inputs], &device);
    let padded = Tensor::cat(vec![edge.clone(), input, edge], 0);
    let bias = matrix(parameters, width * inputs * outputs, 1, outputs);
    let taps = (0..width).map(|tap| {
        let weights = matrix(parameters, tap * inputs * outputs, inputs, outputs);
        padded.clone().slice([tap..tap + frames]).matmul(weights)
    });
    taps.fold(Tensor::zeros([frames, outputs], &device), |sum, tap| sum + tap) + bias
}

pub(super) fn embedding(parameters: &Tensor<1>, input: Tensor<2>, symbols: usize, outputs: usize) -> Tensor<2> {
    let frames = input.dims()[0];
    let numbers: Tensor<1, Int> = input.reshape([frames]).int();
    matrix(parameters, 0, symbols, outputs).select(0, numbers)
}

/// Returns the plain numbers beside the mean vector of each text, by a matrix of the counts of symbols.
fn embedding_bag(parameters: &Tensor<1>, input: Tensor<2>, layer: EmbeddingBag) -> Tensor<2> {
    let ([rows, inputs], device) = (input.dims(), input.device());
    let values = input.clone().into_data().try_to_vec::<f32>().expect("f32");
    let mut outputs = vec![input.slice([0..rows, 0..layer.plain])];
    for bag in 0..layer.bags {
        let mut shares = vec![0.0_f32; rows * layer.symbols];
        for (row, values) in values.chunks(inputs).enumerate() {
            let own = &values[layer.plain + bag * layer.symbols_per_bag..][..layer.symbols_per_bag];
            let symbols: Vec<usize> = own.iter().filter(|value| **value >= 0.0).map(|value| *value as usize).collect();
            for symbol in &symbols {
                shares[row * layer.symbols + symbol] += 1.0 / symbols.len() as f32;
            }
        }
        let shares = Tensor::<2>::from_data(TensorData::new(shares, [rows, layer.symbols]), &device);
        outputs.push(shares.matmul(matrix(parameters, 0, layer.symbols, layer.width)));
    }
    Tensor::cat(outputs, 1)
}

fn backwards(rows: Tensor<2>) -> Tensor<2> {
    rows.flip([0])
}

fn range(parameters: &Tensor<1>, from: usize, count: usize) -> Tensor<1> {
    parameters.clone().slice([from..from + count])
}

#[test]
fn linear_equals_a_loop_over_units() {
    let layer = Linear { inputs: 6, outputs: 11 };
    LayerTest::new(&layer, &|parameters, input| linear(parameters, input, 11), ragged()).check();
}

#[test]
fn dense_layer_equals_a_loop_over_units() {
    let layer = Dense { inputs: 6, outputs: 11 };
    LayerTest::new(&layer, &|parameters, input| linear(parameters, input, 11).tanh(), ragged()).check();
}

#[test]
fn a_wide_linear_layer_is_streamed_in_blocks_without_loss() {
    let layer = Linear { inputs: 290, outputs: 300 };
    let layout = Layout::new([vec![40, 3], vec![150]]);
    LayerTest::new(&layer, &|parameters, input| linear(parameters, input, 300), layout).check();
}

#[test]
fn lstm_equals_a_loop_over_units() {
    let layer = Lstm { inputs: 4, hidden: 9 };
    LayerTest::new(&layer, &|parameters, input| lstm(parameters, input, 9), ragged()).check();
}

#[test]
fn gru_equals_a_loop_over_units() {
    let layer = Gru { inputs: 4, hidden: 9 };
    LayerTest::new(&layer, &|parameters, input| gru(parameters, input, 9), ragged()).check();
}

#[test]
fn layer_norm_equals_a_loop_over_units() {
    let layer = LayerNorm { features: 7 };
    LayerTest::new(&layer, &|parameters, input| layer_norm(parameters, input), ragged()).check();
}

#[test]
fn conv1d_equals_a_loop_over_units() {
    for width in [1, 3, 5] {
        let layer = Conv1d::new(3, 5, width);
        LayerTest::new(&layer, &|parameters, input| conv(parameters, input, 5, width), ragged()).check();
    }
}

#[test]
fn embedding_equals_a_loop_over_units() {
    let layer = Embedding { symbols: 600, outputs: 5 };
    let forward = |parameters: &Tensor<1>, input| embedding(parameters, input, 600, 5);
    LayerTest::new(&layer, &forward, ragged()).of_symbols(600).check();
    // Gradients of a repeated symbol add up.
    let layer = Embedding { symbols: 3, outputs: 5 };
    let forward = |parameters: &Tensor<1>, input| embedding(parameters, input, 3, 5);
    LayerTest::new(&layer, &forward, ragged()).of_symbols(3).check();
}

#[test]
fn embedding_bag_equals_a_loop_over_units() {
    // More symbols than a unit has, and few that repeat.
    for symbols in [600, 3] {
        let layer = EmbeddingBag { plain: 2, bags: 2, symbols_per_bag: 5, symbols, width: 4 };
        let forward = |parameters: &Tensor<1>, input| embedding_bag(parameters, input, layer);
        let mut trial = LayerTest::new(&layer, &forward, ragged());
        for (place, value) in trial.input.iter_mut().enumerate().filter(|(place, _)| place % layer.inputs() >= 2) {
            let symbol = ((*value + 1.0) * 0.4999 * symbols as f32).floor();
            // Texts of all lengths, of which some have no symbol.
            *value = if place * 7 % 12 < 5 || place / 60 % 4 == 0 { -1.0 } else { symbol };
        }
        trial.check();
    }
}

#[test]
fn several_layers_in_both_directions_equal_a_loop_over_units() {
    let stack = layers(|inputs| Lstm { inputs, hidden: 5 }, 3, 2, true).expect("widths fit");
    assert_eq!((stack.inputs(), Layer::outputs(&stack)), (3, 10));
    let sizes = [Lstm { inputs: 3, hidden: 5 }.parameters(), Lstm { inputs: 10, hidden: 5 }.parameters()];
    let forward = |parameters: &Tensor<1>, input: Tensor<2>| {
        let mut rows = input;
        let mut at = 0;
        for size in sizes {
            let ahead = lstm(&range(parameters, at, size), rows.clone(), 5);
            let back = backwards(lstm(&range(parameters, at + size, size), backwards(rows), 5));
            rows = Tensor::cat(vec![ahead, back], 1);
            at += 2 * size;
        }
        rows
    };
    LayerTest::new(&stack, &forward, ragged()).check();
}

#[test]
fn a_gru_in_both_directions_equals_a_loop_over_units() {
    let gru_of = Gru { inputs: 3, hidden: 4 };
    let layer = ConcatenatedLayers(gru_of, ReversedLayer(gru_of));
    let size = gru_of.parameters();
    let forward = |parameters: &Tensor<1>, input: Tensor<2>| {
        let ahead = gru(&range(parameters, 0, size), input.clone(), 4);
        let back = backwards(gru(&range(parameters, size, size), backwards(input), 4));
        Tensor::cat(vec![ahead, back], 1)
    };
    LayerTest::new(&layer, &forward, ragged()).check();
}
